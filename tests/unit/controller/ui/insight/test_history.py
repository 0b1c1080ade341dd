# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history counts devices by state as they change, and its memory has a bound."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import pytest

from ansible_collections.composable.infra.controller.ui.insight.device_states import DeviceStates
from ansible_collections.composable.infra.controller.ui.insight.history import History, Sources, waits
from ansible_collections.composable.infra.controller.ui.insight.memory import LENGTH, MOST_SERIES, Ring
from ansible_collections.composable.infra.controller.ui.insight.span import DAY, HOUR, SPANS, BadQuery, Span
from ansible_collections.composable.infra.controller.ui.scope import Scope
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, FabricSnapshot, Machine
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.day_of_waits import (
    counted,
    together,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import Span as Step
from ansible_collections.composable.infra.plugins.module_utils.reconcile.timelines.timeline import Timeline
from ansible_collections.composable.infra.tests.unit.controller.ui.conftest import EVERYTHING, MINE, Looked
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects

NOW = 500_000 * HOUR


class Clocked:
    """A history of a bench, with a clock that the test turns."""

    def __init__(self, looked: Looked) -> None:
        self.now, self.attempts, self.waiting = NOW, (0, 0), 0
        self.states = DeviceStates(looked.bench.state, lambda seconds: None)
        self.history = History(Sources(lambda: True, self.states.read, lambda: self.waiting, lambda: self.attempts,
                                       dict, lambda: self.now))

    def numbers(self, span: str = "1h", scope: Scope = EVERYTHING) -> dict[tuple[str, str, int | None], list[float]]:
        """The values of each series."""
        answer = self.history.answer(span, scope)
        return {(each.state, each.model, each.fabric): [value for _at, value in each.points] for each in answer.series}


@pytest.fixture
def clocked(looked: Looked) -> Clocked:
    """A node with a machine on fabric 1."""
    return Clocked(looked)


def test_states_are_counted_as_objects_change(clocked: Clocked, looked: Looked) -> None:
    clocked.history.sample()
    looked.put(objects.local_slice("GPU-a"),
               objects.resource("gpu-a", device="dev-a", serial="GPU-a", state="Online"))
    clocked.now += 60
    clocked.history.sample()
    looked.put(objects.claim("train", objects.local_result()))
    clocked.now += 60
    clocked.history.sample()
    found = clocked.numbers()
    assert found["idle", A100, 1] == [1, 0]
    assert found["in-use", A100, 1] == [1]


def test_counts_are_those_of_all_rows_read_again(clocked: Clocked, looked: Looked) -> None:
    for number in range(3):
        looked.put(objects.node(f"node-{number}", f"machine-{number}"),
                   objects.resource(f"gpu-{number}", device=f"dev-{number}", state="Online", node=f"node-{number}"))
        clocked.states.read()
    looked.put(objects.resource("gpu-1", device="dev-1", state="Detaching", node="node-1"))
    assert clocked.states.read() == DeviceStates(looked.bench.state, lambda seconds: None).read() != {}


def test_only_nodes_that_changed_are_read(clocked: Clocked, looked: Looked, monkeypatch: pytest.MonkeyPatch) -> None:
    looked.put(*(objects.node(f"node-{number}", f"machine-{number}") for number in range(5)))
    clocked.states.read()
    read: Counter[str] = Counter()
    users = looked.bench.state.users
    monkeypatch.setattr(looked.bench.state, "users", lambda name: read.update([name]) or users(name))
    looked.put(objects.resource("gpu-a", node="node-3"))
    clocked.states.read()
    assert read == {"node-3": 1}


def test_machine_that_is_no_node_is_counted_after_a_poll(clocked: Clocked, looked: Looked) -> None:
    machine = Machine("spare", "spare", 1, devices=(Device("dev-x", A100, state="attached"),))
    looked.bench.state.snapshot = FabricSnapshot({"spare": machine}, {(A100, 1): 4}, NOW)
    found = clocked.states.read()
    assert (found["free", A100, 1], found["unmanaged", A100, 1]) == (4, 1)
    looked.bench.state.snapshot = FabricSnapshot({}, {(A100, 1): 5}, NOW)
    found = clocked.states.read()
    assert (found["free", A100, 1], found["unmanaged", A100, 1]) == (5, 0)


def test_attaches_and_failures_are_those_since_the_sample_before(clocked: Clocked) -> None:
    clocked.attempts = (5, 2)
    clocked.history.sample()
    clocked.attempts = (8, 3)
    clocked.now += 300
    clocked.history.sample()
    answer = clocked.history.answer("24h", EVERYTHING)
    assert [value for _at, value in answer.attaches] == [0, 3]
    assert [value for _at, value in answer.failures] == [0, 1]


def test_long_span_says_that_memory_ends_after_a_day(clocked: Clocked) -> None:
    clocked.history.sample()
    clocked.now += 60
    clocked.history.sample()
    answer = clocked.history.answer("30d", EVERYTHING)
    assert (answer.since, answer.source) == (NOW, "memory")
    assert "at most 24 h" in answer.bounded
    assert "set prometheus_url" in answer.bounded


def test_span_that_is_covered_has_no_bound(clocked: Clocked) -> None:
    for _minute in range(62):
        clocked.history.sample()
        clocked.now += 60
    assert clocked.history.answer("1h", EVERYTHING).bounded == ""


def test_process_without_a_sample_says_so(clocked: Clocked) -> None:
    assert "no sample yet" in clocked.history.answer("1h", EVERYTHING).bounded


def test_unknown_span_is_refused_with_what_is_allowed(clocked: Clocked) -> None:
    with pytest.raises(BadQuery, match=r"span: '2h' is not allowed. It must be one of 1h, 24h, 7d, 30d"):
        clocked.history.answer("2h", EVERYTHING)


@pytest.mark.parametrize("name", SPANS)
def test_a_span_has_few_points(name: str) -> None:
    span = Span.read(name, NOW)
    minutes = [(NOW - at * 60, 1.0) for at in range(int((span.until - span.since) // 60))]
    assert len(span.last_of_steps(minutes)) <= 300
    assert sum(value for _at, value in span.sums_of_steps(minutes)) == len(minutes)


def test_day_that_ended_is_forgotten() -> None:
    ring = Ring()
    for minute in range(LENGTH + 10):
        ring.add(NOW + minute * 60, {("in-use", A100, 1): minute} if minute % 2 else {})
    assert ring.since == NOW + 600
    points = ring.of(("in-use", A100, 1))
    assert len(points) == LENGTH / 2
    assert points[-1] == (NOW + (LENGTH + 9) * 60, LENGTH + 9)


def test_more_series_than_allowed_are_left_out_and_said(clocked: Clocked, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = clocked.history._ring
    ring.add(NOW, {("in-use", f"model-{number}", 1): 1 for number in range(MOST_SERIES + 3)})
    assert "3 combinations" in clocked.history.answer("1h", EVERYTHING).bounded


def test_memory_of_the_ring_is_bounded_at_its_largest() -> None:
    """All series of the largest ring, for a day: below 4 MB, measured."""
    tracemalloc.start()
    ring = Ring()
    ring.add(NOW, {("in-use", f"model-{number}", 1): 1 for number in range(MOST_SERIES)})
    size, _peak = tracemalloc.get_traced_memory()
    for minute in range(100):
        ring.add(NOW + 60 * minute, {("in-use", f"model-{number}", 1): 1 for number in range(MOST_SERIES)})
    grown, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 4_000_000
    assert grown - size < size / 20


def test_waits_are_those_of_a_namespace_and_of_its_hours() -> None:
    def waited(namespace: str, hours: float, seconds: float) -> Timeline:
        ended = NOW - hours * HOUR
        return Timeline(f"{namespace}/a", f"{namespace}{hours}", "node-0", 0.0,
                        (Step("attach", ended - seconds, ended),))

    rows = together(*(counted(each) for each in (
        waited("mine", 0.5, 10.0), waited("rival", 0.5, 40.0), waited("mine", 3.5, 20.0))))
    day = Span("24h", NOW - DAY, NOW, 300.0)
    assert waits(rows, "mine", day) == {"p50": [(NOW - 4 * HOUR, 20.0), (NOW - HOUR, 10.0)],
                                        "p95": [(NOW - 4 * HOUR, 20.0), (NOW - HOUR, 10.0)]}
    assert waits(rows, None, day)["p95"] == [(NOW - 4 * HOUR, 20.0), (NOW - HOUR, 40.0)]
    assert waits(rows, "mine", Span("1h", NOW - HOUR, NOW, 60.0))["p50"] == [(NOW - HOUR, 10.0)]


def test_namespace_gets_the_sums_of_the_devices(clocked: Clocked, looked: Looked) -> None:
    looked.put(objects.resource("gpu-a", device="dev-a", state="Online"))
    clocked.history.sample()
    assert clocked.numbers(scope=MINE) == clocked.numbers()
