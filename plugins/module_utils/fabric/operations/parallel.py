# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parallel calls with separate failures."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from ..errors import FabricError

MOST_AT_ONCE: t.Final = 64

K = t.TypeVar("K")
V = t.TypeVar("V")


def outcomes(work: Callable[[K], V], keys: Iterable[K]) -> list[V | FabricError]:
    """Return the result of ``work`` or its FabricError for each key, in order."""

    def attempt(key: K) -> V | FabricError:
        try:
            return work(key)
        except FabricError as error:
            return error

    todo = list(keys)
    if len(todo) < 2:
        return [attempt(key) for key in todo]
    with ThreadPoolExecutor(min(len(todo), MOST_AT_ONCE), thread_name_prefix="fabric-call") as pool:
        return list(pool.map(attempt, todo))
