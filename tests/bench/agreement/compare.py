# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the results of the lab with a replay of the same arrivals."""

from __future__ import annotations

import random
import statistics
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ansible_collections.composable.infra.lab.demo.stage import A100
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.histogram import quantile
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.capture import Capture
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.durations import (
    DEFAULTS,
    LEAVE,
    Durations,
    durations_of,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.figures import Spread
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.load import drawn, read_load
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.record import Record
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.replay import Replay
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.start import start_of
from ansible_collections.composable.infra.tests.bench.agreement.observed import Recording

Json = dict[str, t.Any]
SEEDS, HOUR = 9, 3600.0


@dataclass(frozen=True, slots=True)
class Bound:
    """The allowed difference of a replay's median from the lab: a share of the lab's figure, or at
    least ``least``.
    """

    share: float
    least: float

    def of(self, lab: float) -> float:
        """Return the larger of the two."""
        return max(self.share * abs(lab), self.least)


BOUNDS: t.Final[Mapping[str, Bound]] = {
    "wait_p50": Bound(0.3, 0.3), "wait_p90": Bound(0.3, 0.5), "wait_mean": Bound(0.3, 0.3),
    "utilisation": Bound(0.0, 3.0), "attaches": Bound(0.15, 0.0)}
"""In seconds, percentage points, and devices."""


def observed_figures(found: Recording, devices: int) -> dict[str, float]:
    """Return the figures of BOUNDS for the lab."""
    waited = [stay.waited(found.end) for stay in found.came]
    return _figures(waited, sum(stay.used(found.end) for stay in found.stays), devices * found.end, found.attaches)


def replayed_figures(record: Record) -> dict[str, float]:
    """Return the figures of BOUNDS for a replay, without pods that waited at the capture."""
    waited = [guest.waited(record.end) for guest in record.guests if guest.came > 0.0]
    return _figures(waited, sum(record.used.values()), sum(record.total.values()), sum(record.attaches.values()))


def _figures(waited: Sequence[float], used: float, total: float, attaches: int) -> dict[str, float]:
    ordered = sorted(waited)
    return {"wait_p50": quantile(ordered, 0.5), "wait_p90": quantile(ordered, 0.9),
            "wait_mean": statistics.mean(ordered), "utilisation": 100.0 * used / total, "attaches": attaches}


def load(found: Recording) -> list[Json]:
    """Return the same arrivals and lifetimes as the load of a what-if."""
    sizes = sorted({stay.devices for stay in found.came})
    return [{"model": A100, "devices_each": size, "arrivals": [
        [stay.came, stay.lifetime] for stay in found.came if stay.devices == size]} for size in sizes]


def leaving(returns: Sequence[float], detach: float) -> tuple[float, ...]:
    """Return how long nodes took to remove a device. ``detach``: the CDI Manager's part of a
    return, in seconds.
    """
    return tuple(max(0.0, each - detach) for each in returns)


def replays(capture: Capture, found: Recording, durations: Durations) -> list[dict[str, float]]:
    """Return the figures of one replay for each seed. The duration of each step is random."""
    hours = found.end / HOUR
    arrivals = drawn(read_load(load(found), capture, "load", hours), hours, random.Random(0))
    return [replayed_figures(Replay(start_of(capture), arrivals, durations, random.Random(seed), hours).run())
            for seed in range(1, SEEDS + 1)]


def compared(capture: Capture, found: Recording, devices: int, detach: float) -> Json:
    """Return a row of a results file.

    Timelines do not include returns. Both replays therefore get the durations of returns, before
    and after the capture.
    """
    early = durations_of(capture, {"detach": [detach, detach]}, "steps")
    early = replace(early, samples={**early.samples, LEAVE: leaving(found.returns, detach)})
    late = replace(early, samples={**found.steps, LEAVE: leaving(found.later_returns, detach)})
    lab = observed_figures(found, devices)
    told = {"capture": replays(capture, found, early), "minutes": replays(capture, found, late)}
    return {"minutes": round(found.end / 60, 1), "pods": len(found.came), "devices": devices, "seeds": SEEDS,
            "medians": {step: [round(statistics.median(each.samples[step]), 3) for each in (early, late)]
                        for step in DEFAULTS if step in early.samples and step in late.samples},
            "figures": {name: {"lab": round(lab[name], 2), **{
                steps: _beside(lab[name], [each[name] for each in rows], bound) for steps, rows in told.items()}}
                for name, bound in BOUNDS.items()}}


def _beside(lab: float, found: Sequence[float], bound: Bound) -> Json:
    spread = Spread.of(found)
    return {**asdict(spread), "bound": round(bound.of(lab), 2), "within": abs(spread.median - lab) <= bound.of(lab)}
