# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small things that tests on a lab share: waiting for a condition, and the objects that people create."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.names import DRIVER

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def wait_for(what: str, check: Callable[[], Any], seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, f"{what} did not come about within {seconds} s"
        time.sleep(0.02)
    return found


def phase(lab: Lab, namespace: str, name: str) -> str:
    return str(lab.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["status"].get("phase"))


def create_pod_with_claim(lab: Lab, namespace: str, name: str) -> None:
    claim = {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}},
    }
    lab.api.request("POST", f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims", claim)
    pod = {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        },
    }
    lab.api.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)


def bare_pod(name: str, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
