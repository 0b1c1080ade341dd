# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pictures of the pages are what their text draws, small, and on a page with their description."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tools.diagrams import __main__ as diagrams
from ansible_collections.composable.infra.tools.diagrams import graph, lanes
from ansible_collections.composable.infra.tools.diagrams.canvas import TooSmall

DRAWN = diagrams.pictures()
PAGES = {path: " ".join(path.read_text(encoding="utf-8").split()) for path in (ROOT / "docs").rglob("*.md")}
EXAMPLE = """```yaml
prewarm:
  - model: A
    idle: {idle}
    schedule: [{{from: "08:00", to: "18:00", idle: 3}}]
```
"""


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_what_its_text_draws(name: str) -> None:
    assert (diagrams.FOLDER / f"{name}.svg").read_text(encoding="utf-8") == DRAWN[name], "run make diagrams"


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_small_and_on_a_page_with_its_description(name: str) -> None:
    assert len(DRAWN[name].encode()) < 15_000
    assert ElementTree.fromstring(DRAWN[name]).findtext("{http://www.w3.org/2000/svg}title") == diagrams.texts()[name]
    shown = re.compile(rf"!\[{re.escape(diagrams.texts()[name])}\]\((?:\.\./)*images/{name}\.svg\)")
    assert [path for path, text in PAGES.items() if shown.search(text)]


def test_the_parts_of_the_page_have_its_headings_in_its_order() -> None:
    """The table below the picture has the numbers and words of the picture, which are those of the page."""
    drawn = re.findall(r">(\d+) ([^<]+)</text>", DRAWN["page-parts"])
    table = re.findall(r"^\| (\d+) \| ([^|]+) \|", (ROOT / "docs/guides/page.md").read_text(encoding="utf-8"), re.M)
    html = (ROOT / "controller/ui/static/index.html").read_text(encoding="utf-8")
    shown = re.findall(r"<summary>([^<]+)", html) + re.findall(r"<h2 [^>]+>([^<]+)", html.partition("</main>")[0])
    assert drawn == table == [(str(number), part) for number, part in enumerate(["Head", *shown], start=1)]


def test_a_text_that_does_not_fit_is_refused() -> None:
    box = {"at": [0, 0], "text": "a text that is much longer", "size": [60, 30]}
    with pytest.raises(TooSmall, match="much longer' does not fit into 60 x 30"):
        graph.draw({"cell": [100, 50], "grid": [1, 1], "alt": "x", "boxes": {"a": box}, "edges": []})


def test_an_arrow_begins_and_ends_at_the_borders() -> None:
    boxes = {"a": {"at": [0, 0], "text": "a", "size": [40, 20]}, "b": {"at": [1, 0], "text": "b", "size": [40, 20]}}
    drawn = graph.draw({"cell": [100, 50], "grid": [2, 1], "alt": "x", "boxes": boxes, "edges": [["a", "b", ""]]})
    assert 'd="M72.0 25.0L128.0 25.0"' in drawn


def test_the_text_of_a_short_bar_stands_beside_it() -> None:
    axis = {"from": 0, "to": 4, "marks": {}, "title": "s"}
    drawn = lanes.draw({"alt": "x", "second": 50, "axis": axis,
                        "parts": [{"title": "t", "lanes": {"n": [[0, 0.1, "short"], [1, 3, "long"]]}}]})
    assert '<text class="left small" x="139"' in drawn
    assert '<text x="228"' in drawn


def test_the_week_is_drawn_from_the_example() -> None:
    assert diagrams.week(EXAMPLE.format(idle=1)) != diagrams.week(EXAMPLE.format(idle=2))
