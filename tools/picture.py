# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws the last lines of what a program printed as an SVG of a terminal: `make picture`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

LINES, COLUMNS = 34, 150
WIDTH, HEIGHT, EDGE = 7.8, 17, 14
STYLE = "font: 13px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d8dee9; white-space: pre"


def svg(lines: Sequence[str]) -> str:
    """Return a dark window with the lines. A line longer than COLUMNS ends in an ellipsis."""
    shown = [line if len(line) <= COLUMNS else line[:COLUMNS - 1] + "…" for line in lines]
    width = max(map(len, shown), default=0) * WIDTH + 2 * EDGE
    height = len(shown) * HEIGHT + 2 * EDGE
    rows = [f'<text x="{EDGE}" y="{EDGE + 13 + number * HEIGHT}" xml:space="preserve">{escape(line)}</text>'
            for number, line in enumerate(shown)]
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" role="img">',
                      '<rect width="100%" height="100%" rx="8" fill="#2e3440"/>',
                      f'<g style="{STYLE}">', *rows, "</g>", "</svg>", ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Read standard input and write the picture. Return 1 if there is nothing to draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--lines", type=int, default=LINES)
    options = parser.parse_args(arguments)
    lines = [line.rstrip() for line in sys.stdin if line.strip()][-options.lines:]
    if not lines:
        print("nothing was printed, so there is nothing to draw", file=sys.stderr)
        return 1
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    options.picture.write_text(svg(lines), encoding="utf-8")
    print(f"{options.picture} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
