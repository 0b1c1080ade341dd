# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RETURN of each module says what is in every mapping that it returns, so that `ansible-doc` shows it."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator

import pytest
import yaml

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

Json = dict[str, t.Any]
# Mappings whose keys are names that a cluster or a fabric gives, or depend on the facts.
OPEN: dict[str, set[str]] = {
    "claim_condition": {"devices.conditions"},
    "claim_info": {"claims.evidence"},
    "composability_request": {"request.metadata", "request.spec", "request.status"},
    "composability_request_info": {f"{kind}.{part}" for kind in ("requests", "resources")
                                   for part in ("metadata", "spec", "status")},
    "fabric_capture": {"objects"},
    "fabric_defragment": {"proposal.ask.node_labels"},
    "fabric_info": {"problems"},
    "fabric_plan": {"problems"},
    "fabric_whatif": {"room.ask.node_labels", *(f"simulated.{side}.{part}" for side in ("before", "after")
                                                for part in ("figures", "durations"))},
    "owned_namespace": {"namespace.metadata"},
    "scale": {"verdicts.evidence"},
    "stack_info": {"stack.gates", "stack.class_selectors", "stack.nodes.labels", "stack.nodes.allocatable"},
}


def returns_of(name: str) -> Json:
    """RETURN of a module."""
    source = (ROOT / "plugins" / "modules" / f"{name}.py").read_text(encoding="utf-8")
    found = re.search(r'^RETURN = r?"""(.*?)"""', source, re.MULTILINE | re.DOTALL)
    return yaml.safe_load(found[1]) if found else {}


MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("*.py"))


def values(options: Json, where: str = "") -> Iterator[tuple[str, Json]]:
    """Each value and those within it, by its path."""
    for name, value in options.items():
        yield where + name, value
        yield from values(value.get("contains") or {}, f"{where}{name}.")


def is_mapping(value: Json) -> bool:
    return "dict" in (value.get("type"), value.get("elements"))


@pytest.mark.parametrize("name", MODULES)
def test_each_mapping_says_what_it_contains(name: str) -> None:
    silent = {path for path, value in values(returns_of(name)) if is_mapping(value) and not value.get("contains")}
    assert silent == OPEN.get(name, set())


def unknown(sample: t.Any, value: Json, where: str) -> Iterator[str]:
    """Keys of a sample that are not among what the value contains."""
    contains: Json = value.get("contains") or {}
    for each in (sample if isinstance(sample, list) else [sample]) if contains else []:
        for key, inner in (each or {}).items():
            if key not in contains:
                yield f"{where}.{key}"
            else:
                yield from unknown(inner, contains[key], f"{where}.{key}")


@pytest.mark.parametrize("name", MODULES)
def test_samples_have_nothing_else(name: str) -> None:
    found = [key for path, value in values(returns_of(name)) for key in unknown(value.get("sample"), value, path)]
    assert found == []


@pytest.mark.parametrize("name", MODULES)
def test_each_value_has_a_description_and_a_type(name: str) -> None:
    assert [path for path, value in values(returns_of(name)) if not (value.get("description") and value.get("type"))
            ] == []


def test_a_key_that_is_not_told_is_found() -> None:
    value = {"type": "list", "elements": "dict", "contains": {"a": {"type": "dict", "contains": {"b": {}}}}}
    assert list(unknown([{"a": {"b": 1, "c": 2}, "d": 3}], value, "x")) == ["x.a.c", "x.d"]
