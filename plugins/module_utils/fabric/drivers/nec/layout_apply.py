# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CDIM's layout-apply, which joins all waiting operations as procedures of one apply.

CDIM runs one apply at a time. Every procedure names its device, so the devices show the outcome.
After a lost reply, the driver looks for the apply among the running applies and in the layout. If
neither shows it, the outcome is Uncertain, and the driver repeats nothing. A failed apply is judged
by device. Connected devices count as success. Devices that CDIM skipped because of another device
may be requested again (Busy).
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...errors import Busy, FabricError, Missing, Refused, Uncertain
from ...http.request import Request
from ...operations import polling
from ...operations.batches import PendingOperation, Take, proof_of
from ...operations.polling import Patience, tolerant
from ..shared.replies import healthy
from . import procedures as steps_of
from .procedures import ADAPTERS, CONNECT, CPUS, Progress, Step, WantedDevice
from .wire import Layout, health

PREFIX: t.Final = "/cdim/api/v1"
PATH: t.Final = f"{PREFIX}/layout-apply"
BUSY: t.Final = "E40010"
INVALID: t.Final = "E40001"
FORGOTTEN: t.Final = "FORGOTTEN"
COMPLETED: t.Final = "COMPLETED"
# Limit of pages of the list of applies, 20 on each page. Source: layout-apply 0.1 of project-cdim,
# server.py.
MOST_PAGES: t.Final = 50
# Seconds after a failure in which operations run alone, so that one does not fail all others.
ALONE_SECONDS: t.Final = 60.0
_NOT_TRIED: t.Final = ("SKIPPED", "CANCELED")


class Applier:
    """Runs batches (``batches.Batches``).

    ``read`` sends a request and reads its reply. ``look`` returns the layout. ``timeout`` is in
    seconds.
    """

    def __init__(
        self, read: Callable[[Request, Callable[[t.Any], t.Any]], t.Any], look: Callable[[], Layout], timeout: float
    ) -> None:
        self._read, self._look, self._timeout = read, look, timeout
        self._spelling: tuple[str, str] | None = None
        self._alone = Patience(0.0)
        # Time at which a device last failed to connect.
        self._failed: dict[str, float] = {}

    def work(self, key: object, take: Take[WantedDevice]) -> None:
        """Apply until all operations are finished, together, or alone after a failure."""
        patience = Patience(self._timeout)
        while True:
            layout = self._look()
            waiting = [p for p in take() if not p.finished.is_set() and p.wanted()]
            if any(steps_of.is_away(layout, p.what) for p in waiting):
                # Two layouts must lack the device before it counts as detached without a request.
                layout = self._look()
            steps = steps_of.plan(layout, waiting if self._alone.over else waiting[:1], self._failed)
            if steps:
                self._attempt(steps, patience)
            elif all(p.finished.is_set() for p in waiting):
                return

    def _attempt(self, steps: list[Step], patience: Patience) -> None:
        """Run one apply. The next apply takes the operations that stay open."""
        try:
            apply = self._post(steps)
        except Busy as error:
            if error.code not in (BUSY, None) or patience.over:
                raise
            patience.pause(error.retry_after or 0.0)
            return
        except (Refused, Missing) as error:
            self._refused(steps, error)
            return
        except Uncertain as error:
            apply = self._traced(steps, error)
        for number, step in enumerate(steps, 1):
            step.pending.accept(steps_of.handle(apply, step, number))
        self.finish(apply, dict(enumerate(steps, 1)))

    def _refused(self, steps: list[Step], error: FabricError) -> None:
        """Fail a single refused step. Let several steps run alone, as one may be the cause."""
        self._alone = Patience(ALONE_SECONDS)
        if len(steps) == 1:
            steps[0].pending.fail(error)

    def _post(self, steps: Sequence[Step]) -> str:
        first = self._spelling or steps_of.spelling(steps)
        try:
            found = self._ask(steps, first)
        except Refused as error:
            if self._spelling or error.code not in (INVALID, None):
                raise
            found = self._other_spelling(steps, CPUS if first == ADAPTERS else ADAPTERS, error)
            first = CPUS if first == ADAPTERS else ADAPTERS
        self._spelling = first
        return found

    def _other_spelling(self, steps: Sequence[Step], keys: tuple[str, str], error: Refused) -> str:
        """Try the field names of the other CDIM generation, as an invalid body changes nothing."""
        try:
            return self._ask(steps, keys)
        except Refused:
            raise error from None

    def _ask(self, steps: Sequence[Step], keys: tuple[str, str]) -> str:
        words = ", ".join(f"{s.operation} {s.part.uid} ({s.machine})" for s in steps)
        request = Request("POST", PATH, f"apply the layout: {words}", body=steps_of.body(steps, keys), effect=True,
                          proof=proof_of([step.pending for step in steps]))
        return t.cast(str, self._read(request, steps_of.apply_id))

    def _traced(self, steps: Sequence[Step], error: Uncertain) -> str:
        """Return the ApplyID of a request without a reply, or empty if its effect is already there.

        Raise ``error`` if neither appears.
        """
        patience = Patience(min(polling.NOTICE_SECONDS, self._timeout))
        while not patience.over:
            if found := tolerant(lambda: self._listed(steps)):
                return found
            layout = tolerant(self._look)
            if layout and all(step.is_done(layout) for step in steps):
                return ""
            patience.pause()
        raise error

    def _listed(self, steps: Sequence[Step]) -> str | None:
        """Return the ApplyID of a running apply with these procedures, from all pages."""
        seen = 0
        for _page in range(MOST_PAGES):
            path = f"{PATH}?fields=procedures" + (f"&offset={seen}" if seen else "")
            found, listed, total = t.cast("tuple[str | None, int, int]", self._read(
                Request("GET", path, "list the layout applies"), lambda reply: steps_of.page(reply, steps)))
            seen += listed
            if found or not listed or seen >= total:
                return found
        return None

    def finish(self, apply: str, steps: dict[int, Step]) -> None:
        """Wait for an apply and finish its steps by number."""
        progress = self.wait(apply) if apply else Progress(COMPLETED, "")
        if progress is None:
            late = Uncertain(f"layout apply {apply} is not done after {self._timeout:g} s. It may still be in progress")
            for step in steps.values():
                step.pending.fail(late)
            return
        if progress.status != COMPLETED:
            self._alone = Patience(ALONE_SECONDS)
        if layout := self._look_after(apply, steps):
            for number, step in steps.items():
                if progress.results.get(number, progress.status) not in (COMPLETED, *_NOT_TRIED):
                    self._failed[step.part.uid] = time.monotonic()
                finish_step(step, layout, progress, progress.results.get(number, "" if len(steps) == 1 else "SKIPPED"))

    def wait(self, apply: str) -> Progress | None:
        """Return how an apply ended, or None after the time limit.

        An apply that CDIM has forgotten ended in an unknown way.
        """
        patience = Patience(self._timeout)
        request = Request("GET", f"{PATH}/{apply}", f"read layout apply {apply}")
        while True:
            try:
                found = t.cast(Progress, self._read(request, lambda reply: steps_of.progress(reply, apply)))
            except Missing:
                return Progress(FORGOTTEN, "")
            except FabricError:
                found = None
            if found and not found.going:
                return found
            if patience.over:
                return None
            patience.pause()

    def _look_after(self, apply: str, steps: dict[int, Step]) -> Layout | None:
        """Return the layout after an apply. Repeat failed polls, as the apply was accepted."""
        patience = Patience(self._timeout)
        while (layout := tolerant(self._look)) is None and not patience.over:
            patience.pause()
        if layout is None:
            for step in steps.values():
                step.pending.fail(Uncertain(f"layout apply {apply} has ended, but its result cannot be read"))
        return layout


