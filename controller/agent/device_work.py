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
from ansible_collections.composable.infra.plugins.module_utils.node.search import Wanted

from . import device_request
from .claim_check import ClaimCheck
from .device_request import DeviceRequest, Work
from .evidence_book import EvidenceBook
from .lane import Duty, Lane
from .node_operations import KernelReport, NodeOperations, NotThereYet
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

    ``began``, ``looked``, ``not_before``: seconds of ``time.monotonic()``, which decide how long to
    wait.
    """

    what: tuple[Work, str, str]
    began: float
    looked: float
    not_before: float = 0.0
    failures: int = 0


class DeviceWork:
    """Work on the ComposableResources of a node by name.

    Thread-safe, as long as no name is worked on twice at the same time.

    ``lane``: queues names again, and the work for the plugins. ``control``: the pods of the
    vendors' plugins. Such a plugin may have a device open that is to be released.
    """

    def __init__(self, state: NodeState, book: EvidenceBook, operations: NodeOperations, check: ClaimCheck,
                 patience: Patience, lane: Lane, control: PluginControl) -> None:
        self._state, self._book, self._operations, self._check = state, book, operations, check
        self._patience, self._lane, self._control = patience, lane, control
        self._turns: dict[str, _Turn] = {}
        self._checked: set[str] = set()
        self._bringing_up = threading.Lock()
        self._handlers: dict[Work, Callable[[DeviceRequest, _Turn], float | None]] = {
            Work.NOTHING: self._rest, Work.BRING_UP: self._bring_up, Work.LOOK: self._look,
            Work.TAKE_BACK: self._take_back, Work.RELEASE: self._release}

    def requests(self) -> list[DeviceRequest]:
        """Return all ComposableResources of this node, with the newest evidence."""
        return [device_request.read(raw, self._book.of(str(raw["metadata"].get("uid")))) for raw in self._state.mine()]

    def request(self, name: str) -> DeviceRequest | None:
        """Return the ComposableResource with this name, None for none."""
        return next((request for request in self.requests() if request.name == name), None)

    def forget(self, uid: str) -> None:
        """Forget the ComposableResource with this uid, which is gone."""
        self._turns.pop(uid, None)
        self._checked.discard(uid)
        self._book.forget(uid)

    def pending(self, request: DeviceRequest) -> bool:
        """Return whether the device is still to be brought up and no problem prevents it."""
        work = self._work_of(request)
        hopeless = request.evidence and request.evidence.trouble and request.evidence.trouble.reason not in WARNINGS
        return work in (Work.BRING_UP, Work.LOOK) and not hopeless

    def work(self, name: str) -> float | None:
        """Work on a ComposableResource. Return in how many seconds to work on it again."""
        request = self.request(name)
        if request is None:
            return None
        turn = self._turn(request)
        if (rest := turn.not_before - time.monotonic()) > 0:
            return rest
        try:
            return self._handlers[turn.what[0]](request, turn)
        except NodeTrouble as trouble:
            return self._failed(request, turn, trouble)
        finally:
            self._lane.add(Duty.PLUGIN)

    def clear_dead(self) -> None:
        """Take dead devices off the bus that belong to no ComposableResource.

        A vendor's plugin does not start beside a dead device.
        """
        for trouble in self._operations.clear_dead(self._others(None)):
            log.warning("%s: %s", trouble.reason, trouble.message)
        self._lane.add(Duty.PLUGIN)

    def look_after(self, reports: t.Sequence[KernelReport]) -> None:
        """Notice devices that left the bus without a release, and removed devices that are back.

        ``reports``: new Xids.
        """
        for request in self.requests():
            evidence = request.evidence
            if evidence and evidence.phase == REMOVED and request.release and self._is_back(evidence):
                # When its answer is lost, a detach is repeated. It would then pull the device from
                # its driver.
                self._checked.discard(request.uid)
                self._lane.add(request.name)
            # A plugin has announced the device since.
            if not request.wanted and self._work_of(request) == Work.BRING_UP:
                self._lane.add(request.name)
            if evidence is None or evidence.phase != READY or _lost(evidence) or request.uid not in self._checked:
                continue
            lines = [r.line for r in reports if r.xid == LOST_XID and r.address == evidence.address]
            if lines or not self._is_there(evidence):
                self._note_trouble(request, NodeTrouble(LOST_ON_BUS, _gone(evidence, lines)))

    def _work_of(self, request: DeviceRequest) -> Work:
        shown = not request.wanted and self._state.shows(_known(request))
        return device_request.work_of(request, request.uid in self._checked, shown)

    def _turn(self, request: DeviceRequest) -> _Turn:
        what = (self._work_of(request), request.device, request.release)
        turn = self._turns.get(request.uid)
        if turn is None or turn.what != what:
            now = time.monotonic()
            turn = self._turns[request.uid] = _Turn(what, now, now)
            self._book.ask(request.uid)
        return turn

    def _rest(self, request: DeviceRequest, _turn: _Turn) -> None:
        """End a problem of a release that is no longer requested."""
        evidence = request.evidence
        if evidence and evidence.trouble and not request.release and evidence.phase == READY \
                and evidence.trouble.reason in _ENDS_WITH_THE_ASK:
            self._book.note(request, evidence.without_trouble())

    def _bring_up(self, request: DeviceRequest, turn: _Turn) -> float | None:
        """Bring a device up, one at a time.

        A device without a driver may be any of the wanted devices.
        """
        if not self._bringing_up.acquire(blocking=False):
            return BUSY_SECONDS
        try:
            before = _begun(request)
            wanted = Wanted(request.device, request.uuid or before.uuid, self._others(request), before)
            evidence = self._operations.bring_up(wanted, self._noting(request))
        except NotThereYet:
            return self._await(request, turn)
        finally:
            self._bringing_up.release()
        self._checked.add(request.uid)
        self._book.note(request, evidence)
        self._operations.tell_feature_discovery()
        return None

    def _await(self, request: DeviceRequest, turn: _Turn) -> float:
        now = time.monotonic()
        if now - turn.began > self._patience.whole:
            lost = request.evidence is not None and request.evidence.phase == READY
            raise NodeTrouble(LOST_ON_BUS if lost else NOT_ON_BUS, self._operations.not_found())
        if now - turn.looked >= self._patience.event and not self._rescan_held(turn, now):
            turn.looked = now
            self._operations.look_for_devices()
            self._check_removed_again()
        return POLL_SECONDS

    def _rescan_held(self, turn: _Turn, now: float) -> bool:
        leaving = any(a.evidence and a.evidence.phase == REMOVED and a.release for a in self.requests())
        return leaving and now - turn.began < RESCAN_HELD_SECONDS

    def _check_removed_again(self) -> None:
        for request in self.requests():
            if request.evidence and request.evidence.phase == REMOVED:
                self._checked.discard(request.uid)
                self._lane.add(request.name)

    def _look(self, request: DeviceRequest, turn: _Turn) -> float | None:
        """Check that a device that was ready before this process began is still there.

        Else bring it up.
        """
        assert request.evidence is not None
        on_bus_and_used = self._operations.on_bus(request.evidence) and self._operations.was_used(request.evidence)
        if on_bus_and_used and self._state.shows(request.evidence):
            self._checked.add(request.uid)
            return None
        return self._bring_up(request, turn)

    def _take_back(self, request: DeviceRequest, _turn: _Turn) -> None:
        assert request.evidence is not None
        self._book.note(request, self._operations.take_back(request.evidence, self._noting(request)))
        self._checked.add(request.uid)

    def _release(self, request: DeviceRequest, turn: _Turn) -> float | None:
        before = _known(request)
        if not before.address:
            if not self._bringing_up.acquire(blocking=False):
                return BUSY_SECONDS
            try:
                before = self._identified(request, before)
            except NotThereYet:
                # If the device comes after its detach was requested, the detach would pull it from
                # its driver.
                if time.monotonic() - turn.began < self._patience.event:
                    return POLL_SECONDS
            finally:
                self._bringing_up.release()
        done = self._operations.release(replace(before, release=request.release), self._others(request),
                                        self._noting(request),
                                        lambda: self._check.in_the_way(request, before.uuid),
                                        self._holding_plugin(before))
        self._state.own_plugin.withdraw()
        self._checked.add(request.uid)
        self._book.note(request, done)
        self._operations.tell_feature_discovery()
        return None

    def _holding_plugin(self, before: Evidence) -> HoldingPlugin | None:
        """Return the plugin of the device's vendor, None if there is none to restart."""
        plugin = self._operations.plugin(before)
        return HoldingPlugin(self._control, plugin, self.leaving()) if plugin else None

    def leaving(self) -> frozenset[str]:
        """Return the UUIDs of the devices that are to be released, or are off the bus."""
        asked = (a.evidence.uuid or a.uuid for a in self.requests()
                 if a.evidence and (a.release or a.evidence.phase == REMOVED))
        return frozenset(uuid for uuid in asked if uuid)

    def _identified(self, request: DeviceRequest, before: Evidence) -> Evidence:
        """Return evidence of a device that is released before it was up.

        Only its driver can identify it. Raises NotThereYet.
        """
        try:
            wanted = Wanted(request.device, request.uuid, self._others(request), before)
            return self._operations.bring_up(wanted, self._noting(request))
        except NodeTrouble:  # The release notes the problem.
            return self._book.of(request.uid) or before

    def _failed(self, request: DeviceRequest, turn: _Turn, trouble: NodeTrouble) -> float:
        turn.failures += 1
        rest = RETRY.delay(turn.failures)
        turn.not_before = time.monotonic() + rest
        log.warning("%s: %s: %s", request.name, trouble.reason, trouble.message, extra=request.logged)
        if turn.what[0] == Work.RELEASE or turn.failures >= PASSING.get(trouble.reason, 1):
            self._note_trouble(request, trouble)
        return rest

    def _note_trouble(self, request: DeviceRequest, trouble: NodeTrouble) -> None:
        evidence = self._book.of(request.uid) or _begun(request)
        self._book.note(request, evidence.with_trouble(trouble.reason, trouble.message, time.time()))

    def _noting(self, request: DeviceRequest) -> Callable[[Evidence], None]:
        """Return a function that notes steps.

        It leaves out a problem, unless the problem is a warning.

        ``_failed`` notes the problem if it lasts.
        """
        def note(evidence: Evidence) -> None:
            trouble = evidence.trouble
            passing = trouble and trouble.reason not in WARNINGS
            self._book.note(request, evidence.without_trouble() if passing else evidence)
            self._lane.add(Duty.PLUGIN)

        return note

    def _others(self, request: DeviceRequest | None) -> frozenset[str]:
        others = [a for a in self.requests() if request is None or a.uid != request.uid]
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


def _known(request: DeviceRequest) -> Evidence:
    """Return the evidence of a device, or new evidence if there is none."""
    return request.evidence or Evidence(PREPARING, request.device, uuid=request.uuid)


def _begun(request: DeviceRequest) -> Evidence:
    """Return the evidence with which the way up begins or continues."""
    evidence = request.evidence
    if evidence and evidence.phase in (PREPARING, READY, RELEASING):
        return evidence
    return Evidence(PREPARING, request.device, uuid=request.uuid)


def _lost(evidence: Evidence) -> bool:
    return evidence.trouble is not None and evidence.trouble.reason == LOST_ON_BUS


def _gone(evidence: Evidence, lines: t.Sequence[str]) -> str:
    seen = f"the kernel reported: {lines[-1]}" if lines else "the bus no longer shows it"
    return (f"the device {evidence.address} was lost while its driver used it ({seen}). Check the fabric and the "
            "cable, then detach the device")
