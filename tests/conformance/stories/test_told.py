# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of stories is about tests and managers that exist."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.registry import MANAGERS
from ansible_collections.composable.infra.tests.conformance.managers import ROWS
from ansible_collections.composable.infra.tests.conformance.stories import told

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("story", told.STORIES, ids=lambda story: story.title)
def test_each_story_has_its_test(story: told.Story) -> None:
    file, _, function = story.test.partition("::")
    (name,) = [name for name, value in inspect.getmembers(told) if value is story]
    text = (FOLDER / file).read_text(encoding="utf-8")
    assert f"def {function}(" in text
    assert f"rows({name}" in text


def test_what_is_set_apart_exists() -> None:
    assert {name for story in told.STORIES for name in story.apart} <= set(ROWS)


def test_each_story_is_tried_with_some_manager_and_each_manager_is_in_some() -> None:
    tried = {story.title: {ROWS[name].manager for name in ROWS if not story.why_not(name)} for story in told.STORIES}
    assert all(tried.values())
    assert set().union(*tried.values()) == set(MANAGERS)


def test_each_test_is_of_a_story() -> None:
    tests = {f"{path.name}::{line[4:].partition('(')[0]}" for path in FOLDER.glob("test_*.py") if path != Path(__file__)
             for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("def test_")}
    assert tests == {story.test for story in told.STORIES}
