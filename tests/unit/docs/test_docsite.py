# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every page below docs/ is in the documentation site, in reStructuredText that says the same; dead links are found."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml
from docutils.core import publish_doctree

from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tools import picture
from ansible_collections.composable.infra.tools.docsite import build, pages
from ansible_collections.composable.infra.tools.docsite.restructured import converted, label

LABEL = "ansible_collections.composable.infra.docsite"


def rst(text: str) -> str:
    """The page without its label."""
    return converted(text, "page", lambda link: link).partition("\n\n")[2]


def test_no_page_is_left_out_and_none_is_named_twice() -> None:
    listed = [page for names in pages.SECTIONS.values() for page in names]
    there = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(listed) == sorted(there), "add it to SECTIONS of tools/docsite/pages.py"
    assert len({pages.name_of(page) for page in listed}) == len(listed)


def test_the_table_of_contents_names_the_files(tmp_path: Path) -> None:
    pages.write(tmp_path)
    contents = yaml.safe_load((tmp_path / "extra-docs.yml").read_text(encoding="utf-8"))
    named = {name for section in contents["sections"] for name in section["toctree"]}
    assert named == {path.stem for path in (tmp_path / "rst").glob("*.rst")}


@pytest.mark.parametrize(("markdown", "expected"), [
    ("# A `b`\n", "A ``b``\n=======\n"),
    ("a **b** *c* `d`s 2*3 x_y _z_\n", "a **b** *c* ``d``\\ s 2\\*3 x_y *z*\n"),
    ("```yaml\na: b\n```\n", ".. code-block:: yaml\n\n   a: b\n"),
    ("```\nls\n```\n", ".. code-block:: text\n\n   ls\n"),
    ("- a\n- b\n  c\n", "- a\n\n- b\n  c\n"),
    ("1. a\n2. b\n", "1. a\n\n2. b\n"),
    ("- a\n  - b\n", "- a\n\n  - b\n"),
    ("[a `b`](https://c.example)\n", "`a b <https://c.example>`__\n"),
    ("(`a`)[b](https://c.example)\n", "(``a``)\\ `b <https://c.example>`__\n"),
    ("<!-- remark -->\n\na\n", "a\n"),
    ("| A | B |\n|---|---|\n| c | `d` |\n",
     ".. list-table::\n   :header-rows: 1\n\n   * - A\n     - B\n   * - c\n     - ``d``\n"),
])
def test_markdown_becomes_restructured_text(markdown: str, expected: str) -> None:
    assert rst(markdown) == expected
    strict = {"halt_level": 2, "report_level": 5, "warning_stream": io.StringIO()}
    publish_doctree(rst(markdown), settings_overrides=strict)


def test_a_heading_has_the_label_by_which_links_find_it() -> None:
    assert f".. _{LABEL}.page.whats-to-do:\n\nWhat's: to do\n" in converted("## What's: to do\n", "page", str)
    assert label("page", "A `b` c").endswith("page.a-b-c")


def test_links_between_pages_are_references_and_others_are_addresses() -> None:
    page = ROOT / "docs" / "guides" / "operating.md"
    assert pages.leads_to(page, "awx.md") == f"ref:{LABEL}.awx"
    assert pages.leads_to(page, "../limits.md#what-the-labs-real-nodes-do-not-show") == (
        f"ref:{LABEL}.limits.what-the-labs-real-nodes-do-not-show")
    assert pages.leads_to(page, "../../CONTRIBUTING.md").endswith("/blob/main/CONTRIBUTING.md")
    assert pages.leads_to(page, "../guides").endswith("/tree/main/docs/guides")
    assert pages.leads_to(page, "https://a.example") == "https://a.example"


@pytest.mark.parametrize("link", ["nowhere.md", "../limits.md#no-such-heading", "#no-such-heading"])
def test_a_link_that_leads_nowhere_is_refused(link: str) -> None:
    with pytest.raises(pages.DeadLink, match=r"operating\.md: .*no"):
        pages.leads_to(ROOT / "docs" / "guides" / "operating.md", link)


def test_only_references_to_ansible_s_own_documentation_are_let_pass() -> None:
    own = f"a.rst:3: WARNING: undefined label: '{LABEL}.gone' [ref.ref]"
    other = "b.rst:2: WARNING: title too short"
    log = f"a.rst:1: WARNING: undefined label: 'common_return_values' [ref.ref]\n{own}\n{other}\n"
    assert build.faults(log) == [own, other]


def test_a_picture_shows_the_last_lines_and_nothing_is_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("first\n\n<b> & c\n" + "x" * 200 + "\n"))
    assert picture.main([str(tmp_path / "a" / "b.svg"), "--lines", "2"]) == 0
    text = (tmp_path / "a" / "b.svg").read_text(encoding="utf-8")
    assert "&lt;b&gt; &amp; c</text>" in text
    assert "first" not in text
    assert "x…</text>" in text
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert picture.main([str(tmp_path / "c.svg")]) == 1
