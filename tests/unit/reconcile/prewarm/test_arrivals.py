# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counting what claims take, and the ConfigMap in which it is kept."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, CONFIG_MAPS
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Unreachable
from ansible_collections.composable.infra.plugins.module_utils.planning.prewarm_learned import HOUR, WEEK_HOURS
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.prewarm.arrivals import (
    LARGEST,
    MOST_CLAIMS,
    Arrivals,
    as_text,
    of_text,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.prewarm.arrivals_keeper import (
    FIELD,
    NAME,
    ArrivalsKeeper,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.prewarm.taken import taken
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, settings
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi

ROW = {"model": A100, "idle": 1, "learn": {"lead": 300}}
FLOORS = settings(prewarm=[ROW]).floors
HOUR_0 = 490_000
NOW = float(HOUR_0 * HOUR)
NAMESPACE = "composable-infra"


def test_peak_is_what_was_taken_within_one_lead_time() -> None:
    counted = Arrivals(FLOORS)
    for number, when in enumerate((0, 200, 299, 301, 3599, 3700)):
        counted.took(f"claim-{number}", {A100: 1}, NOW + when)
    assert counted.peaks(A100) == {HOUR_0: 3, HOUR_0 + 1: 2}


def test_claim_counts_once() -> None:
    counted = Arrivals(FLOORS)
    for when in (0, 20):
        counted.took("claim", {A100: 2}, NOW + when)
    assert counted.peaks(A100) == {HOUR_0: 2}


def test_what_is_remembered_is_bounded() -> None:
    counted = Arrivals(FLOORS)
    for number in range(MOST_CLAIMS + 1):
        counted.took(f"claim-{number}", {A100: 1}, NOW)
    counted.took("claim-0", {A100: 1}, NOW)
    assert counted.peaks(A100) == {HOUR_0: LARGEST}
    counted.watched(NOW + 5 * WEEK_HOURS * HOUR)
    assert counted.table(NOW + 5 * WEEK_HOURS * HOUR) == {A100: {HOUR_0 + 5 * WEEK_HOURS: 0}}


def test_hour_in_which_nothing_came_is_known() -> None:
    counted = Arrivals(FLOORS)
    counted.took("claim", {A100: 1}, NOW)
    for hour in (0, 2):
        counted.watched(NOW + hour * HOUR)
    assert counted.peaks(A100) == {HOUR_0: 1, HOUR_0 + 2: 0}
    assert of_text(as_text(counted.table(NOW + 2 * HOUR))) == {A100: {HOUR_0: 1, HOUR_0 + 2: 0}}


def test_only_floors_that_learn_are_counted() -> None:
    counted = Arrivals(settings(prewarm=[{"model": A100, "idle": 1}]).floors)
    counted.took("claim", {A100: 1}, NOW)
    counted.merge({A100: {HOUR_0: 1}})
    assert not counted
    assert counted.peaks(A100) == {}


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1}', '{"a": {"first": 1}}', '{"a": {"first": 1, "peaks": [-1]}}',
                                  '{"a": {"first": 1, "peaks": ["x"]}}', '{"a": {"first": 1, "peaks": [99999]}}'])
def test_text_of_others_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it holds no table of peaks"):
        of_text(text)


@pytest.fixture
def bench() -> t.Iterator[Bench]:
    """A node of the floor and one of none, each with a device."""
    made = Bench(prewarm=[{**ROW, "node_selector": {"gpu": "yes"}}])
    made.build()
    for node, machine, label in (("node-0", "machine-0", "yes"), ("node-1", "machine-1", "no")):
        made.put(objects.node(node, machine, gpu=label), objects.local_slice(f"GPU-{node}", node=node),
                 objects.resource(f"gpu-{node}", device=node, serial=f"GPU-{node}", node=node, state="Online"))
    yield made
    made.close()


KEY = f"{A100}|gpu=yes"
WAITING = objects.claim("train")


@pytest.mark.parametrize(("claim", "old", "devices"), [
    (objects.claim("train", objects.local_result()), WAITING, {KEY: 1}),
    (objects.claim("train", objects.pool_result(), objects.pool_result("a100-1")), WAITING, {KEY: 2}),
    (objects.claim("train", objects.local_result("gpu-0", "node-1"), node="node-1"), WAITING, {}),
    (objects.claim("train", objects.local_result()), None, {}),
    (objects.claim("train", objects.local_result()), objects.claim("train", objects.pool_result()), {}),
    (WAITING, objects.claim("train", objects.local_result()), {}),
    (objects.claim("train", {**objects.local_result(), "adminAccess": True}), WAITING, {}),
    (objects.claim("train", objects.pool_result(pool="t4-fabric1")), WAITING, {}),
    (objects.claim("train", {"driver": "nic.example.com", "pool": "node-0", "device": "nic-0"}), WAITING, {}),
], ids=["the node's own", "of a pool", "another group", "seen first in a list", "had one before", "given back",
        "administrative access", "another model", "another driver"])
