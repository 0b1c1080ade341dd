# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whoever has lost leadership asks and writes nothing more: every request that changes something is checked here last.

A process may be frozen at any point and go on long after another has taken over. A Lease ends by the clock, so the
check right before a request is enough; what was sent already the successor finds by its intent.
"""

from __future__ import annotations

from collections.abc import Callable

from ...fabric.errors import Withdrawn
from ...kube.errors import NotLeading

LOST = "this process no longer leads"


class Fence:
    """Open until ``require`` says by what leadership is known. Thread-safe."""

    def __init__(self) -> None:
        self._held: Callable[[], bool] | None = None

    def require(self, held: Callable[[], bool]) -> None:
        """From now on only what is asked while ``held()`` is True goes out."""
        self._held = held

    @property
    def required(self) -> bool:
        """Whether it is known by what leadership is known."""
        return self._held is not None

    @property
    def open(self) -> bool:
        """Whether this process may ask and write now."""
        return self._held is None or self._held()

    def check_write(self) -> None:
        """Called before each write to the API server. Raises NotLeading."""
        if not self.open:
            raise NotLeading(LOST)

    def check_request(self) -> None:
        """Called before each request that changes the fabric. Raises Withdrawn."""
        if not self.open:
            raise Withdrawn(LOST)
