# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw timelines with characters, as wide as the terminal, in color there and plain for
programs."""

from __future__ import annotations

from collections.abc import Sequence

from .timeline import ENGINE, FABRIC, NODE, SCHEDULER, SHARE_WORDS, Timeline

# (character, SGR parameter of ECMA-48) of each share. The characters alone distinguish the shares.
SIGNS = {ENGINE: ("#", "34"), FABRIC: ("=", "33"), NODE: ("+", "32"), SCHEDULER: (".", "35")}
NARROWEST, WIDEST, LONGEST_NAME = 40, 160, 32


def duration(seconds: float) -> str:
    """Return a duration as a person says it: ``40 ms``, ``2.00 s``, ``40.0 s``, ``5 min 01 s``, ``1 h 02 min``."""
    if seconds < 1.0:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "0 s"
    if seconds < 60.0:
        return f"{seconds:.2f} s" if seconds < 10.0 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def timelines_text(timelines: Sequence[Timeline], width: int = 80, *, colour: bool = False) -> str:
    """Draw one line for each claim on a common scale, then a legend.

    ``width`` is in columns. Return an empty string if there are no steps.
    """
    drawn = [each for each in timelines if each.spans]
    if not drawn:
        return ""
    names = [each.claim if len(each.claim) <= LONGEST_NAME else each.claim[:LONGEST_NAME - 3] + "..." for each in drawn]
    label, longest = max(map(len, names)), max(each.seconds for each in drawn) or 0.001
    cells = max(10, min(max(width, NARROWEST), WIDEST) - label - len("  |999.99 s"))
    lines = [f"{name:<{label}}  |{_bar(each, cells / longest, colour)} {each.seconds:.2f} s"
             for name, each in zip(names, drawn, strict=True)]
    keys = ", ".join(f"{_painted(sign, share, colour)} {SHARE_WORDS[share]}" for share, (sign, _sgr) in SIGNS.items())
    return "\n".join([*lines, f"waits for: {keys}"])


def _bar(timeline: Timeline, scale: float, colour: bool) -> str:
    """Draw each step up to the column where it ends. A step shorter than a column has no
    character."""
    text, column = "", 0
    for span in timeline.merged():
        end = max(column, round((span.ended - timeline.began) * scale))
        text += _painted(SIGNS[span.share][0] * (end - column), span.share, colour)
        column = end
    return text


def _painted(text: str, share: str, colour: bool) -> str:
    return f"\x1b[{SIGNS[share][1]}m{text}\x1b[0m" if colour and text else text
