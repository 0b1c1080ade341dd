# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each row of the page on compatibility, and of what went wrong once, names tests, and those tests are there."""

from __future__ import annotations

import re

import pytest

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

PAGE = (ROOT / "docs" / "contributors" / "compatibility.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.partition("## What we do not have")[0].splitlines()
        if line.startswith("| ") and not line.startswith(("| What |", "| Upstream |"))]
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?` \|$")
RELIABILITY = (ROOT / "docs" / "contributors" / "reliability.md").read_text(encoding="utf-8")
TABLES = RELIABILITY.partition("## What went wrong once")[2].partition("\n## ")[0].split("\n### ")[1:]
LINE = re.compile(r"^\| (\d+) \| (.+) \| (`tests/.+`) \|$", re.MULTILINE)
TESTS = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
NAMED = [(f"{table.splitlines()[0]} {number}", tests)
         for table in TABLES for number, _what, tests in LINE.findall(table)]


def test_there_are_rows() -> None:
    assert len(ROWS) > 30


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:50])
def test_row_is_held_by_a_test(row: str) -> None:
    found = TEST.search(row)
    assert found, "the row's last column names no test"
    source = (ROOT / found[1]).read_text(encoding="utf-8")
    assert f"def {found[2]}(" in source if found[2] else "def test_" in source


@pytest.mark.parametrize(("table", "count"), [*zip(TABLES, (15, 7), strict=True)], ids=lambda value: str(value)[:12])
def test_each_number_is_there_once(table: str, count: int) -> None:
    assert [int(number) for number, _what, _tests in LINE.findall(table)] == list(range(1, count + 1))


@pytest.mark.parametrize(("row", "tests"), NAMED, ids=[row for row, _tests in NAMED])
def test_row_is_held_by_tests(row: str, tests: str) -> None:
    found = TESTS.findall(tests)
    assert len(found) == tests.count("`") // 2, "each is a file and the name of a test"
    for path, name in found:
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{name}"
