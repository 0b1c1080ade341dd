# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain why ungated pods wait that the scheduler could not place, by the judgment of the planner.

There is a row for each pod that requests an extended resource (KEP-5004), and a refusal for each
pod with claims.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...kube.times import parse_time
from ...planning.actions import WaitReason
from ...planning.autoscaling.scale_up import ScaleUpPlan, asks_for_devices, plan_scale_up
from ...planning.scheduling.plan import plan_placements
from ...planning.scheduling.snapshot import GatedPod
from ..gating.snapshot import scheduling_snapshot
from ..state.cluster_state import ClusterState
from ..state.scale_ups import live_entries
from .refusals import allocated


def unscheduled(state: ClusterState) -> Iterator[WaitReason]:
    """Yield a row for each such pod without a chosen node, with the name of the claim to be made.

    Use the planner of Cluster Autoscaler's provider.
    """
    chosen = {entry.pod for _node, _model, entry, _pod in live_entries(state, state.now())}
    classes = {raw["metadata"]["name"]: raw for raw in state.classes.list()}
    waiting = tuple(
        GatedPod(pod.as_object(), {}, parse_time(pod.created)) for pod in state.pods.values("unschedulable", True)
        if pod.uid not in chosen and not pod.spec.get("resourceClaims") and asks_for_devices(pod.as_object(), classes))
    if waiting:
        plan = _plan(state, waiting)
        yield from (WaitReason(f"{pod.ref.namespace}/{pod.ref.name}-extended-resources", _told(plan, pod), pod.since,
                               {"pod": pod.ref.name}) for pod in waiting)


def _plan(state: ClusterState, waiting: tuple[GatedPod, ...]) -> ScaleUpPlan:
    other = _all_gated(state)
    return plan_scale_up(scheduling_snapshot(other, waiting), other.settings)


def refused_pods(state: ClusterState) -> dict[str, str]:
    """Return why the planner has no node for pods with claims that the scheduler tried in vain, by
    UID.

    Omit pods that the planner would serve or does not understand. Return nothing if no pods are
    gated. Then only pods without a node are watched, and the planner would take used devices for
    devices that will return.
    """
    if not state.settings.gating:
        return {}
    waiting = tuple(
        GatedPod(pod.as_object(), state.planned_claims(pod), parse_time(pod.created))
        for pod in state.pods.values("unschedulable", True)
        if pod.spec.get("resourceClaims") and not allocated(state, pod))
    if not waiting:
        return {}
    other = _all_gated(state)
    plan = plan_placements(scheduling_snapshot(other, waiting), other.settings)
    return {release.pod.uid: release.reason for release in plan.releases if release.unschedulable}


def _all_gated(state: ClusterState) -> ClusterState:
    """Return a copy of the state in which the planner of gated pods gives out all devices."""
    other = state.copy()
    other.settings = replace(state.settings, handover="gated", handover_namespaces={}, handover_models={},
                             unserved="release")
    return other


def _told(plan: ScaleUpPlan, pod: GatedPod) -> str:
    if reason := plan.refused.get(pod.ref):
        return f"a node with its devices, or a new node: {reason}"
    if reason := plan.waiting.get(pod.ref):
        return f"its devices: {reason}"
    node = next(each.node for each in plan.attaches if each.pod == pod.ref)
    return f"its devices: node {node} could have them, but Cluster Autoscaler has not requested them for the pod yet"
