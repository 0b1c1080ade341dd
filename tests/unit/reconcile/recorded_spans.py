# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tracer that a test can read."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """One span as it was given."""

    claim: str
    name: str
    began: float
    ended: float
    attributes: Mapping[str, t.Any]
    error: str
    root: bool


class RecordedSpans:
    """Takes all spans."""

    enabled, dropped = True, 0

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def span(self, claim: str, name: str, began: float, ended: float, attributes: Mapping[str, t.Any],
             error: str = "") -> None:
        self.spans.append(Span(claim, name, began, ended, attributes, error, root=False))

    def root(self, claim: str, name: str, began: float, ended: float, attributes: Mapping[str, t.Any],
             error: str = "") -> None:
        self.spans.append(Span(claim, name, began, ended, attributes, error, root=True))

    def names(self, claim: str) -> list[str]:
        """Names of the spans of a claim (its uid), in the order in which they ended."""
        return [span.name for span in self.spans if span.claim == claim]