def test_claim_that_is_allocated_took_devices(bench: Bench, claim: dict[str, t.Any], old: dict[str, t.Any] | None,
                                              devices: dict[str, int]) -> None:
    assert taken(bench.state, claim, old) == devices


class Kept:
    """A keeper on a fake API server."""

    def __init__(self, api: FakeApi, now: float = NOW) -> None:
        self.counted, self.told, self.now = Arrivals(FLOORS), list[str](), now
        self.keeper = ArrivalsKeeper(api.client, NAMESPACE, FLOORS, self.counted, self.told.append, lambda: self.now)


@pytest.fixture
def api() -> FakeApi:
    """It has the ConfigMap as it is shipped, without data."""
    made = FakeApi()
    made.put(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": NAMESPACE}})
    return made


def test_next_leader_knows_what_was_counted(api: FakeApi) -> None:
    first = Kept(api)
    first.counted.took("claim", {A100: 2}, NOW)
    first.keeper.keep()
    second = Kept(api, NOW + HOUR)
    second.counted.took("late", {A100: 1}, NOW + HOUR)
    assert second.keeper.read()
    assert second.counted.peaks(A100) == {HOUR_0: 2, HOUR_0 + 1: 1}
    assert second.keeper.costs()[0].startswith("prewarm keeps 1 to 2 x A100 40G idle on any node")
    assert not any(second.told)


def test_nothing_is_written_where_nothing_is_new(api: FakeApi) -> None:
    kept = Kept(api)
    for _unused in range(3):
        kept.keeper.keep()
    assert len(api.writes(CONFIG_MAPS)) == 1
    kept.now += HOUR
    kept.keeper.keep()
    assert len(api.writes(CONFIG_MAPS)) == 2
    assert of_text(api.one(CONFIG_MAPS, NAME, NAMESPACE)["data"][FIELD]) == {A100: {HOUR_0: 0, HOUR_0 + 1: 0}}


def test_what_cannot_be_read_is_not_written_over(api: FakeApi) -> None:
    api.fail("get", CONFIG_MAPS, Unreachable("no answer"))
    kept = Kept(api)
    kept.keeper.keep()
    assert not api.writes(CONFIG_MAPS)
    assert "what prewarm learned is not read" in kept.told[-1]
    api.heal()
    kept.keeper.keep()
    assert api.writes(CONFIG_MAPS)
    assert kept.told[-1] == ""


def test_failed_write_is_told_and_tried_again(api: FakeApi) -> None:
    kept = Kept(api)
    api.fail("merge_patch", CONFIG_MAPS, Unreachable("no answer"), times=1)
    kept.keeper.keep()
    assert "is not stored" in kept.told[-1]
    kept.keeper.keep()
    assert kept.told[-1] == ""


def test_damaged_table_is_begun_anew(api: FakeApi) -> None:
    body = {**api.one(CONFIG_MAPS, NAME, NAMESPACE), "data": {FIELD: "what?"}}
    api.put(CONFIG_MAPS, body)
    kept = Kept(api)
    assert kept.keeper.read()
    assert "begins anew" in kept.told[0]
    kept.keeper.keep()
    assert of_text(api.one(CONFIG_MAPS, NAME, NAMESPACE)["data"][FIELD]) == {A100: {HOUR_0: 0}}


def test_without_a_floor_that_learns_nothing_is_asked_for(api: FakeApi) -> None:
    keeper = ArrivalsKeeper(api.client, NAMESPACE, (), Arrivals(), lambda said: None)
    assert keeper.read()
    keeper.keep()
    assert not api.calls


def test_engine_counts_what_the_scheduler_allocates(config: EngineConfig) -> None:
    """With the handover reschedule a claim is allocated twice; the list at the start counts for nothing."""
    made = Bench()
    engine = ControllerManager(made.api.client, made.fabric, replace(config, settings=settings(prewarm=[ROW])),
                               events=False)
    made.use(engine)
    pooled, own = objects.claim("train", objects.pool_result()), objects.claim("train", objects.local_result())
    made.put(objects.node())
    for new, old in ((pooled, None), (pooled, WAITING), (WAITING, pooled), (own, WAITING)):
        made.put(new)
        engine.object_changed("MODIFIED" if old else "ADDED", CLAIMS, new, old)
    assert list(engine.state.arrivals.peaks(A100).values()) == [1]
    engine.stop()
