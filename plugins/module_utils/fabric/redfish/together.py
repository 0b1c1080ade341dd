# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several operations of one call: their handles are told once, when each was accepted or is settled without one."""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Callable

from ..batches import HANDLES
from ..types import Started

V = t.TypeVar("V")


class Together:
    """``count`` operations; ``started`` hears of all of them at once."""

    def __init__(self, count: int, started: Started | None) -> None:
        self._started = started
        self._lock = threading.Lock()
        self._open = set(range(count))
        self._handles: dict[int, str] = {}

    @property
    def handles(self) -> str | None:
        """What was accepted, as one text."""
        return HANDLES.join(self._handles[n] for n in sorted(self._handles)) or None

    def run(self, number: int, work: Callable[[Started], V]) -> V:
        """Carry out one operation; ``work`` says when it was accepted."""
        try:
            return work(lambda handle: self._accept(number, handle))
        finally:
            self._accept(number, None)

    def _accept(self, number: int, handle: str | None) -> None:
        with self._lock:
            if number not in self._open:
                return
            self._open.discard(number)
            if handle is not None:
                self._handles[number] = handle
            ready = not self._open and bool(self._handles)
        if ready and self._started is not None:
            self._started(self.handles or "")
