# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a namespace may take of the fabric: a number of devices of each model, and attaches per minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ANY = "*"
"""Stands for every namespace, or model, that is not named."""
MINUTE = 60.0
HIGHEST_PRIORITY = 1_000_000_000
"""The highest that a user's PriorityClass can have; pods of the system do not go before others here."""
Used = Mapping[tuple[str, str], int]
"""Devices by namespace and model."""


@dataclass(frozen=True, slots=True)
class Shares:
    """``quotas``: by namespace and model; ``attaches``: per minute, by namespace. What is not named is not bounded."""

    quotas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    attaches: Mapping[str, int] = field(default_factory=dict)

    def quota(self, namespace: str, model: str) -> int | None:
        """How many devices of a model a namespace may have; None for any number."""
        own = self.quotas.get(namespace, self.quotas.get(ANY, {}))
        return own.get(model, own.get(ANY))

    def over_quota(self, namespace: str, used: Used, more: Mapping[str, int]) -> str:
        """Why a namespace may not have ``more`` devices by model besides those ``used``; empty when it may."""
        for model, n in sorted(more.items()):
            quota = self.quota(namespace, model)
            if quota is not None and used.get((namespace, model), 0) + n > quota:
                has = used.get((namespace, model), 0)
                return f"namespace {namespace} has {has} of {quota} x {model} (namespace_quotas), {n} more are wanted"
        return ""

    def attach_from(self, namespace: str, recent: tuple[float, ...], more: int, now: float) -> float:
        """When ``more`` devices may be attached for a namespace, ``now`` or later, in seconds since the epoch.

        ``recent``: when devices were attached for it in the last minute, in order. More than the whole minute's are
        attached together once it is empty.
        """
        limit = self.attaches.get(namespace, self.attaches.get(ANY))
        recent = tuple(moment for moment in recent if now - moment < MINUTE)
        if limit is None or not more or not recent or len(recent) + more <= limit:
            return now
        too_many = min(len(recent), len(recent) + more - limit)
        return recent[too_many - 1] + MINUTE
