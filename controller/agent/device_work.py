# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One device at a time on the node's bus: bring it up, look after it, let it go, and say what was in the way."""

from __future__ import annotations

import logging
import threading
import time
import typing as t
from collections.abc import Callable
from dataclasses import dataclass, replace

from ansible_collections.composable.infra.plugins.module_utils.net.backoff import Backoff
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    CLAIM_IN_USE,
    COMMAND_FAILED,
    DRIVER_FAILED,
    DRIVER_NOT_BOUND,
    LOST_ON_BUS,
    NOT_ON_BUS,
    NOT_PROVEN,
    OPEN_ON_NODE,
    PREPARING,
    READY,
    RELEASING,
    REMOVED,
    WARNINGS,
    Evidence,
    NodeTrouble,
)

from . import asks
from .asks import Ask, Work
from .claim_check import ClaimCheck
from .evidence_book import EvidenceBook
from .hands import Hands, KernelReport, NotThereYet, Wanted
from .node_state import NodeState
from .vendor_plugin.plugin_control import HoldingPlugin, PluginControl

log = logging.getLogger("composable.infra")
POLL_SECONDS = 0.1
BUSY_SECONDS = 0.2
# "GPU has fallen off the bus".
LOST_XID = 79
# A device that left the bus comes back with a rescan, so rescans wait for its detach, but no device waits longer.
RESCAN_HELD_SECONDS = 30.0
RETRY = Backoff(1.0, longest=15.0)
# What may pass by itself is said only when it has lasted for so many turns.
PASSING = {COMMAND_FAILED: 3, DRIVER_FAILED: 2, DRIVER_NOT_BOUND: 3, NOT_PROVEN: 3}
_ENDS_WITH_THE_ASK = (CLAIM_IN_USE, OPEN_ON_NODE, NOT_PROVEN)


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds. ``event``: how long a device may take to come by itself, and between two looks; ``whole``: in all."""

    event: float = 2.0
    whole: float = 60.0


@dataclass(slots=True)
class _Turn:
    """What is remembered of the work on a device; it begins anew when something else is asked.

    ``since``: seconds since the epoch. ``began``, ``looked``, ``not_before``: times of ``time.monotonic()``, which
    decide how long something is waited for.
    """

    what: tuple[Work, str, str]
    since: float
    began: float
    looked: float
    not_before: float = 0.0
    failures: int = 0


class DeviceWork:
    """Works on the ComposableResources of a node by name. Thread-safe; one name is worked on once at a time.

    ``changed()`` is called when something was done on the bus, ``again(name)`` has a name worked on soon. ``removed()``
    is called when a device has left the bus; only when it returns is that told, and the device may be detached.
    ``control``: of the vendors' plugins, one of which may have a device open that is released.
    """

    def __init__(self, state: NodeState, book: EvidenceBook, hands: Hands, check: ClaimCheck, patience: Patience,
                 changed: Callable[[], None], again: Callable[[str], None],
                 removed: Callable[[], None], control: PluginControl) -> None:
        self._state, self._book, self._hands, self._check = state, book, hands, check
        self._patience, self._changed, self._again, self._removed = patience, changed, again, removed
        self._control = control
        self._turns: dict[str, _Turn] = {}
        self._checked: set[str] = set()
        self._known: dict[str, tuple[str, bool]] = {}
        self._bringing_up = threading.Lock()
        self._handlers: dict[Work, Callable[[Ask, _Turn], float | None]] = {
            Work.NOTHING: self._rest, Work.BRING_UP: self._bring_up, Work.LOOK: self._look,
            Work.TAKE_BACK: self._take_back, Work.RELEASE: self._release}

    def asks(self) -> list[Ask]:
        """All asks of this node, with the newest evidence."""
        return [asks.read(raw, self._book.of(str(raw["metadata"].get("uid")))) for raw in self._state.mine()]

    def ask(self, name: str) -> Ask | None:
        """One of them."""
        return next((ask for ask in self.asks() if ask.name == name), None)

    def is_new(self, ask: Ask) -> bool:
        """Whether its device, or that one is coming, was not known before."""
        before, self._known[ask.uid] = self._known.get(ask.uid), (ask.device, ask.coming)
        return before != (ask.device, ask.coming) and bool(ask.device or ask.coming)

    def forget(self, uid: str) -> None:
        """The ComposableResource with this uid is gone."""
        self._turns.pop(uid, None)
        self._known.pop(uid, None)
        self._checked.discard(uid)
        self._book.forget(uid)

    def asked_at(self, uid: str) -> float:
        """When what is being done was asked for first; seconds since the epoch, 0.0 when nothing is."""
        turn = self._turns.get(uid)
        return turn.since if turn else 0.0

    def pending(self, ask: Ask) -> bool:
        """Whether the device is still to be brought up and nothing stands in the way."""
        work = self._work_of(ask)
        hopeless = ask.evidence and ask.evidence.trouble and ask.evidence.trouble.reason not in WARNINGS
        return work in (Work.BRING_UP, Work.LOOK) and not hopeless

    def work(self, name: str) -> float | None:
        """Do what is to be done about a ComposableResource; returns when to look again, seconds since the epoch."""
        ask = self.ask(name)
        if ask is None:
            return None
        turn = self._turn(ask)
        if (rest := turn.not_before - time.monotonic()) > 0:
            return time.time() + rest
        try:
            return self._handlers[turn.what[0]](ask, turn)
        except NodeTrouble as trouble:
            return self._failed(ask, turn, trouble)
        finally:
            self._changed()

    def clear_dead(self) -> None:
        """Take dead devices off the bus that belong to nobody; the vendor's plugin does not start beside them."""
        for trouble in self._hands.clear_dead(self._others(None)):
            log.warning("%s: %s", trouble.reason, trouble.message)
        self._changed()

    def look_after(self, reports: t.Sequence[KernelReport]) -> None:
        """Notice devices that are gone from the bus though nobody let them go, and those that are there again;
        ``reports`` are new Xids."""
        for ask in self.asks():
            evidence = ask.evidence
            if evidence and evidence.phase == REMOVED and ask.release and self._is_back(evidence):
                # Its detach is repeated when the answer was lost, and would pull it from its driver.
                self._checked.discard(ask.uid)
                self._again(ask.name)
            if not ask.wanted and self._work_of(ask) == Work.BRING_UP:  # a plugin has announced it since
                self._again(ask.name)
            if evidence is None or evidence.phase != READY or _lost(evidence) or ask.uid not in self._checked:
                continue
            lines = [r.line for r in reports if r.xid == LOST_XID and r.address == evidence.address]
            if lines or not self._is_there(evidence):
                self._note_trouble(ask, NodeTrouble(LOST_ON_BUS, _gone(evidence, lines)))

    def _work_of(self, ask: Ask) -> Work:
        shown = not ask.wanted and self._state.shows(_known(ask))
        return asks.work_of(ask, ask.uid in self._checked, shown)

    def _turn(self, ask: Ask) -> _Turn:
        what = (self._work_of(ask), ask.device, ask.release)
        turn = self._turns.get(ask.uid)
        if turn is None or turn.what != what:
            now = time.monotonic()
            turn = self._turns[ask.uid] = _Turn(what, time.time(), now, now)
        return turn

    def _rest(self, ask: Ask, _turn: _Turn) -> None:
        """A release that is not asked for any more is in nobody's way."""
        evidence = ask.evidence
        if evidence and evidence.trouble and not ask.release and evidence.phase == READY \
                and evidence.trouble.reason in _ENDS_WITH_THE_ASK:
            self._book.note(ask, evidence.without_trouble())

    def _bring_up(self, ask: Ask, turn: _Turn) -> float | None:
        """One at a time, since a device that has no driver yet may be any of those that are wanted."""
        if not self._bringing_up.acquire(blocking=False):
            return time.time() + BUSY_SECONDS
        try:
            before = _begun(ask)
            wanted = Wanted(ask.device, ask.uuid or before.uuid, self._others(ask))
            evidence = self._hands.bring_up(wanted, before, self._noting(ask))
        except NotThereYet:
            return self._await(ask, turn)
        finally:
            self._bringing_up.release()
        self._checked.add(ask.uid)
        self._book.note(ask, evidence)
        self._hands.tell_feature_discovery()
        return None

    def _await(self, ask: Ask, turn: _Turn) -> float:
        now = time.monotonic()
        if now - turn.began > self._patience.whole:
            lost = ask.evidence is not None and ask.evidence.phase == READY
            raise NodeTrouble(LOST_ON_BUS if lost else NOT_ON_BUS, self._hands.not_found())
        if now - turn.looked >= self._patience.event and not self._rescan_held(turn, now):
            turn.looked = now
            self._hands.look_for_devices()
            self._check_removed_again()
        return time.time() + POLL_SECONDS

    def _rescan_held(self, turn: _Turn, now: float) -> bool:
        leaving = any(a.evidence and a.evidence.phase == REMOVED and a.release for a in self.asks())
        return leaving and now - turn.began < RESCAN_HELD_SECONDS

    def _check_removed_again(self) -> None:
        for ask in self.asks():
            if ask.evidence and ask.evidence.phase == REMOVED:
                self._checked.discard(ask.uid)
                self._again(ask.name)

    def _look(self, ask: Ask, turn: _Turn) -> float | None:
        """A device that was ready before this process began: still there, or to be found and touched again."""
        assert ask.evidence is not None
        if self._hands.on_bus(ask.evidence) and self._hands.was_used(ask.evidence) and self._state.shows(ask.evidence):
            self._checked.add(ask.uid)
            return None
        return self._bring_up(ask, turn)

    def _take_back(self, ask: Ask, _turn: _Turn) -> None:
        assert ask.evidence is not None
        self._book.note(ask, self._hands.take_back(ask.evidence, self._noting(ask)))
        self._checked.add(ask.uid)

    def _release(self, ask: Ask, turn: _Turn) -> float | None:
        before = _known(ask)
        if not before.address:
            if not self._bringing_up.acquire(blocking=False):
                return time.time() + BUSY_SECONDS
            try:
                before = self._identified(ask, before)
            except NotThereYet:
                # One that came after its detach was asked for would be pulled while its driver has it.
                if time.monotonic() - turn.began < self._patience.event:
                    return time.time() + POLL_SECONDS
            finally:
                self._bringing_up.release()
        done = self._hands.release(replace(before, release=ask.release), self._others(ask), self._noting(ask),
                                   lambda: self._check.in_the_way(ask, before.uuid), self._holding_plugin(before))
        self._removed()
        self._checked.add(ask.uid)
        self._book.note(ask, done)
        self._hands.tell_feature_discovery()
        return None

    def _holding_plugin(self, before: Evidence) -> HoldingPlugin | None:
        """The plugin of the device's vendor, None where there is none to tell."""
        plugin = self._hands.plugin(before)
        return HoldingPlugin(self._control, plugin, self.leaving()) if plugin else None

    def leaving(self) -> frozenset[str]:
        """Return the UUIDs of the devices that are asked back, or off the bus."""
        asked = (a.evidence.uuid or a.uuid for a in self.asks()
                 if a.evidence and (a.release or a.evidence.phase == REMOVED))
        return frozenset(uuid for uuid in asked if uuid)

    def _identified(self, ask: Ask, before: Evidence) -> Evidence:
        """Evidence of a device that was asked back before it was up: only its driver tells which one it is.

        Raises NotThereYet.
        """
        try:
            return self._hands.bring_up(Wanted(ask.device, ask.uuid, self._others(ask)), before, self._noting(ask))
        except NodeTrouble:  # the release says what is in its way
            return self._book.of(ask.uid) or before

    def _failed(self, ask: Ask, turn: _Turn, trouble: NodeTrouble) -> float:
        turn.failures += 1
        rest = RETRY.delay(turn.failures)
        turn.not_before = time.monotonic() + rest
        log.warning("%s: %s: %s", ask.name, trouble.reason, trouble.message, extra=ask.logged)
        if turn.what[0] == Work.RELEASE or turn.failures >= PASSING.get(trouble.reason, 1):
            self._note_trouble(ask, trouble)
        return time.time() + rest

    def _note_trouble(self, ask: Ask, trouble: NodeTrouble) -> None:
        evidence = self._book.of(ask.uid) or _begun(ask)
        self._book.note(ask, evidence.with_trouble(trouble.reason, trouble.message, time.time()))

    def _noting(self, ask: Ask) -> Callable[[Evidence], None]:
        """Notes steps; what stands in the way is noted when it does not pass by itself."""
        def note(evidence: Evidence) -> None:
            trouble = evidence.trouble
            passing = trouble and trouble.reason not in WARNINGS
            self._book.note(ask, evidence.without_trouble() if passing else evidence)
            self._changed()

        return note

    def _others(self, ask: Ask | None) -> frozenset[str]:
        others = [a for a in self.asks() if ask is None or a.uid != ask.uid]
        known = {a.uuid for a in others}
        known |= {found for a in others if (e := a.evidence) and e.phase != REMOVED for found in (e.uuid, e.address)}
        return frozenset(known - {""})

    def _is_back(self, evidence: Evidence) -> bool:
        """Whether a device that was removed is on the bus once more: somebody attached it again, or rescanned. What is
        at its address may be another device."""
        return bool(evidence.uuid) and evidence.uuid in (self._hands.uuids() or ())

    def _is_there(self, evidence: Evidence) -> bool:
        try:
            return self._hands.on_bus(evidence)
        except NodeTrouble as trouble:
            log.warning("%s: %s", trouble.reason, trouble.message)
            return True


def _known(ask: Ask) -> Evidence:
    """The evidence of a device, or the beginning of one that has none."""
    return ask.evidence or Evidence(PREPARING, ask.device, uuid=ask.uuid)


def _begun(ask: Ask) -> Evidence:
    """Evidence from which the way up begins or goes on."""
    evidence = ask.evidence
    if evidence and evidence.phase in (PREPARING, READY, RELEASING):
        return evidence
    return Evidence(PREPARING, ask.device, uuid=ask.uuid)


def _lost(evidence: Evidence) -> bool:
    return evidence.trouble is not None and evidence.trouble.reason == LOST_ON_BUS


def _gone(evidence: Evidence, lines: t.Sequence[str]) -> str:
    seen = f"the kernel says: {lines[-1]}" if lines else "the bus does not show it any more"
    return (f"{evidence.address} was lost while the driver had it ({seen}); look at the fabric and its cable, then "
            "detach the device")
