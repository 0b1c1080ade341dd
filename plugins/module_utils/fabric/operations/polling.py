# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Polling of an asynchronous manager with growing pauses and a time limit."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable

from ...net.backoff import Backoff
from ..errors import FabricError

LOOKS = Backoff(0.05, factor=1.5, longest=2.0)
# Time in which a manager must show an accepted operation in its documents.
NOTICE_SECONDS = 5.0

T = t.TypeVar("T")


class Patience:
    """The remaining part of ``seconds``, and the pauses between polls."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._looks = 0

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self._end

    @property
    def left(self) -> float:
        """The remaining seconds, or 0."""
        return max(self._end - time.monotonic(), 0.0)

    def pause(self, at_least: float = 0.0) -> None:
        """Sleep until the next poll or the end."""
        self._looks += 1
        time.sleep(max(min(LOOKS.delay(self._looks, at_least), self._end - time.monotonic()), 0.0))


def tolerant(look: Callable[[], T]) -> T | None:
    """Return the result of ``look``, or None if it fails.

    Once a manager has accepted, a failed poll is not the outcome. A later poll may succeed.
    """
    try:
        return look()
    except FabricError:
        return None
