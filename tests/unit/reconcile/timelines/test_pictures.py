# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures are to scale, hold what was measured, and nothing that a name could smuggle in."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.histogram import BOUNDS, waits
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.svg import (
    COLOURS,
    timelines_svg,
    waits_svg,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.text import timelines_text
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import (
    SHARE_WORDS,
    Span,
    Timeline,
)

SVG = "{http://www.w3.org/2000/svg}"
TRAIN = Timeline("default/train", "u1", "node-0", 99.0,
                 (Span("request", 100.0, 101.0), Span("attach", 101.0, 105.0), Span("bind", 105.0, 106.0)))
INFER = Timeline("default/infer", "u2", "node-0", 99.0, (Span("attach", 100.0, 103.0),))


def bars(text: str) -> list[tuple[str, float]]:
    """(title, width) of each bar."""
    found = ElementTree.fromstring(text).iter(f"{SVG}rect")
    return [(title.text or "", float(each.attrib["width"])) for each in found
            if (title := each.find(f"{SVG}title")) is not None]


def test_bars_are_to_scale_and_say_what_they_are() -> None:
    found = dict(bars(timelines_svg([TRAIN, INFER])))
    assert list(found) == ["attach requested: 1.00 s, waits for composable.infra",
                           "attached by the fabric: 4.00 s, waits for fabric",
                           "bound by the scheduler: 1.00 s, waits for scheduler",
                           "attached by the fabric: 3.00 s, waits for fabric"]
    one, four, other, three = found.values()
    assert [four, other, three] == pytest.approx([4 * one, one, 3 * one], abs=0.3)


def test_each_share_is_named_beside_its_colour() -> None:
    text = timelines_svg([TRAIN])
    assert all(words in text for words in SHARE_WORDS.values())
    assert all(colour in text for colour in COLOURS.values())


def test_names_cannot_smuggle_anything_in() -> None:
    hostile = Timeline("<script>alert(1)</script>&\"'", "u", "n", 0.0, (Span("attach", 0.0, 1.0),))
    text = timelines_svg([hostile])
    assert "<script" not in text
    assert "script" in "".join(ElementTree.fromstring(text).itertext())


def test_pictures_need_nothing_from_elsewhere() -> None:
    for text in (timelines_svg([TRAIN]), waits_svg(waits([TRAIN]))):
        assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
        assert not re.search(r"<style|<script|href|url\(", text)


def test_histogram_has_a_bar_for_each_bound_of_each_hop() -> None:
    found = bars(waits_svg(waits([TRAIN, INFER])))
    assert len(found) == 4 * (len(BOUNDS) + 1)
    assert sum(int(title.split()[0]) for title, _width in found) == 2 + 1 + 1 + 2


def test_nothing_is_drawn_of_nothing() -> None:
    empty = Timeline("a/b", "u", "n", 0.0)
    assert (timelines_svg([]), timelines_svg([empty]), waits_svg([]), timelines_text([empty])) == ("", "", "", "")


def test_hop_that_took_no_time_is_drawn_all_the_same() -> None:
    instant = Timeline("a/b", "u", "n", 0.0, (Span("attach", 5.0, 5.0),))
    assert bars(timelines_svg([instant]))[0][1] > 0
    assert "0.00 s" in timelines_text([instant])


def test_characters_are_to_scale() -> None:
    lines = timelines_text([TRAIN, INFER], 80).splitlines()
    assert lines[0].startswith("default/train  |")
    counts = {sign: lines[0].count(sign) for sign in "#="}
    assert counts["="] == pytest.approx(4 * counts["#"], abs=2)
    assert lines[1].count("=") == pytest.approx(counts["="] * 3 / 4, abs=1)
    assert lines[-1] == "waits for: # composable.infra, = fabric, + node, . scheduler"


@pytest.mark.parametrize("width", [40, 80, 120, 160])
def test_lines_are_as_wide_as_the_terminal_at_most(width: int) -> None:
    lines = timelines_text([TRAIN, INFER], width).splitlines()[:-1]
    assert max(map(len, lines)) <= width


def test_long_names_are_cut() -> None:
    long = Timeline("default/" + "x" * 200, "u", "n", 0.0, (Span("attach", 0.0, 1.0),))
    assert len(timelines_text([long], 100).splitlines()[0]) <= 100


def test_colour_is_only_where_it_is_asked_for() -> None:
    plain, coloured = timelines_text([TRAIN], 80), timelines_text([TRAIN], 80, colour=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain
    assert coloured != plain
