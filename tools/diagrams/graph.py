# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw boxes on a grid with arrows between them: parts of a system, states, or questions."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from .canvas import Canvas

Json = Mapping[str, t.Any]
Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A box: its center and its size in pixels."""

    center: Point
    size: Point

    def border(self, towards: Point) -> Point:
        """Return where the line from the center to a point leaves the box, 2 pixels outside."""
        across, down = towards[0] - self.center[0], towards[1] - self.center[1]
        reach = min(self.size[0] / 2 / abs(across) if across else math.inf,
                    self.size[1] / 2 / abs(down) if down else math.inf)
        far = reach + 2 / math.hypot(across, down)
        return self.center[0] + across * far, self.center[1] + down * far


def draw(source: Json) -> str:
    """Return the picture of a graph.

    ``cell`` is the width and height of a cell of the grid in pixels, ``grid`` the number of columns
    and rows. ``boxes`` maps names to ``at`` (column and row of the center, from 0), ``text``, and
    optionally ``kind`` and ``size`` in pixels. ``edges`` are lists of two names, a text and,
    optionally, the distance in pixels by which the arrow bends to its left. ``groups`` have ``from``
    and ``to`` (corners in columns and rows) and a ``title``.
    """
    (wide, high), (columns, rows) = source["cell"], source["grid"]
    canvas = Canvas(wide * columns, high * rows, source["alt"])
    for group in source.get("groups", ()):
        (left, top), (right, bottom) = group["from"], group["to"]
        canvas.rectangle(left * wide, top * high, (right - left) * wide, (bottom - top) * high, "group")
        canvas.text(left * wide + 10, top * high + 15, [group["title"]], "left title small")
    boxes = {name: _box(canvas, found, wide, high) for name, found in source["boxes"].items()}
    for edge in source["edges"]:
        _edge(canvas, boxes[edge[0]], boxes[edge[1]], edge[2], edge[3] if len(edge) > 3 else 0)
    return canvas.svg()


def _box(canvas: Canvas, found: Json, wide: float, high: float) -> Box:
    lines = str(found["text"]).splitlines()
    width, height = found.get("size", (wide - 40, 26 + 16 * (len(lines) - 1)))
    x, y = (found["at"][0] + 0.5) * wide, (found["at"][1] + 0.5) * high
    canvas.box(x - width / 2, y - height / 2, width, height, lines, found.get("kind", "box"))
    return Box((x, y), (width, height))


def _edge(canvas: Canvas, start: Box, end: Box, text: str, bend: float) -> None:
    """Draw an arrow from a box to another one, with its text in the middle."""
    (x1, y1), (x2, y2) = start.center, end.center
    length = math.hypot(x2 - x1, y2 - y1)
    middle = (x1 + x2) / 2, (y1 + y2) / 2
    turned = (y2 - y1) / length, (x1 - x2) / length
    control = middle[0] + turned[0] * bend * 2, middle[1] + turned[1] * bend * 2
    (a, b), (c, d) = start.border(control if bend else end.center), end.border(control if bend else start.center)
    curve = f"Q{control[0]:.1f} {control[1]:.1f} " if bend else "L"
    canvas.path(f"M{a:.1f} {b:.1f}{curve}{c:.1f} {d:.1f}", "edge", arrow=True)
    if text:
        x, y = (a + c) / 2 / 2 + control[0] / 2, (b + d) / 2 / 2 + control[1] / 2
        canvas.text(round(x, 1), round(y, 1), text.splitlines(), "small halo")
