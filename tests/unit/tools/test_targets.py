# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The targets of `ansible-test integration`: which there are, and that each stops what it starts."""

from __future__ import annotations

import typing as t

import yaml

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

TARGETS = ROOT / "tests" / "integration" / "targets"
SETUP = "setup_emulator"


def document(name: str) -> t.Any:
    """A YAML file of a target."""
    return yaml.safe_load((TARGETS / name).read_text(encoding="utf-8"))


def users_of_the_emulator() -> set[str]:
    found = {path.parents[1].name for path in TARGETS.glob("*/meta/main.yml")}
    return {name for name in found if SETUP in document(f"{name}/meta/main.yml")["dependencies"]}


def test_each_fabric_module_has_a_target() -> None:
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text(encoding="utf-8"))
    assert set(runtime["action_groups"]["fabric"]) <= users_of_the_emulator()


def test_each_target_says_where_it_runs() -> None:
    aliases = {path.name: (path / "aliases").read_text().split() for path in TARGETS.iterdir()}
    assert aliases.pop(SETUP) == ["hidden"]
    assert set(map(tuple, aliases.values())) == {("context/controller", "gather_facts/no")}


def test_each_user_of_the_emulator_stops_it() -> None:
    assert len(users_of_the_emulator()) > 5
    for name in users_of_the_emulator():
        (block,) = document(f"{name}/tasks/main.yml")
        (last,) = block["always"]
        role = {"name": SETUP, "tasks_from": "stop"}
        assert last["ansible.builtin.include_role"] == role, name
