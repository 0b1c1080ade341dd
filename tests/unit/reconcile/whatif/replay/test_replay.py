# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replays in simulated time: waits are sums of steps, and no device is lost or used twice."""

from __future__ import annotations

import random
import typing as t
from collections import Counter
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.model.resource import NodeWork
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.capture import Capture
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.changes import changed
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.options import BadChange
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.durations import durations_of
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.load import drawn, read_load
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.record import Record
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.replay import Replay
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.simulation import (
    compared,
    read_question,
    simulated,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.replay.start import start_of
from ansible_collections.composable.infra.tests.bench.whatif import MODEL, made_up
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.whatif.conftest import TakeCapture, at_work

Json = dict[str, t.Any]
STEPS = {"request": [0.5, 0.5], "attach": [9.5, 9.5], "slice": [3, 3], "gate": [0.25, 0.25], "bind": [0.75, 0.75],
         "handover": [5, 5], "start": [2, 2], "leave": [4, 4], "detach": [6, 6]}
HOLD = 600.0


def capture(nodes: int = 2, free: int = 2, **settings: t.Any) -> Capture:
    """Nodes without devices, and free devices of one model."""
    made = made_up(nodes, free)
    return replace(made, settings={**made.settings, "device_no_removal_duration": HOLD, **settings})


def recorded(*moments: tuple[float, float], **more: t.Any) -> Json:
    """A load of pods with one device each: moment and lifetime."""
    return {"model": MODEL, "arrivals": [list(each) for each in moments], **more}


class Checked(Replay):
    """A replay that is checked each time the planners have decided."""

    def _settle(self) -> None:
        super()._settle()
        asked = [each for node in self.nodes.values() for each in node.resources.values() if each.asked or each.serial]
        assert sum(self.free.values()) + len(asked) == sum(self.devices.total.values()), "a device is lost"
        assert min(self.free.values()) >= 0, "more devices are attached than there are"
        assert self.devices.used == Counter(each.model for each in asked if each.used_by)
        users = Counter(each.used_by for each in asked if each.used_by)
        wanted = {claim.key: len(claim.results) for visit in self._visits.values() for claim in visit.claims.values()}
        assert all(n == wanted.get(key, n) for key, n in users.items()), "a claim has another number of devices"


def replayed(of: Capture, *load: Json, hours: float = 2.0, seed: int = 1) -> Record:
    """One replay with fixed durations."""
    arrivals = drawn(read_load(list(load), of, "load", hours), hours, random.Random(seed))
    return Checked(start_of(of), arrivals, durations_of(of, STEPS, "simulate"), random.Random(seed), hours).run()


def waits(record: Record) -> list[float]:
    return [round(guest.waited(record.end), 3) for guest in record.guests]


def test_a_pod_waits_for_each_step() -> None:
    record = replayed(capture(), recorded((60, 100)))
    assert waits(record) == [10 + 3 + 1 + 2]
    assert record.attaches == {MODEL: 1}
    assert record.used[MODEL] == pytest.approx(100 + 2)
    assert record.idle[MODEL] == pytest.approx(3 + 1 + HOLD + 4 + 6)


def test_a_pod_that_no_gate_holds_waits_for_the_schedulers_tick() -> None:
    assert waits(replayed(capture(handover="reschedule"), recorded((60, 100)))) == [10 + 3 + 5 + 2]


def test_a_device_is_used_again_while_it_is_held_and_attached_anew_after_that() -> None:
    again = replayed(capture(), recorded((0, 100), (200, 100)))
    assert (waits(again), again.attaches) == ([16, 3], {MODEL: 1})
    anew = replayed(capture(), recorded((0, 100), (200 + HOLD, 100)))
    assert (waits(anew), anew.attaches) == ([16, 16], {MODEL: 2})


def test_who_finds_nothing_waits_for_the_first_that_ends() -> None:
    record = replayed(capture(free=1), recorded((0, 100), (10, 100), (20, 100)))
    assert waits(record) == [16, 116 + 3 - 10, 116 + 103 + 3 - 20]


@pytest.mark.parametrize(("age", "left"), [(95, 5.0), (30, 30.0), (700, 60.0)],
                         ids=["only the longest lifetime is longer", "the rest of a lifetime", "older than any"])
def test_who_runs_already_stays_for_the_rest_of_a_lifetime(held: Bench, captured: TakeCapture, age: int, left: float
                                                           ) -> None:
    """It was drawn a whole lifetime once more, so a replay began with a cluster that stayed too full."""
    held.fabric.free_count = 0
    at_work(held)
    taken = captured(held)
    (pod,) = taken.of("pods")
    born = format_time(taken.taken - age)
    old = {**pod, "metadata": {**pod["metadata"], "creationTimestamp": born}}
    lifetimes = (60, 60) if left >= 30 else (60, 100)
    first, _unused = waits(replayed(taken.with_objects(pods=[old]), {"model": A100, "arrivals": [
        [0, lifetimes[0]], [1000, lifetimes[1]]]}))
    assert first == pytest.approx(left + 1 + 2, abs=1.0), "the moments of objects are whole seconds"


def halfway(held: Bench, captured: TakeCapture, phase: Json, arrivals: list[list[float]], steps: Json) -> Replay:
    """A replay of an hour that begins with one device, which is in the midst of something."""
    held.fabric.free_count = 0
    at_work(held)
    taken = captured(held)
    start = start_of(replace(taken, settings={**taken.settings, "device_no_removal_duration": 5.0}))
    seen = start.seen["node-0"]
    (resource,) = seen.resources
    node = replace(seen, resources=(replace(resource, used_by="", asked=1.0, **phase),))
    load = drawn(read_load([{"model": A100, "arrivals": arrivals}], taken, "load", 1.0), 1.0, random.Random(1))
    return Replay(replace(start, running=(), seen={**start.seen, "node-0": node}), load,
                  durations_of(taken, steps, "simulate"), random.Random(1), 1.0)


@pytest.mark.parametrize("phase", [
    {"state": "", "device_uid": "", "serial": "", "visible": False, "usable": False},
    {"state": "", "device_uid": "", "serial": "", "visible": False, "usable": False, "operation": "op-1"},
    {"state": "", "visible": False, "usable": False, "node_work": NodeWork()},
    {"deleting": True, "tainted": True},
    {"deleting": True, "tainted": True, "node_work": NodeWork(asked=True)},
    {"deleting": True, "usable": False, "node_work": NodeWork(asked=True, removed=True)},
    {"deleting": True, "visible": False, "usable": False, "node_work": NodeWork(asked=True, removed=True)},
    {"held_for": "uid-of-one-that-is-being-served", "held_since": 1.0, "hold_alive": True}],
    ids=["asked for", "asked for with a handle", "attached", "to leave", "asked back from the node",
         "off the bus, still in the slice", "off the node", "kept for a claim"])
def test_what_was_under_way_at_the_capture_goes_on(held: Bench, captured: TakeCapture, phase: Json) -> None:
    """A device between two steps was in nobody's hands, and all that its node was given waited for it for ever."""
    replay = halfway(held, captured, phase, [[0, 60], [300, 60]], STEPS)
    record = replay.run()
    assert [guest.ran >= 0.0 for guest in record.guests] == [True, True]
    assert record.guests[0].waited(record.end) < 60.0
    assert [[*node.resources] for node in replay.nodes.values()] == [[]], "it goes back to the fabric at last"
    assert sum(replay.free.values()) == 1


def test_device_that_goes_back_before_its_node_has_shown_it_is_shown_no_more(held: Bench, captured: TakeCapture
                                                                             ) -> None:
    """Nobody wants it any more, and the way back is over sooner than the node's part."""
    replay = halfway(held, captured, {"visible": False, "usable": False, "node_work": NodeWork()}, [[700, 60]],
                     {**STEPS, "slice": [500, 500]})
    record = replay.run()
    assert [guest.ran >= 0.0 for guest in record.guests] == [True]
    assert record.attaches == {A100: 1}, "the one at the beginning is back on the fabric by then"


def test_who_is_let_go_gets_a_device_later_all_the_same() -> None:
    record = replayed(capture(free=1, unserved="release"), recorded((0, 100), (10, 100)))
    assert waits(record) == [16, 116 + 3 - 10]
    assert [guest.let_go for guest in record.guests] == [False, True]


def test_who_asks_for_more_than_there_is_never_runs() -> None:
    record = replayed(capture(free=2, unserved="release"), recorded((0, 100), devices_each=3))
    assert [guest.ran for guest in record.guests] == [-1.0]
    assert record.guests[0].let_go


@pytest.mark.parametrize("settings", [{}, {"unserved": "release"}, {"allocation_policy": "differentnode"},
                                      {"device_no_removal_duration": 30.0}])
def test_no_device_is_lost_in_a_random_replay(seed: int, settings: Json) -> None:
    load = ({"model": MODEL, "cpu": "4", "per_hour": 60.0, "lifetime": 600.0},
            {"model": MODEL, "devices_each": 3, "burst": 2, "per_hour": 6.0, "lifetime": 900.0})
    record = replayed(capture(4, 12, **settings), *load, seed=seed)
    assert sum(guest.ran >= 0 for guest in record.guests) > 20
    assert record.used[MODEL] <= record.total[MODEL] == pytest.approx(12 * record.end)


def test_the_same_seeds_give_the_same_answer_and_other_seeds_another() -> None:
    question = read_question({"hours": 1, "seeds": 2, "load": [{"model": MODEL, "per_hour": 40, "lifetime": 300}]})
    one, same = (simulated(capture(2, 3), question) for _again in range(2))
    assert one.as_result() == same.as_result()
    assert one.records[0].guests != one.records[1].guests
    assert one.spreads["came"].low < one.spreads["came"].high


def test_more_devices_shorten_the_wait() -> None:
    before = capture(4, 4)
    found = compared(before, changed(before, [{"change": "add_devices", "model": MODEL, "count": 4}]), {
        "hours": 2, "seeds": 1, "steps": STEPS, "load": [{"model": MODEL, "per_hour": 40, "lifetime": 480}]})
    p95 = [found[which]["figures"]["wait_p95"]["median"] for which in ("before", "after")]
    assert p95[0] > 3 * p95[1] > 0
    assert found["table"][0].split() == ["2", "h", "simulated", "BEFORE", "AFTER"]


@pytest.mark.parametrize(("given", "said"), [
    ({"hours": 0, "load": []}, "simulate.hours: 0 is not usable"),
    ({"seeds": 1000}, "simulate.seeds"),
    ({}, "simulate.load: None is not usable: must be a list of loads"),
    ({"load": [{"model": "V100", "per_hour": 1, "lifetime": 1}]}, "simulate.load[0].model: 'V100'"),
    ({"load": [{"model": MODEL, "per_hour": -1, "lifetime": 1}]}, "simulate.load[0].per_hour: -1"),
    ({"load": [{"model": MODEL, "per_hour": 1}]}, "simulate.load[0].lifetime: None"),
    ({"load": [{"model": MODEL, "arrivals": [[1]]}]}, "simulate.load[0].arrivals: [1]"),
    ({"load": [{"model": MODEL, "arrivals": [], "per_hour": 1}]}, "simulate.load[0].per_hour"),
    ({"load": [{"model": MODEL, "per_hour": 1e9, "lifetime": 1}]}, "a replay has 1000000 pods at most"),
    ({"load": [recorded()], "steps": {"attach": [5, 1]}}, "simulate.steps.attach: [5, 1]"),
    ({"load": [recorded()], "steps": {"boot": [5, 6]}}, "simulate.steps.boot"),
])
def test_what_is_wrong_is_named(given: Json, said: str) -> None:
    with pytest.raises(BadChange) as error:
        compared(capture(), capture(), given)
    assert said in str(error.value)
