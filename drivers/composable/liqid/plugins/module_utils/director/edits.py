# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change machines of a Liqid Director, which lets one client at a time edit one machine.

A change is ``fabric/edit`` with the machine, one ``relate`` for each device, and ``fabric/reprogram``. Until the last
request the Director reverts everything if it gets ``fabric/edit/cancel``. So what happens after an error is known:

- If an earlier request fails or its reply is lost, cancel the edit. Nothing was done, and the operations are planned
  again.
- If the reply to ``fabric/reprogram`` is lost, look at the devices, then cancel. If the Director confirms the cancel,
  nothing was done. Otherwise wait until the devices show the change.
- An edit that could not be cancelled is cancelled as soon as the Director answers again.

The Director does not say who edits. It refuses ``fabric/edit`` while another client edits anything, also a group's
pool. Such an edit is waited for. It is never cancelled, unless the user sets how long such an edit may last.
"""

from __future__ import annotations

import json
import re
import time
import typing as t
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, Proof
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.replies import (
    Unreadable,
    healthy,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    FabricError,
    Missing,
    Refused,
    Unauthorized,
    Unavailable,
    Uncertain,
    Withdrawn,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.http_status import malformed
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import Request
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.session import Session
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations import polling
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations.batches import (
    PendingOperation,
    Take,
    proof_of,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations.handles import VERSION, check_version
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations.polling import Patience, tolerant

from . import layout as wire
from .layout import Json, Layout, Part

PREFIX: t.Final = "/liqid/api/v2"
# How long after a failure operations go one by one, so that the next does not fail all.
ALONE_SECONDS: t.Final = 60.0


@dataclass(frozen=True, slots=True)
class Want:
    """An attach of a device of ``model`` and ``kind``, or with ``device`` the detach of this device."""

    machine: str
    model: str = ""
    kind: str = "gpu"
    device: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """An operation with the device that was chosen for it."""

    pending: PendingOperation[Want]
    part: Part

    @property
    def attaches(self) -> bool:
        """Whether the device shall come."""
        return self.pending.what.device is None

    def is_done(self, layout: Layout) -> bool:
        """Return whether the device is where it shall be."""
        found = layout.parts.get(self.part.device.uid)
        return (found is not None and found.device.machine == self.pending.what.machine) == self.attaches


class Edits:
    """Carries out the batches of one client (``operations.batches``), one edit after the other."""

    def __init__(self, session: Session, look: Callable[[], Layout], cancel_after: float) -> None:
        """Send nothing yet. ``cancel_after``: seconds that an edit of another client may last, 0 for any time."""
        self._session, self._look, self._cancel_after = session, look, cancel_after
        self._timeout = session.config.attach_timeout
        self.asynchronous = self._closed = False
        # The machine of which this client may have left an edit open.
        self._open: Json | None = None
        self._alone = Patience(0.0)
        # When a device last failed to move.
        self._failed: dict[str, float] = {}

    def ask(self, request: Request) -> tuple[int, t.Any]:
        """Return status and body of a reply that is no error. Raises FabricError, which is Busy during an edit."""
        try:
            reply = self._session.call(request)
        except FabricError as error:
            raise _busy(error, error.detail) from None
        said = wire.read_error(reply.body)
        if said:
            words = self._session.redact(said.message)
            text = f"cannot {request.purpose}: the Liqid Director refused the request: {words} [{said.code}]"
            raise _busy(Refused(text, code=said.code, detail=words), words)
        return reply.status, reply.body

    def work(self, _key: object, take: Take[Want]) -> None:
        """Edit until every operation is finished, and until no edit of this client is left open."""
        failure: Exception | None = None
        taken: list[PendingOperation[Want]] = []

        def remember() -> list[PendingOperation[Want]]:
            nonlocal taken
            taken = take()
            return taken

        try:
            self._work(remember)
        except Exception as error:  # whatever it is, the callers must hear of it
            failure = error
        while self._open and not self._closed:
            try:
                self._leave(self._open)
            except FabricError as error:
                for pending in taken:
                    pending.fail(failure or error)
                for pending in remember():
                    pending.fail(error)
        if failure:
            raise failure

    def close(self) -> None:
        """Try no longer to cancel an edit."""
        self._closed = True

    def _work(self, take: Take[Want]) -> None:
        """Edit until every operation is finished: all of one machine together, after a failure one by one."""
        patience = Patience(self._timeout)
        while True:
            layout = self._look()
            waiting = [each for each in take() if not each.finished.is_set() and each.wanted()]
            steps = self._plan(layout, waiting if self._alone.over else waiting[:1])
            if not steps:
                if all(each.finished.is_set() for each in waiting):
                    return
                continue
            try:
                self._edit(layout, steps, patience)
            except (Busy, Withdrawn):
                if patience.over:
                    raise
                patience.pause()

    def _plan(self, layout: Layout, waiting: Sequence[PendingOperation[Want]]) -> list[Step]:
        """Return the steps of one edit. Operations that need none are finished."""
        steps: list[Step] = []
        for pending in waiting:
            if steps and pending.what.machine != steps[0].pending.what.machine:
                continue
            taken = {step.part.device.uid for step in steps}
            try:
                part = self._part(layout, pending.what, taken)
            except FabricError as error:
                pending.fail(error)
                continue
            if part is None:
                pending.fulfil()
            elif part.device.uid not in taken:
                steps.append(Step(pending, part))
        return steps

    def _part(self, layout: Layout, want: Want, taken: set[str]) -> Part | None:
        if want.device is not None:
            found = layout.parts.get(want.device)
            return found if found and found.device.machine == want.machine else None
        purpose = f"cannot attach a {want.model} to machine {want.machine}"
        if want.machine not in layout.machines:
            raise missing(purpose, layout, want.machine)
        if want.kind not in wire.KINDS:
            raise Refused(f"{purpose}: kind {want.kind!r} is not allowed. Allowed are {', '.join(wire.KINDS)}")
        free = [part for part in layout.free(want.model, layout.machine(want.machine).fabric, want.kind)
                if part.device.uid not in taken]
        if not free:
            raise Refused(f"{purpose}: no free {want.kind} of this model is left in group "
                          f"{layout.group.get('group_name')}", exhausted=True)
        return min(free, key=lambda part: (self._failed.get(part.device.uid, 0.0), part.device.uid))

    def _edit(self, layout: Layout, steps: list[Step], patience: Patience) -> None:
        """Do one edit. Operations that it does not finish go into the next."""
        machine = layout.machines[steps[0].pending.what.machine]
        proof = proof_of([step.pending for step in steps])
        self._enter(machine, layout, proof, patience)
        for step in steps:
            try:
                self._command(_relate(step, layout, machine, proof))
            except FabricError as error:
                self._leave(machine, error)
                if not isinstance(error, (Refused, Missing)):
                    raise _again(error) from None
                self._fail(step, error)
                return
        self._reprogram(machine, steps, proof)

    def _enter(self, machine: Json, layout: Layout, proof: Proof, patience: Patience) -> None:
        """Begin to edit a machine. Wait while another client edits.

        After a lost reply the Director may refuse because the edit is ours, or because another client's edit of the
        same machine was there before. Another client gets a while to finish.
        """
        request = Request("POST", f"{PREFIX}/fabric/edit", f"edit machine {machine['mach_name']}", body=machine,
                          effect=True, proof=proof)
        began, lost = time.monotonic(), Patience(polling.NOTICE_SECONDS)
        while True:
            mine, self._open = self._open is not None, machine
            try:
                self._command(request)
                return
            except Uncertain as error:
                lost, last = lost if mine else Patience(polling.NOTICE_SECONDS), _again(error)
            except Busy as error:
                last = _held(error, time.monotonic() - began)
                if mine and lost.over:
                    self._leave(machine)
                self._open = machine if self._open and mine else None
                other = wire.named_in(error.detail or "", layout.machines.values())
                if other and not self._open and 0 < self._cancel_after <= time.monotonic() - began:
                    self._leave(other)
            except Exception:
                self._open = machine if mine else None
                raise
            if patience.over:
                raise last
            patience.pause()

    def _reprogram(self, machine: Json, steps: list[Step], proof: Proof) -> None:
        request = Request("POST", f"{PREFIX}/fabric/reprogram", f"reprogram machine {machine['mach_name']}",
                          body=machine, timeout=self._timeout, effect=True, proof=proof)
        try:
            self._command(request, lambda path: self._accepted(path, steps))
        except Uncertain as error:
            self._lost(machine, steps, error)
            return
        except FabricError as error:
            if self._open:
                self._leave(machine, error)
            if not isinstance(error, (Refused, Missing)):
                raise
            self._finish(steps, error)
            return
        self._open = None
        self._finish(steps)

    def _accepted(self, path: str, steps: list[Step]) -> None:
        self.asynchronous, self._open = True, None
        for step in steps:
            told = {"version": VERSION, "task": path, "machine": step.pending.what.machine,
                    "device": step.part.device.uid, "attaches": step.attaches}
            step.pending.accept(json.dumps(told, separators=(",", ":"), sort_keys=True))

    def _lost(self, machine: Json, steps: list[Step], error: Uncertain) -> None:
        """Find out what a reprogram did after its reply was lost.

        Raises:
            Busy: The Director has cancelled the edit, so nothing was done.
        """
        patience = Patience(self._timeout if self._open else 0.0)
        if self._open and not self._shows(steps):
            try:
                cancelled = self._leave(machine, error)
            except FabricError:
                patience, cancelled = Patience(0.0), False
            if cancelled:
                raise _again(error)
        while not self._shows(steps):
            if patience.over:
                for step in steps:
                    step.pending.fail(error)
                return
            patience.pause()
        self._open = None
        self._finish(steps)

    def _shows(self, steps: list[Step]) -> bool:
        layout = tolerant(self._look)
        return layout is not None and all(step.is_done(layout) for step in steps)

    def _leave(self, machine: Json, why: FabricError | None = None) -> bool:
        """End the edit of a machine, and return whether the Director has reverted something.

        Args:
            machine: The machine's object.
            why: The error after which the edit ends. If it says that there is no edit, nothing is sent: another client
                may have begun one.

        Raises:
            Unavailable: The Director did not answer. It is asked again before the next edit.
        """
        if why and wire.NOT_EDITED in (why.detail or ""):
            self._open = None
            return False
        name, patience = machine["mach_name"], Patience(polling.NOTICE_SECONDS)
        request = Request("POST", f"{PREFIX}/fabric/edit/cancel", f"cancel the edit of machine {name}", body=machine,
                          effect=True)
        while True:
            try:
                self._command(request)
            except (Refused, Missing, Busy) as error:
                if not isinstance(error, Busy) or _is_about_edits(error.detail):
                    self._open = None
                    return False
                last: FabricError = error
            except FabricError as error:
                last = error
            else:
                self._open = None
                return True
            if patience.over:
                raise Unavailable(f"machine {name} may still be in edit mode, so no client of the Liqid Director "
                                  f"can edit a machine: {last.message}") from None
            patience.pause()

    def _finish(self, steps: list[Step], error: FabricError | None = None) -> None:
        """Finish what the devices show. ``error``: why the rest failed. Without it wait for the rest."""
        notice = Patience(0.0 if error else polling.NOTICE_SECONDS)
        while True:
            layout = tolerant(self._look)
            for step in steps:
                if layout and not step.pending.finished.is_set() and step.is_done(layout):
                    _fulfil(step, layout)
            rest = [step for step in steps if not step.pending.finished.is_set()]
            if not rest or notice.over:
                break
            notice.pause()
        if error is not None and layout is not None and len(steps) > 1:
            # The Director does not say which device failed.
            self._alone = Patience(ALONE_SECONDS)
            return
        for step in rest:
            late = Uncertain(f"machine {step.pending.what.machine} was reprogrammed, but device "
                             f"{step.part.device.uid} is not shown in its new place")
            self._fail(step, error if error is not None and layout is not None else late)

    def _fail(self, step: Step, error: FabricError) -> None:
        self._failed[step.part.device.uid] = time.monotonic()
        step.pending.fail(error)

    def _command(self, request: Request, accepted: Callable[[str], None] = lambda path: None) -> None:
        """Carry out a change. A newer Director accepts it with status 202, then its end is waited for."""
        status, body = self.ask(request)
        if status != 202:
            return
        try:
            path = wire.task_path(wire.data(body))
        except Unreadable as error:
            raise malformed(request, self._session.redact(str(error))) from None
        accepted(path)
        self.wait(path, request.purpose)

    def wait(self, path: str, purpose: str) -> None:
        """Wait for the end of a command. If the Director has forgotten the command, it is over and well.

        Raises:
            Refused: The command failed.
            Uncertain: It has not ended in time.
        """
        patience = Patience(self._timeout)
        while True:
            state = tolerant(lambda: self._task_state(path))
            if state == wire.SUCCESS:
                return
            if state == wire.FAILURE:
                raise Refused(f"cannot {purpose}: the Liqid Director accepted the request, but the command failed")
            if patience.over:
                raise Uncertain(f"cannot {purpose}: the command is not done after {self._timeout:g} s. It may still "
                                "happen")
            patience.pause()

    def _task_state(self, path: str) -> str:
        try:
            return wire.task_state(self.ask(Request("GET", path, f"read command {path}"))[1])
        except Unreadable:
            return ""
        except FabricError as error:
            if error.status == 404:
                return wire.SUCCESS
            raise

    def resume(self, handle: str) -> Part | None:
        """Wait for a change of an earlier process. Return the device that came, nothing if it left.

        Raises:
            Missing: This is no handle, or the device is not where the change had put it.
        """
        told = _told(handle)
        self.wait(told["task"], f"reprogram machine {told['machine']}")
        want = Want(told["machine"], device=None if told["attaches"] else told["device"])
        step = Step(PendingOperation(want), Part(Device(told["device"], ""), {}))
        notice = Patience(polling.NOTICE_SECONDS)
        while not step.is_done(layout := self._look()):
            if notice.over:
                raise Missing(f"cannot wait for an operation: it has ended, but device {told['device']} is not in its "
                              "new place, so another client has moved it since")
            notice.pause()
        return layout.parts.get(told["device"]) if told["attaches"] else None


def missing(purpose: str, layout: Layout, machine: str) -> Missing:
    """Return why a machine cannot be had."""
    if machine in layout.twice:
        return Missing(f"{purpose}: several machines of the group have this name. Give each machine its own name")
    return Missing(f"{purpose}: the group {layout.group.get('group_name')} has no such machine")


def _relate(step: Step, layout: Layout, machine: Json, proof: Proof) -> Request:
    device, name = step.part.device, machine["mach_name"]
    relator = {"deviceStatus": step.part.status, "group": layout.group}
    words = f"attach device {device.name} to" if step.attaches else f"detach device {device.name} from"
    return Request("POST" if step.attaches else "DELETE", f"{PREFIX}/relate/{wire.KINDS[device.kind].relate}",
                   f"{words} machine {name}", body={"groupDeviceRelator": relator, "machine": machine}, effect=True,
                   proof=proof)


def _fulfil(step: Step, layout: Layout) -> None:
    if not step.attaches:
        step.pending.fulfil(step.part.device)
        return
    try:
        step.pending.fulfil(healthy(layout.parts[step.part.device.uid].device, "device_state"))
    except Refused as error:
        step.pending.fail(error)


def _is_about_edits(said: str | None) -> bool:
    """Return whether the Director's words are about an edit. Its words are not published."""
    return said is not None and re.search(r"\bedit", said, re.IGNORECASE) is not None


