# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Begin and end the steps of a claim's timeline that the scheduler and the kubelet mark on watched
objects."""

from __future__ import annotations

from ...kube.api_resources import CLAIMS, PODS
from ...model.claim import ResourceClaim
from ...model.pod import Pod
from ...planning.device_info import DIRECT, RESCHEDULE
from ..controller import Change
from ..state.cluster_state import ClusterState
from ..values.claim_values import claim_ref
from .claim_steps import ClaimSteps

RUNNING = "Running"


class WatchedSteps:
    """Measures the steps that others do, from the changes that are passed to it."""

    def __init__(self, state: ClusterState, claim_steps: ClaimSteps) -> None:
        self._state, self._claim_steps = state, claim_steps

    def observe(self, change: Change) -> None:
        """Begin or end the steps that a change of a pod or a claim marks."""
        if change.resource == PODS:
            self._bound(change)
            self._running(change)
        elif change.resource == CLAIMS:
            self._allocated(change)

    def _bound(self, change: Change) -> None:
        """End the step ``bind`` of the pod's claims when the pod is bound.

        If only pods without a node are watched, a pod that leaves the watch is bound.
        """
        pod, old = change.new, change.old or change.new
        if isinstance(pod, Pod) and (change.gone or (pod.node and not (isinstance(old, Pod) and old.node))):
            node = pod.node
            for claim in self._state.claims_of_pod(pod):
                self._claim_steps.end("bind", claim.uid, [claim], DIRECT, **({"node": node} if node else {}))

    def _running(self, change: Change) -> None:
        """End the timelines of the pod's claims when the pod runs."""
        pod, old = change.new, change.old or change.new
        if isinstance(pod, Pod) and not change.gone and pod.phase == RUNNING and not (
                isinstance(old, Pod) and old.phase == RUNNING):
            self._claim_steps.timelines.running(self._state.claims_of_pod(pod))

    def _allocated(self, change: Change) -> None:
        """Begin and end the steps that the scheduler marks on a claim."""
        claim, old = change.new, change.old
        if not isinstance(claim, ResourceClaim):
            return
        uid, pooled = claim.identity, claim.pool_results
        if change.gone:
            self._claim_steps.forget("request", uid)
            self._claim_steps.forget("bind", uid)
            self._claim_steps.timelines.gone(claim.uid)
        elif pooled and isinstance(old, ResourceClaim) and not old.pool_results:
            self._claim_steps.begin("request", uid)
        elif not pooled and self._claim_steps.began("handover", uid) and claim.results:
            self._claim_steps.end("handover", uid, [claim_ref(claim)], RESCHEDULE)
            self._claim_steps.over([claim], node=claim.node)
