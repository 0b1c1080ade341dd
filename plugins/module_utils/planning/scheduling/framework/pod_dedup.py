# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods on nodes without their raw objects. There are tens of thousands, and most are copies of a
few.
"""

from __future__ import annotations

import sys
import typing as t
from collections.abc import Mapping
from dataclasses import replace

from ..snapshot import Json
from .pod_info import PodInfo

V = t.TypeVar("V")
MOST = 1000
_NO_RAW: t.Final[Json] = {}


class PodDedup:
    """Keeps equal values of pods once to save memory. Many values are forgotten."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, t.Any], ...], dict[str, t.Any]] = {}

    def placed(self, pod: PodInfo) -> PodInfo:
        """Return the pod without its raw object."""
        return replace(pod, raw=_NO_RAW, namespace=sys.intern(pod.namespace), requests=self._once(pod.requests),
                       labels=self._once(pod.labels))

    def _once(self, values: Mapping[str, V]) -> dict[str, V]:
        if len(self._known) >= MOST:
            self._known = {}
        return self._known.setdefault(tuple(values.items()), {**values})

    def amounts(self, offered: Mapping[str, V]) -> dict[str, V]:
        """Return the offered amounts of a node. Most nodes offer the same as another node."""
        return self._once(offered)
