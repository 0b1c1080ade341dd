# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each row of the page on compatibility names a test, and that test is there."""

from __future__ import annotations

import re

import pytest

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.partition("## What we do not have")[0].splitlines()
        if line.startswith("| ") and not line.startswith(("| What |", "| Upstream |"))]
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?` \|$")


def test_there_are_rows() -> None:
    assert len(ROWS) > 30


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:50])
def test_row_is_held_by_a_test(row: str) -> None:
    found = TEST.search(row)
    assert found, "the row's last column names no test"
    source = (ROOT / found[1]).read_text(encoding="utf-8")
    assert f"def {found[2]}(" in source if found[2] else "def test_" in source
