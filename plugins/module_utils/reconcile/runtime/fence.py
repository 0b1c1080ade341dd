# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Block every request and write of a process that has lost leadership, by a last check.

A process may be frozen at any point and go on long after another has taken over. A Lease ends by
the clock, so a check right before each request is enough. The successor finds sent requests by
their intents.
"""

from __future__ import annotations

from collections.abc import Callable

from ...fabric.errors import Withdrawn
from ...kube.errors import NotLeading

LOST = "this process no longer leads"


class Fence:
    """Check of leadership. Open until ``require`` is called. Thread-safe."""

    def __init__(self) -> None:
        self._held: Callable[[], bool] | None = None

    def require(self, held: Callable[[], bool]) -> None:
        """Allow requests from now on only while ``held()`` is True."""
        self._held = held

    @property
    def required(self) -> bool:
        """Return whether ``require`` was called."""
        return self._held is not None

    @property
    def open(self) -> bool:
        """Return whether this process may send requests and write now."""
        return self._held is None or self._held()

    def check_write(self) -> None:
        """Raise NotLeading if not open. Called before each write to the API server."""
        if not self.open:
            raise NotLeading(LOST)

    def check_request(self) -> None:
        """Raise Withdrawn if not open. Called before each request that changes the fabric."""
        if not self.open:
            raise Withdrawn(LOST)
