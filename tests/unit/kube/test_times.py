# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times are written as the API server accepts them and read back as they were."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.times import (
    format_micro_time,
    format_time,
    parse_time,
)


def test_forms() -> None:
    assert format_time(1_700_000_000.987) == "2023-11-14T22:13:20Z"
    assert format_micro_time(1_700_000_000.25) == "2023-11-14T22:13:20.250000Z"
    assert format_micro_time(1_700_000_000) == "2023-11-14T22:13:20.000000Z"


@pytest.mark.parametrize("moment", [0.0, 1_700_000_000.0, 1_700_000_000.123456])
def test_what_is_written_is_read(moment: float) -> None:
    assert parse_time(format_micro_time(moment)) == pytest.approx(moment, abs=1e-6)
    assert parse_time(format_time(moment)) == int(moment)


def test_zones() -> None:
    assert parse_time("2023-11-14T23:13:20+01:00") == 1_700_000_000
    assert parse_time("2023-11-14T22:13:20") == 1_700_000_000


@pytest.mark.parametrize("text", [None, "", "yesterday", "2023-99-01T00:00:00Z"])
def test_the_unreadable_is_zero(text: str | None) -> None:
    assert parse_time(text) == 0.0
