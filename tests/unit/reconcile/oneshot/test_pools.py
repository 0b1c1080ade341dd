# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools by hand: what they show, what publishing and withdrawing would change, and who must not be disturbed."""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, NODES, SLICES
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig, EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager import inventory_polls
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot import pools
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot import run as session
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.pools import PoolRun
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.run import NotReady
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench

POOL, OTHER = "a100-fabric1", "h100-fabric1"
FREE = ["a100-0", "a100-1", "a100-2", "a100-3"]


class FakeLeadership:
    """Leads or not, as told by ``others``."""

    others: t.ClassVar[list[str]] = []
    left: t.ClassVar[list[bool]] = []
    held = True

    def __init__(self, client: object, namespace: str, components: list[str], on_lost: Callable[[], object]) -> None:
        assert components == ["publisher"]

    def lead_unless_led(self, stop: threading.Event, timeout: float) -> tuple[str, ...]:
        return tuple(self.others)

    def look(self) -> tuple[str, ...]:
        return tuple(self.others)

    def leave(self) -> None:
        self.left.append(True)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, config: EngineConfig) -> tuple[PoolRun, Bench]:
    """A run against a fake cluster with one node and a manager with four free devices of each model."""
    bench = Bench()
    bench.api.put(NODES, objects.node())
    monkeypatch.setattr(f"{EngineConfig.__module__}.connect", lambda config: bench.fabric)
    monkeypatch.setattr(pools, "LeaderElection", FakeLeadership)
    monkeypatch.setattr(FakeLeadership, "others", [])
    monkeypatch.setattr(FakeLeadership, "left", [])
    monkeypatch.setattr(session, "TICK", 0.001)
    monkeypatch.setattr(inventory_polls, "SHORTEST_LOOK", 0.01)
    return PoolRun(bench.api.client, config, 10.0), bench


def shown(bench: Bench) -> dict[str, list[str]]:
    """Devices of each pool at the API server that is not being deleted."""
    return {s["spec"]["pool"]["name"]: [d["name"] for d in s["spec"]["devices"]] for s in bench.api.of(SLICES)
            if "nodeName" not in s["spec"]}


def test_nothing_is_published_at_first(made: tuple[PoolRun, Bench]) -> None:
    run, bench = made
    found = run.look([POOL]).as_result()
    assert found["changed"] is False
    assert found["pools"] == [{"name": POOL, "model": A100, "fabric": 1, "devices": [], "promised": [],
                               "published": False}]
    assert bench.api.writes() == []


def test_check_mode_says_what_publishing_does(made: tuple[PoolRun, Bench]) -> None:
    run, bench = made
    check = run.published([POOL], True).as_result()
    assert bench.api.writes() == []
    apply = run.published([POOL], False).as_result()
    assert check == apply
    assert apply["diff"] == {"before": {}, "after": {POOL: FREE}}
    assert (apply["changed"], shown(bench), FakeLeadership.left) == (True, {POOL: FREE}, [True])


def test_second_time_nothing_is_written(made: tuple[PoolRun, Bench]) -> None:
    run, bench = made
    run.published([], False)
    writes = len(bench.api.writes())
    again = run.published([], False).as_result()
    assert (again["changed"], len(bench.api.writes()), again["led_by"]) == (False, writes, [])
    assert set(shown(bench)) >= {POOL, OTHER}
    assert again["pools"] == run.look([]).as_result()["pools"]


def test_withdrawn_pool_is_gone_and_the_others_stay(made: tuple[PoolRun, Bench]) -> None:
    run, bench = made
    run.published([], False)
    others = set(shown(bench)) - {POOL}
    check, apply = run.withdrawn([POOL], True).as_result(), run.withdrawn([POOL], False).as_result()
    assert check == apply
    assert apply["diff"] == {"before": {POOL: FREE}, "after": {}}
    assert apply["pools"] == [{"name": POOL, "model": A100, "fabric": 1, "devices": [], "promised": [],
                               "published": False}]
    assert set(shown(bench)) == others


def test_what_claims_hold_stays_when_a_pool_is_withdrawn(made: tuple[PoolRun, Bench]) -> None:
    run, bench = made
    run.published([POOL], False)
    bench.api.put(CLAIMS, objects.claim("train", objects.pool_result("a100-2")))
    found = run.withdrawn([POOL], False).as_result()
    assert (found["diff"]["after"], found["pools"][0]["promised"]) == ({POOL: ["a100-2"]}, ["a100-2"])
    assert shown(bench) == {POOL: ["a100-2"]}
    assert run.withdrawn([POOL], False).as_result()["changed"] is False


def test_publishing_beside_a_controller_is_left_to_it(made: tuple[PoolRun, Bench]) -> None:
    run, bench = made
    FakeLeadership.others = ["controller"]
    for dry in (True, False):
        found = run.published([POOL], dry).as_result()
        assert (found["changed"], found["led_by"], bench.api.writes()) == (False, ["controller"], [])


def test_withdrawing_beside_a_controller_is_refused(made: tuple[PoolRun, Bench]) -> None:
    run, bench = made
    run.published([POOL], False)
    FakeLeadership.others = ["controller"]
    writes = len(bench.api.writes())
    for dry in (True, False):
        with pytest.raises(NotReady, match=r"published by controller, which would publish them again\. Stop it first"):
            run.withdrawn([POOL], dry)
    assert len(bench.api.writes()) == writes


def test_unknown_pool_names_the_known_ones(made: tuple[PoolRun, Bench]) -> None:
    run, _bench = made
    with pytest.raises(BadConfig, match=r"pools: 'x' is not a pool of this fabric. Allowed are .*a100-fabric1"):
        run.look([POOL, "x"])


def test_publishing_on_a_server_that_drops_binding_conditions_is_refused(made: tuple[PoolRun, Bench]) -> None:
    run, bench = made
    bench.api.dropped = ("bindingConditions",)
    with pytest.raises(NotReady, match="feature gate DRADeviceBindingConditions"):
        run.published([], False)
    assert bench.api.writes() == []
    assert FakeLeadership.left == [True]
