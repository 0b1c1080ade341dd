# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of replays: those of the namespaces add up to those of the whole."""

from __future__ import annotations

import random

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.figures import (
    by_namespace,
    figures,
    longest,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.record import Guest, Record

UNFIT = "no node has 16 devices"


def test_a_pod_that_no_plan_can_serve_waits_in_no_namespace() -> None:
    """It is counted as such, in its namespace as in the whole."""
    record = Record(100.0, [Guest("a/ran", "a", 0.0, 10.0), Guest("a/waits", "a", 40.0),
                            Guest("b/never", "b", 20.0, unfit=UNFIT)])
    assert (figures(record, 60.0)["waiting"], figures(record, 60.0)["unfit"]) == (1, 1)
    assert by_namespace([record]) == [
        {"namespace": "a", "wait_p95": 60.0, "waiting": 1, "unfit": 0},
        {"namespace": "b", "wait_p95": 0.0, "waiting": 0, "unfit": 1}]
    assert [each["pod"] for each in longest(record)] == ["a/waits", "a/ran"]


def test_namespaces_add_up_to_the_whole(rng: random.Random) -> None:
    guests = [Guest(f"{space}/{number}", space, number, rng.choice([-1.0, number + 5.0]))
              for number, space in enumerate(rng.choices("abc", k=60))]
    for guest in rng.sample([each for each in guests if each.ran < 0.0], 10):
        guest.unfit = UNFIT
    whole, parts = figures(record := Record(500.0, guests), 60.0), by_namespace([record])
    for name in ("waiting", "unfit"):
        assert sum(each[name] for each in parts) == whole[name]


@pytest.mark.parametrize("seeds", [1, 3])
def test_of_several_replays_it_is_the_median(seeds: int) -> None:
    records = [Record(100.0, [Guest("a/x", "a", 0.0, 10.0 * (seed + 1)), *[Guest("a/y", "a", 0.0)] * seed])
               for seed in range(seeds)]
    (found,) = by_namespace(records)
    assert (found["waiting"], found["unfit"]) == (seeds // 2, 0)
