# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When this process saw that something began or ended, noted on the threads of the watches.

The ledger reads objects later, and takes the exact times from here.
"""

from __future__ import annotations

import threading
import typing as t
from collections import OrderedDict
from collections.abc import Callable, Iterable

from ...kube.api_resources import CLAIMS, COMPOSABLE_RESOURCES, ApiResource
from ...model.claim import ResourceClaim
from ...model.pod import Pod
from ...model.value import Value
from ..values.resource_values import device_uid

MOST: t.Final = 20_000
# Seconds that a time is kept. The ledger reads a node some seconds after its change.
KEPT: t.Final = 600.0
ALLOCATED, RELEASED, ATTACHED, DETACHED = "allocated", "released", "attached", "detached"


class Moments:
    """The times of the last KEPT seconds, MOST at most, and labels of pods. Thread-safe.

    ``label``: the key of the pods' label that is kept, empty for none. ``clock``: seconds since the
    epoch.
    """

    def __init__(self, label: str, clock: Callable[[], float]) -> None:
        self._label, self._clock, self._lock = label, clock, threading.Lock()
        self._known: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        self._labels: OrderedDict[tuple[str, str], str] = OrderedDict()

    def object_changed(self, kind: str, resource: ApiResource, obj: t.Any, old: t.Any) -> None:
        """Note the times of a change. It runs on the thread of the watch."""
        if resource == CLAIMS:
            self._claim_changed(kind, obj, old)
        elif resource == COMPOSABLE_RESOURCES:
            device, before = device_uid(obj), device_uid(old)
            if device and not before and old is not None:
                self.note(ATTACHED, obj.name, self._clock())
            if (before and not device) or kind == "DELETED":
                self.note(DETACHED, obj.name, self._clock())
        elif self._label and isinstance(obj, Pod) and obj.spec.get("resourceClaims"):
            self._note_label(obj)

    def _claim_changed(self, kind: str, claim: Value, old: Value | None) -> None:
        if not isinstance(claim, ResourceClaim):
            return
        now, uid = self._clock(), claim.uid
        devices = {*claim.device_keys} if kind != "DELETED" else set()
        before = {*old.device_keys} if isinstance(old, ResourceClaim) else None
        if devices and before is not None and devices != before:
            self.note(ALLOCATED, uid, now)
        if kind == "DELETED" or (before and devices != before):
            self.note(RELEASED, uid, now)

    def note(self, what: str, key: str, when: float) -> None:
        """Note a time, in seconds since the epoch."""
        now = self._clock()
        with self._lock:
            self._known[what, key] = when, now
            self._known.move_to_end((what, key))
            while len(self._known) > MOST or now - next(iter(self._known.values()))[1] > KEPT:
                self._known.popitem(last=False)

    def of(self, what: str, key: str) -> float:
        """Return a time, 0.0 if it is unknown."""
        with self._lock:
            return self._known.get((what, key), (0.0, 0.0))[0]

    def _note_label(self, pod: Pod) -> None:
        with self._lock:
            self._labels[pod.namespace, pod.name] = pod.labels.get(self._label, "")
            self._labels.move_to_end((pod.namespace, pod.name))
            if len(self._labels) > MOST:
                self._labels.popitem(last=False)

    def label(self, namespace: str, names: Iterable[str]) -> str:
        """Return the label of the first of these pods that has one, else an empty text."""
        with self._lock:
            return next((value for name in names if (value := self._labels.get((namespace, name)))), "")
