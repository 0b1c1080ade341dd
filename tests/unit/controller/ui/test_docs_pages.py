# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages of the documentation that the controllers serve: all of them, whole, and nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from ansible_collections.composable.infra.controller.ui.docs_pages import FOLDER, DocsPages, address, pages
from ansible_collections.composable.infra.controller.ui.markdown import html

ALL = sorted(pages())
WATCHED = ("h1", "h2", "h3", "h4", "th", "td", "li", "a", "pre", "strong")
BLOCKS = ("h1", "h2", "h3", "h4", "th", "td", "li", "p", "pre", "br", "ul", "ol", "table")


class Read(HTMLParser):
    """What stands in a page: texts by element, ids, and targets of links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.counts, self.ids, self.links, self.text = dict.fromkeys(WATCHED, 0), set[str](), list[str](), ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in BLOCKS:
            self.text += " "
        if tag in self.counts:
            self.counts[tag] += 1
        if given.get("id"):
            self.ids.add(str(given["id"]))
        if tag == "a":
            self.links.append(str(given.get("href")))

    def handle_endtag(self, tag: str) -> None:
        if tag in BLOCKS:
            self.text += " "

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def words(self) -> list[str]:
        """The text without white space: how it is wrapped is nobody's business."""
        return self.text.split()


def served(name: str) -> str:
    """The page as a browser gets it."""
    found = DocsPages().get(name)
    assert found
    return found.data.decode()


@pytest.mark.parametrize("name", ALL)
def test_page_has_what_a_whole_reader_of_markdown_finds(name: str) -> None:
    """The judge is markdown-it-py, by CommonMark and the tables of GitHub."""
    whole = (FOLDER / name.removeprefix("docs/")).read_text(encoding="utf-8")
    text = re.sub(r"(?m)^ *<!--(?s:.*?)--> *\n|<!--(?s:.*?)-->", "", whole)
    expected = Read(MarkdownIt("commonmark").enable("table").render(re.sub(r"!\[([^]]*)\]\([^)]*\)", r"\1", text)))
    found = Read(html(text, lambda target: target))
    assert found.words == expected.words
    assert {**found.counts, "th": found.counts["th"] + found.counts["td"], "td": 0} == {
        **expected.counts, "th": expected.counts["th"] + expected.counts["td"], "td": 0}


@pytest.mark.parametrize("name", ALL)
def test_each_link_of_a_served_page_leads_to_a_heading_that_is_there(name: str) -> None:
    for link in Read(served(name)).links:
        if link.startswith(("http://", "https://")) or link.endswith("./"):
            continue
        file, _unused, anchor = link.partition("#")
        where = (Path("/") / name).parent / file if file else Path("/") / name
        other = str(where.resolve()).lstrip("/")
        assert other in ALL, link
        assert not anchor or anchor in Read(served(other)).ids, link


@pytest.mark.parametrize("name", [
    "docs/../galaxy.yml", "docs/", "docs/images/demo.svg", "docs//etc/passwd", "galaxy.yml"])
def test_nothing_else_is_served(name: str) -> None:
    assert DocsPages().get(name) is None


def test_what_looks_like_markup_stays_text() -> None:
    assert html("a <script>alert(1)</script> & `<b>`", lambda target: target) == (
        "<p>a &lt;script&gt;alert(1)&lt;/script&gt; &amp; <code>&lt;b&gt;</code></p>")
    assert 'href="&quot;' not in html('[x]("onclick=1)', lambda target: target).replace("&quot;onclick", "")


def test_placeholder_leads_to_the_pages_that_are_served_and_an_address_stays(tmp_path: Path) -> None:
    placeholder = "https://example.com/infra/docs"
    assert address(placeholder) == "docs"
    assert address("") == "docs"
    assert address("https://git.example.org/infra/docs") == "https://git.example.org/infra/docs"
    assert address(placeholder, tmp_path) == "", "no page, no link"
