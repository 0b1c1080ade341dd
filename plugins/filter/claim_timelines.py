# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the last claims waited, hop by hop, as it is kept on the ComposableResources of their devices."""

from __future__ import annotations

DOCUMENTATION = r"""
name: claim_timelines
short_description: Timelines of claims and their waits by hop, as data and as SVG
version_added: 1.0.0
description:
  - Reads the annotation C(composable.infra/timelines) of ComposableResources, which the controllers write.
  - It has the last eight claims of each attached device. What was on devices that went back to the fabric is gone.
author:
  - composable.infra contributors (@composable-infra)
positional: hours, now
options:
  _input:
    description: ComposableResources as the API server has them.
    type: list
    elements: dict
    required: true
  hours:
    description: Only claims that were served in so many hours before O(now).
    type: float
    default: 24.0
  now:
    description: Seconds since the epoch. The clock of this machine by default.
    type: float
"""

EXAMPLES = r"""
- name: Show the longest waits
  ansible.builtin.debug:
    msg: "{{ (resources | composable.infra.claim_timelines).waits }}"
"""

RETURN = r"""
_value:
  description: >-
    C(claims) with C(claim), C(node), C(seconds) and C(hops) (seconds by hop), the newest first; C(waits) with C(hop),
    C(words), C(count), C(median), C(p95) and C(longest) in seconds; C(svg) and C(waits_svg), each empty when there is
    nothing to draw.
  type: dict
"""

import time
import typing as t
from collections.abc import Callable, Iterable

from ..module_utils.reconcile.timelines.histogram import Waits, waits
from ..module_utils.reconcile.timelines.svg import timelines_svg, waits_svg, words_of
from ..module_utils.reconcile.timelines.timeline import Timeline, of_resource

# Lines of a picture; the tables have all.
MOST_DRAWN = 40
Row = dict[str, t.Any]


def claim_timelines(resources: Iterable[Row], hours: float = 24.0, now: float | None = None) -> Row:
    """Tables and pictures of the last hours."""
    since = (time.time() if now is None else now) - 3600.0 * hours
    kept = {each.uid: each for raw in resources for each in of_resource(raw) if each.ended >= since and each.spans}
    newest = sorted(kept.values(), key=lambda each: (-each.ended, each.claim))
    counted = waits(newest)
    return {"claims": [_claim_row(each) for each in newest], "waits": [_wait_row(each) for each in counted],
            "svg": timelines_svg(newest[:MOST_DRAWN]), "waits_svg": waits_svg(counted)}


def _claim_row(timeline: Timeline) -> Row:
    return {"claim": timeline.claim, "node": timeline.node, "seconds": round(timeline.seconds, 3),
            "hops": {span.hop: round(span.seconds, 3) for span in timeline.merged()}}


def _wait_row(row: Waits) -> Row:
    return {"hop": row.hop, "words": words_of(row.hop), "count": row.count, "median": round(row.median, 3),
            "p95": round(row.p95, 3), "longest": round(row.longest, 3)}


class FilterModule:
    """What Ansible asks a filter plugin for."""

    def filters(self) -> dict[str, Callable[..., Row]]:
        """The filter by its name."""
        return {"claim_timelines": claim_timelines}
