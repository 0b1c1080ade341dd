# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing that runs on localhost is escalated, whatever a configuration or a job template says; hosts' tasks are."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.unit.house.files import ROOT

Json = dict[str, t.Any]
BOOKS = sorted((ROOT / "playbooks").glob("*.yml"))
TASKS = sorted([*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("roles/*/handlers/*.yml"),
                *ROOT.glob("playbooks/tasks/*.yml")])
# what escalates by itself on the hosts
HOST_ROLES = {"composable.infra.node_prepare"}


def read(path: Path) -> list[Json]:
    return yaml.safe_load(path.read_text(encoding="utf-8")) or []


def flat(items: list[Json]) -> Iterator[Json]:
    for item in items:
        yield item
        for part in ("block", "rescue", "always"):
            yield from flat(item.get(part) or [])


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_plays_on_localhost_are_not_escalated(path: Path) -> None:
    for each in read(path):
        if each.get("hosts") == "localhost":
            assert each.get("become") is False, each["name"]


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_plays_on_hosts_only_apply_what_escalates_by_itself(path: Path) -> None:
    for each in read(path):
        if each.get("hosts", "localhost") != "localhost":
            used = {task["ansible.builtin.import_role"]["name"] for task in each["tasks"]}
            assert used <= HOST_ROLES, each["name"]


@pytest.mark.parametrize("path", TASKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_tasks_delegated_to_localhost_are_not_escalated(path: Path) -> None:
    for task in flat(read(path)):
        if task.get("delegate_to") == "localhost":
            assert task.get("become") is False, task["name"]


def test_there_are_such_tasks() -> None:
    delegated = [task for path in TASKS for task in flat(read(path)) if task.get("delegate_to") == "localhost"]
    assert len(delegated) >= 5


def test_handlers_of_the_hosts_are_escalated() -> None:
    handlers = read(ROOT / "roles" / "node_prepare" / "handlers" / "main.yml")
    assert [handler["name"] for handler in handlers if handler.get("become") is not True] == []
