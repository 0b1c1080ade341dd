# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every page below docs/ is in the documentation site; dead links are found; old addresses lead to the pages."""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tools import picture
from ansible_collections.composable.infra.tools.address import current
from ansible_collections.composable.infra.tools.docsite import build, pages

LABEL = "ansible_collections.composable.infra.docsite"
OPERATING = ROOT / "docs" / "guides" / "operating.md"


def test_no_page_is_left_out_and_none_is_named_twice() -> None:
    there = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")
             if path.parent.name != pages.CONTRIBUTORS}
    assert sorted(pages.listed()) == sorted(there), "add it to SECTIONS of tools/docsite/pages.py"


def test_the_site_has_every_page_and_every_picture_and_contents_that_name_them(tmp_path: Path) -> None:
    pages.write(tmp_path)
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    assert {f"{page}.md" for page in pages.listed()} < written
    assert {f"images/{path.name}" for path in (ROOT / "docs/images").iterdir()} < written
    named = (tmp_path / "index.md").read_text(encoding="utf-8").splitlines()
    assert [page for page in pages.listed() if page != "index" and page not in named] == []
    assert (tmp_path / "index.md").read_text(encoding="utf-8").startswith("# GPUs on demand")


def test_links_within_the_site_stay_and_others_lead_to_the_repository() -> None:
    assert pages.leads_to(OPERATING, "awx.md") == "awx.md"
    real = "../limits.md#never-tested-on-hardware"
    assert pages.leads_to(OPERATING, real) == real
    assert pages.leads_to(OPERATING, "../../CONTRIBUTING.md#real-nodes") == (
        f"{current()}/blob/main/CONTRIBUTING.md#real-nodes")
    assert pages.leads_to(OPERATING, "../guides") == f"{current()}/tree/main/docs/guides"
    assert pages.leads_to(OPERATING, "https://a.example") == "https://a.example"
    assert pages.linked(OPERATING, "a [b](awx.md), ![c](../images/demo.svg) and [d](../../COPYING).\n") == (
        f"a [b](awx.md), ![c](../images/demo.svg) and [d]({current()}/blob/main/COPYING).\n")


@pytest.mark.parametrize("link", ["nowhere.md", "../limits.md#no-such-heading", "#no-such-heading"])
def test_a_link_that_leads_nowhere_is_refused(link: str) -> None:
    with pytest.raises(pages.DeadLink, match=r"operating\.md: .*no"):
        pages.linked(OPERATING, f"[a]({link})")


def test_an_old_address_leads_to_the_page_that_has_its_text() -> None:
    found = pages.redirects()
    assert found["docsite/air_gap"] == "../guides/air-gap.html"
    assert pages.redirects(["index", "scale_module"])["scale_module"] == "plugins/scale_module.html"
    assert "index" not in pages.redirects(["index"])
    for old, target in found.items():
        page = (ROOT / "docs" / old).parent.joinpath(target.partition("#")[0]).resolve().with_suffix(".md")
        assert page.is_file(), f"{old} leads to {target}"
        assert not (ROOT / "docs" / f"{old}.md").exists(), f"{old} is a page"


def test_only_references_to_ansible_s_own_documentation_are_let_pass() -> None:
    own = f"a.rst:3: WARNING: undefined label: '{LABEL}.gone' [ref.ref]"
    other = "b.rst:2: WARNING: title too short"
    log = f"a.rst:1: WARNING: undefined label: 'common_return_values' [ref.ref]\n{own}\n{other}\n"
    assert build.faults(log) == [own, other]


def test_a_picture_shows_each_line_at_its_time_and_nothing_is_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = "\n".join(["1.00 s  lab  is up", "", " 2.00 s  user  creates pod <b>", " 3.50 s  b  runs", "seconds  & c",
                         "x" * 200, ""])
    monkeypatch.setattr("sys.stdin", io.StringIO(printed))
    target = tmp_path / "a" / "b.svg"
    assert picture.main([str(target), "--begin", "creates pod"]) == 0
    root = ElementTree.fromstring(target.read_text(encoding="utf-8"))
    rows = root.findall("{http://www.w3.org/2000/svg}text")
    assert [row.text for row in rows] == [" 2.00 s  user  creates pod <b>", " 3.50 s  b  runs", "seconds  & c",
                                          "x" * 149 + "…"]
    assert picture.appearances([str(row.text) for row in rows]) == ([0.5, 2.0, 2.7, 2.7], 12.7)
    monkeypatch.setattr("sys.stdin", io.StringIO(printed))
    assert picture.main([str(tmp_path / "c.svg"), "--begin", "no such line"]) == 1
