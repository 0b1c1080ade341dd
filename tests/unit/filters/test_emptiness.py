# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No task takes an API server that does not serve a kind for a cluster without such objects.

`kubernetes.core.k8s_info` answers an empty list then, with `api_found: false`. So what it registers is read by the
filter `composable.infra.found`, or the exception says why emptiness permits nothing.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

READER = "kubernetes.core.k8s_info"
PLACES = ("roles", "playbooks", "examples", "extensions/eda")
TEXTS = (".yml", ".yaml", ".j2")
# The first object of an empty list is an error by itself.
TOLD = re.compile(r"\[\d\] \| composable\.infra\.found\b|\[0\]\.")
# Why an empty list permits nothing, by the name that the task registers.
EXCEPTIONS = {
    "controllers_gate_kinds": "the filter reads the answers before and after it, and an error of theirs ends it",
    "detach_found": "its task fails where the list is empty",
    "detach_left": "its task waits until api_found, and what is named at the end is read by the filter",
    "gpu_operator_policy": "its task waits until the list is not empty",
    "move_claims": "its task waits until api_found, and otherwise the claims of before are named",
    "move_slices": "its task waits until api_found",
    "node_prepare_later_boot": "its task waits until the list is not empty",
    "report_waits": "who may not read it has fewer numbers in the report",
}


def readers(node: t.Any) -> Iterator[dict[str, t.Any]]:
    """Tasks that use the module, at any depth."""
    if isinstance(node, list):
        for item in node:
            yield from readers(item)
    elif isinstance(node, dict):
        if READER in node:
            yield node
        for key in ("tasks", "block", "rescue", "always", "pre_tasks", "post_tasks", "handlers"):
            yield from readers(node.get(key))


def trusting(register: str, text: str) -> list[str]:
    """Places of a text that take the list as it is."""
    used = re.finditer(rf"\b{register}\.res(?:ources|ults)\b(?P<rest>.*)", text)
    return [found.group() for found in used
            if not TOLD.match(found.group("rest")) and not text[:found.start()].endswith("unless_absent=")]


def sources(folder: Path) -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*")) if path.suffix in TEXTS}


def judged() -> list[tuple[str, str]]:
    """What each task registers, with its role or folder."""
    found: dict[tuple[str, str], None] = {}
    for place in PLACES:
        for path, text in sources(ROOT / place).items():
            scope = "/".join(path.relative_to(ROOT).parts[:2 if place == "roles" else 1])
            for task in readers(yaml.safe_load(text)) if READER in text and path.suffix != ".j2" else ():
                found[str(task.get("register", "")), scope] = None
    return sorted(found)


def test_there_are_tasks_to_judge() -> None:
    assert len(judged()) > 30


@pytest.mark.parametrize(("register", "scope"), judged())
def test_emptiness_is_told_from_silence(register: str, scope: str) -> None:
    if register in EXCEPTIONS or not register:
        return
    texts = sources(ROOT / scope)
    assert [f"{path.relative_to(ROOT)}: {place}" for path, text in texts.items()
            for place in trusting(register, text)] == []


def test_every_exception_is_still_one() -> None:
    assert set(EXCEPTIONS) <= {register for register, _scope in judged()}


@pytest.mark.parametrize(("text", "count"), [
    ("{{ x.resources | length == 0 }}", 1), ("x.results | map(attribute='resources') | flatten", 1),
    ("x.results[1].resources | list", 1), ("x.resources | default([])", 1), ("{{ x | composable.infra.found }}", 0),
    ("x.results[0] | composable.infra.found(unless_absent=y)", 0), ("found(unless_absent=x.results[1])", 0),
    ("x.resources[0].data", 0), ("xx.resources", 0)])
def test_gate_finds_what_takes_the_list_as_it_is(text: str, count: int) -> None:
    assert len(trusting("x", text)) == count
