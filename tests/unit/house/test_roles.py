# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles say all their options, with the defaults that they have, and begin each with their own name."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.unit.house.files import (
    ROLES,
    ROOT,
)


def load(path: Path) -> dict[str, t.Any]:
    """A YAML file that may be absent."""
    return (yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path.is_file() else {}


def options(role: str) -> dict[str, t.Any]:
    """Options of the role's main entry."""
    found = load(ROOT / "roles" / role / "meta" / "argument_specs.yml")["argument_specs"]["main"].get("options") or {}
    return dict(found)


def test_there_are_roles() -> None:
    assert {"lab", "preflight", "verify"} <= set(ROLES)


@pytest.mark.parametrize("role", ROLES)
def test_every_default_is_an_option_and_says_the_same(role: str) -> None:
    defaults, told = load(ROOT / "roles" / role / "defaults" / "main.yml"), options(role)
    assert set(defaults) <= set(told)
    plain = {name: value for name, value in defaults.items() if "{{" not in str(value)}
    assert {name: told[name]["default"] for name in plain if "default" in told[name]} == {
        name: value for name, value in plain.items() if "default" in told[name]
    }


@pytest.mark.parametrize("role", [role for role in ROLES if f"{role}_kubeconfig" in options(role)])
def test_a_kubeconfig_is_a_path_or_a_dictionary_and_has_a_context(role: str) -> None:
    """As in kubernetes.core; one variable of the playbooks sets each."""
    assert options(role)[f"{role}_kubeconfig"]["type"] == "raw"
    assert options(role)[f"{role}_context"]["type"] == "str"
    defaults = load(ROOT / "roles" / role / "defaults" / "main.yml")
    for name in ("kubeconfig", "context"):
        assert f"composable_{name} | default(" in defaults[f"{role}_{name}"]


@pytest.mark.parametrize("role", ROLES)
def test_names_begin_with_the_role(role: str) -> None:
    assert [name for name in options(role) if not name.startswith(f"{role}_")] == []


@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_a_readme_that_names_it(role: str) -> None:
    assert f"composable.infra.{role}" in (ROOT / "roles" / role / "README.md").read_text(encoding="utf-8")
