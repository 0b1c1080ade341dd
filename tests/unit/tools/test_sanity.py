# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make sanity` judges each file that ansible-core loads, and its tests are all on but in the quick run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tools.gates import sanity, workspace

LOADED = ("plugins", "extensions", "roles", "playbooks", "meta", "changelogs", "inventories")


def left_out(path: str) -> bool:
    """Return whether ansible-test excludes the file. It compares the file and its folders."""
    names = [path, *(f"{folder.as_posix()}/" for folder in Path(path).parents)]
    return any(re.match(f"^{pattern}$", name) for pattern in sanity.LEFT_OUT for name in names)


@pytest.fixture(scope="module")
def tracked() -> set[str]:
    """All files of the checkout."""
    return workspace.known_files()


def test_each_file_that_is_loaded_is_judged(tracked: set[str]) -> None:
    loaded = {name for name in tracked if name.partition("/")[0] in LOADED}
    assert sum(name.endswith(".py") for name in loaded) > 300
    assert {"extensions/eda/plugins/event_source/claims.py", "meta/runtime.yml"} <= loaded
    assert {name for name in loaded if left_out(name)} == set()


def test_files_at_the_top_are_judged(tracked: set[str]) -> None:
    assert [name for name in tracked if "/" not in name and left_out(name)] == []


def test_what_is_left_out_is_what_ruff_and_mypy_judge(tracked: set[str]) -> None:
    folders = {name.partition("/")[0] for name in tracked if left_out(name)}
    assert folders == {"controller", "drivers", "emulator", "examples", "lab", "tools", "tests"}


@pytest.mark.parametrize(("path", "expected"), [
    ("tests/unit/tools/test_sanity.py", True), ("tests/integration/conftest.py", True),
    ("tests/integration/targets/device/tasks/main.yml", False),
    ("tests/sanity/ignore-2.19.txt", False)])
def test_tests_that_ansible_test_runs_itself_are_judged(path: str, expected: bool) -> None:
    assert left_out(path) == expected


@pytest.mark.parametrize(("arguments", "expected"), [
    ((), sanity.excluded()), (("--test", "pylint"), [*sanity.excluded(), "--test", "pylint"]),
    (("--all",), [*sanity.excluded(sanity.GENERATED)]),
    (("--all", "--test", "pylint"), [*sanity.excluded(sanity.GENERATED), "--test", "pylint"]),
    (("--quick",), [*sanity.excluded(), "--skip-test", "import", "--skip-test", "pylint"])])
def test_all_is_the_whole_checkout_but_for_what_is_generated(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...],
        expected: list[str]) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_more: object) -> int:
        commands.append(command)
        return 0

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CORE", raising=False)
    monkeypatch.setattr(sanity, "prepare", lambda home: None)
    monkeypatch.setattr(sanity, "sources", lambda: tmp_path)
    monkeypatch.setattr(sanity, "run", run)
    monkeypatch.setattr(sys, "argv", ["sanity", *arguments])
    assert sanity.main() == 0
    (command,) = commands
    assert command[1:3] == ["sanity", "--python"]
    assert command[6:] == expected
    assert ("--skip-test" in command) == (arguments == ("--quick",))
