# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan changes nothing that its caller keeps, and a cache may be copied while another plan uses it."""

from __future__ import annotations

import copy
import dataclasses
import sys
import typing as t
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.demand import Demand
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.parse_cache import ParseCache
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.plan import plan_placements
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import (
    GatedPod,
    SchedulingSnapshot,
    Stock,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, H100, T4
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    RULES,
    WAIT,
    Rules,
    assumed,
    device,
    exactly,
    gated,
    idle,
    make_snapshot,
    node,
    raw_pod,
)
from ansible_collections.composable.infra.tests.unit.planning.scheduling.zones import (
    WEB,
    avoids,
    requires,
    spread,
    term,
)


def refuse(*_unused: object, **_more: object) -> t.NoReturn:
    raise AssertionError("a plan writes into its snapshot")


class FrozenDict(dict[t.Any, t.Any]):
    """A dict that nobody may change."""

    __setitem__ = __delitem__ = __ior__ = refuse
    clear = pop = popitem = setdefault = update = refuse


class FrozenList(list[t.Any]):
    """A list that nobody may change."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = refuse
    append = clear = extend = insert = pop = remove = reverse = sort = refuse


def frozen(value: t.Any) -> t.Any:
    """The same value, down to its last part, such that each attempt to change it is an error."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{f.name: frozen(getattr(value, f.name)) for f in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        return FrozenDict({key: frozen(each) for key, each in value.items()})
    if isinstance(value, list):
        return FrozenList(frozen(each) for each in value)
    return tuple(frozen(each) for each in value) if isinstance(value, tuple) else value


def everything() -> SchedulingSnapshot:
    """A bit of all that a plan does: reserve, unreserve a group, withhold, let go, wait for a claim."""
    port: dict[str, t.Any] = {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}
    earlier = gated("earlier", exactly(A100, 2))
    pods: list[GatedPod] = [
        gated("near", age=90, labels=WEB, affinity=requires(term(WEB))),
        gated("apart", age=89, labels=WEB, affinity=avoids(term(WEB, "kubernetes.io/hostname"))),
        gated("spread", age=88, labels=WEB, topologySpreadConstraints=spread(WEB)), gated("port", age=87, **port),
        *(gated(f"group-{i}", exactly(A100, 3), age=80, group=("g", 2)) for i in range(2)),
        gated("large", exactly(A100, 8), exactly(T4), age=70), gated("any", exactly(None, 2), age=60),
        gated("choice", [exactly(H100), exactly(T4)], age=50), gated("other", schedulerName="other"),
        gated("claimless", claims={"gpu": None}, age=1), earlier]
    nodes = [node(f"n{i}", raw_pod(f"old-{i}", labels=WEB, affinity=avoids(term({"app": "db"})), **port),
                  labels={"zone": "ab"[i % 2]}, stock={A100: Stock(idle(i, node=f"n{i}"), coming=1, bound=1, limit=8)})
             for i in range(3)]
    placement = assumed(earlier, "n2", {A100: 2}, devices={"uid-earlier-gpu": ("n2a0",)})
    return make_snapshot(*nodes, *pods, placement, free={(A100, 1): 3, (T4, 1): 2}, last_placed={"n0": 1.0},
                         samples={T4: (device(0, T4),)})


@pytest.mark.parametrize("rules", [RULES, WAIT, Rules(allocation_policy="roundrobin")])
def test_the_snapshot_stays_as_it_is_and_gives_the_same_plan_again(rules: Rules) -> None:
    snapshot, cache = frozen(everything()), ParseCache()
    before = copy.deepcopy(everything())
    first = plan_placements(snapshot, rules, cache)
    assert first.placements
    assert first.releases
    assert first.wait_reasons
    assert plan_placements(snapshot, rules, cache) == first
    assert plan_placements(snapshot, rules) == first
    assert plan_placements(everything(), rules) == first
    assert snapshot == before
    assert [each.raw for each in snapshot.placements] == [each.raw for each in before.placements]


def test_a_copy_knows_the_same_and_learns_alone() -> None:
    cache, snapshot = ParseCache(), everything()
    expected = plan_placements(snapshot, WAIT, cache)
    other = cache.copy()
    assert plan_placements(snapshot, WAIT, other) == expected
    pod = snapshot.waiting[0]
    assert other.pod(pod.raw) is cache.pod(pod.raw)
    one, two = gated("one", exactly(A100, 5)), gated("two", exactly(A100, 6))
    mine, others = cache.demand_reader(snapshot, WAIT).read(one), other.demand_reader(snapshot, WAIT).read(two)
    assert isinstance(mine, Demand)
    assert isinstance(others, Demand)
    assert mine.signature != others.signature


@pytest.fixture
def switching_often() -> Iterator[None]:
    """Threads take turns as often as the interpreter can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("switching_often")
def test_a_forecast_on_a_copy_and_live_plans_do_not_disturb_each_other() -> None:
    """The live plans see other objects each time, so that the cache is filled while it is copied."""
    live = ParseCache()
    expected = plan_placements(everything(), WAIT)

    def plan_live() -> None:
        for _unused in range(40):
            assert plan_placements(everything(), WAIT, live) == expected

    def forecast() -> None:
        for _unused in range(40):
            assert plan_placements(everything(), WAIT, live.copy()) == expected

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(plan_live), threads.submit(forecast)]:
            done.result()
