# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Begin and end the steps of a claim's timeline, those of the controllers and those of others.

The code that decides says with one call what it did, and this file measures it. The scheduler
and the kubelet mark their steps on watched objects.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ...fabric.errors import FabricError, Withdrawn
from ...kube.api_resources import CLAIMS, PODS
from ...kube.objects.claim_ref import ClaimRef
from ...model.claim import ResourceClaim
from ...model.pod import Pod
from ...planning.actions import MarkClaim, OpenGate
from ...planning.device_info import DIRECT, GATED, RESCHEDULE
from ...planning.pool.plan import READY_CONDITION
from ...planning.scheduling.snapshot import Placement
from ..controller import Change
from ..state import pool_devices
from ..state.cluster_state import ClusterState
from ..values import resource_values
from ..values.claim_values import claim_ref
from .claim_steps import ClaimSteps

RUNNING = "Running"


class DecidedSteps:
    """Measures what the controllers do. Thread-safe."""

    def __init__(self, state: ClusterState, claim_steps: ClaimSteps) -> None:
        self._state, self._steps = state, claim_steps

    def gate_pass(self, seconds: float) -> None:
        """Record the duration of a plan of all gated pods."""
        self._steps.metrics.observe("gate_pass_duration_seconds", seconds)

    def node_chosen(self, placement: Placement) -> None:
        """End the step ``plan`` of a gated pod, and begin the request for its devices."""
        if seen := self._state.held.of(placement.pod.uid).seen:
            self._steps.took("plan", self._refs(placement), seen, handover=GATED, node=placement.node)
        for claim in placement.needs:
            self._steps.begin("request", claim)

    def requested(self, resource: str, node: str, model: str) -> None:
        """Record how long the claim waited until its device is requested."""
        for claim in self._claims(resource):
            if began := self._steps.began("request", claim.uid):
                self._steps.took("request", [claim], began, handover=self._handover([claim]), node=node, model=model,
                                 resource=resource)

    @contextmanager
    def attaching(self, resource: str, node: str, model: str) -> Iterator[None]:
        """Measure a request to the CDI Manager that attaches a device. It may raise FabricError."""
        began, clock = self._state.clock(), time.monotonic()

        def took(error: FabricError | None = None) -> float:
            seconds, claims = time.monotonic() - clock, self._claims(resource)
            self._steps.asked("attach", model, error)
            self._steps.took("attach", claims, began, began + seconds, handover=self._handover(claims),
                             error=str(error or ""), node=node, model=model, manager=self._steps.manager,
                             resource=resource)
            return seconds

        try:
            yield
        except FabricError as error:
            took(error)
            raise
        self._steps.metrics.observe("attach_duration_seconds", took())

    @contextmanager
    def detaching(self, model: str) -> Iterator[None]:
        """Measure a request to the CDI Manager that detaches a device. It may raise FabricError."""
        clock = time.monotonic()
        try:
            yield
        except FabricError as error:
            if not isinstance(error, Withdrawn):
                self._steps.asked("detach", model, error)
            raise
        self._steps.metrics.observe("detach_duration_seconds", time.monotonic() - clock)
        self._steps.asked("detach", model)

    def detach_refused(self, model: str, reason: str) -> None:
        """Count a detach that was not requested. ``reason`` is one of REASONS_DETACH."""
        self._steps.refused(model, reason)

    def attached(self, resource: str) -> None:
        """Begin the step ``slice`` of a device."""
        self._steps.begin("slice", resource)

    def marked(self, action: MarkClaim, claim: ResourceClaim | None) -> None:
        """Record that the devices of a claim are there, or that none will come."""
        ready = action.condition == READY_CONDITION
        self._shown(action.claim, action.devices, DIRECT if ready else RESCHEDULE, action.node)
        if ready:
            self._steps.begin("bind", action.claim)
            self._steps.over([claim] if claim else [], node=action.node)
        elif action.devices:
            self._steps.begin("handover", action.claim)
        elif claim:
            self._steps.over([claim], action.reason, node=action.node)

    def gate_due(self, action: OpenGate) -> None:
        """Begin the step ``gate`` of a pod with all its devices."""
        for claim, resource in action.devices:
            self._shown(claim, [resource], GATED, action.node)
        self._steps.begin("gate", action.pod.uid)

    def no_gate(self, pod: str) -> None:
        """Forget the step ``gate`` of a pod (its UID) that has no gate."""
        self._steps.forget("gate", pod)

    def gate_opened(self, placement: Placement) -> None:
        """End the step ``gate`` of a pod, and begin that of its binding."""
        self._steps.metrics.count("gate_opened_total")
        self._steps.end("gate", placement.pod.uid, self._refs(placement), GATED, then="bind", node=placement.node)

    def gate_released(self, claims: Iterable[ResourceClaim], reason: str, *, unschedulable: bool) -> None:
        """Record that the gate of a pod was removed without devices for its claims."""
        self._steps.metrics.count("gate_released_total", reason="unserved" if unschedulable else "not_judged")
        self._steps.over(claims, reason)

    def bound(self, placement: Placement, node: str) -> None:
        """End the last steps of a pod that was bound to ``node``.

        The watch may show it before the response to the gate's removal arrives.
        """
        claims = self._refs(placement)
        self._steps.end("gate", placement.pod.uid, claims, GATED, then="bind", node=placement.node)
        self._steps.end("bind", placement.pod.uid, claims, GATED, node=node)
        self._steps.over((claim for ref in claims if (claim := self._state.claim(ref.uid))), node=node)

    def misjudged(self, how: str) -> None:
        """Count a pod that the scheduler did not place on the chosen node."""
        self._steps.metrics.count("gate_misjudged_total", reason=how)

    def _shown(self, claim: str, devices: Iterable[str], handover: str, node: str) -> None:
        """End the request of a claim (its UID), and the step ``slice`` of its devices."""
        self._steps.forget("request", claim)
        for device in devices:
            self._steps.end("slice", device, self._state.claim_refs([claim]), handover, node=node, resource=device)

    def _refs(self, placement: Placement) -> tuple[ClaimRef, ...]:
        return self._state.claim_refs(placement.needs)

    def _claims(self, resource: str) -> tuple[ClaimRef, ...]:
        """Return the claim that a ComposableResource is for, if it is known."""
        known = self._state.resources.value(resource)
        claim = resource_values.noted_claim(known) if known else None
        return (claim,) if claim else ()

    def _handover(self, claims: Iterable[ClaimRef]) -> str:
        """Return the handover of the first known claim, or an empty string."""
        known = (self._state.claim(claim.uid) for claim in claims)
        return next((pool_devices.handover(self._state, claim) for claim in known if claim), "")


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
