# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looking again and again until an asynchronous manager is done: often at first, less often later, not for ever."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable

from ...net.backoff import Backoff
from ..errors import FabricError

LOOKS = Backoff(0.05, factor=1.5, longest=2.0)
# How long a manager may take to show in its documents what it has accepted.
NOTICE_SECONDS = 5.0

T = t.TypeVar("T")


class Patience:
    """Time that is left of ``seconds``, and the pauses between looks."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._looks = 0

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self._end

    @property
    def left(self) -> float:
        """Seconds that are left, 0 if none are."""
        return max(self._end - time.monotonic(), 0.0)

    def pause(self, at_least: float = 0.0) -> None:
        """Sleep until the next look; never beyond the end."""
        self._looks += 1
        time.sleep(max(min(LOOKS.delay(self._looks, at_least), self._end - time.monotonic()), 0.0))


def tolerant(look: Callable[[], T]) -> T | None:
    """What a look shows; None when it fails.

    After a manager has accepted something no failing look may pass for its outcome; a later look may see more.
    """
    try:
        return look()
    except FabricError:
        return None
