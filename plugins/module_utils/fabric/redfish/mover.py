# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carrying out a change: read, ask, wait, and look again, so that no lost reply makes a second device or loses one."""

from __future__ import annotations

import functools
import random
import time
import typing as t
from collections.abc import Sequence
from dataclasses import replace

from ..batches import Batches, Take, Wish
from ..config import FabricConfig
from ..errors import Busy, Changed, FabricError, Missing, Refused, Uncertain
from ..polling import NOTICE_SECONDS, Patience, tolerant
from ..session import Session
from ..types import Started
from ..verdicts import Call
from .change import Ask, Change, Dialect, Scene
from .dialects import dialect_for
from .service import Service
from .tasks import Monitor, handle_of

# How often a precondition may fail, or a harmless request be repeated, before the caller must decide.
TRIES: t.Final = 8
PAUSE: t.Final = 0.05

Wishes = Sequence[Wish[Change]]


class Mover:
    """Moves units. Thread-safe; changes of one list go together, all others at the same time."""

    def __init__(self, session: Session, service: Service, config: FabricConfig) -> None:
        self._session = session
        self._service = service
        self._seconds = config.attach_timeout
        self._monitor = Monitor(session)
        self._batches: Batches[Change] = Batches(self._work)

    def move(self, change: Change, started: Started | None = None) -> str | None:
        """Return, with the operation's handle, when the change is seen to be done.

        Raises Changed when somebody else has the unit, and FabricError.
        """
        dialect = dialect_for(change)
        if dialect is None:
            raise Refused(f"cannot {purpose(change)}: the CDI Manager offers no way to do so for this pair")
        wish = self._batches.run((dialect, dialect.lane(change)), [change], started)[0]
        if wish.error is not None:
            raise wish.error
        return wish.handle

    def wait(self, handle: str) -> None:
        """Wait for an operation that another process began."""
        self._monitor.wait(handle, f"wait for operation {handle}", self._seconds)

    def _work(self, key: tuple[Dialect, str], take: Take[Change]) -> None:
        self._carry(key[0], take())

    def _carry(self, dialect: Dialect, wishes: Wishes) -> None:
        """Settle every wish, or raise what the others ended with."""
        error: FabricError | None = None
        for attempt in range(TRIES):
            scene = self._read(dialect, wishes, error)
            wishes = _open(dialect, scene, wishes, asked=isinstance(error, Uncertain))
            if not wishes:
                return
            try:
                self._once(dialect, scene, wishes, error)
            except (Changed, Uncertain) as failure:
                error = failure
            except (Refused, Missing, Busy) as failure:
                self._one_by_one(dialect, wishes, failure)
                return
            if not dialect.swaps and isinstance(error, Uncertain):
                continue
            time.sleep(PAUSE * random.uniform(1.0, 2.0 + attempt))
        raise error or AssertionError("the last attempt settles or raises")

    def _once(self, dialect: Dialect, scene: Scene, wishes: Wishes, error: FabricError | None) -> None:
        """One attempt. After a lost reply only what cannot take effect twice is asked again."""
        if any(dialect.moving(scene, wish.what) for wish in wishes):
            self._confirm(dialect, wishes)
        elif isinstance(error, Uncertain) and not dialect.swaps:
            raise error
        else:
            self._ask(dialect, replace(scene, strict=isinstance(error, Changed)), wishes)
            self._confirm(dialect, wishes)

    def _read(self, dialect: Dialect, wishes: Wishes, error: FabricError | None) -> Scene:
        """While it may have happened, not being able to look leaves it so."""
        try:
            return dialect.read(self._service, [wish.what for wish in wishes])
        except FabricError:
            if isinstance(error, Uncertain):
                raise error from None
            raise

    def _ask(self, dialect: Dialect, scene: Scene, wishes: Wishes) -> None:
        changes = [wish.what for wish in wishes]
        ask, words = dialect.ask(scene, changes), "; ".join(map(purpose, changes))
        answer = self._session.exchange(_call(ask, words, self._seconds))
        handle = handle_of(answer)
        if handle is None:
            return
        for wish in wishes:
            wish.accept(handle)
        try:
            self._monitor.wait(handle, words, self._seconds)
        except Missing:
            # The service forgot the operation, for instance by a restart: what it did is still to be seen.
            return

    def _confirm(self, dialect: Dialect, wishes: Wishes) -> None:
        """A service may say done before it shows it."""
        patience, notice = Patience(self._seconds), Patience(NOTICE_SECONDS)
        while True:
            changes = [wish.what for wish in wishes]
            scene = tolerant(functools.partial(dialect.read, self._service, changes))
            if scene is not None:
                self._give_back(dialect, scene, wishes)
                wishes = [wish for wish in wishes if not _settled(dialect, scene, wish)]
            if not wishes:
                return
            moving = scene is None or any(dialect.moving(scene, wish.what) for wish in wishes)
            if patience.over or (notice.over and not moving):
                words = "; ".join(purpose(wish.what) for wish in wishes)
                raise Uncertain(f"cannot {words}: the CDI Manager took the request, but does not show it as done")
            patience.pause()

    def _give_back(self, dialect: Dialect, scene: Scene, wishes: Wishes) -> None:
        """Two machines got one unit at the same moment: the later one returns it."""
        for wish in wishes:
            change = wish.what
            if change.attach and dialect.has(scene, change) and dialect.taken(scene, change):
                self._ask(dialect, scene, [Wish(replace(change, attach=False))])
                wish.fail(_lost(change))

    def _one_by_one(self, dialect: Dialect, wishes: Wishes, failure: FabricError) -> None:
        """A refusal of several says nothing about each; a refusal of one may mean that it was just taken."""
        if len(wishes) > 1:
            for wish in wishes:
                try:
                    self._carry(dialect, [wish])
                except FabricError as error:
                    wish.fail(error)
            return
        scene = dialect.read(self._service, [wishes[0].what])
        if _open(dialect, scene, wishes, asked=False):
            wishes[0].fail(failure)


def purpose(change: Change) -> str:
    """Completes "cannot …"."""
    verb, side = ("attach", "to") if change.attach else ("detach", "from")
    return f"{verb} {change.unit.traits.kind} {change.unit.uid} {side} machine {change.host.uid}"


def _call(ask: Ask, words: str, seconds: float) -> Call:
    return Call(
        ask.method, ask.path, words, body=ask.body, timeout=seconds, effect=True, reads=False, headers=ask.headers
    )


def _settled(dialect: Dialect, scene: Scene, wish: Wish[Change]) -> bool:
    """Whether a wish has its outcome, or gets it now because what it wants is so."""
    done = dialect.has(scene, wish.what) is wish.what.attach and not dialect.moving(scene, wish.what)
    if done and not wish.settled.is_set():
        wish.fulfil()
    return wish.settled.is_set()


def _open(dialect: Dialect, scene: Scene, wishes: Wishes, asked: bool) -> list[Wish[Change]]:
    """Wishes that are still to be asked for. ``asked``: the reply was lost, so what moves may be ours."""
    found = []
    for wish in wishes:
        if _settled(dialect, scene, wish):
            continue
        if wish.what.attach and dialect.taken(scene, wish.what) and not (asked and dialect.moving(scene, wish.what)):
            wish.fail(_lost(wish.what))
        else:
            found.append(wish)
    return found


def _lost(change: Change) -> Changed:
    return Changed(f"cannot {purpose(change)}: another machine has it, or it is no longer offered")
