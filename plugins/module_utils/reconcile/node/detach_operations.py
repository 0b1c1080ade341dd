# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detach devices: request the node to release a device, then the CDI Manager to take it back.

No device leaves while a claim has it or its node has not released it. This is proven right before
the request is sent, even if the request had to wait for others.
"""

from __future__ import annotations

import contextlib
from functools import partial

from ...fabric.errors import FabricError, Missing, Uncertain, Withdrawn
from ...model.resource import Resource
from ...planning.actions import AskRelease, Detach, FinishDeparted, TaintDevice
from ...planning.node.compose import DETACHING, SHOWN
from ...planning.node.supply import DELETING
from ..state import adapters
from ..state.node_snapshot import reported_on
from .attach_operations import AttachOperations
from .claim_check import ClaimCheck

# Values of REASONS_DETACH in runtime/metrics.py.
CLAIMED, NOT_LEADING = "claimed", "not_leading"
# Not counted as a refusal: a process that begins asks each node again for what it released before.
OLD_RELEASE = "old_release"
GONE = ("the CDI Manager shows no device {} on machine {}. If it shows the device by another name, detach that "
        "device with the module fabric_device")


class DetachOperations:
    """Detaches. Shares the threads and the marks of operations in flight with ``operations``.
    Thread-safe."""

    def __init__(self, operations: AttachOperations, check: ClaimCheck) -> None:
        self._operations, self._check = operations, check
        self._state, self._writer, self._fence = operations.state, operations.writer, operations.fence
        self._reporter = operations.reporter
        # ComposableResources with a detach that was sent, maybe without a reply. Adding to a set is
        # atomic.
        self._requested: set[str] = set()

    def ask_release(self, action: AskRelease) -> None:
        """Taint the device for the scheduler, check again that no claim has it, and request it from
        the node."""
        if self._state.operations.begin(action.resource):
            self._operations.submit(action.resource, action.node, partial(self._ask_release, action))

    def detach(self, action: Detach) -> None:
        """Check again that no claim has the device, then detach it."""
        if self._state.resources.stored(action.resource) and self._state.operations.begin(action.resource):
            self._operations.submit(action.resource, action.node, partial(self._detach, action))

    def finish_departed(self, action: FinishDeparted) -> None:
        """Check again that the device has left and nothing contradicts. Request no detach."""
        if self._state.resources.stored(action.resource) and self._state.operations.begin(action.resource):
            self._operations.submit(action.resource, action.node, partial(self._finish_departed, action))

    def taint(self, action: TaintDevice) -> None:
        """Taint a device that was requested from the node. Withdraw the request if a claim was
        faster."""
        if self._state.operations.begin(action.resource):
            self._operations.submit(action.resource, action.node, partial(self._taint, action))

    def _ask_release(self, action: AskRelease) -> None:
        if reason := self._check.claimed(action.resource, action.node):
            self._operations.steps.detach_refused(self._model(action.resource), CLAIMED)
            self._stays(action.resource, reason)
            return
        self._writer.resources.ask_release(action.resource)
        self._operations.note_error(action.resource, DETACHING, "")
        self._reporter.tell(action.resource, "ReleaseAsked", f"requested node {action.node} to release the device")

    def _taint(self, action: TaintDevice) -> None:
        if reason := self._check.claimed(action.resource, action.node):
            self._operations.steps.detach_refused(self._model(action.resource), CLAIMED)
            self._writer.resources.withdraw_release(action.resource)
            self._stays(action.resource, reason)

    def _finish_departed(self, action: FinishDeparted) -> None:
        if reason := self._check.departed(action.node, action.resource, action.machine):
            self._stays(action.resource, reason)
            return
        found = self._state.resources.value(action.resource)
        if found is None:
            return
        if self._is_on(action.machine, found):
            self._stays(action.resource, f"machine {action.machine} has device {action.device} again")
            return
        self._fence.check_request()
        self._state.note_return(found)
        self._writer.resources.set_status(action.resource, state=DELETING, error="", cdi_device_id="")
        self._reporter.tell(action.resource, "DeviceLeft", action.reason, type_="Warning")

    def _is_on(self, machine: str, resource: Resource) -> bool:
        """Return whether a machine has the device now. A missing machine has none. Raise
        FabricError."""
        try:
            return adapters.is_on(self._operations.fabric.machine(machine), resource)
        except Missing:
            return False

    def _detach(self, action: Detach) -> None:
        steps, model = self._operations.steps, self._model(action.resource)

        def prove() -> None:
            self._prove(action)
            self._requested.add(action.resource)

        try:
            with steps.detaching(model):
                self._prove_off(action)
                self._operations.fabric.detach(action.machine, action.device, proof=prove)
                self._prove_gone(action)
        except Withdrawn as error:
            if error.code == OLD_RELEASE:
                return  # nothing is wrong, the node is asked again
            steps.detach_refused(model, error.code or NOT_LEADING)
            self._stays(action.resource, str(error))
            return
        except FabricError as error:
            self._tell(action.resource, "DetachFailed", str(error), str(error))
            return
        if found := self._state.resources.value(action.resource):
            self._state.note_return(found)  # before its ComposableResource can be deleted
        self._writer.resources.set_status(action.resource, state=DELETING, error="", cdi_device_id="")
        if action.resource in self._requested:
            self._reporter.tell(action.resource, "Detached", f"device {action.device} detached from node {action.node}")
        else:
            self._reporter.tell(action.resource, "DeviceGone", GONE.format(action.device, action.machine),
                                type_="Warning")
        self._requested.discard(action.resource)

    def _prove_off(self, action: Detach) -> None:
        """Raise Withdrawn if the machine of a node that is gone was switched on since the inventory."""
        if action.lost and not action.force and self._state.nodes.stored(action.node) is None:
            with contextlib.suppress(Missing):
                power = self._operations.fabric.machine(action.machine).power
                if on := reported_on(action.machine, power):
                    raise Withdrawn(on, code="node_is_back")

    def _prove_gone(self, action: Detach) -> None:
        """Read the machine again, because the ComposableResource ends now.

        Raise FabricError if the device may still be there.
        """
        machine = self._operations.fabric.machine(action.machine)
        if any(device.uid == action.device for device in machine.devices):
            told = f"the CDI Manager reported device {action.device} as detached"
            raise Uncertain(f"{told}, but machine {action.machine} still has it")

    def _prove(self, action: Detach) -> None:
        """Prove right before the request that the device may leave.

        Raise Withdrawn with the reason why it must stay, or ApiError if that is unknown.
        """
        code, reason = ("", "") if action.force else self._keeps(action)
        if reason:
            raise Withdrawn(reason, code=code)
        self._fence.check_request()  # last, because leadership may end while the claims are read

    def _keeps(self, action: Detach) -> tuple[str, str]:
        """Return why a device must stay, as a value of REASONS_DETACH or OLD_RELEASE and a sentence,
        both empty if it may leave.

        If a claim has the device, withdraw the release, so that the node gives it back to the
        claim.
        """
        found = self._state.resources.value(action.resource)
        if action.lost and (back := self._check.back(action.node, action.resource, action.machine)):
            return "node_is_back", back
        released = found if found and not action.lost else None
        if not action.lost and not (released and released.node_work.removed):
            return "node_holds", f"node {action.node} has not released the device"
        if released and (old := self._old_release(released.uid)):
            self._writer.resources.ask_release(action.resource)
            self._state.returns.forget(released.uid)
            self._state.old_releases.end(released.uid)
            return old, f"the device was returned before. Node {action.node} must release it again"
        if reason := self._check.claimed(action.resource, action.node):
            if not action.lost:
                self._writer.resources.withdraw_release(action.resource)
            return CLAIMED, reason
        if released and self._state.untainted(action.resource, self._state.own_keys(released)):
            return "slice_shows", SHOWN
        return "", ""

    def _old_release(self, uid: str) -> str:
        """Return a code if the device may have been attached again since the node released it, else
        an empty string.

        A restore of etcd brings back the ComposableResource of a returned device with its release.
        This process returned the device, or it began after the release and cannot know.
        """
        if uid in self._state.returns:
            return "node_holds"
        return OLD_RELEASE if uid in self._state.old_releases else ""

    def _model(self, resource: str) -> str:
        known = self._state.resources.value(resource)
        return known.model if known else ""

    def _stays(self, resource: str, reason: str) -> None:
        self._tell(resource, "DetachRefused", reason, f"not detached: {reason}")

    def _tell(self, resource: str, reason: str, message: str, error: str) -> None:
        """Report a problem only when it begins or changes, because the detach is tried again every
        few seconds."""
        known = self._state.resources.value(resource)
        said = known is not None and known.error == error
        self._operations.note_error(resource, DETACHING, error)
        if not said:
            self._reporter.tell(resource, reason, message, type_="Warning")
