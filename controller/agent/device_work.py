# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The work on the devices of the node's bus.

It brings devices up, watches and releases them, and notes problems.
"""

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
from .node_operations import KernelReport, NodeOperations, NotThereYet, Wanted
from .node_state import NodeState
from .vendor_plugin.plugin_control import HoldingPlugin, PluginControl

log = logging.getLogger("composable.infra")
POLL_SECONDS = 0.1
BUSY_SECONDS = 0.2
# Xid of "GPU has fallen off the bus".
LOST_XID = 79
# A rescan brings a device back that has just left the bus. So rescans wait for its detach, but at
# most so many seconds.
RESCAN_HELD_SECONDS = 30.0
RETRY = Backoff(1.0, longest=15.0)
# Problems that may end by themselves. Each is noted only after so many failures.
PASSING = {COMMAND_FAILED: 3, DRIVER_FAILED: 2, DRIVER_NOT_BOUND: 3, NOT_PROVEN: 3}
_ENDS_WITH_THE_ASK = (CLAIM_IN_USE, OPEN_ON_NODE, NOT_PROVEN)


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits in seconds.

    ``event``: for a device to come by itself, and between two rescans. ``whole``: in all.
    """

    event: float = 2.0
    whole: float = 60.0


@dataclass(slots=True)
class _Turn:
    """Memory of the work on a device. It starts again when the requested work changes.

    ``since``: seconds since the epoch. ``began``, ``looked``, ``not_before``: seconds of
    ``time.monotonic()``, which decide how long to wait.
    """

    what: tuple[Work, str, str]
    since: float
    began: float
    looked: float
    not_before: float = 0.0
    failures: int = 0


