# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep devices for claims: at once in memory, and shortly after in an annotation that survives a
crash."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable, Collection, Mapping

from ...kube.watch.value_store import ValueStore
from ...model.resource import Resource
from .memory import Remembered

Hold = tuple[str, float]
NONE: t.Final[Hold] = ("", 0.0)


class DeviceHolds(Remembered):
    """Holds by ComposableResource. Thread-safe.

    ``resources`` is the store of ComposableResources. ``clock`` is the API server's time in seconds
    since the epoch, as in annotations.
    """

    def __init__(self, resources: ValueStore[Resource], clock: Callable[[], float] = time.time) -> None:
        self._resources, self._clock = resources, clock
        self._holds: dict[str, Hold] = {}
        self._by_claim: dict[str, set[str]] = {}
        self._lock = threading.RLock()

    def keep(self, resource: str, claim: str) -> None:
        """Keep a device for the claim (its UID) that will get it."""
        with self._lock:
            self._set(resource, (claim, self._clock()))

    def of(self, resource: Resource) -> Hold:
        """Return (claim UID, since) from memory, or else from the annotation."""
        with self._lock:
            return self._holds.get(resource.name) or resource.hold

    def end(self, resource: str) -> None:
        """End a hold, even if the annotation still has it."""
        with self._lock:
            self._set(resource, NONE)

    def forget(self, resource: str) -> None:
        """Forget a ComposableResource that is gone."""
        with self._lock:
            self._set(resource, NONE)
            self._holds.pop(resource, None)

    def kept_for(self, claim: str) -> list[Resource]:
        """Return the ComposableResources that are kept for a claim (its UID), in memory or by
        annotations."""
        with self._lock:
            written, known = self._resources.values("held", claim), self._by_claim.get(claim, ())
            if not (written or known):
                return []
            found = {each.name: each for each in written}
            found |= {name: r for name in known if (r := self._resources.value(name))}
            return [each for _name, each in sorted(found.items()) if self.of(each)[0] == claim]

    def names(self) -> set[str]:
        """Return the ComposableResources with a hold in memory."""
        with self._lock:
            return {name for names in self._by_claim.values() for name in names}

    def all(self) -> dict[str, str]:
        """Return the claim UID of each hold, by ComposableResource."""
        with self._lock:
            written = (each for uid in self._resources.keys("held") for each in self._resources.values("held", uid))
            known = (self._resources.value(name) for names in self._by_claim.values() for name in names)
            return {each.name: claim for each in (*written, *known) if each and (claim := self.of(each)[0])}

    def copy(self) -> t.Self:
        """Return a copy for a forecast that may change it."""
        other = type(self)(self._resources, self._clock)
        with self._lock:
            other._holds.update(self._holds)
            other._by_claim.update({claim: set(names) for claim, names in self._by_claim.items()})
        return other

    def pass_on(self, users: Mapping[str, str], moving: Collection[str] = ()) -> None:
        """Update holds after claims took devices. ``users`` has claim UIDs by ComposableResource.

        End the hold on a used device. The scheduler takes any device that fits. If claim A took a
        device that was held for claim B, then hold for B a device that was held for A. End all
        other holds of a claim that uses a device.

        Claims in ``moving`` also have pool devices and will be allocated again. Keep their holds
        until then, and hold the devices that they already use for them. Do not hold a device that
        is being given up, because the scheduler would never take it.
        """
        with self._lock:
            self._keep_beside(users, moving)
            users = {name: taker for name, taker in users.items() if taker not in moving}
            for name, taker in users.items():
                if (resource := self._resources.value(name)) is None:
                    continue
                owner = self.of(resource)[0]
                if owner or name in self._holds:  # else there is no hold to end
                    self._set(name, NONE)
                if owner not in ("", taker) and (left := self._like(resource, self.kept_for(taker))):
                    self.keep(left, owner)
            for taker in set(users.values()):
                for each in self.kept_for(taker):
                    self._set(each.name, NONE)

    def _keep_beside(self, users: Mapping[str, str], moving: Collection[str]) -> None:
        for name, taker in users.items():
            if taker not in moving or (resource := self._resources.value(name)) is None:
                continue
            owner = self.of(resource)[0]
            if owner == taker or not (owner or resource.deleting):
                self.keep(name, taker)

    @staticmethod
    def _like(taken: Resource, kept: list[Resource]) -> str:
        """Return a device of the same model on the same node, or an empty string."""
        return next((each.name for each in kept if (each.model, each.node, each.force_detach) == (
            taken.model, taken.node, taken.force_detach)), "")

    def _set(self, resource: str, hold: Hold) -> None:
        before = self._holds.get(resource, NONE)[0]
        names = self._by_claim.get(before, set())
        names.discard(resource)
        if not names:
            self._by_claim.pop(before, None)
        self._holds[resource] = hold
        if hold[0]:
            self._by_claim.setdefault(hold[0], set()).add(resource)
