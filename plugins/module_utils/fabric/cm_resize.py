# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CM's resize: many wishes for one machine and model by one request, then watched until each device has come or gone.

Adopt or compensate: a resize names a number and not a wish, so one whose reply was lost is never repeated. The
machine's document is looked at instead: devices that were not in it before are the ones that were asked for, and are
waited for; when none appears the outcome is Uncertain and the caller looks on. A device that CM lists as ADD_FAILED is
told with the error (``device``); the caller gives it back by ``detach``, which CM knows as removing it from the list.

CM offers no compare-and-swap: two processes that read one document at the same moment ask for the same number and both
take the one device for theirs. So only one process may ask for a machine's devices, as the engine's Lease provides.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Sequence

from . import polling
from .batches import Take, Wish
from .cm_outcome import Key, handle, not_done, settle_added, slots_of, stuck
from .cm_wire import REMOVE_FAILED, Sheet, Spec, increase_body, remove_body
from .errors import Busy, FabricError, Missing, Refused, Uncertain
from .polling import Patience, tolerant
from .verdicts import Call

# What a wish is: the uid of a device to remove, or None for one more.
Wishes = Sequence[Wish["str | None"]]


class Resizer:
    """Carries out batches; see ``batches.Batches``. ``read`` gives a machine's document, ``free`` a number or None."""

    def __init__(
        self, post: Callable[[Call], t.Any], read: Callable[[str], Sheet], free: Callable[[Key], int | None],
        path: Callable[[str], str], timeout: float,
    ) -> None:
        self._post, self._read, self._free, self._path, self._timeout = post, read, free, path, timeout

    def work(self, key: Key, take: Take[str | None]) -> None:
        """One batch: first what leaves, then what comes."""
        spec = self.quiet(key)
        wishes = take()
        leaving = [w for w in wishes if w.what is not None]
        coming = [w for w in wishes if w.what is None]
        if leaving:
            self._remove(key, spec, leaving)
        if coming:
            self._add(key, self.quiet(key) if leaving else spec, coming)

    def quiet(self, key: Key, *, rest: bool = False) -> Spec:
        """The resspec once its counter can be relied on, or CM is at rest. Raises Busy when others keep CM at work."""
        patience = Patience(self._timeout)
        while not (spec := self.spec(key)).sure or (rest and not all(e.ended for e in spec.entries)):
            if patience.over:
                raise Busy(f"cannot resize {key.model} on machine {key.machine}: CM is still at work on it for others")
            patience.pause()
        return spec

    def spec(self, key: Key) -> Spec:
        """The resspec as it is now."""
        sheet = self._read(key.machine)
        spec = sheet.spec(key.kind, key.model)
        if spec is None:
            known = ", ".join(f"{s.kind} {s.model}" for s in sheet.specs) or "none"
            raise Refused(f"machine {key.machine} takes no {key.kind} of model {key.model}; allowed are {known}")
        return spec

    def _add(self, key: Key, spec: Spec, wishes: Wishes) -> None:
        wishes = self._within_limit(key, spec, wishes)
        while wishes:
            try:
                self._ask(key, increase_body(spec, len(wishes)), f"attach {len(wishes)} x {key.model} to")
            except (Refused, Missing) as error:
                wishes = self._fewer(key, wishes, error)
                continue
            except Uncertain as error:
                if not self._noticed(key, spec, len(wishes)):
                    raise error from None
            break
        before = sorted(e.uid for e in spec.entries if e.device)
        for slot, wish in enumerate(wishes):
            wish.accept(handle(key, before=before, slot=slot, count=len(wishes)))
        self.await_added(key, frozenset(before), len(wishes), dict(enumerate(wishes)))

    def _within_limit(self, key: Key, spec: Spec, wishes: Wishes) -> Wishes:
        most = spec.size.maximum
        room = len(wishes) if most is None else max(most - spec.count, 0)
        for wish in wishes[room:]:
            wish.fail(Refused(
                f"machine {key.machine} has {spec.count} devices of model {key.model}; at most {most} are allowed "
                "(max_resspec_count)"
            ))
        return wishes[:room]

    def _fewer(self, key: Key, wishes: Wishes, error: FabricError) -> Wishes:
        """After a refusal of all: as many as are free, as CM takes all or nothing."""
        free = self._free(key)
        left = min(len(wishes) - 1, len(wishes) if free is None else free)
        if free is not None and free < len(wishes):
            error = Refused(error.message, exhausted=True, code=error.code, detail=error.detail)
        for wish in wishes[left:]:
            wish.fail(error)
        return wishes[:left]

    def _ask(self, key: Key, body: t.Any, what: str) -> None:
        call = Call(
            "POST", self._path(key.machine), f"{what} machine {key.machine}", body=body, effect=True, reads=False
        )
        self._post(call)

    def _noticed(self, key: Key, spec: Spec, number: int) -> bool:
        """Whether a request without a reply shows in the document: as a higher count, or as devices."""
        patience = Patience(min(polling.NOTICE_SECONDS, self._timeout))
        while not patience.over:
            now = tolerant(lambda: self.spec(key))
            if now and (now.count >= spec.count + number or len(now.entries) > len(spec.entries)):
                return True
            patience.pause()
        return False

    def await_added(self, key: Key, before: frozenset[str], count: int, waiting: dict[int, Wish[t.Any]]) -> None:
        """Settle the wishes by their slots among the devices that were not there ``before``."""
        patience, notice = Patience(self._timeout), Patience(min(polling.NOTICE_SECONDS, self._timeout))
        slots: tuple[str, ...] = ()
        while waiting and not patience.over:
            if spec := tolerant(lambda: self.spec(key)):
                slots = slots or slots_of(spec, before, count, few=notice.over)
                for slot in [s for s in waiting if s < len(slots)]:
                    entry = spec.entry(slots[slot])
                    if entry is None or entry.ended:
                        settle_added(waiting.pop(slot), key, entry)
                if slots and not any(s < len(slots) for s in waiting):
                    break
            if waiting:
                patience.pause()
        for wish in waiting.values():
            wish.fail(not_done(key, "attached", self._timeout))

    def _remove(self, key: Key, spec: Spec, wishes: Wishes) -> None:
        if any((e := spec.entry(str(w.what))) and not e.ended for w in wishes):
            spec = self.quiet(key, rest=True)
        there = [w for w in wishes if spec.entry(str(w.what))]
        for wish in wishes:
            if wish not in there:
                wish.fulfil()
        uids = list(dict.fromkeys(str(w.what) for w in there))
        if uids:
            self._remove_listed(key, spec, uids, there)

    def _remove_listed(self, key: Key, spec: Spec, uids: list[str], there: Wishes) -> None:
        try:
            self._ask(key, remove_body(spec, uids), f"detach {', '.join(uids)} from")
        except (Refused, Missing) as error:
            self._one_by_one(key, there, error)
            return
        except Uncertain as error:
            if not self._left(key, uids):
                raise error from None
        for wish in there:
            wish.accept(handle(key, device=str(wish.what)))
        self.await_removed(key, there, spec)

    def _one_by_one(self, key: Key, wishes: Wishes, error: FabricError) -> None:
        """After a refusal of all: each for itself, so that only the one that cannot leave stays."""
        if len({w.what for w in wishes}) == 1:
            if isinstance(error, Missing) and self._is_leaving(key, [str(wishes[0].what)]):
                self.await_removed(key, wishes)
                return
            for wish in wishes:
                wish.fail(error)
            return
        for wish in wishes:
            self._remove(key, self.quiet(key), [wish])

    def _is_leaving(self, key: Key, uids: Sequence[str]) -> bool:
        """Whether the document shows that one of them is leaving or has left, whatever a reply said."""
        now = tolerant(lambda: self.spec(key))
        return now is not None and any((e := now.entry(uid)) is None or e.leaving for uid in uids)

    def _left(self, key: Key, uids: Sequence[str]) -> bool:
        """Whether a removal without a reply shows in the document."""
        patience = Patience(min(polling.NOTICE_SECONDS, self._timeout))
        while not patience.over:
            if self._is_leaving(key, uids):
                return True
            patience.pause()
        return False

    def await_removed(self, key: Key, wishes: Wishes, asked: Spec | None = None) -> None:
        """Settle the wishes. ``asked``: the document before the request, in which a failure is an old one."""
        patience, notice = Patience(self._timeout), Patience(min(polling.NOTICE_SECONDS, self._timeout))
        while True:
            if spec := tolerant(lambda: self.spec(key)):
                for wish in wishes:
                    entry = spec.entry(str(wish.what))
                    old = asked is not None and entry == asked.entry(str(wish.what)) and not notice.over
                    if entry is None:
                        wish.fulfil()
                    elif entry.status == REMOVE_FAILED and not old:
                        wish.fail(stuck(key, entry))
            if patience.over or all(w.settled.is_set() for w in wishes):
                break
            patience.pause()
        for wish in wishes:
            wish.fail(not_done(key, "detached", self._timeout))
