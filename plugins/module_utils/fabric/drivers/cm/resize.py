# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CM's resize, which joins operations on one machine and model, and waits for each device.

A resize names a number and no operation, so a resize with a lost reply is never repeated. Instead,
the driver reads the machine's document. It adopts the devices that were not there before and waits
for them. If none appears, the outcome is Uncertain and the caller polls. A device that CM lists as
ADD_FAILED is in the error (``device``). The caller removes it from CM's list with ``detach``.

If ``device_count`` includes a failed device without a name, the driver requests no more devices.
The requested number would be too high, and if CM retried the failed device, two devices would
arrive.

CM offers no compare-and-swap. Two processes that read one document at the same moment request the
same number, and both adopt the one device. So only one process may request devices for a machine,
as the engine's Lease ensures.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Sequence

from ...errors import Busy, FabricError, Missing, Refused, Uncertain
from ...http.request import Request
from ...operations import polling
from ...operations.batches import PendingOperation, Take, proof_of
from ...operations.polling import Patience, tolerant
from .outcome import Key, finish_added, handle, nameless, not_done, overcounted, slots_of, stuck
from .wire import REMOVE_FAILED, MachineDocument, Spec, increase_body, remove_body

# Operations with the uid of a device to remove, or None to attach one more.
Operations = Sequence[PendingOperation["str | None"]]