class DeviceWork:
    """Work on the ComposableResources of a node by name.

    Thread-safe, as long as no name is worked on twice at the same time.

    ``changed()`` is called after work on the bus. ``again(name)`` queues a name. ``removed()`` is
    called when a device has left the bus. The removal is noted, and the device may be detached,
    only after it returns. ``control``: the pods of the vendors' plugins. Such a plugin may have a
    device open that is to be released.
    """

    def __init__(self, state: NodeState, book: EvidenceBook, operations: NodeOperations, check: ClaimCheck,
                 patience: Patience, changed: Callable[[], None], again: Callable[[str], None],
                 removed: Callable[[], None], control: PluginControl) -> None:
        self._state, self._book, self._operations, self._check = state, book, operations, check
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
        """Return all ComposableResources of this node, with the newest evidence."""
        return [asks.read(raw, self._book.of(str(raw["metadata"].get("uid")))) for raw in self._state.mine()]

    def ask(self, name: str) -> Ask | None:
        """Return the ComposableResource with this name, None for none."""
        return next((ask for ask in self.asks() if ask.name == name), None)

    def is_new(self, ask: Ask) -> bool:
        """Return whether the device of a ComposableResource, or its attach, is new since the last
        call.
        """
        before, self._known[ask.uid] = self._known.get(ask.uid), (ask.device, ask.coming)
        return before != (ask.device, ask.coming) and bool(ask.device or ask.coming)

    def forget(self, uid: str) -> None:
        """Forget the ComposableResource with this uid, which is gone."""
        self._turns.pop(uid, None)
        self._known.pop(uid, None)
        self._checked.discard(uid)
        self._book.forget(uid)

    def asked_at(self, uid: str) -> float:
        """Return when the current work was requested, in seconds since the epoch, 0.0 for no work.
        """
        turn = self._turns.get(uid)
        return turn.since if turn else 0.0

    def pending(self, ask: Ask) -> bool:
        """Return whether the device is still to be brought up and no problem prevents it."""
        work = self._work_of(ask)
        hopeless = ask.evidence and ask.evidence.trouble and ask.evidence.trouble.reason not in WARNINGS
        return work in (Work.BRING_UP, Work.LOOK) and not hopeless

    def work(self, name: str) -> float | None:
        """Work on a ComposableResource.

        Return when to work on it again, in seconds since the epoch.
        """
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
        """Take dead devices off the bus that belong to no ComposableResource.

        A vendor's plugin does not start beside a dead device.
        """
        for trouble in self._operations.clear_dead(self._others(None)):
            log.warning("%s: %s", trouble.reason, trouble.message)
        self._changed()

    def look_after(self, reports: t.Sequence[KernelReport]) -> None:
        """Notice devices that left the bus without a release, and removed devices that are back.

        ``reports``: new Xids.
        """
        for ask in self.asks():
            evidence = ask.evidence
            if evidence and evidence.phase == REMOVED and ask.release and self._is_back(evidence):
                # When its answer is lost, a detach is repeated. It would then pull the device from
                # its driver.
                self._checked.discard(ask.uid)
                self._again(ask.name)
            # A plugin has announced the device since.
            if not ask.wanted and self._work_of(ask) == Work.BRING_UP:
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
        """End a problem of a release that is no longer requested."""
        evidence = ask.evidence
        if evidence and evidence.trouble and not ask.release and evidence.phase == READY \
                and evidence.trouble.reason in _ENDS_WITH_THE_ASK:
            self._book.note(ask, evidence.without_trouble())

    def _bring_up(self, ask: Ask, turn: _Turn) -> float | None:
        """Bring a device up, one at a time.

        A device without a driver may be any of the wanted devices.
        """
        if not self._bringing_up.acquire(blocking=False):
            return time.time() + BUSY_SECONDS
        try:
            before = _begun(ask)
            wanted = Wanted(ask.device, ask.uuid or before.uuid, self._others(ask))
            evidence = self._operations.bring_up(wanted, before, self._noting(ask))
        except NotThereYet:
            return self._await(ask, turn)
        finally:
            self._bringing_up.release()
        self._checked.add(ask.uid)
        self._book.note(ask, evidence)
        self._operations.tell_feature_discovery()
        return None

    def _await(self, ask: Ask, turn: _Turn) -> float:
        now = time.monotonic()
        if now - turn.began > self._patience.whole:
            lost = ask.evidence is not None and ask.evidence.phase == READY
            raise NodeTrouble(LOST_ON_BUS if lost else NOT_ON_BUS, self._operations.not_found())
        if now - turn.looked >= self._patience.event and not self._rescan_held(turn, now):
            turn.looked = now
            self._operations.look_for_devices()
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
        """Check that a device that was ready before this process began is still there.

        Else bring it up.
        """
        assert ask.evidence is not None
        on_bus_and_used = self._operations.on_bus(ask.evidence) and self._operations.was_used(ask.evidence)
        if on_bus_and_used and self._state.shows(ask.evidence):
            self._checked.add(ask.uid)
            return None
        return self._bring_up(ask, turn)

    def _take_back(self, ask: Ask, _turn: _Turn) -> None:
        assert ask.evidence is not None
        self._book.note(ask, self._operations.take_back(ask.evidence, self._noting(ask)))
        self._checked.add(ask.uid)

    def _release(self, ask: Ask, turn: _Turn) -> float | None:
        before = _known(ask)
        if not before.address:
            if not self._bringing_up.acquire(blocking=False):
                return time.time() + BUSY_SECONDS
            try:
                before = self._identified(ask, before)
            except NotThereYet:
                # If the device comes after its detach was requested, the detach would pull it from
                # its driver.
                if time.monotonic() - turn.began < self._patience.event:
                    return time.time() + POLL_SECONDS
            finally:
                self._bringing_up.release()
        done = self._operations.release(replace(before, release=ask.release), self._others(ask), self._noting(ask),
                                   lambda: self._check.in_the_way(ask, before.uuid), self._holding_plugin(before))
        self._removed()
        self._checked.add(ask.uid)
        self._book.note(ask, done)
        self._operations.tell_feature_discovery()
        return None

    def _holding_plugin(self, before: Evidence) -> HoldingPlugin | None:
        """Return the plugin of the device's vendor, None if there is none to restart."""
        plugin = self._operations.plugin(before)
        return HoldingPlugin(self._control, plugin, self.leaving()) if plugin else None

    def leaving(self) -> frozenset[str]:
        """Return the UUIDs of the devices that are to be released, or are off the bus."""
        asked = (a.evidence.uuid or a.uuid for a in self.asks()
                 if a.evidence and (a.release or a.evidence.phase == REMOVED))
        return frozenset(uuid for uuid in asked if uuid)

    def _identified(self, ask: Ask, before: Evidence) -> Evidence:
        """Return evidence of a device that is released before it was up.

        Only its driver can identify it. Raises NotThereYet.
        """
        try:
            return self._operations.bring_up(Wanted(ask.device, ask.uuid, self._others(ask)), before, self._noting(ask))
        except NodeTrouble:  # The release notes the problem.
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
        """Return a function that notes steps.

        It leaves out a problem, unless the problem is a warning.

        ``_failed`` notes the problem if it lasts.
        """
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
        """Return whether a removed device is on the bus again, after an attach or a rescan.

        Another device may be at its address, so only its UUID counts.
        """
        return bool(evidence.uuid) and evidence.uuid in (self._operations.uuids() or ())

    def _is_there(self, evidence: Evidence) -> bool:
        try:
            return self._operations.on_bus(evidence)
        except NodeTrouble as trouble:
            log.warning("%s: %s", trouble.reason, trouble.message)
            return True


def _known(ask: Ask) -> Evidence:
    """Return the evidence of a device, or new evidence if there is none."""
    return ask.evidence or Evidence(PREPARING, ask.device, uuid=ask.uuid)


def _begun(ask: Ask) -> Evidence:
    """Return the evidence with which the way up begins or continues."""
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
