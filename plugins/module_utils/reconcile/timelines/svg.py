# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw timelines and waits as SVG for a file or within HTML, without scripts or external styles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from .histogram import BOUNDS, TOTAL, Waits
from .timeline import ENGINE, FABRIC, NODE, SCHEDULER, SHARE_WORDS, WORDS, Span, Timeline

# Colors that are legible on white and on black. A legend and each bar's text name them, too.
COLOURS = {ENGINE: "#1f6fb5", FABRIC: "#9a6200", NODE: "#12795a", SCHEDULER: "#7a48c4"}
WIDTH, LABEL, VALUE, LINE, HEAD = 960, 230, 70, 26, 28
FONT = 'font-family="system-ui, DejaVu Sans, sans-serif" font-size="12"'
# Approximate width of a letter. Text that is wider than its bar is only in the bar's title.
LETTER = 6.6


def timelines_svg(timelines: Sequence[Timeline]) -> str:
    """Draw one line for each claim on a common scale that begins with the claim's first step.

    Return an empty string if there are no steps.
    """
    drawn = [each for each in timelines if each.spans]
    if not drawn:
        return ""
    longest = max(each.seconds for each in drawn) or 0.001
    lines = [part for number, each in enumerate(drawn) for part in _line(each, HEAD + number * LINE, longest)]
    bottom = HEAD + len(drawn) * LINE
    axis = [f'<line x1="{LABEL}" x2="{WIDTH - VALUE}" y1="{bottom + 4}" y2="{bottom + 4}" stroke="#767676"/>',
            _text(LABEL, bottom + 18, "0 s"), _text(WIDTH - VALUE, bottom + 18, _seconds(longest), "end")]
    return _svg(bottom + 26, "Timelines of claims", [*_legend(), *lines, *axis])


def _line(timeline: Timeline, top: float, longest: float) -> Iterator[str]:
    yield _text(0, top + 16, _short(timeline.claim, 34))
    scale = (WIDTH - LABEL - VALUE) / longest
    for span in timeline.merged():
        yield from _bar(span, LABEL + (span.began - timeline.began) * scale, max(1.5, span.seconds * scale), top)
    yield _text(LABEL + timeline.seconds * scale + 6, top + 16, _seconds(timeline.seconds))


def _bar(span: Span, left: float, width: float, top: float) -> Iterator[str]:
    words = f"{WORDS[span.step]}: {_seconds(span.seconds)}, waits for {SHARE_WORDS[span.share]}"
    yield (f'<rect x="{left:.1f}" y="{top + 4:.1f}" width="{width:.1f}" height="16" rx="2" '
           f'fill="{COLOURS[span.share]}"><title>{escape(words)}</title></rect>')
    if len(span.step) * LETTER < width - 8:
        yield f'<text x="{left + 4:.1f}" y="{top + 16:.1f}" fill="#fff">{escape(span.step)}</text>'


def _legend() -> Iterator[str]:
    left = 0.0
    yield _text(left, 14, "waits for:")
    left += 70
    for share, words in SHARE_WORDS.items():
        yield f'<rect x="{left:.0f}" y="4" width="11" height="11" rx="2" fill="{COLOURS[share]}"/>'
        yield _text(left + 16, 14, words)
        left += 34 + len(words) * LETTER


def waits_svg(rows: Sequence[Waits]) -> str:
    """Draw a histogram for each step: how many claims waited up to each bound.

    Return an empty string if there are no rows.
    """
    if not rows:
        return ""
    wide = (WIDTH - LABEL - 160) / (len(BOUNDS) + 1)
    heads = [_text(LABEL + place * wide + wide / 2, 14, words, "middle") for place, words in enumerate(_bounds())]
    lines = [part for number, row in enumerate(rows) for part in _row(row, HEAD + number * 40, wide)]
    return _svg(HEAD + len(rows) * 40, "Waits by step", [_text(0, 14, "claims that waited up to"), *heads, *lines])


def _bounds() -> list[str]:
    return [*(_seconds(bound) for bound in BOUNDS), "longer"]


def _row(row: Waits, top: float, wide: float) -> Iterator[str]:
    yield _text(0, top + 28, _short(words_of(row.step), 34))
    most = max(row.counts)
    for place, count in enumerate(row.counts):
        height, left = 22 * count / most, LABEL + place * wide
        yield (f'<rect x="{left + 3:.1f}" y="{top + 34 - height:.1f}" width="{wide - 6:.1f}" height="{height + 1:.1f}" '
               f'fill="{COLOURS[ENGINE]}"><title>{count} up to {_bounds()[place]}</title></rect>')
        if count:
            yield _text(left + wide / 2, top + 30 - height, str(count), "middle")
    yield _text(WIDTH - 150, top + 28, f"half within {_seconds(row.median)}")


def words_of(step: str) -> str:
    """Return a step in words."""
    return "total" if step == TOTAL else WORDS[step]


def _svg(height: float, title: str, parts: Iterable[str]) -> str:
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
                      f'height="{height:.0f}" role="img" aria-label={quoteattr(title)} {FONT} fill="#767676">',
                      f"<title>{escape(title)}</title>", *parts, "</svg>", ""])


def _text(left: float, base: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{left:.1f}" y="{base:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _short(words: str, most: int) -> str:
    return words if len(words) <= most else words[:most - 1] + "…"


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s" if value < 10 else f"{value:.0f} s"
