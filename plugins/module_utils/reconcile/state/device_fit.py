# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find idle devices that the scheduler would not give to a claim. They are not supply for the
claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...model.claim import ResourceClaim
from ...model.resource import Resource
from ...planning.node.demand import PREPARING
from ...planning.node.snapshot import Claim
from ...planning.scheduling.filters.dynamic_resources.fitness import misfit
from .cluster_state import ClusterState
from .memory import Handovers


def with_misfits(state: ClusterState, claim: Claim, allocated: ResourceClaim, resources: Sequence[Resource]) -> Claim:
    """Return a preparing claim with the devices that do not fit it on its node, and why.

    Ignore devices of models that the claim does not want, because another claim of its pod may want
    them.
    """
    if claim.phase != PREPARING:
        return claim
    resources = [resource for resource in resources if resource.model in claim.need()]
    if claim.direct:
        # A device that has arrived can no longer become a pool device, because other claims may have seen it.
        there = frozenset(resource.name for resource in resources if resource.device_uid)
        return replace(claim, unfit=there, unfit_why="attached devices cannot become its pool devices" if there else "")
    names = [resource.name for resource in resources]
    vain = {name: why for name, why in state.handovers.vain(claim.uid).items() if name in names}
    found: dict[str, str] = {}
    for name, resource in zip(names, resources, strict=True):
        if why := vain.get(name) or _misfit(state, allocated, resource):
            found[name] = f"{resource.serial or name} {why}"
    return replace(claim, unfit=frozenset(found), unfit_why="; ".join(sorted(set(found.values()))),
                   given_up=_given_up(vain))


def _given_up(vain: Mapping[str, str]) -> str:
    """Return why no more devices are tried for a claim here, or an empty string."""
    if len(vain) < Handovers.MOST_DEVICES:
        return ""
    return (f"the scheduler took none of {len(vain)} devices that were offered to it. Compare the claim's selectors "
            "with the node's ResourceSlice")


def _misfit(state: ClusterState, claim: ResourceClaim, resource: Resource) -> str:
    """Return why no request of the claim for a pool device accepts the device, or an empty
    string."""
    shown = state.shown(resource.node, resource.serial)
    if shown is None:
        return ""
    found, place = shown
    entry = found.devices[place].entry
    classes = {each["metadata"]["name"]: each for each in state.classes.list()}
    requests = {result.request for result in claim.pool_results}
    reasons = [misfit(claim.spec, request, entry, found.driver, classes) for request in sorted(requests)]
    return reasons[0] if reasons and all(reasons) else ""
