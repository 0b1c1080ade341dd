# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Promises about every source file that no single tool holds: licence, purpose, size, and no gate told to look away."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.unit.house.files import ROOT, files, python_files, text

LICENCE = "# SPDX-License-Identifier: GPL-3.0-or-later"
LOOK_AWAY = re.compile(r"# ?(noqa|nosec|type: ?ignore|mypy: |pylint: ?disable|ruff: ?noqa|yamllint disable)\b", re.I)
# A docstring after comments and blank lines. Most files have one, and a search is faster than a parse.
DOCSTRING = re.compile(r'(?:[ \t]*(?:#.*)?\n)*"""\s*[^\s"]')
EXAMPLES = Path("tests/unit/house/test_sources.py")


def written(paths: list[Path]) -> list[Path]:
    """The files that are not empty."""
    return [path for path in paths if text(path).strip()]


def test_python_begins_with_the_licence() -> None:
    assert [path for path in written(python_files()) if LICENCE not in text(path).splitlines()[:5]] == []


def test_python_says_why_it_exists() -> None:
    assert [path for path in written(python_files()) if not purpose(text(path))] == []


@pytest.mark.parametrize(("source", "expected"), [
    ('# a comment\n\n"""Why."""\nx = 1\n', True), ('"""\nWhy.\n"""\n', True), ("'Why.'\n", True),
    ('DOCUMENTATION = """a: b"""\n', True), ('# "\nx = """Why."""\n', False), ("x = 1\n", False), ('""" """\n', False)])
def test_the_purpose_of_a_file(source: str, expected: bool) -> None:
    assert purpose(source) == expected


def purpose(source: str) -> bool:
    """Whether a file has a docstring, or what Ansible's plugins have in its place."""
    if DOCSTRING.match(source):
        return True
    tree = ast.parse(source)
    names = {target.id for node in tree.body if isinstance(node, ast.Assign)
             for target in node.targets if isinstance(target, ast.Name)}
    return bool(ast.get_docstring(tree)) or "DOCUMENTATION" in names


def test_no_gate_is_told_to_look_away() -> None:
    paths = [path for path in files(".py", ".yml", ".yaml", ".toml", ".sh") if path != EXAMPLES]
    assert [f"{path}: {line}" for path in paths for line in text(path).splitlines() if LOOK_AWAY.search(line)] == []


@pytest.mark.parametrize("line", ["import x  # noqa: E402", "x = 1  # type: ignore[misc]", "# pylint: disable=all",
                                  "# mypy: disallow-any=false", "a: b  #noqa"])
def test_the_search_for_it_finds(line: str) -> None:
    assert LOOK_AWAY.search(line)


def test_ansible_test_ignores_nothing() -> None:
    ignores = (ROOT / "tests" / "sanity").glob("ignore-*.txt")
    assert [path.name for path in ignores if path.read_text(encoding="utf-8").strip()] == []


def test_ansible_lint_skips_nothing() -> None:
    settings = yaml.safe_load(text(Path(".ansible-lint")))
    assert settings["profile"] == "production"
    assert not {"skip_list", "warn_list", "exclude_paths", "mock_modules"} & set(settings)
    assert not (ROOT / ".ansible-lint-ignore").exists()
