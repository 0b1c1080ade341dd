# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every role is played by a molecule scenario, which tries check mode, idempotence and removal."""

from __future__ import annotations

import re

import pytest
import yaml

from ansible_collections.composable.infra.tests.unit.house.files import (
    ROLES,
    ROOT,
)

FOLDER = ROOT / "extensions" / "molecule"
# molecule itself wants one named default, which reads playbooks and plays no role
SCENARIOS = sorted({path.parent.name for path in FOLDER.glob("*/molecule.yml")} - {"default"})
ROLE = re.compile(r"composable\.infra\.(\w+)$", re.M)
# what brings and what takes away; the other books only look, or stand in for others
BOOKS = ("converge.yml", "remove.yml", "side_effect.yml")


def played(scenario: str) -> set[str]:
    """Roles that a scenario is about."""
    books = [FOLDER / scenario / name for name in BOOKS]
    return {name for book in books if book.is_file() for name in ROLE.findall(book.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("role", ROLES)
def test_a_scenario_plays_the_role(role: str) -> None:
    assert [name for name in SCENARIOS if role in played(name)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_tries_check_mode_before_it_converges_twice_and_removes_first_and_last(scenario: str) -> None:
    settings = yaml.safe_load((FOLDER / scenario / "molecule.yml").read_text(encoding="utf-8"))
    steps = settings["scenario"]["test_sequence"]
    order = [step for step in steps if step in ("check", "converge", "idempotence", "verify")]
    assert order == ["check", "converge", "idempotence", "verify"]
    # Molecule notes in HOME that hosts are prepared, until `destroy`. An interrupted run does not come to the last one.
    acting = [step for step in steps if step != "syntax"]
    assert acting[0] == acting[-1] == "destroy"
