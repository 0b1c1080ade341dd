# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting times of recent claims by step, recorded in the ComposableResources of their devices."""

from __future__ import annotations

DOCUMENTATION = r"""
name: claim_timelines
short_description: Timelines of claims and their waits by step, as data and as SVG
version_added: 0.1.0
description:
  - Reads the annotation C(composable.infra/timelines) of ComposableResources, which the controllers write.
  - It has the last eight claims of each attached device. Claims of devices that were returned are missing.
  - The waits of all claims of the last day are in a ConfigMap of the controllers' namespace, see O(counted).
author:
  - composable.infra contributors (@composable-infra)
positional: hours, now, counted
options:
  _input:
    description: ComposableResources as the API server has them.
    type: list
    elements: dict
    required: true
  hours:
    description: Only claims that were served in this number of hours before O(now).
    type: float
    default: 24.0
  now:
    description: Seconds since the epoch. The clock of this machine by default.
    type: float
  counted:
    description:
      - C(waits.json) of the ConfigMap C(composable-infra-waits). If you give it, C(waits) come from it, by
        whole hours. Median and p95 are then rounded up to the next of 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8 and their
        tenfolds.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Show the longest waits
  ansible.builtin.debug:
    msg: "{{ (resources | composable.infra.claim_timelines).waits }}"
"""

RETURN = r"""
_value:
  description: >-
    C(claims) with C(claim), C(node), C(seconds) and C(steps) (seconds by step), the newest first. C(waits) with
    C(step), C(words), C(count), C(median), C(p95) and C(longest) in seconds, and C(said) with these three as texts.
    C(all_claims) says whether the waits are those of all claims, and not only of claims with attached devices. C(svg)
    and C(waits_svg) are the pictures, each empty if there is nothing to draw. C(hops) and C(hop) are former names of
    C(steps) and C(step), which work until version 2.0.0.
  type: dict
"""

import time
import typing as t
from collections.abc import Callable, Iterable

from ..module_utils.reconcile.timelines.day_of_waits import HOUR, of_text, waits_of
from ..module_utils.reconcile.timelines.histogram import Waits, waits
from ..module_utils.reconcile.timelines.svg import timelines_svg, waits_svg, words_of
from ..module_utils.reconcile.timelines.text import duration
from ..module_utils.reconcile.timelines.timeline import Timeline, of_resource

# Limit of lines in a picture. The tables have all claims.
MOST_DRAWN = 40
Row = dict[str, t.Any]


def claim_timelines(resources: Iterable[Row], hours: float = 24.0, now: float | None = None, counted: str = "") -> Row:
    """Return tables and pictures of the last ``hours``."""
    since = (time.time() if now is None else now) - HOUR * hours
    kept = {each.uid: each for raw in resources for each in of_resource(raw) if each.ended >= since and each.spans}
    newest = sorted(kept.values(), key=lambda each: (-each.ended, each.claim))
    of_all = _counted(counted, since)
    rows = of_all or waits(newest)
    return {"claims": [_claim_row(each) for each in newest], "waits": [_wait_row(each) for each in rows],
            "all_claims": bool(of_all), "svg": timelines_svg(newest[:MOST_DRAWN]), "waits_svg": waits_svg(rows)}


def _counted(text: str, since: float) -> list[Waits]:
    """Return the counts of a ConfigMap since ``since``, or none if it cannot be read."""
    try:
        table = of_text(text).table
    except ValueError:
        return []
    return waits_of({place: row for place, row in table.items() if place[0] >= int(since // HOUR)})


def _claim_row(timeline: Timeline) -> Row:
    steps = {span.step: round(span.seconds, 3) for span in timeline.merged()}
    return {"claim": timeline.claim, "node": timeline.node, "seconds": round(timeline.seconds, 3),
            "steps": steps, "hops": steps}


def _wait_row(row: Waits) -> Row:
    return {"step": row.step, "hop": row.step, "words": words_of(row.step), "count": row.count,
            "median": round(row.median, 3), "p95": round(row.p95, 3), "longest": round(row.longest, 3),
            "said": {"median": duration(row.median), "p95": duration(row.p95), "longest": duration(row.longest)}}


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Row]]:
        """Return the filter by its name."""
        return {"claim_timelines": claim_timelines}
