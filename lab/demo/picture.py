# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the result of the demo, in the terminal and as SVG in a file."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ansible_collections.composable.infra.lab.demo.timeline import ClaimTimes
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.svg import timelines_svg
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.text import timelines_text
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import Span, Timeline


def timeline(times: ClaimTimes) -> Timeline:
    """Return the timeline of a claim as seen from outside. Omit steps without observed times."""
    return Timeline(times.name, times.name, times.node, times.created or 0.0, tuple(_spans(times)))


def _spans(times: ClaimTimes) -> Iterator[Span]:
    """Yield the steps of a claim.

    A direct claim keeps its device and is not allocated again. A slice shows the device only after
    the claim has ended, so the node's part ends with the condition.
    """
    gated = times.opened is not None and times.allocated is None
    first = times.called or (times.created if gated else times.allocated)
    told = times.visible if times.called else times.opened if gated else times.condition
    if times.ready:
        shown, placed = times.condition, times.bound_at or times.running
    else:
        shown, placed = times.visible, times.reallocated
    ways = [("request", first, times.asked), ("attach", times.asked, times.attached),
            ("slice", times.attached, shown),
            ("gate", None if times.ready else shown, told),
            ("bind" if gated or times.called or times.ready else "handover", told, placed),
            ("start", placed, times.running)]
    for step, began, ended in ways:
        if began is not None and ended is not None:
            yield Span(step, began, max(began, ended))


def show(claims: Sequence[ClaimTimes], svg: Path | None) -> None:
    """Print the picture, as wide as the terminal and in color there. Write SVG if a file is
    named."""
    timelines = [timeline(each) for each in claims]
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    if text := timelines_text(timelines, shutil.get_terminal_size((100, 24)).columns, colour=colour):
        print(f"\n{text}")
    if svg is not None and (drawn := timelines_svg(timelines)):
        svg.parent.mkdir(parents=True, exist_ok=True)
        svg.write_text(drawn, encoding="utf-8")
        print(f"The same as a picture: {svg}")
