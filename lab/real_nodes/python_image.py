# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the image that holds Python and this collection, so that nothing is built and nothing is pulled.

The image COLLECTION is empty but for the lab's own program. An admission policy of the lab gives its pods what the real
image and a real cluster have: interpreter and sources, as volumes that cannot be written, and an address by which the
API server is reached, as kube-proxy makes one. It also shows them the node's simulated hardware where they ask for the
node's `/`. So whoever installs them, such as the role `controllers`, does it as on any cluster.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.composable.infra.lab.hardware.options import import_path
from ansible_collections.composable.infra.lab.real_nodes.images import COLLECTION
from ansible_collections.composable.infra.lab.real_nodes.node import HARDWARE

NAME = "lab-collection-image"
_ROOT = Path(__file__).resolve().parents[2]
_API = "admissionregistration.k8s.io/v1"
_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


def interpreter_folders() -> list[str]:
    """Folders of this Python, its packages, the libraries that it loads, and the collection's sources."""
    wanted = ["/lib", "/lib64", "/usr", sys.base_prefix, sys.prefix, sysconfig.get_path("purelib"), str(_ROOT)]
    wanted += filter(None, import_path().split(":"))
    found: list[str] = []
    for folder in sorted({str(Path(path).absolute()) for path in wanted if Path(path).is_dir()}):
        if not any(Path(folder).is_relative_to(outer) for outer in found):
            found.append(folder)
    return found


def interpreter_environment() -> dict[str, str]:
    """Where compiled files lie, if they are kept aside: each start would compile everything anew otherwise."""
    name = "PYTHONPYCACHEPREFIX"
    return {name: os.environ[name]} if os.environ.get(name) else {}


def documents(address: str, port: int) -> list[dict[str, Any]]:
    """The policy and its binding. `address` and `port`: where pods reach the API server."""
    environment = {
        "KUBERNETES_SERVICE_HOST": address, "KUBERNETES_SERVICE_PORT": str(port), **interpreter_environment(),
    }  # fmt: skip
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [_PODS]},
        "matchConditions": [{"name": "image", "expression": _has_image("object.spec.containers")}],
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": _patch(interpreter_folders(), environment)},
            }
        ],
    }
    binding = {"policyName": NAME}
    return [
        {"apiVersion": _API, "kind": "MutatingAdmissionPolicy", "metadata": {"name": NAME}, "spec": spec},
        {"apiVersion": _API, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": NAME}, "spec": binding},
    ]


def _has_image(containers: str) -> str:
    return f"{containers}.exists(c, c.image == {_text(COLLECTION)})"


def _patch(folders: Iterable[str], environment: Mapping[str, str]) -> str:
    """What is added to a pod, in CEL."""
    named = {f"lab-{number}": folder for number, folder in enumerate(folders)}
    volumes = ", ".join(_volume(_text(name), folder) for name, folder in named.items())
    # A pod has volumes by then: that of its token.
    roots = "object.spec.volumes.filter(v, has(v.hostPath) && v.hostPath.path == '/')"
    mounts = ", ".join(
        f"Object.spec.containers.volumeMounts{{name: {_text(name)}, mountPath: {_text(folder)}, readOnly: true}}"
        for name, folder in named.items()
    )
    variables = ", ".join(
        f"Object.spec.containers.env{{name: {_text(name)}, value: {_text(value)}}}"
        for name, value in environment.items()
    )
    container = f"Object.spec.containers{{name: c.name, volumeMounts: [{mounts}], env: [{variables}]}}"
    return (f"Object{{spec: Object.spec{{volumes: [{volumes}] + {roots}.map(v, {_volume('v.name', HARDWARE)}), "
            f"containers: object.spec.containers.map(c, {container})}}}}")


def _volume(name: str, folder: str) -> str:
    return f"Object.spec.volumes{{name: {name}, hostPath: Object.spec.volumes.hostPath{{path: {_text(folder)}}}}}"


def _text(value: str) -> str:
    """A string of CEL; those of JSON are."""
    return json.dumps(value)
