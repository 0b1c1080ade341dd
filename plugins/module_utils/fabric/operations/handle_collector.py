# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handles of several operations of one call, passed on together when none is open."""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Callable

from ..api import Started

V = t.TypeVar("V")


class HandleCollector:
    """Collects the handles of ``count`` operations and passes them to ``started`` once."""

    def __init__(self, count: int, started: Started | None) -> None:
        self._started = started
        self._lock = threading.Lock()
        self._open = set(range(count))
        self._handles: dict[int, tuple[str, ...]] = {}

    @property
    def handles(self) -> tuple[str, ...]:
        """The handles of accepted operations, in the order of the operations."""
        return tuple(handle for number in sorted(self._handles) for handle in self._handles[number])

    def run(self, number: int, work: Callable[[Started], V]) -> V:
        """Run one operation. ``work`` reports when it was accepted."""
        try:
            return work(lambda handles: self._accept(number, handles))
        finally:
            self._accept(number, ())

    def _accept(self, number: int, handles: tuple[str, ...]) -> None:
        with self._lock:
            if number not in self._open:
                return
            self._open.discard(number)
            if handles:
                self._handles[number] = handles
            ready = not self._open and bool(self._handles)
        if ready and self._started is not None:
            self._started(self.handles)
