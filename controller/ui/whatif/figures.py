# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of a replay for people, with durations in seconds, minutes or hours."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.figures import FIGURES, Spread

# The unit, its seconds, and the median below which it is used.
_UNITS: t.Final = (("s", 1.0, 60.0), ("min", 60.0, 5400.0), ("h", 3600.0, float("inf")))
_SECONDS: t.Final = ", s"
# Words of the page that replace less plain words of the module.
_WORDS: t.Final = {"let_go": "pods released without devices at first",
                   "wait_p95": "wait, 95% of the pods", "wait_p99": "wait, 99% of the pods"}


def lasting(spread: Spread) -> str:
    """Return a duration as text, such as ``59 min (54 to 70)``. ``spread``: in seconds.

    Its median chooses the unit.
    """
    unit, size, _most = next(each for each in _UNITS if spread.median < each[2])
    low, median, high = (_rounded(value / size) for value in (spread.low, spread.median, spread.high))
    return f"{median} {unit}" if low == high else f"{median} {unit} ({low} to {high})"


def rows(one: Mapping[str, Spread], other: Mapping[str, Spread]) -> list[list[str]]:
    """Return a row for each figure, with its words, its value today and its value with the change.

    ``one``, ``other``: by the names of FIGURES.
    """
    found = []
    for name, said in FIGURES.items():
        tell = lasting if said.endswith(_SECONDS) else str
        found.append([_WORDS.get(name, said.removesuffix(_SECONDS)), tell(one[name]), tell(other[name])])
    return found


def _rounded(value: float) -> str:
    return f"{value:.0f}" if value >= 10.0 else f"{round(value, 1):g}"
