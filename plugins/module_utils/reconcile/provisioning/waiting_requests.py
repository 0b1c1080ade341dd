# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain why ProvisioningRequests wait, from the conditions that their controller has written."""

from __future__ import annotations

from collections.abc import Iterator

from ...kube.objects import provisioning_requests as requests_of
from ...kube.objects.provisioning_requests import ACCEPTED, PROVISIONED
from ...model.value import Json
from ...planning.actions import WaitReason
from ...planning.device_info import GATED
from ..state.cluster_state import ClusterState


def waiting_requests(state: ClusterState) -> Iterator[WaitReason]:
    """Yield a row, named ``<request>-provisioning-request``, for each request without its devices.

    Yield nothing for a request that failed, or of another class.
    """
    for raw in state.provisioning.list():
        request = requests_of.read(raw) if requests_of.is_ours(raw) else None
        if request and not request.over and not request.provisioned:
            pods = sum(each.count for each in request.pod_sets)
            yield WaitReason(f"{request.namespace}/{request.name}-provisioning-request", _waits_for(raw),
                             request.created, {"request": request.name, "pods": pods}, handover=GATED)


def is_of_request(claim: str) -> bool:
    """Return whether a row, by its namespace and name, is about a claim that a request expects.

    In place of a name such a claim has a key with a slash.
    """
    name = claim.partition("/")[2]
    return "/" in name and requests_of.is_expected(name)


def _waits_for(raw: Json) -> str:
    said = {each["type"]: each for each in (raw.get("status") or {}).get("conditions") or ()}
    if ACCEPTED not in said:
        return "a controller that serves ProvisioningRequests to accept it"
    return str((said.get(PROVISIONED) or {}).get("message") or "the first plan for its pods")
