# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interface for the spans of a claim's timeline.

A claim is one trace. The trace ID is the claim's UID, as both have 16 bytes. So all processes that
work on a claim join one trace without exchanging messages. Modules and the rulebook send no traces.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping


class Tracer(t.Protocol):
    """Takes ended spans from any thread, without waiting."""

    @property
    def enabled(self) -> bool:
        """Return whether spans are wanted. If not, skip work that only spans need."""

    @property
    def dropped(self) -> int:
        """Return how many spans could not be sent."""

    def span(self, claim: str, name: str, began: float, ended: float, attributes: Mapping[str, str | int | float],
             error: str = "") -> None:
        """Take a step of the claim with this UID. Times are in seconds since the epoch.

        ``error`` says why the step failed.
        """

    def root(self, claim: str, name: str, began: float, ended: float, attributes: Mapping[str, str | int | float],
             error: str = "") -> None:
        """Take the whole timeline of the claim with this UID, which contains all steps."""


class NoTracer:
    """Ignores all spans."""

    enabled, dropped = False, 0

    def span(self, claim: str, name: str, began: float, ended: float, attributes: Mapping[str, str | int | float],
             error: str = "") -> None:
        """Do nothing."""

    def root(self, claim: str, name: str, began: float, ended: float, attributes: Mapping[str, str | int | float],
             error: str = "") -> None:
        """Do nothing."""
