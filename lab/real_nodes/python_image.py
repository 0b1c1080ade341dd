# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the image with Python and this collection, so that no image is built or pulled.

The image COLLECTION has only the lab's own program. An admission policy of the lab gives its pods
what the real image and cluster have. These are interpreter and sources, as read-only volumes, and
an address of the API server, as from kube-proxy. If a pod mounts the node's `/`, the policy mounts
the node's simulated hardware instead. So an installer, such as the role `controllers`, works as on
any cluster.
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
    """Return the folders of this Python, its packages and libraries, and the collection's
    sources."""
    wanted = ["/lib", "/lib64", "/usr", sys.base_prefix, sys.prefix, sysconfig.get_path("purelib"), str(_ROOT)]
    wanted += filter(None, import_path().split(":"))
    found: list[str] = []
    for folder in sorted({str(Path(path).absolute()) for path in wanted if Path(path).is_dir()}):
        if not any(Path(folder).is_relative_to(outer) for outer in found):
            found.append(folder)
    return found


def interpreter_environment() -> dict[str, str]:
    """Return the variable for the folder of compiled files, without which each start would compile
    everything."""
    name = "PYTHONPYCACHEPREFIX"
    return {name: os.environ[name]} if os.environ.get(name) else {}


def documents(address: str, port: int) -> list[dict[str, Any]]:
    """Return the policy and its binding. Pods reach the API server at `address` and `port`."""
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
    """Return the addition to a pod, in CEL."""
    named = {f"lab-{number}": folder for number, folder in enumerate(folders)}
    volumes = ", ".join(_volume(_text(name), folder) for name, folder in named.items())
    # A pod already has a volume with its token.
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
    """Return a CEL string, which has the form of JSON."""
    return json.dumps(value)
