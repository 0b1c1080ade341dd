# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that the scheduler could not place, with a node chosen by the autoscaler's provider.

They are demand of that node.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

from ...kube.objects.autoscaling import SCALE_UP, ScaleUpEntry, scale_up_entries
from ...model.pod import Pod
from ...planning.node.demand import REQUESTED
from ...planning.node.snapshot import Claim, PodRef, PoolResult
from ...planning.scheduling.snapshot import Placement

if t.TYPE_CHECKING:
    from .cluster_state import ClusterState

_Live = tuple[str, str, ScaleUpEntry, Pod]


def live_entries(state: ClusterState, now: float, node: str = "") -> Iterator[_Live]:
    """Yield (node, model, entry, pod) of each valid entry, of one node only if ``node`` is given.

    An entry ends when its pod is bound or gone, when its claim is allocated, or when its time is
    over.
    """
    for request in state.requests.values("scale up", True):
        if node in ("", request.node) and not request.deleting:
            for entry in scale_up_entries(request.annotation(SCALE_UP)):
                pod = state.pods.first_value("uid", entry.pod) if now < entry.until else None
                if pod and pod.waits and not state.is_allocated(entry.claim):
                    yield request.node, request.model, entry, pod


def requested_claims(state: ClusterState, node: str, fabric: int | None, now: float) -> tuple[Claim, ...]:
    """Return the claims of such pods for the planner of the node. A claim with several models is
    one claim."""
    found: dict[str, Claim] = {}
    for _node, name, entry, pod in live_entries(state, now, node):
        model = state.settings.model(name)
        results = tuple(PoolResult(model.driver_name, "", "", model, fabric) for _unused in range(entry.count)
                        ) if model else ()
        known = found.get(entry.claim)
        before = known.results if known else ()
        found[entry.claim] = Claim(entry.claim, pod.namespace, _name(state, entry, pod), REQUESTED,
                                   entry.since, (_ref(pod),), before + results)
    return tuple(found.values())


def requested_placements(state: ClusterState, now: float) -> tuple[Placement, ...]:
    """Return the same pods as placements, so that their devices and room are not given to
    others."""
    found: dict[tuple[str, str], Placement] = {}
    for node, model, entry, pod in live_entries(state, now):
        known = found.get((entry.pod, node))
        needs = {uid: dict(models) for uid, models in known.needs.items()} if known else {}
        of_claim = needs.setdefault(entry.claim, {})
        of_claim[model] = of_claim.get(model, 0) + entry.count
        found[entry.pod, node] = Placement(_ref(pod), node, needs, entry.since, pod.as_object())
    return tuple(found.values())


def _ref(pod: Pod) -> PodRef:
    return PodRef(pod.namespace, pod.name, pod.uid)


def _name(state: ClusterState, entry: ScaleUpEntry, pod: Pod) -> str:
    claim = state.claim(entry.claim)
    return claim.name if claim else f"{pod.name}-extended-resources"
