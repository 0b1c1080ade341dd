# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who takes the spans of a claim's way, and how a trace is named.

A claim is one trace. Its id is the claim's uid, which is 16 bytes as a trace id is, so the processes that work on a
claim join one trace without telling each other anything. Modules and the rulebook trace nothing.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping


class Tracer(t.Protocol):
    """Takes spans that are over, from any thread, and never waits."""

    @property
    def enabled(self) -> bool:
        """Whether anybody wants them: what is only for a span need not be found out otherwise."""

    @property
    def dropped(self) -> int:
        """How many spans could not be sent."""

    def span(self, claim: str, name: str, began: float, ended: float, attributes: Mapping[str, str | int | float],
             error: str = "") -> None:
        """One hop of the claim with this uid; times in seconds since the epoch. ``error``: why it failed."""

    def root(self, claim: str, name: str, began: float, ended: float, attributes: Mapping[str, str | int | float],
             error: str = "") -> None:
        """The whole way of the claim with this uid, of which all hops are parts."""


class NoTracer:
    """Spans that nobody wants."""

    enabled, dropped = False, 0

    def span(self, claim: str, name: str, began: float, ended: float, attributes: Mapping[str, str | int | float],
             error: str = "") -> None:
        """Nothing."""

    def root(self, claim: str, name: str, began: float, ended: float, attributes: Mapping[str, str | int | float],
             error: str = "") -> None:
        """Nothing."""
