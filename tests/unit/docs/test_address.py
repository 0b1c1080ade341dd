# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The owner says once where the project is published, and every file that names the place follows."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tools import address

NEW = "https://git.example.org/somebody/composable.infra"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with copies of the files that name the address."""
    for name in address.FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_every_file_that_names_the_address_is_listed() -> None:
    found = subprocess.run(["git", "grep", "--untracked", "-lF", address.current()], cwd=ROOT, capture_output=True,
                           text=True, check=False).stdout.split()
    assert set(found) == set(address.FILES)


def test_one_command_changes_all_of_them_and_a_second_one_nothing(checkout: Path) -> None:
    old = address.current(checkout)
    assert set(address.change(f"{NEW}.git/", checkout)) == set(address.FILES)
    assert not [name for name in address.FILES if old in (checkout / name).read_text(encoding="utf-8")]
    assert address.current(checkout) == NEW
    assert address.change(NEW, checkout) == []


def test_all_addresses_of_galaxy_yml_are_below_it(checkout: Path) -> None:
    address.change(NEW, checkout)
    said = yaml.safe_load((checkout / "galaxy.yml").read_text(encoding="utf-8"))
    assert {name: said[name].removeprefix(NEW) for name in ("repository", "homepage", "documentation", "issues")} == {
        "repository": "", "homepage": "", "documentation": "/tree/main/docs", "issues": "/issues"}


@pytest.mark.parametrize("url", ["http://a.example/x", "https://a.example", "a.example/x", "https://u:p@a.example/x",
                                 "https://a.example/x?y", "https://a.example/x y", ""])
def test_what_is_no_address_is_refused(checkout: Path, url: str) -> None:
    before = address.current(checkout)
    with pytest.raises(address.BadAddress, match="Give the address of the repository"):
        address.change(url, checkout)
    assert address.current(checkout) == before


def test_a_placeholder_is_said_to_be_one_until_it_is_replaced(checkout: Path) -> None:
    readme = checkout / "README.md"
    assert address.is_placeholder(address.current(checkout)) is (address.NOTE in readme.read_text(encoding="utf-8"))
    address.change("https://other.example.com/project", checkout)
    assert address.NOTE in readme.read_text(encoding="utf-8")
    address.change(NEW, checkout)
    assert not address.is_placeholder(NEW)
    assert address.NOTE not in readme.read_text(encoding="utf-8")


@pytest.mark.parametrize(("url", "placeholder"), [
    ("https://example.com/project", True), ("https://git.example.com/project", True),
    ("https://git.example.org/x", False), ("https://example.community/x", False)])
def test_only_the_address_of_nobody_is_a_placeholder(url: str, placeholder: bool) -> None:
    assert address.is_placeholder(url) is placeholder


def test_the_command_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert address.main([]) == 0
    assert address.main(["nonsense"]) == 1
    out, err = capsys.readouterr()
    assert out.split()[0] == address.current()
    assert (address.NOTE.strip() in out) is address.is_placeholder(address.current())
    assert err.startswith("URL: 'nonsense' is not allowed")
