# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No role makes or removes a namespace but by the module that looks whose it is."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator

import pytest
import yaml

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

Json = dict[str, t.Any]
MODULE = "composable.infra.owned_namespace"
WITH_A_NAMESPACE = ["cohdi", "controllers", "gpu_operator", "monitoring", "nfd", "nvidia_dra_driver"]
READING = "kubernetes.core.k8s_info"


def tasks(role: str) -> Iterator[Json]:
    """Every task of a role, those of blocks too."""
    for path in sorted((ROOT / "roles" / role / "tasks").glob("*.yml")):
        yield from flat(yaml.safe_load(path.read_text(encoding="utf-8")) or [])


def flat(items: list[Json]) -> Iterator[Json]:
    for item in items:
        yield item
        for part in ("block", "rescue", "always"):
            yield from flat(item.get(part) or [])


def roles() -> list[str]:
    return sorted(path.parent.name for path in ROOT.glob("roles/*/tasks"))


@pytest.mark.parametrize("role", roles())
def test_nothing_else_makes_or_removes_one(role: str) -> None:
    for task in tasks(role):
        text = yaml.safe_dump({key: value for key, value in task.items() if key not in (MODULE, READING)})
        assert "create_namespace" not in text, task["name"]
        assert not re.search(r"kind: '?\"?Namespace\b|'kind': 'Namespace'", text), task["name"]
    held = [*ROOT.glob(f"roles/{role}/vars/*.yml"), *ROOT.glob(f"roles/{role}/templates/*.j2")]
    for path in held:
        assert not re.search(r"kind'?: '?Namespace\b", path.read_text(encoding="utf-8")), path.name


@pytest.mark.parametrize("role", WITH_A_NAMESPACE)
def test_each_that_needs_one_makes_it_and_takes_it_back(role: str) -> None:
    used = [task[MODULE] for task in tasks(role) if MODULE in task]
    assert {item.get("state", "present") for item in used} == {"present", "absent"}
    assert {item["name"] for item in used} == {f"{{{{ {role}_namespace }}}}"}
