# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which claim has which device since when, in the memory of a process.

Every process keeps it, also one that stands by, so that a new leader knows the ends that it has
seen. Only nodes with changed objects are read again.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
import typing as t
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ...kube.watch.store import Changes
from ...model.claim import ResourceClaim
from ...model.resource import Resource
from ...planning.accounting.sums import HOUR, Counted, Place, Rows, Sum, together
from ..state.cluster_state import ClusterState
from ..state.indexers import resource_node, slice_node
from ..values import resource_values
from .moments import ALLOCATED, ATTACHED, DETACHED, RELEASED, Moments
from .replay import Replay
from .uses import ANNOTATION, Attachment, Use, parse

SLICE_SECONDS: t.Final = 0.02
# Key for an allocated claim without a node in its allocation.
_ANYWHERE: t.Final = ""


class Ledger:
    """The attached devices and their claims. Thread-safe.

    ``until``: up to when the stored sums count, in seconds since the epoch. ``uncertain``: seconds that
    claims may have had devices longer than counted here. ``pause``: called with the seconds of work
    since the last pause, so that other threads go on.
    """

    def __init__(self, state: ClusterState, moments: Moments, clock: Callable[[], float],
                 pause: Callable[[float], object] = time.sleep) -> None:
        self._state, self._moments, self._clock, self._pause = state, moments, clock, pause
        self._lock = threading.RLock()
        self._nodes: dict[str, dict[str, Attachment]] = {}
        self._gone: list[Attachment] = []
        self._late: Rows = {}
        self._changes: list[Changes] = []
        self._active = False
        self.replay = Replay()
        self.until = self.uncertain = 0.0
        self._counted = Counted()

    def update(self) -> None:
        """Read the nodes that changed since the last call."""
        began = time.monotonic()
        for node in self._changed():
            self.read(node)
            worked = time.monotonic() - began
            if worked >= SLICE_SECONDS:
                self._pause(worked)
                began = time.monotonic()

    def _changed(self) -> set[str]:
        state = self._state
        with self._lock:
            self._active = True
            self._changes = self._changes or [
                state.resources.follow(resource_node), state.slices.follow(slice_node),
                state.claims.follow(_nodes_of)]
            found = {name for each in self._changes for name in each.take()}
            if _ANYWHERE in found:
                found |= {*state.resources.keys("node"), *self._nodes}
            return {str(name) for name in found if name}

    def read(self, node: str) -> None:
        """Read the devices of a node and their claims."""
        with self._lock:
            now, users = self._clock(), self._state.users(node)
            resources = {kept.name: kept for kept in self._state.resources.at("node", node)}
            known = self._nodes.setdefault(sys.intern(node), {})
            for name, found in resources.items():
                if isinstance(found, Resource):  # one that cannot be read stays as it was
                    known[name] = self._read(name, found, known.get(name), users.get(name), now)
            for name in known.keys() - resources.keys():
                old = known.pop(name)
                new = old if old.ended or not old.attached else self._ended(name, old, now)
                self._note_late(old, new)
                self._gone.append(new)
            if not known:
                del self._nodes[node]

    def _read(self, name: str, found: Resource, old: Attachment | None, user: ResourceClaim | None, now: float
              ) -> Attachment:
        """Return a ComposableResource as it is now. ``old``: as it was, None if it was not known."""
        device, known = found.device_uid, old or self._remembered(name, found, user, now)
        if old and not device and not old.ended:
            known = self._ended(name, old, now)
        elif device and known.ended:
            self._gone.append(known)
            old, known = None, Attachment(known.model)
        if device and not known.attached:
            seen = self._moments.of(ATTACHED, name) or now
            known = self._keyed(replace(known, attached=seen, meant=_meant(found)), found)
        known = self._with_user(known, found.node, user, now)
        self._note_late(old, known)
        return known

    def _keyed(self, known: Attachment, found: Resource, *, existed: bool = False) -> Attachment:
        """Return it with its key. Before any sums are stored, an attach that ``existed`` is not counted."""
        key = _key(found)
        return replace(known, key=key, counted=self._counted.has(key, known.attached) if self.until else existed)

    def _remembered(self, name: str, found: Resource, user: ResourceClaim | None, now: float) -> Attachment:
        """Return what an earlier process wrote, when this process sees a ComposableResource first.

        Without a note, the time of the request stands for that of the attach.
        """
        made = Attachment(found.model)
        seen, noted = self._moments.of(ATTACHED, name), parse(found.annotation(ANNOTATION), found.model)
        if seen or (noted is None and not found.device_uid):
            return made
        if noted is None:
            known = replace(made, attached=found.asked or found.created or now, meant=_meant(found))
            return self._replayed(self._keyed(known, found, existed=True), found)
        known = replace(noted, meant=_meant(found))
        if (current := known.current) and not self._has(current, found.node, user):
            known = replace(known, uses=(*known.uses[:-1], self._lost(current, user, now)))
        known = self._replayed(known, found).settled(self.until, self._counted)
        if found.device_uid:
            return self._keyed(known, found, existed=True)
        last = max((use.ended for use in known.uses), default=0.0)
        ended = max(last, known.attached, min(now, self.until))
        # Its device is gone, so only the note tells which attach it was. Earlier releases wrote no key.
        return replace(known, ended=ended, counted=not known.key or self._counted.has(known.key, known.attached))

    def _replayed(self, known: Attachment, found: Resource) -> Attachment:
        """Add the uses that began and ended while no process ran."""
        uses, seen = [*known.uses], {use.uid for use in known.uses}
        for use in self.replay.of(self._state.own_keys(found)):
            last = uses[-1].ended if uses else known.attached
            if use.uid not in seen and last and use.ended > last:
                self.uncertain += self.replay.spread.get(use.uid, 0.0)
                uses.append(replace(use, began=max(use.began, last)))
        return replace(known, uses=tuple(uses))

    def _lost(self, use: Use, user: ResourceClaim | None, now: float) -> Use:
        """Return a use with the best known end, when no process saw the end.

        If all changes since the stored sums are known and none ended it, it had ended before.
        """
        if (seen := self._moments.of(RELEASED, use.uid)) >= use.began:
            self.uncertain += self.replay.spread.get(use.uid, 0.0)
            return use.end(min(seen, now))
        ended = use.end(min(self.until, now))
        if not self.replay.complete:
            latest = min(now, user.allocated_at) if user else now
            self.uncertain += max(0.0, latest - ended.ended)
        return ended

    def _ended(self, name: str, known: Attachment, now: float) -> Attachment:
        """Return an attachment that has ended, and its use with it."""
        if not known.attached:
            return known
        seen = self._moments.of(DETACHED, name)
        when = seen if seen >= known.attached else now
        uses = known.uses
        if current := known.current:
            released = self._moments.of(RELEASED, current.uid)
            uses = (*uses[:-1], current.end(min(released if released >= current.began else when, when)))
        return replace(known, uses=uses, ended=when)

    def _has(self, use: Use, node: str, user: ResourceClaim | None) -> bool:
        """Return whether a claim still has its device.

        A slice may be gone for a moment, when the DRA plugin restarts. Then no claim is seen to use
        the device. The use ends with the allocation only.
        """
        if user is not None:
            return user.uid == use.uid
        claim = self._state.claim(use.uid)
        return claim is not None and claim.node == node and self._moments.of(RELEASED, use.uid) < use.began

    def _with_user(self, known: Attachment, node: str, user: ResourceClaim | None, now: float) -> Attachment:
        current = known.current
        if not known.attached or known.ended or (current and self._has(current, node, user)):
            return known
        new = self._used_by(known, user, now) if user else None
        if current:
            released = self._moments.of(RELEASED, current.uid)
            ended = current.end(released if released >= current.began else new.began if new else now)
            known = replace(known, uses=(*known.uses[:-1], ended))
            new = replace(new, began=max(new.began, ended.ended)) if new else None
        return replace(known, uses=(*known.uses, new)) if new else known

    def _used_by(self, known: Attachment, user: ResourceClaim, now: float) -> Use:
        seen = self._moments.of(ALLOCATED, user.uid) or user.allocated_at or now
        last = known.uses[-1].ended if known.uses and known.uses[-1].ended else 0.0
        label = self._moments.label(user.namespace, (name for name, _uid in user.pods))
        return Use(user.uid, user.namespace, user.name, sys.intern(label), max(min(seen, now), known.attached, last))

    def _note_late(self, old: Attachment | None, new: Attachment) -> None:
        """Correct the stored sums by what they counted while a change was not known yet."""
        if old is None or old is new or not self.until:
            return
        since = self.until - HOUR
        wrong = [{place: row.times(-1)} for place, row in old.times(since, self.until)]
        right = [{place: row} for place, row in new.times(since, self.until)]
        change = {place: row for place, row in together([*wrong, *right], self.until).items()
                  if abs(row.used) + abs(row.idle) > 1e-6}
        self._late = together([self._late, change], self.until)

    def between(self, since: float, until: float) -> tuple[dict[Place, Sum], Counted]:
        """Return the sums from ``since`` up to ``until``, in seconds since the epoch, with corrections of
        the time before, and the attaches that are counted with them."""
        with self._lock:
            # Tens of thousands of devices have few places, so add numbers first, and rows once.
            sums: dict[Place, list[float]] = {}
            for each in self._all():
                for place, row in each.rows(since, until):
                    found = sums.setdefault(place, [0.0, 0.0, 0])
                    found[0] += row.used
                    found[1] += row.idle
                    found[2] += row.attaches
            every = {place: Sum(used, idle, int(attaches)) for place, (used, idle, attaches) in sums.items()}
            attaches = {each.key: each.attached for each in self._all() if each.attached}
            return together([self._late, every], until), self._counted.plus(attaches, until)

    def _all(self) -> Iterator[Attachment]:
        for known in self._nodes.values():
            yield from known.values()
        yield from self._gone

    def settled(self, until: float, counted: Counted) -> None:
        """Note what the stored sums count now. Forget what they have."""
        with self._lock:
            if (until, counted) == (self.until, self._counted):
                return
            self.until, self._counted, self._late, self.uncertain = until, counted, {}, 0.0
            gone = [each.settled(until, counted) for each in self._gone if each.attached]
            self._gone = [each for each in gone if each.ended > until or not each.counted]
            for known in self._nodes.values():
                known.update({name: each.settled(until, counted) for name, each in known.items()})

    def notes(self, resource: str) -> Mapping[str, str | None]:
        """Return the annotation of a ComposableResource with its claims of now."""
        found = self._state.resources.value(resource)
        if found is None or not self._active:
            return {}
        self.read(found.node)
        known = self._nodes.get(found.node, {}).get(resource)
        return {ANNOTATION: known.text()} if known and known.attached else {}

    def ended_at(self, resource: str) -> float:
        """Return when the last time of a leaving device ended, 0.0 if it is counted or unknown."""
        found = self._state.resources.value(resource)
        if found is None or not self._active:
            return 0.0
        self.read(found.node)
        known = self._nodes.get(found.node, {}).get(resource)
        return known.ended if known and known.ended > self.until else 0.0


def _nodes_of(claim: ResourceClaim) -> tuple[str, ...]:
    return (claim.node or _ANYWHERE,) if claim.results else ()


def _meant(found: Resource) -> str:
    claim = resource_values.noted_claim(found)
    return sys.intern(claim.key.partition("/")[0]) if claim else ""


def _key(found: Resource) -> str:
    """Return a short name of a ComposableResource with its device."""
    return hashlib.blake2s(f"{found.uid} {found.device_uid}".encode(), digest_size=5).hexdigest()
