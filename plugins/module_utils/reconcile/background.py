# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes that nobody waits for: work in threads, which is dropped when the engine ends."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class Background:
    """``threads`` pieces of work at a time; what they raise is lost, so they must handle it themselves."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def do(self, work: Callable[..., object], *args: object) -> None:
        """Some time soon; never after `close`."""
        try:
            self._threads.submit(work, *args)
        except RuntimeError:  # closed meanwhile
            return

    def close(self) -> None:
        """Drop what has not begun."""
        self._threads.shutdown(wait=False, cancel_futures=True)
