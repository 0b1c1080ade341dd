# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws what the demo printed as an SVG of a terminal that moves: `make picture`.

A line that begins with its time appears at that time, as in the run. The lines after the last of
them, a table, appear together and stay for a while. Then the picture begins again. A reader who has
asked the system for less motion sees all lines at once.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

COLUMNS = 150
WIDTH, HEIGHT, EDGE = 7.8, 17, 14
TIME = re.compile(r"\s*(\d+\.\d+) s  ")
# Seconds before the first line, between the last line with a time and the table, and for which the table stays.
LEAD, PAUSE, STAY = 0.5, 0.7, 10.0
STYLE = """
text { font: 13px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d8dee9; white-space: pre }
@media (prefers-reduced-motion: no-preference) { text { opacity: 0; animation: 1s step-end infinite } }
"""


def svg(lines: Sequence[str]) -> str:
    """Return a dark window with the lines. A line longer than COLUMNS ends in an ellipsis."""
    moments, length = appearances(lines)
    shown = [line if len(line) <= COLUMNS else line[:COLUMNS - 1] + "…" for line in lines]
    width = max(map(len, shown), default=0) * WIDTH + 2 * EDGE
    height = len(shown) * HEIGHT + 2 * EDGE
    names = {moment: f"at{number}" for number, moment in enumerate(sorted(set(moments)))}
    frames = [f"@keyframes {name} {{ 0% {{ opacity: 0 }} {100 * moment / length:.2f}% {{ opacity: 1 }} }}"
              for moment, name in names.items()]
    rows = [f'<text x="{EDGE}" y="{EDGE + 13 + number * HEIGHT}" xml:space="preserve" style="animation-name: '
            f'{names[moment]}; animation-duration: {length:.2f}s">{escape(line)}</text>'
            for number, (line, moment) in enumerate(zip(shown, moments, strict=True))]
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" role="img">',
                      "<style>" + STYLE + "\n".join(frames) + "\n</style>",
                      '<rect width="100%" height="100%" rx="8" fill="#2e3440"/>', *rows, "</svg>", ""])


def appearances(lines: Sequence[str]) -> tuple[list[float], float]:
    """Return when each line appears, in seconds from the beginning, and how long one round takes."""
    times = [float(found[1]) if (found := TIME.match(line)) else None for line in lines]
    known = [time for time in times if time is not None]
    first, last = (known[0], known[-1]) if known else (0.0, 0.0)
    moments, now = list[float](), LEAD
    for number, time in enumerate(times):
        if time is not None:
            now = LEAD + time - first
        elif not any(later is not None for later in times[number:]):
            now = LEAD + last - first + PAUSE
        moments.append(now)
    return moments, max(moments, default=0.0) + STAY


def main(arguments: Sequence[str] | None = None) -> int:
    """Read standard input and write the picture. Return 1 if there is nothing to draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--begin", default="", help="text of the first line to draw (default: the first one)")
    options = parser.parse_args(arguments)
    lines = [line.rstrip() for line in sys.stdin if line.strip()]
    begin = next((number for number, line in enumerate(lines) if options.begin in line), len(lines))
    if not lines[begin:]:
        print("no line has the text to begin with, so there is nothing to draw", file=sys.stderr)
        return 1
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    options.picture.write_text(svg(lines[begin:]), encoding="utf-8")
    print(f"{options.picture} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
