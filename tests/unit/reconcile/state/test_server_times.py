# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times that processes compare are the API server's: the clocks of their hosts may differ by hours."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.actions import (
    Attach,
    CreateResource,
    Touch,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.node.compose import (
    plan_compose,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import (
    ComposableResource,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import (
    node_snapshot,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import FakeFabric

REAL = time.time
DEADLINE = 180.0
AHEAD = [-7200.0, -185.0, 0.0, 185.0, 7200.0]


@pytest.fixture
def run_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """``run_on(-185.0)``: from now on the process runs on a host whose clock is 185 s behind."""
    def run_on(ahead: float) -> None:
        monkeypatch.setattr(time, "time", lambda: REAL() + ahead)
        bench.api.clock_ahead = ahead
        bench.state.clock = bench.api.server_time

    return run_on


def read(bench: Bench) -> ComposableResource:
    (found,) = node_snapshot(bench.state, "node-0").resources
    return found


def ask(bench: Bench) -> None:
    """The leader writes down that it asks the CDI Manager, and dies before the answer."""
    bench.put(objects.node("node-0"), objects.request("req"))
    bench.writer.resources.create("gpu-new", CreateResource(
        "node-0", "a claim waits", "gpu-new", "req", A100, "machine-0"), [])


@pytest.mark.parametrize("leader", AHEAD)
@pytest.mark.parametrize("successor", AHEAD)
def test_successor_waits_for_the_answer_whatever_the_clocks_say(
    bench: Bench, run_on: Callable[[float], None], leader: float, successor: float
) -> None:
    run_on(leader)
    ask(bench)
    run_on(successor)
    snapshot = node_snapshot(bench.state, "node-0", {})
    assert snapshot.now - snapshot.resources[0].asked == pytest.approx(0.0, abs=2.0)
    assert [a for a in plan_compose(snapshot, DEADLINE).actions if isinstance(a, Attach)] == []


@pytest.mark.parametrize("ahead", AHEAD)
def test_last_use_and_hold_are_compared_by_one_clock(
    bench: Bench, run_on: Callable[[float], None], ahead: float
) -> None:
    run_on(ahead)
    ask(bench)
    bench.writer.resources.touch(Touch("node-0", "its use ended", "gpu-new", False))
    bench.writer.resources.hold("gpu-new", "uid-claim")
    run_on(0.0)
    found = read(bench)
    assert found.last_used == pytest.approx(REAL(), abs=2.0)
    assert found.held_for == "uid-claim"
    assert found.held_since == pytest.approx(REAL(), abs=2.0)


def test_what_was_seen_to_be_used_stays_in_the_past_when_the_clock_is_set_back(
    bench: Bench, run_on: Callable[[float], None]
) -> None:
    """An idle device would stay attached for as long as the step."""
    run_on(0.0)
    ask(bench)
    bench.state.last_uses.note("gpu-new", bench.state.now())
    bench.state.holds.keep("gpu-new", "uid-claim")
    bench.state.blocks.block("node-0", A100, 60.0, "no device is left")
    run_on(-7200.0)
    snapshot = node_snapshot(bench.state, "node-0", {})
    assert snapshot.now - snapshot.resources[0].last_used == pytest.approx(0.0, abs=2.0)
    assert snapshot.now - snapshot.resources[0].held_since == pytest.approx(0.0, abs=2.0)
    run_on(7200.0)
    assert A100 in bench.state.blocks.of("node-0", bench.state.now())


@pytest.mark.parametrize("ahead", AHEAD)
def test_engine_lives_by_the_api_servers_clock(config: EngineConfig, ahead: float) -> None:
    api = FakeApi()
    api.clock_ahead = ahead
    engine = ControllerManager(api.client, t.cast(t.Any, FakeFabric()), config, events=False)
    assert engine.state.now() == pytest.approx(REAL() - ahead, abs=1.0)
    engine.queue.add_at(NodeKey("due"), api.server_time() - 1.0)
    engine.queue.add_at(NodeKey("later"), api.server_time() + 60.0)
    assert engine.queue.ready() == [NodeKey("due")]
