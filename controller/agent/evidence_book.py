# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The newest evidence of each device. The place where a step is noted, and all that follows it."""

from __future__ import annotations

import logging
import threading
import time

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Conflict, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.event_recorder import Recorder
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import NODE
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    ANNOUNCED,
    BOUND,
    ON_BUS,
    PREPARING,
    READY,
    REMOVED,
    TOUCHED,
    WITHDRAWN,
    Evidence,
)
from ansible_collections.composable.infra.plugins.module_utils.runtime.tracing import Tracer

from .device_request import DeviceRequest
from .lane import Duty, Lane
from .metrics import AgentMetrics, new_steps
from .node_state import NodeState
from .vendor_plugin.device_moments import DeviceMoments

log = logging.getLogger("composable.infra")
RETRY_SECONDS = 1.0
# A write of these steps alone waits, so that the next phase is written with them. A crash may lose them, because the
# next process sees them again, on the bus and in the slices.
PATIENT_STEPS = frozenset({ON_BUS, BOUND, TOUCHED, ANNOUNCED, WITHDRAWN})
STEP_SECONDS = 2.0


class EvidenceBook:
    """The evidence of this process. Thread-safe.

    Only the agent writes this annotation, so the noted evidence is newer than what a watch has
    read. ``write`` writes the newest evidence, so that a burst of steps needs one request. Each
    change is queued in ``lane`` to be written, and is also a metric, a span of the claim, and an
    Event of ``recorder``.
    """

    def __init__(self, client: Client, state: NodeState, lane: Lane, moments: DeviceMoments, metrics: AgentMetrics,
                 recorder: Recorder | None, tracer: Tracer) -> None:
        self._client, self._state, self._lane, self._moments = client, state, lane, moments
        self._metrics, self._recorder, self._tracer = metrics, recorder, tracer
        self._asked: dict[str, float] = {}
        self._newest: dict[str, Evidence] = {}
        self._unwritten: dict[str, tuple[DeviceRequest, Evidence]] = {}
        self._lock = threading.Lock()

    def of(self, uid: str) -> Evidence | None:
        """Return the evidence that this process noted for the ComposableResource with this uid."""
        with self._lock:
            return self._newest.get(uid)

    def ask(self, uid: str) -> None:
        """Note that the first of the next steps is requested now."""
        self._asked[uid] = time.time()

    def asked_at(self, uid: str) -> float:
        """Return when ``ask`` was called, in seconds since the epoch, 0.0 for never."""
        return self._asked.get(uid, 0.0)

    def note(self, request: DeviceRequest, evidence: Evidence) -> None:
        """Note evidence, to be written soon."""
        with self._lock:
            before = self._newest.get(request.uid) or request.evidence
            self._newest[request.uid] = evidence
            if evidence == before:
                return
            self._unwritten[request.uid] = (request, evidence)
        self._lane.add(Duty.WRITE, STEP_SECONDS if may_wait(before, evidence) else 0.0)
        asked = self.asked_at(request.uid)
        self._metrics.evidence(before, evidence, asked)
        if self._tracer.enabled and request.claim and evidence.phase in (PREPARING, READY):
            for step, began, ended in new_steps(before, evidence, asked):
                self._tracer.span(request.claim.uid, f"node {step}", began or ended, ended,
                                  {"node": self._state.node, "resource": request.name, "address": evidence.address})
        self._moments.stepped(request, before, evidence)
        self._state.own_plugin.poke()
        self._tell(request, before, evidence)

    def _tell(self, request: DeviceRequest, before: Evidence | None, now: Evidence) -> None:
        """Record an Event on the ComposableResource when its device is ready, off the bus, or has a
        new problem.
        """
        told: list[tuple[str, str, str]] = []
        phase, node = before.phase if before else "", self._state.node
        if now.phase == READY and phase != READY:
            told.append(("DeviceReady", f"{now.address} is ready on node {node}", "Normal"))
        if now.phase == REMOVED and phase != REMOVED:
            told.append(("DeviceRemoved", f"the device was removed from the bus of node {node}", "Normal"))
        if now.trouble and now.trouble != (before.trouble if before else None):
            told.append((now.trouble.reason, now.trouble.message, "Warning"))
        raw = self._state.resources.get(request.name)
        for reason, message, kind in told:
            log.log(logging.WARNING if kind == "Warning" else logging.INFO, "%s %s: %s", reason, request.name, message,
                    extra={"reason": reason, "about": request.name, **request.logged})
            if self._recorder is not None and raw is not None:
                self._recorder.event(raw, reason, message, kind)

    def forget(self, uid: str) -> None:
        """Forget a ComposableResource, which is gone."""
        with self._lock:
            for known in (self._asked, self._newest, self._unwritten):
                known.pop(uid, None)

    def write(self) -> float | None:
        """Write the evidence that is not written yet.

        Return in how many seconds to write what is left, None for nothing. Never raises ApiError.
        """
        with self._lock:
            waiting, self._unwritten = self._unwritten, {}
        failed = [uid for uid, (request, evidence) in waiting.items() if not self._write(request, evidence)]
        with self._lock:
            for uid in failed:
                self._unwritten.setdefault(uid, waiting[uid])
        return RETRY_SECONDS if failed else None

    def _write(self, request: DeviceRequest, evidence: Evidence) -> bool:
        """Write the evidence.

        The uid is a precondition, since a new object of this name has another device.
        """
        patch: Json = {"metadata": {"uid": request.uid, "annotations": {NODE: evidence.to_json()}}}
        try:
            self._state.resources.upsert(self._client.merge_patch(COMPOSABLE_RESOURCES, request.name, patch))
        except (NotFound, Conflict):
            self.forget(request.uid)
        except ApiError as error:
            log.warning("cannot write the evidence on ComposableResource %s: %s", request.name, error,
                        extra=request.logged)
            return False
        return True


def may_wait(before: Evidence | None, now: Evidence) -> bool:
    """Return whether the phase is the same and only steps of PATIENT_STEPS came on top.

    A step that is taken back is written at once, and so are a problem and its end.
    """
    known = before or Evidence(PREPARING, now.device)
    if now.trouble or known.trouble or (now.phase, now.release) != (known.phase, known.release):
        return False
    had, has = {each.step for each in known.steps}, {each.step for each in now.steps}
    return had <= has <= had | PATIENT_STEPS