def _busy(error: FabricError, said: str | None) -> FabricError:
    """Return Busy for an error that is about an edit: then nothing was done."""
    if isinstance(error, Unauthorized) or not _is_about_edits(said):
        return error
    return Busy(error.message, code=error.code, detail=said)


def _held(error: Busy, seconds: float) -> Busy:
    """Return the error with who keeps us waiting. ``seconds``: how long."""
    if not _is_about_edits(error.detail):
        return error
    return Busy(f"{error.message}. Another client has edited for {seconds:.0f} s, and the Director allows one edit "
                "at a time. Wait, or cancel that edit", code=error.code, detail=error.detail)


def _again(error: FabricError) -> FabricError:
    """Return Busy for a lost reply, where it is known that there was no reprogram."""
    if not isinstance(error, Uncertain):
        return error
    return Busy(f"{error.message}. The machine was not reprogrammed, so nothing was done")


def _told(handle: str) -> Mapping[str, t.Any]:
    try:
        found = json.loads(handle)
        check_version(found)
        if all(isinstance(found.get(key), str) for key in ("task", "machine", "device")) and "attaches" in found:
            return t.cast("Mapping[str, t.Any]", found)
    except (ValueError, AttributeError):
        pass
    raise Missing(f"cannot wait for operation {handle!r}: it is not a handle of the driver for Liqid")
