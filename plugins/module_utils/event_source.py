# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the event sources share: their options, and how they speak to a rulebook while watches run beside."""

from __future__ import annotations

import asyncio
import contextlib
import time
import typing as t
from collections.abc import Collection, Mapping, Sequence

from .kube.client.connection import Connection
from .kube.client.options import ALIASES, VARIABLES, ConnectionOptions

LONGEST = 86400
MOST = 10000
_OF_RULEBOOK = "eda_feedback_queue"


class Telling(t.Protocol):
    """Knows what there is to tell. Times are those of the monotonic clock."""

    def due(self, now: float) -> str:
        """Why an event is due now, empty when none is."""

    def next_time(self) -> float:
        """When an event is due without a change."""

    def event(self, reason: str, now: float) -> dict[str, t.Any]:
        """The event, and a note of what it told; empty when there is nothing to tell any more."""


class Watching(t.Protocol):
    """Runs beside the event loop."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""


class Synced(t.Protocol):
    """Whether a first list was read."""

    def wait(self, timeout: float) -> bool:
        """Wait for it; False when it did not come in these seconds."""


def seconds(args: Mapping[str, t.Any], defaults: Mapping[str, float], others: Collection[str]) -> dict[str, float]:
    """The timing options that have a default. ``others``: names of further options, besides those of the connection.

    Raises ValueError naming the option, its value and what is allowed.
    """
    found = {name: _number(name, args.get(name, default)) for name, default in defaults.items()}
    known = {*defaults, *others, *VARIABLES, *ALIASES, "kubeconfig", "context"}
    for name in args:
        if name not in known and name != _OF_RULEBOOK:
            raise ValueError(f"{name}: unknown option, known are {', '.join(sorted(known))}")
    return found


def _number(name: str, value: t.Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: {value!r} is not usable: must be a number of seconds") from None
    if not 0 <= found <= LONGEST:
        raise ValueError(f"{name}: {value!r} is not usable: must be from 0 to {LONGEST} seconds")
    return found


def counts(args: Mapping[str, t.Any], defaults: Mapping[str, int]) -> dict[str, int]:
    """Return the options that are whole numbers.

    Raises ValueError naming the option, its value and what is allowed.
    """
    return {name: _whole(name, args.get(name, default)) for name, default in defaults.items()}


def _whole(name: str, value: t.Any) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST):
        raise ValueError(f"{name}: {value!r} is not usable: must be a whole number from 1 to {MOST}")
    return int(text)


def connection(args: Mapping[str, t.Any], environ: Mapping[str, str]) -> Connection:
    """What is given wins over the variables of kubernetes.core, and these over the usual places of a kubeconfig."""
    kubeconfig = args.get("kubeconfig") or environ.get("K8S_AUTH_KUBECONFIG", "").strip() or None
    context = args.get("context") or environ.get("K8S_AUTH_CONTEXT", "").strip() or None
    given = ConnectionOptions.of(args, {} if args.get("kubeconfig") else environ)
    return Connection.load(kubeconfig, context, given=given, environ=environ)


async def run(queue: asyncio.Queue[t.Any], telling: Telling, woken: asyncio.Event, watches: Sequence[Watching],
              lists: Sequence[Synced]) -> None:
    """Run the watches and, once all ``lists`` were read, tell what is due. Ends only when it is cancelled."""
    for each in watches:
        each.start()
    try:
        for first in lists:
            while not await asyncio.to_thread(first.wait, 1.0):
                pass
        await _speak(queue, telling, woken)
    finally:
        for each in reversed(watches):
            each.stop()


async def _speak(queue: asyncio.Queue[t.Any], telling: Telling, woken: asyncio.Event) -> None:
    """Emit what is due. ``woken``: set after every change, in which another time may be due."""
    while True:
        reason = telling.due(time.monotonic())
        if reason:
            if event := telling.event(reason, time.monotonic()):
                await queue.put(event)
            continue
        woken.clear()
        if telling.due(time.monotonic()):
            continue
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(woken.wait(), max(0.0, telling.next_time() - time.monotonic()))
