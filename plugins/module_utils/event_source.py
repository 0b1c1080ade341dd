# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Common parts of event sources: options, and events to a rulebook while watches run."""

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
    """Decides when an event is due. Times are on the monotonic clock."""

    def due(self, now: float) -> str:
        """Return why an event is due now, or an empty text."""

    def next_time(self) -> float:
        """Return the time at which an event is due without a change."""

    def event(self, reason: str, now: float) -> dict[str, t.Any]:
        """Return the event and record it, or an empty mapping if nothing is left to report."""


class Watching(t.Protocol):
    """A watch that runs beside the event loop."""

    def start(self) -> None:
        """Start the watch."""

    def stop(self) -> None:
        """Stop the watch."""


class Synced(t.Protocol):
    """A first list that may be complete."""

    def wait(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for the list. Return False if it did not come."""


def seconds(args: Mapping[str, t.Any], defaults: Mapping[str, float], others: Collection[str]) -> dict[str, float]:
    """Return the timing options in seconds, by default those of ``defaults``.

    ``others`` are the names of further options, apart from those of the connection. Raise
    ValueError with the option, its value and the allowed values.
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

    Raise ValueError with the option, its value and the allowed values.
    """
    return {name: _whole(name, args.get(name, default)) for name, default in defaults.items()}


def _whole(name: str, value: t.Any) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST):
        raise ValueError(f"{name}: {value!r} is not usable: must be a whole number from 1 to {MOST}")
    return int(text)


def connection(args: Mapping[str, t.Any], environ: Mapping[str, str]) -> Connection:
    """Connect by arguments, then kubernetes.core's variables, then the usual kubeconfig."""
    kubeconfig = args.get("kubeconfig") or environ.get("K8S_AUTH_KUBECONFIG", "").strip() or None
    context = args.get("context") or environ.get("K8S_AUTH_CONTEXT", "").strip() or None
    given = ConnectionOptions.of(args, {} if args.get("kubeconfig") else environ)
    return Connection.load(kubeconfig, context, given=given, environ=environ)


async def run(queue: asyncio.Queue[t.Any], telling: Telling, woken: asyncio.Event, watches: Sequence[Watching],
              lists: Sequence[Synced]) -> None:
    """Run the watches and emit the due events after all ``lists`` were read.

    End only when it is cancelled.
    """
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
    """Emit the due events. ``woken`` is set after every change, which may make an event due."""
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
