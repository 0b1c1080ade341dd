# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each of the 54 cases that CoHDI's own tests show has one test here with its number."""

from __future__ import annotations

import re

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

CASES = range(1, 55)
TEST = re.compile(r"^def test_case_(\d{2})_\w+\(", re.MULTILINE)


def test_each_number_is_there_exactly_once() -> None:
    files = (ROOT / "tests" / "unit" / "cohdi_cases").glob("test_*.py")
    numbers = sorted(int(n) for file in files for n in TEST.findall(file.read_text(encoding="utf-8")))
    assert numbers == list(CASES)
