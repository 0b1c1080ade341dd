# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw several sequences of work as swim lanes above one axis of time, and a number over a week."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from .canvas import Canvas

Json = Mapping[str, t.Any]
NAMES, RIGHT, LANE, HEAD, FOOT = 128, 20, 34, 30, 44
"""Pixels: width of the column of names, right edge, height of a lane, of a head, of the axis."""


def draw(source: Json) -> str:
    """Return the picture of lanes.

    ``axis`` has ``from`` and ``to`` in units of time, ``marks`` (a mapping of times to texts) and
    ``title``. ``second`` is the width of a unit in pixels. Each of ``parts`` has a ``title`` and
    ``lanes``, a mapping of names to bars. A bar is a list of start, end, text and, optionally, kind.
    """
    axis, unit = source["axis"], source["second"]
    heights = [HEAD + LANE * len(part["lanes"]) for part in source["parts"]]
    canvas = Canvas(NAMES + (axis["to"] - axis["from"]) * unit + RIGHT, sum(heights) + FOOT, source["alt"])

    def at(time: float) -> float:
        return float(NAMES + (time - axis["from"]) * unit)

    for time, text in axis["marks"].items():
        canvas.path(f"M{at(time):g} {HEAD - 6}V{sum(heights) + 4}", "grid")
        canvas.text(at(time), sum(heights) + 13, [str(text)], "small")
    canvas.text(at((axis["from"] + axis["to"]) / 2), sum(heights) + 32, [axis["title"]], "small")
    top = 0
    for part, height in zip(source["parts"], heights, strict=True):
        canvas.text(12, top + 18, [part["title"]], "left title")
        for number, (name, bars) in enumerate(part["lanes"].items()):
            y = top + HEAD + number * LANE
            canvas.text(12, y + LANE / 2 - 3, [name], "left small")
            for bar in bars:
                _bar(canvas, at(bar[0]), at(bar[1]), y, bar[2], bar[3] if len(bar) > 3 else "box")
        top += height
    return canvas.svg()


def _bar(canvas: Canvas, left: float, right: float, y: float, text: str, kind: str) -> None:
    """Draw a bar with its text. The text of a short bar stands at its right."""
    if right - left < LANE:
        canvas.rectangle(left, y, right - left, LANE - 7, kind)
        canvas.text(right + 6, y + LANE / 2 - 3, [text], "left small")
    else:
        canvas.box(left, y, right - left, LANE - 7, [text], kind)


def steps(alt: str, values: Sequence[int], days: Sequence[str], title: str) -> str:
    """Return the picture of a number for each hour of a week that begins on ``days[0]``."""
    hour, unit, left, top = 4.0, 18, 44, 34
    bottom = top + unit * max(values)
    canvas = Canvas(left + hour * len(values) + 16, bottom + 34, alt)
    canvas.text(12, 16, [title], "left small")
    for value in sorted({0, *values}):
        canvas.path(f"M{left} {bottom - value * unit:g}H{left + hour * len(values):g}", "grid")
        canvas.text(left - 14, bottom - value * unit, [str(value)], "small")
    line = [f"M{left} {bottom}"]
    for number, value in enumerate(values):
        line.append(f"V{bottom - value * unit:g}H{left + hour * (number + 1):g}")
    canvas.path("".join([*line, f"V{bottom}Z"]), "area")
    for number, day in enumerate(days):
        canvas.text(left + hour * (24 * number + 12), bottom + 16, [day], "small")
    return canvas.svg()
