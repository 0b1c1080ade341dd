# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of a what-if as the page shows them: durations in units that people use."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.controller.ui.whatif.figures import lasting, rows
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.figures import FIGURES, Spread


@pytest.mark.parametrize(("spread", "text"), [
    (Spread(3559.46, 3244.41, 4212.98), "59 min (54 to 70)"),
    (Spread(2.83, 2.67, 161.41), "2.8 s (2.7 to 161)"),
    (Spread(45.2, 45.2, 45.2), "45 s"),
    (Spread(0.0, 0.0, 0.0), "0 s"),
    (Spread(9000.0, 7200.0, 14400.0), "2.5 h (2 to 4)"),
])
def test_duration_is_in_the_unit_of_its_median(spread: Spread, text: str) -> None:
    assert lasting(spread) == text


def test_every_figure_has_words_without_a_unit_of_seconds() -> None:
    one, other = (dict.fromkeys(FIGURES, Spread(value, value, value)) for value in (100.0, 200.0))
    told = rows(one, other)
    assert len(told) == len(FIGURES)
    assert [row for row in told if row[0].endswith(", s") or "let go" in row[0] or "95 %" in row[0]] == []
    assert ["longest wait", "1.7 min", "3.3 min"] in told
    assert ["pods that came", "100", "200"] in told
