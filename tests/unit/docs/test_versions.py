# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's own version, and the versions of the collections that it needs, are the same wherever they stand."""

from __future__ import annotations

import json
import re
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tools.setup import collections

GALAXY: dict[str, t.Any] = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
OWN = str(GALAXY["version"])
NEEDS: dict[str, str] = GALAXY["dependencies"]
RANGE = re.compile(r">=(\d+(?:\.\d+)*),<(\d+(?:\.\d+)*)")
# where a version of ours stands: an archive, an image, a pinned installation, a plugin's first version
WRITTEN = re.compile(r"composable-infra-(\d+\.\d+\.\d+)\.tar\.gz|composable\.infra:==(\d+\.\d+\.\d+)"
                     r"|composable/(?:infra|controllers|decision):(\d+\.\d+\.\d+)|version_added: (\d+\.\d+\.\d+)")
EXAMPLES = ("README.md", "*.yml", "docs", "examples", "extensions", "roles", "plugins", "Containerfile", "Makefile")


def texts(*paths: str) -> dict[str, str]:
    """Text of the tracked files at these paths."""
    found = subprocess.run(["git", "ls-files", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in found.stdout.split()
            if Path(name).suffix in (".md", ".yml", ".py", "") and (ROOT / name).is_file()}


def number(version: str) -> tuple[int, ...]:
    """A version as numbers that can be compared."""
    return tuple(int(part) for part in version.split("."))


def test_every_version_of_ours_is_that_of_galaxy_yml() -> None:
    found = {(name, "".join(groups)) for name, text in texts(*EXAMPLES).items() for groups in WRITTEN.findall(text)}
    assert len(found) > 40
    assert {each for each in found if number(each[1]) > number(OWN)} == set()
    assert {each for each in found if each[1] != OWN and not each[0].startswith("plugins/")} == set()


def test_the_version_is_below_one_until_something_is_released() -> None:
    log = yaml.safe_load((ROOT / "changelogs" / "changelog.yaml").read_text(encoding="utf-8"))
    assert log["releases"] or number(OWN) < (1,)


@pytest.mark.parametrize("name", NEEDS)
def test_a_collection_that_is_needed_has_one_range_everywhere(name: str) -> None:
    wanted = RANGE.fullmatch(NEEDS[name])
    assert wanted, f"{name}: {NEEDS[name]} has no upper bound"
    places = {"execution-environment.yml": NEEDS[name], "decision-environment.yml": NEEDS[name]}
    assert {file: version_in(file, name) for file in places} == places
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"`{name}` {wanted[1]} or newer, below {wanted[2]}" in readme


@pytest.mark.parametrize("name", NEEDS)
def test_archives_in_the_docs_and_the_tests_collection_are_in_the_range(name: str) -> None:
    wanted = RANGE.fullmatch(NEEDS[name])
    assert wanted
    written = re.compile(rf"{name.replace('.', '-')}-(\d+\.\d+\.\d+)\.tar\.gz")
    shown = [version for text in texts("README.md", "docs").values() for version in written.findall(text)]
    manifest = collections.place(collections.home(), name) / "MANIFEST.json"
    tested = json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["version"]
    assert shown
    assert [each for each in (*shown, tested) if not number(wanted[1]) <= number(each) < number(wanted[2])] == []


def version_in(file: str, name: str) -> str:
    """Range of a collection in a definition of an image."""
    asked = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["dependencies"]["galaxy"]["collections"]
    return next(str(each["version"]) for each in asked if each["name"] == name)
