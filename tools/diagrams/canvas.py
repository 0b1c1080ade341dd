# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw rectangles, lines and texts as SVG, readable on light and on dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

LINE = 16
"""Height of a line of text in pixels."""
LETTER = 6.7
"""Width of a letter in pixels, more than the mean of the common fonts at 13 pixels."""
STYLE = """\
text{font:13px system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1b1f24;text-anchor:middle}
.small{font-size:12px;fill:#3d444d}.left{text-anchor:start}.title{font-weight:600}
.halo{stroke:#fff;stroke-width:5;stroke-linejoin:round;paint-order:stroke}
.box{fill:#e8f1fb;stroke:#2f6fab}.good{fill:#e6f4ea;stroke:#2e7d4f}.bad{fill:#fdecea;stroke:#b3403a}
.wait{fill:#fff;stroke:#8c959f;stroke-dasharray:4 3}.group{fill:none;stroke:#8c959f;stroke-dasharray:6 4}
.edge{fill:none;stroke:#57606a;stroke-width:1.4}.grid{stroke:#d0d7de}
.area{fill:#e8f1fb;stroke:#2f6fab;stroke-width:1.6}"""
KINDS = ("box", "good", "bad", "wait", "group")


class TooSmall(ValueError):
    """A text does not fit into its rectangle. The message has the text."""


class Canvas:
    """Collect the elements of one picture.

    ``width``, ``height``: size in pixels. ``title``: text for people who do not see the picture.
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self._size, self._title, self._elements = (width, height), title, list[str]()

    def rectangle(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """Draw a rectangle of one of ``KINDS`` with its upper left corner at ``x``, ``y``."""
        size = f'width="{width:g}" height="{height:g}"'
        self._elements.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" {size} rx="5"/>')

    def text(self, x: float, y: float, lines: Sequence[str], kind: str = "") -> None:
        """Draw lines of text, centered at ``x``, ``y`` unless ``kind`` contains ``left``."""
        first = y + 4.5 - (len(lines) - 1) * LINE / 2
        attribute = f' class="{kind}"' if kind else ""
        self._elements += [f'<text{attribute} x="{x:g}" y="{first + number * LINE:g}">{escape(line)}</text>'
                           for number, line in enumerate(lines)]

    def box(self, x: float, y: float, width: float, height: float, lines: Sequence[str], kind: str) -> None:
        """Draw a rectangle with centered text. Raise TooSmall if the text does not fit."""
        if max(map(len, lines)) * LETTER > width - 4 or len(lines) * LINE > height:
            raise TooSmall(f"{' '.join(lines)!r} does not fit into {width:g} x {height:g}")
        self.rectangle(x, y, width, height, kind)
        self.text(x + width / 2, y + height / 2, lines)

    def path(self, data: str, kind: str, *, arrow: bool = False) -> None:
        """Draw a path, with an arrow at its end if ``arrow`` is set."""
        end = ' marker-end="url(#arrow)"' if arrow else ""
        self._elements.append(f'<path class="{kind}" d="{data}"{end}/>')

    def svg(self) -> str:
        """Return the picture as SVG."""
        width, height = self._size
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" role="img">', f"<title>{escape(self._title)}</title>", f"<style>{STYLE}</style>",
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0L8 4L0 8z" fill="#57606a"/></marker></defs>',
            f'<rect x=".5" y=".5" width="{width - 1:g}" height="{height - 1:g}" rx="8" fill="#fff" stroke="#d0d7de"/>',
            *self._elements, "</svg>", ""])
