# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab showed beside what a replay of the same arrivals says."""

from __future__ import annotations

import statistics
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ansible_collections.composable.infra.lab.demo.stage import A100
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.histogram import quantile
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.capture import Capture
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.figures import Spread
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.record import Record
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.simulation import (
    read_question,
    simulated,
)
from ansible_collections.composable.infra.tests.bench.agreement.observed import Recording

Json = dict[str, t.Any]
SEEDS, HOUR = 9, 3600.0


@dataclass(frozen=True, slots=True)
class Bound:
    """By how much a replay's median may differ from the lab: a share of the lab's figure, or so much in all."""

    share: float
    least: float

    def of(self, lab: float) -> float:
        """The larger one."""
        return max(self.share * abs(lab), self.least)


BOUNDS: t.Final[Mapping[str, Bound]] = {
    "wait_p50": Bound(0.3, 0.3), "wait_p90": Bound(0.3, 0.5), "wait_mean": Bound(0.3, 0.3),
    "utilisation": Bound(0.0, 3.0), "attaches": Bound(0.15, 0.0)}
"""Seconds, points of a hundred, and devices."""


def observed_figures(found: Recording, devices: int) -> dict[str, float]:
    """Those of BOUNDS, of the lab."""
    waited = [stay.waited(found.end) for stay in found.came]
    return _figures(waited, sum(stay.used(found.end) for stay in found.stays), devices * found.end, found.attaches)


def replayed_figures(record: Record) -> dict[str, float]:
    """Those of BOUNDS, of a replay. Who waited at the moment of the capture is not among those that came."""
    waited = [guest.waited(record.end) for guest in record.guests if guest.came > 0.0]
    return _figures(waited, sum(record.used.values()), sum(record.total.values()), sum(record.attaches.values()))


def _figures(waited: Sequence[float], used: float, total: float, attaches: int) -> dict[str, float]:
    ordered = sorted(waited)
    return {"wait_p50": quantile(ordered, 0.5), "wait_p90": quantile(ordered, 0.9),
            "wait_mean": statistics.mean(ordered), "utilisation": 100.0 * used / total, "attaches": attaches}


def question(found: Recording, detach: float) -> Json:
    """The very arrivals and lifetimes, and how long a return took before the capture, which is in no timeline.
    ``detach``: the CDI Manager's part of it, in seconds."""
    ordered = sorted(found.returns)
    leave = [max(0.0, quantile(ordered, share) - detach) for share in (0.1, 0.9)]
    sizes = sorted({stay.devices for stay in found.came})
    load = [{"model": A100, "devices_each": size, "arrivals": [
        [stay.came, stay.lifetime] for stay in found.came if stay.devices == size]} for size in sizes]
    return {"hours": found.end / HOUR, "seeds": SEEDS, "load": load,
            "steps": {"leave": leave, "detach": [detach, detach]}}


def compared(capture: Capture, found: Recording, devices: int, detach: float) -> Json:
    """A row of a results file."""
    answer = simulated(capture, read_question(question(found, detach)))
    lab, replays = observed_figures(found, devices), [replayed_figures(record) for record in answer.records]
    return {"minutes": round(found.end / 60, 1), "pods": len(found.came), "devices": devices, "seeds": SEEDS,
            "durations": dict(answer.durations),
            "figures": {name: _beside(lab[name], [each[name] for each in replays], bound)
                        for name, bound in BOUNDS.items()}}


def _beside(lab: float, replays: Sequence[float], bound: Bound) -> Json:
    spread = Spread.of(replays)
    return {"lab": round(lab, 2), "replay": asdict(spread), "bound": round(bound.of(lab), 2),
            "within": abs(spread.median - lab) <= bound.of(lab)}
