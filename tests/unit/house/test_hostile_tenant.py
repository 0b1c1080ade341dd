# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fifty ways of a hostile tenant, each in one test with its number, and each on the page that lists them."""

from __future__ import annotations

import re

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

WAYS = [f"{number:02}" for number in range(1, 51)]
TEST = re.compile(r"^def test_way_(\d{2})_\w+\(", re.MULTILINE)
ROW = re.compile(r"^\| (\d+) \| [^|]+ \| [^|]+ \|$", re.MULTILINE)


def test_each_way_has_one_test() -> None:
    files = [*(ROOT / "tests/unit/hostile_tenant").glob("test_*.py"), ROOT / "tests/e2e/trouble/test_hostile_tenant.py",
             ROOT / "tests/e2e/real_nodes/test_hostile_pods.py"]
    assert sorted(n for file in files for n in TEST.findall(file.read_text(encoding="utf-8"))) == WAYS


def test_each_way_is_on_the_page() -> None:
    page = (ROOT / "docs/contributors/hostile-tenant.md").read_text(encoding="utf-8")
    assert [f"{int(number):02}" for number in ROW.findall(page)] == WAYS
