# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of a namespace: a number of devices of each model, and attaches per minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ANY = "*"
"""Stands for every namespace or model without an own entry."""
MINUTE = 60.0
HIGHEST_PRIORITY = 1_000_000_000
"""The highest value of a user's PriorityClass. System pods get no higher priority here."""
Used = Mapping[tuple[str, str], int]
"""Number of devices by namespace and model."""


@dataclass(frozen=True, slots=True)
class Shares:
    """``quotas``: devices by namespace and model. ``attaches``: attaches per minute by namespace.

    A namespace or model without an entry has no limit.
    """

    quotas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    attaches: Mapping[str, int] = field(default_factory=dict)

    def quota(self, namespace: str, model: str) -> int | None:
        """Return how many devices of a model a namespace may have, None if there is no limit."""
        own = self.quotas.get(namespace, self.quotas.get(ANY, {}))
        return own.get(model, own.get(ANY))

    def over_quota(self, namespace: str, used: Used, more: Mapping[str, int]) -> str:
        """Return why a namespace may not have ``more`` devices by model besides ``used``.

        Return an empty text if it may.
        """
        for model, n in sorted(more.items()):
            quota = self.quota(namespace, model)
            if quota is not None and used.get((namespace, model), 0) + n > quota:
                has = used.get((namespace, model), 0)
                return f"namespace {namespace} has {has} of {quota} x {model} (namespace_quotas) and requests {n} more"
        return ""

    def attach_from(self, namespace: str, recent: tuple[float, ...], more: int, now: float) -> float:
        """Return when ``more`` devices may be attached for a namespace: ``now`` or later, in epoch
        seconds.

        ``recent``: when devices were attached for it in the last minute, in order. If ``more``
        exceeds the limit of a minute, all are attached together as soon as no attach of the last
        minute is left.
        """
        limit = self.attaches.get(namespace, self.attaches.get(ANY))
        recent = tuple(moment for moment in recent if now - moment < MINUTE)
        if limit is None or not more or not recent or len(recent) + more <= limit:
            return now
        too_many = min(len(recent), len(recent) + more - limit)
        return recent[too_many - 1] + MINUTE
