# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report what happens: Events on waiting claims and pods, log lines, and the history a module
returns."""

from __future__ import annotations

import logging
import threading
import time
import typing as t
from collections import deque
from collections.abc import Mapping, Sequence

from ...kube.event_recorder import Recorder
from ...kube.objects.claim_ref import ClaimRef
from ...kube.objects.provisioning_requests import is_expected
from ...model.claim import ResourceClaim
from ...model.resource import Resource
from ...model.value import Json
from ...planning.node.snapshot import PodRef
from ...planning.settings import Settings
from ..state.cluster_state import ClusterState
from ..values import resource_values

log = logging.getLogger("composable.infra")
HISTORY = 2000


class EventReporter:
    """Reporter of an engine. ``history`` has the newest entries.

    An entry has time, reason, about, message, type and the affected claims. An entry about a device
    also has its node and model.
    """

    def __init__(self, state: ClusterState, recorder: Recorder | None, settings: Settings) -> None:
        self._state, self._recorder, self._settings = state, recorder, settings
        self.history: deque[dict[str, t.Any]] = deque(maxlen=HISTORY)
        self._last: dict[str, str] = {}
        self._lock = threading.Lock()

    def tell(self, resource: str, reason: str, message: str, *, type_: str = "Normal") -> None:
        """Report a change of a ComposableResource on it and on every claim and pod that waits for
        its model.

        No claim waits for a device that leaves, so do not report that on claims. The reason why a
        device stays may concern another tenant.
        """
        self.about_device(resource, reason, message, type_)
        found = self._state.resources.value(resource)
        if self._recorder is None or found is None:
            return
        if type_ == "Warning":
            self._recorder.event(found.reference, reason, message, type_)
        for claim in self._waiting(found) if not found.deleting else ():
            self.about_claim(claim, reason, message, type_)

    def about_claim(self, claim: ResourceClaim, reason: str, message: str, type_: str = "Normal") -> None:
        """Write an Event on a claim and on its pods."""
        if self._recorder is None:
            return
        self._recorder.event(claim.reference, reason, message, type_)
        for name, uid in claim.pods:
            ref = {"apiVersion": "v1", "kind": "Pod",
                   "metadata": {"name": name, "uid": uid, "namespace": claim.namespace}}
            self._recorder.event(ref, reason, message, type_)

    def about_device(self, resource: str, reason: str, message: str, type_: str = "Normal") -> None:
        """Log a line about a ComposableResource and the claim that its device is for."""
        found = self._state.resources.value(resource)
        claim = resource_values.noted_claim(found) if found else None
        spec = {"node": found.node, "model": found.model} if found else {}
        self._keep(reason, resource, message, type_, (claim,) if claim else (), spec)

    def about_pod(self, pod: PodRef, reason: str, message: str, type_: str = "Normal",
                  claims: Sequence[ClaimRef] = ()) -> None:
        """Log a line and write an Event on a pod. ``claims`` are the pod's claims that it
        concerns.

        A pod that a ProvisioningRequest expects does not exist yet and gets no Event.
        """
        self.note(reason, f"{pod.namespace}/{pod.name}", message, type_, claims)
        if self._recorder is not None and not is_expected(pod.uid):
            ref = {"apiVersion": "v1", "kind": "Pod",
                   "metadata": {"name": pod.name, "uid": pod.uid, "namespace": pod.namespace}}
            self._recorder.event(ref, reason, message, type_)

    def about_object(self, raw: Json, reason: str, message: str, type_: str = "Normal") -> None:
        """Log a line and write an Event on an object with a namespace."""
        self.note(reason, f"{raw['metadata']['namespace']}/{raw['metadata']['name']}", message, type_)
        if self._recorder is not None:
            self._recorder.event(raw, reason, message, type_)

    def note(self, reason: str, about: str, message: str, type_: str = "Normal",
             claims: Sequence[ClaimRef] = ()) -> None:
        """Log a line and add an entry to the history. ``claims`` are the affected claims."""
        self._keep(reason, about, message, type_, claims, {})

    def _keep(self, reason: str, about: str, message: str, type_: str, claims: Sequence[ClaimRef],
              more: Mapping[str, str]) -> None:
        entry = {"time": time.time(), "reason": reason, "about": about, "message": message, "type": type_,
                 "claims": [claim.key for claim in claims], **more}
        self.history.append(entry)
        level = logging.WARNING if type_ == "Warning" else logging.INFO
        log.log(level, "%s %s: %s", reason, about, message,
                extra={"reason": reason, "about": about, "claims": claims})

    def once(self, about: str, message: str) -> None:
        """Report a lasting problem when it begins, when it changes, and when it is over."""
        with self._lock:
            before = self._last.pop(about, "")
            if message:
                self._last[about] = message
        if message and message != before:
            self.note("Trouble", about, message, "Warning")
        elif before and not message:
            self.note("Recovered", about, f"the problem is over: {before}")

    def _waiting(self, resource: Resource) -> list[ResourceClaim]:
        of_pool = self._settings.of_pool
        return [claim for claim in self._state.claims.values("node", resource.node)
                if any((found := of_pool(r.pool)) and found[0].cdi_model_name == resource.model
                       for r in claim.pool_results)]