class Resizer:
    """Runs batches (``batches.Batches``).

    ``read`` returns the document of a machine, and ``free`` a number or None. ``timeout`` is in
    seconds.
    """

    def __init__(
        self, post: Callable[[Request], t.Any], read: Callable[[str], MachineDocument],
        free: Callable[[Key], int | None], path: Callable[[str], str], timeout: float,
    ) -> None:
        self._post, self._read, self._free, self._path, self._timeout = post, read, free, path, timeout

    def work(self, key: Key, take: Take[str | None]) -> None:
        """Run one batch. Remove devices before adding others."""
        spec = self.quiet(key)
        operations = take()
        leaving = [o for o in operations if o.what is not None]
        coming = [o for o in operations if o.what is None]
        if leaving:
            self._remove(key, spec, leaving)
        if coming:
            self._add(key, self.quiet(key) if leaving else spec, coming)

    def quiet(self, key: Key, *, rest: bool = False) -> Spec:
        """Wait until the counter of the resspec is reliable, and with ``rest`` until CM is at rest.

        Return the resspec. Raise Busy if other operations last too long.
        """
        patience = Patience(self._timeout)
        while not (spec := self.spec(key)).sure or (rest and not all(e.ended for e in spec.entries)):
            if patience.over:
                raise Busy(f"cannot resize {key.model} on machine {key.machine}: CM is working for another client")
            patience.pause()
        return spec

    def spec(self, key: Key) -> Spec:
        """Return the current resspec. Raise Refused if the machine takes no such device."""
        document = self._read(key.machine)
        spec = document.spec(key.kind, key.model)
        if spec is None:
            known = ", ".join(f"{s.kind} {s.model}" for s in document.specs) or "none"
            raise Refused(f"machine {key.machine} takes no {key.kind} of model {key.model}. Allowed are {known}")
        return spec

    def _add(self, key: Key, spec: Spec, operations: Operations) -> None:
        if spec.counted_failures:
            for operation in operations:
                operation.fail(overcounted(key, spec))
            return
        operations = self._within_limit(key, spec, [o for o in operations if o.wanted()])
        while operations:
            try:
                self._ask(key, increase_body(spec, len(operations)), f"attach {len(operations)} x {key.model} to",
                          operations)
            except (Refused, Missing) as error:
                operations = self._fewer(key, operations, error)
                continue
            except Uncertain as error:
                if not self._noticed(key, spec, len(operations)):
                    raise error from None
            break
        before = sorted(e.uid for e in spec.entries if e.device)
        for slot, operation in enumerate(operations):
            operation.accept(handle(key, before=before, slot=slot, count=len(operations)))
        self.await_added(key, frozenset(before), len(operations), dict(enumerate(operations)),
                         len(spec.nameless_failures))

    def _within_limit(self, key: Key, spec: Spec, operations: Operations) -> Operations:
        most = spec.size.maximum
        room = len(operations) if most is None else max(most - spec.count, 0)
        for operation in operations[room:]:
            operation.fail(Refused(
                f"machine {key.machine} has {spec.count} devices of model {key.model}. At most {most} are allowed "
                "(max_resspec_count)"
            ))
        return operations[:room]

    def _fewer(self, key: Key, operations: Operations, error: FabricError) -> Operations:
        """After a refusal, keep as many operations as devices are free. CM does all or none."""
        free = self._free(key)
        left = min(len(operations) - 1, len(operations) if free is None else free)
        if free is not None and free < len(operations):
            error = Refused(error.message, exhausted=True, code=error.code, detail=error.detail)
        for operation in operations[left:]:
            operation.fail(error)
        return operations[:left]

    def _ask(self, key: Key, body: t.Any, what: str, operations: Operations) -> None:
        request = Request(
            "POST", self._path(key.machine), f"{what} machine {key.machine}", body=body, effect=True, reads=False,
            proof=proof_of(operations),
        )
        self._post(request)

    def _noticed(self, key: Key, spec: Spec, number: int) -> bool:
        """Return whether the document shows a request without a reply in count or devices."""
        patience = Patience(min(polling.NOTICE_SECONDS, self._timeout))
        while not patience.over:
            now = tolerant(lambda: self.spec(key))
            if now and (now.count >= spec.count + number or len(now.entries) > len(spec.entries)):
                return True
            patience.pause()
        return False

    def await_added(
        self, key: Key, before: frozenset[str], count: int, waiting: dict[int, PendingOperation[t.Any]],
        failed: int | None = None,
    ) -> None:
        """Finish the operations by their slots among the devices that are not in ``before``.

        ``failed`` is the number of earlier failures without a name, or None if unknown. Each
        further failure is a refusal.
        """
        patience, notice = Patience(self._timeout), Patience(min(polling.NOTICE_SECONDS, self._timeout))
        slots: tuple[str, ...] = ()
        while waiting and not patience.over:
            if spec := tolerant(lambda: self.spec(key)):
                if failed is not None and (reasons := spec.nameless_failures[failed:]):
                    failed, count = failed + len(reasons), count - len(reasons)
                    for slot in sorted(waiting)[-len(reasons):]:
                        waiting.pop(slot).fail(nameless(key, reasons))
                slots = slots or slots_of(spec, before, count, few=notice.over)
                for slot in [s for s in waiting if s < len(slots)]:
                    entry = spec.entry(slots[slot])
                    if entry is None or entry.ended:
                        finish_added(waiting.pop(slot), key, entry)
                if slots and not any(s < len(slots) for s in waiting):
                    break
            if waiting:
                patience.pause()
        for operation in waiting.values():
            operation.fail(not_done(key, "attached", self._timeout))

    def _remove(self, key: Key, spec: Spec, operations: Operations) -> None:
        if any((e := spec.entry(str(o.what))) and not e.ended for o in operations):
            spec = self.quiet(key, rest=True)
        if any(spec.entry(str(o.what)) is None for o in operations):
            # Two documents must lack the device before it counts as detached without a request.
            spec = self.quiet(key)
        there = [o for o in operations if spec.entry(str(o.what))]
        for operation in operations:
            if operation not in there:
                operation.fulfil()
        there = [o for o in there if o.wanted()]
        uids = list(dict.fromkeys(str(o.what) for o in there))
        if uids:
            self._remove_listed(key, spec, uids, there)

    def _remove_listed(self, key: Key, spec: Spec, uids: list[str], there: Operations) -> None:
        try:
            self._ask(key, remove_body(spec, uids), f"detach {', '.join(uids)} from", there)
        except (Refused, Missing) as error:
            self._one_by_one(key, there, error)
            return
        except Uncertain as error:
            if not self._left(key, uids):
                raise error from None
        for operation in there:
            operation.accept(handle(key, device=str(operation.what)))
        self.await_removed(key, there, spec)

    def _one_by_one(self, key: Key, operations: Operations, error: FabricError) -> None:
        """After a refusal, remove each device alone, so that only the stuck device stays."""
        if len({o.what for o in operations}) == 1:
            if isinstance(error, Missing) and self._is_leaving(key, [str(operations[0].what)]):
                self.await_removed(key, operations)
                return
            for operation in operations:
                operation.fail(error)
            return
        for operation in operations:
            self._remove(key, self.quiet(key), [operation])

    def _is_leaving(self, key: Key, uids: Sequence[str]) -> bool:
        """Return whether the document shows that one of the devices is leaving or has left."""
        now = tolerant(lambda: self.spec(key))
        return now is not None and any((e := now.entry(uid)) is None or e.leaving for uid in uids)

    def _left(self, key: Key, uids: Sequence[str]) -> bool:
        """Return whether the document shows a removal without a reply."""
        patience = Patience(min(polling.NOTICE_SECONDS, self._timeout))
        while not patience.over:
            if self._is_leaving(key, uids):
                return True
            patience.pause()
        return False

    def await_removed(self, key: Key, operations: Operations, asked: Spec | None = None) -> None:
        """Finish the operations. ``asked`` is the resspec before the request.

        A failure that it already has is an old one.
        """
        patience, notice = Patience(self._timeout), Patience(min(polling.NOTICE_SECONDS, self._timeout))
        while True:
            if spec := tolerant(lambda: self.spec(key)):
                for operation in operations:
                    entry = spec.entry(str(operation.what))
                    old = asked is not None and entry == asked.entry(str(operation.what)) and not notice.over
                    if entry is None:
                        operation.fulfil()
                    elif entry.status == REMOVE_FAILED and not old:
                        operation.fail(stuck(key, entry))
            if patience.over or all(o.finished.is_set() for o in operations):
                break
            patience.pause()
        for operation in operations:
            operation.fail(not_done(key, "detached", self._timeout))
