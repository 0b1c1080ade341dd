# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make help` prints every target and every option, in at most 80 columns."""

from __future__ import annotations

import re
import subprocess

import pytest

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def printed() -> str:
    done = subprocess.run(["make", "--silent", "help"], cwd=ROOT, capture_output=True, text=True,
                          check=True)
    return done.stdout


def test_lines_fit_into_80_columns(printed: str) -> None:
    assert [line for line in printed.splitlines() if len(line) > 80] == []


def test_every_text_is_printed_whole(printed: str) -> None:
    texts = re.findall(r"^([a-z0-9-]+):.*?## (.*)$", MAKEFILE, re.MULTILINE)
    flat = " ".join(printed.split())
    assert len(texts) > 25
    assert [name for name, text in texts if f"{name} {text}" not in flat] == []


def test_every_option_is_named(printed: str) -> None:
    with_default = re.findall(r"^([A-Z_]+) \?=", MAKEFILE, re.MULTILINE)
    asked_for = re.findall(r"\$\(if \$\(([A-Z_]+)\)", MAKEFILE)
    options = {*with_default, *asked_for}
    assert {option for option in options if f"{option}=" not in printed} == set()
