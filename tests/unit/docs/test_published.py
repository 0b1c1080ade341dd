# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Galaxy shows has no link that leads nowhere: all of them begin with the one address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tools import published
from ansible_collections.composable.infra.tools.address import current

LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("roles/*/README.md"))]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small collection, and beside it a file that is no part of it."""
    root = tmp_path / "collection"
    for name in ("docs/guides/a.md", "docs/images/end.svg", "roles/nfd/README.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("text", encoding="utf-8")
    (root / "galaxy.yml").write_text("repository: https://git.example.org/o/r\n", encoding="utf-8")
    (tmp_path / "outside.md").write_text("text", encoding="utf-8")
    return root


@pytest.mark.parametrize(("written", "shown"), [
    ("[a](docs/guides/a.md)", "[a](https://git.example.org/o/r/blob/main/docs/guides/a.md)"),
    ("[a](docs/guides/a.md#how-to)", "[a](https://git.example.org/o/r/blob/main/docs/guides/a.md#how-to)"),
    ("[all](docs/guides)", "[all](https://git.example.org/o/r/tree/main/docs/guides)"),
    ("![end](docs/images/end.svg)", "![end](https://git.example.org/o/r/raw/main/docs/images/end.svg)"),
    ("[x](https://a.example/docs)", "[x](https://a.example/docs)"), ("[x](#below)", "[x](#below)"),
    ("[x](docs/none.md)", "[x](docs/none.md)"), ("[x](../outside.md)", "[x](../outside.md)"),
    ("f(a)[b](c)", "f(a)[b](c)"),
])
def test_links_to_files_begin_with_the_address(root: Path, written: str, shown: str) -> None:
    (root / "README.md").write_text(written, encoding="utf-8")
    assert published.absolute(root / "README.md", root) == shown


def test_a_role_names_files_from_its_own_folder(root: Path) -> None:
    page = root / "roles" / "nfd" / "README.md"
    page.write_text("[a](../../docs/guides/a.md)", encoding="utf-8")
    assert published.absolute(page, root) == "[a](https://git.example.org/o/r/blob/main/docs/guides/a.md)"


def test_a_copy_has_them_and_the_sources_keep_theirs(root: Path, tmp_path: Path) -> None:
    (root / "README.md").write_text("[a](docs/guides/a.md)", encoding="utf-8")
    (root / ".git").mkdir()
    copy = published.copied(root, tmp_path / "build")
    assert "git.example.org" in (copy / "README.md").read_text(encoding="utf-8")
    assert (root / "README.md").read_text(encoding="utf-8") == "[a](docs/guides/a.md)"
    assert not (copy / ".git").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_no_relative_link_is_left(page: Path) -> None:
    links = LINK.findall(published.absolute(page, ROOT))
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_the_first_page_leads_to_the_guides_and_shows_the_picture() -> None:
    text = published.absolute(ROOT / "README.md", ROOT)
    assert f"]({current()}/blob/main/docs/guides/alerts.md)" in text
    picture = "![The demo: three pods get their GPUs at once, and a table has one column for each pod]"
    assert f"{picture}({current()}/raw/main/docs/images/" in text