def finish_step(step: Step, layout: Layout, progress: Progress, result: str) -> None:
    """Finish a step by the layout after the apply. ``result`` is the status of this step, if known.

    If another machine has the device by now, keep the step open. The next apply uses another
    device.
    """
    if progress.status == COMPLETED or step.is_done(layout):
        fulfil_step(step, layout)
    elif progress.status == FORGOTTEN:
        step.pending.fail(Uncertain(f"the CDI Manager no longer knows the layout apply for device {step.part.uid}"))
    elif result in _NOT_TRIED and progress.status != "SUSPENDED":
        words = f"device {step.part.uid} was not changed, because the layout apply ended as {progress.words()}"
        step.pending.fail(Busy(words))
    elif step.is_anothers(layout) and progress.status != "SUSPENDED":
        return
    else:
        step.pending.fail(failed(step, progress))


def fulfil_step(step: Step, layout: Layout) -> None:
    """Finish a successful step. Fail it if the device is unhealthy or not found."""
    if step.operation != CONNECT:
        step.pending.fulfil(layout.device(step.part))
        return
    part = layout.parts.get(step.part.uid, step.part)
    if not part.detected:
        step.pending.fail(
            Refused(f"device {part.uid} was attached to machine {step.machine} and is no longer found")
        )
        return
    # CDIM's lists may be older than the reported end of the apply.
    device = replace(layout.device(step.part), machine=step.machine, state="attached", health=health(part))
    try:
        step.pending.fulfil(healthy(device, f"state {part.state!r}, health {part.health!r}"))
    except Refused as error:
        step.pending.fail(error)


def failed(step: Step, progress: Progress) -> Refused:
    """Return the error for a step without effect."""
    verb = "attach" if step.operation == CONNECT else "detach"
    text = f"cannot {verb} device {step.part.uid}, machine {step.machine}: the layout apply ended as {progress.words()}"
    if progress.status == "SUSPENDED":
        text += ". Resume or cancel it at the CDI Manager, which accepts no other layout apply until then"
    return Refused(text)


def revived(told: dict[str, t.Any], layout: Layout) -> Step:
    """Return the step of a handle, only for waiting. Raise Missing."""
    part = layout.parts.get(told["device"])
    if part is None:
        raise Missing(f"cannot wait for layout apply {told['apply']}: device {told['device']} is no longer known")
    return Step(PendingOperation(WantedDevice(told["machine"], device=part.uid)), told["operation"], part, part)
