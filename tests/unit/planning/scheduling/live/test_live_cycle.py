# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cycle that lives on plans as a new one does, in every step of random histories."""

from __future__ import annotations

import random
import typing as t
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.fairness import Shares
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.live.cycle import LiveCycle
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.live.lane_queue import LaneQueue
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.plan import (
    QueuePlanner,
    plan_placements,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.queue import QueuedPod
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import (
    GatedPod,
    NodeFacts,
    Placement,
    SchedulingPlan,
    SchedulingSnapshot,
    Stock,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, NOW
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    CLASS,
    RULES,
    WAIT,
    Rules,
    device,
    device_class,
    exactly,
    gated,
    make_snapshot,
    node,
    raw_pod,
)
from ansible_collections.composable.infra.tests.unit.planning.scheduling.simulated_cluster import (
    CPU,
    MODELS,
    SimulatedCluster,
    random_cluster,
)

CLASSES = {CLASS: device_class()}
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
SPREAD = {**TERM, "maxSkew": 1}
"""No node of a cluster without zones meets it."""
APPS: tuple[dict[str, str], ...] = ({}, {"app": "a"}, {"app": "b"})


def random_pod(rng: random.Random, name: str, group: tuple[str, int] | None, since: float) -> GatedPod:
    """Of one or several models, with terms about other pods now and then."""
    def ask() -> dict[str, object]:
        return exactly(rng.choice((*MODELS, None)), rng.randint(1, 3))

    asks = [[ask(), ask()] if rng.random() < 0.2 else ask() for _unused in range(rng.choice((1, 1, 2)))]
    selector = {"matchLabels": {"app": "a"}}
    term = {"topologyKey": "zone", "labelSelector": selector}
    more: t.Any = rng.choice([{}] * 5 + [
        {"affinity": {rng.choice(("podAffinity", "podAntiAffinity")):
                      {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}},
        {"topologySpreadConstraints": [{**term, "maxSkew": 1}]}])
    return gated(name, *asks, age=NOW - since, group=group, priority=rng.choice((0, 0, 0, 5)),
                 labels=rng.choice(APPS), **more)


def pod_of_a_crowd(rng: random.Random, name: str, since: float) -> GatedPod:
    """Of two demands, with terms about other pods now and then, but without anti-affinity."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}
    more: t.Any = rng.choice([{}] * 5 + [{"affinity": {"podAffinity": required}},
                                         {"topologySpreadConstraints": [SPREAD]}])
    return gated(name, exactly(MODELS[0], rng.choice((1, 2))), age=NOW - since, priority=rng.choice((0, 0, 0, 5)),
                 labels=rng.choice(APPS), **more)


@dataclass
class SlowCluster(SimulatedCluster):
    """A cluster whose devices take their time: some placements are served, others later."""

    rng: random.Random = field(default_factory=random.Random)

    def _arrived(self, placement: Placement) -> bool:
        return self.rng.random() < 0.6 and super()._arrived(placement)


def slow_cluster(rng: random.Random, rules: Rules) -> SlowCluster:
    """Nodes and devices at random."""
    made = random_cluster(rng, rules)
    return SlowCluster(made.nodes, made.devices, made.limit, made.rest, rules, rng=rng)


@dataclass
class History:
    """A cluster over time whose unchanged nodes are the same objects, as the engine and the replay give them."""

    rng: random.Random
    cluster: SimulatedCluster
    facts: dict[str, NodeFacts] = field(default_factory=dict)
    last_placed: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, name in enumerate(self.cluster.nodes):
            self.cluster.said[name] = node(name, labels={"zone": f"z{number % 3}"}, allocatable={"cpu": str(CPU)}).node

    def snapshot(self) -> SchedulingSnapshot:
        """Free devices are on their way back now and then, but at the beginning."""
        made = self.cluster.snapshot()
        for name, facts in made.nodes.items():
            if self.facts.get(name) != facts:
                self.facts[name] = facts
        several = self.cluster.step > 0 and self.rng.random() < 0.5
        returning = {key: self.rng.randint(0, n) for key, n in made.free.items() if several}
        free = {key: n - returning.get(key, 0) for key, n in made.free.items()}
        return replace(made, nodes=dict(self.facts), free=free, returning=returning, classes=CLASSES,
                       last_placed=dict(self.last_placed))

    def follow(self, found: SchedulingPlan) -> None:
        """What the plan says is done, and a step of time passes."""
        self.cluster.placed.update({each.pod.name: each for each in found.placements})
        self.last_placed.update({each.node: each.since for each in found.placements})
        for each in found.releases:
            del self.cluster.waiting[each.pod.name]
        self.cluster.live(self.rng, longest=4)

    def nodes_change(self) -> None:
        """A node moves to another zone, or loses its zone, or is cordoned or tainted, now and then."""
        for name in self.cluster.nodes:
            if self.rng.random() < 0.2:
                labels = self.rng.choice(({}, {"zone": f"z{self.rng.randrange(3)}"}))
                taints: list[t.Any] = self.rng.choice(([], [], [{"key": "k", "effect": "NoSchedule"}]))
                self.cluster.said[name] = node(name, labels=labels, allocatable={"cpu": str(CPU)}, taints=taints,
                                               unschedulable=self.rng.random() < 0.1).node

    def crowd(self, step: int) -> None:
        """More pods than there are devices for, most of them alike."""
        for name in (f"c{step}-{i}" for i in range(self.rng.randint(0, 3))):
            self.cluster.waiting[name] = pod_of_a_crowd(self.rng, name, NOW + step)

    def arrive(self, step: int, *, groups: bool = True) -> None:
        """Some pods, and now and then a group."""
        members: list[tuple[str, tuple[str, int] | None]] = [
            (f"p{step}-{i}", None) for i in range(self.rng.randint(0, 2))]
        if groups and self.rng.random() < 0.3:
            members += [(f"g{step}-{i}", (f"g{step}", 2)) for i in range(2)]
        for name, group in members:
            self.cluster.waiting[name] = random_pod(self.rng, name, group, NOW + step)


ALL_RULES = [RULES, WAIT, Rules(unserved="wait", allocation_policy="differentnode"),
             Rules(allocation_policy="roundrobin"),
             Rules(unserved="wait", shares=Shares(quotas={"default": {"*": 2}}))]


@pytest.mark.parametrize("rules", ALL_RULES)
def test_it_plans_as_a_new_cycle_does(rng: random.Random, rules: Rules) -> None:
    placed = waited = 0
    for _unused in range(4):
        history, live = History(rng, slow_cluster(rng, rules)), LiveCycle()
        for step in range(12):
            history.arrive(step)
            snapshot = history.snapshot()
            found = live.plan(snapshot, rules)
            assert found == plan_placements(snapshot, rules)
            placed, waited = placed + len(found.placements), waited + len(found.wait_reasons)
            history.follow(found)
            history.nodes_change()
        assert live.cycles == 1
    assert placed > 10
    assert waited or rules.unserved == "release"


def test_pods_count_where_the_labels_of_their_node_are_now() -> None:
    """Both pods have to be in the zone of the pod of n0, which moves from zone a to zone b between the plans."""
    near: t.Any = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}
    there = raw_pod("there", labels={"app": "a"})
    full = node("n0", there, labels={"zone": "a"}, stock={A100: Stock(bound=1, limit=1)})
    others = [node(f"n-{zone}", labels={"zone": zone}) for zone in "ab"]
    live = LiveCycle()
    first = live.plan(make_snapshot(full, *others, gated("p0", **near), free=2, classes=CLASSES), WAIT)
    moved = replace(full, node=replace(full.node, labels={**full.node.labels, "zone": "b"}))
    then = live.plan(make_snapshot(moved, *others, gated("p1", **near), free=2, classes=CLASSES), WAIT)
    assert [each.node for plan in (first, then) for each in plan.placements] == ["n-a", "n-b"]
    assert live.cycles == 1


def test_only_what_devices_have_in_common_begins_a_new_cycle() -> None:
    live, several = LiveCycle(), [(device(0), device(1)), (device(2),), (shown(True),), (shown(1),)]
    cycles = []
    for number, samples in enumerate(several):
        snapshot = make_snapshot(node("n0"), gated(f"p{number}"), free=2, classes=CLASSES, samples={A100: samples})
        assert live.plan(snapshot, WAIT) == plan_placements(snapshot, WAIT)
        cycles.append(live.cycles)
    assert cycles == [1, 1, 2, 3], "a true is not the number 1 for a selector"


def shown(ecc: bool | int) -> t.Any:
    """A device with one attribute more."""
    raw = device()
    kind = "bool" if isinstance(ecc, bool) else "int"
    return {**raw, "attributes": {**raw["attributes"], "ecc": {kind: ecc}}}


def test_no_more_results_are_kept_than_asked() -> None:
    live, nodes = LiveCycle(most_kept=4), [node("n0"), node("n1")]
    for number in range(12):
        live.plan(make_snapshot(*nodes, gated(f"p{number}", tolerations=[{"key": f"k{number}"}]),
                                free=2, classes=CLASSES), WAIT)
    assert 3 <= live.cycles <= 6


def test_a_plan_that_raises_leaves_no_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    live, snapshot = LiveCycle(), make_snapshot(node("n0"), gated("p0"), free=2)
    with monkeypatch.context() as patch:
        patch.setattr(QueuePlanner, "plan", failing)
        with pytest.raises(RuntimeError):
            live.plan(snapshot, WAIT)
    assert live.plan(snapshot, WAIT) == plan_placements(snapshot, WAIT)
    assert live.cycles == 2


def failing(_planner: QueuePlanner) -> SchedulingPlan:
    raise RuntimeError("a defect")


@pytest.mark.parametrize("rules", ALL_RULES)
def test_a_line_that_is_kept_gives_the_same_plan(rng: random.Random, rules: Rules) -> None:
    assert_a_kept_line_plans_the_same(rng, rules)


def test_a_line_that_is_kept_gives_the_same_plan_where_it_once_did_not() -> None:
    """With these draws a pod with terms about others was passed over, behind pods that ask for the same devices."""
    test = "tests/unit/planning/scheduling/live/test_live_cycle.py::test_a_line_that_is_kept_gives_the_same_plan"
    assert_a_kept_line_plans_the_same(random.Random(f"2270927417 {test}[rules4]"), ALL_RULES[4])


def assert_a_kept_line_plans_the_same(rng: random.Random, rules: Rules) -> None:
    placed, _passed = kept_line_against_new_plans(rng, rules, lambda history, step: history.arrive(step, groups=False))
    assert placed


def test_a_crowd_of_pods_that_are_alike_gets_the_same_plan(rng: random.Random) -> None:
    waiting = [rules for rules in ALL_RULES if rules.unserved == "wait"]
    assert sum(kept_line_against_new_plans(rng, rules, History.crowd)[1] for rules in waiting)


def kept_line_against_new_plans(rng: random.Random, rules: Rules,
                                arrive: Callable[[History, int], None]) -> tuple[int, int]:
    """How many pods were placed, and how many were passed over since they are like one that waits: what they wait for
    is not said, and that is the only difference."""
    placed = passed = 0
    for _unused in range(4):
        history, live, line = History(rng, slow_cluster(rng, rules)), LiveCycle(), LaneQueue()
        for step in range(16):
            arrive(history, step)
            snapshot = history.snapshot()
            renew(line, live, snapshot)
            found, new = live.plan(snapshot, rules, line), plan_placements(snapshot, rules)
            assert (found.placements, released(found), found.wake_at) == (new.placements, released(new), new.wake_at)
            placed += len(found.placements)
            passed += len(new.wait_reasons) - len(found.wait_reasons)
            history.follow(found)
            history.nodes_change()
    return placed, passed


def test_pods_that_are_alike_are_not_looked_at_again() -> None:
    pods = [gated(f"p{i}", age=9.0 - i) for i in range(6)]
    snapshot = make_snapshot(node("n0"), *pods, free=2, classes=CLASSES)
    live, line = LiveCycle(), LaneQueue()
    renew(line, live, snapshot)
    found = live.plan(snapshot, WAIT, line)
    assert [each.pod.name for each in found.placements] == ["p0", "p1"]
    assert [reason.claim for reason in found.wait_reasons] == ["default/p2-gpu"]
    assert found.placements == plan_placements(snapshot, WAIT).placements


def test_a_pod_that_is_not_promised_what_returns_is_protected_though_one_like_it_was_promised_all() -> None:
    """``first`` waits for the two that return to fabric 2; for ``second`` the free one of fabric 1 is withheld."""
    nodes = [node("n1", stock={A100: Stock(bound=1)}), node("n2", fabric=2)]
    pods = [gated("first", exactly(count=2), age=9.0), gated("second", exactly(count=2), age=8.0), gated("small")]
    snapshot = make_snapshot(*nodes, *pods, free=1, returning={(A100, 2): 2})
    live, line = LiveCycle(), LaneQueue()
    renew(line, live, snapshot)
    found, new = live.plan(snapshot, WAIT, line), plan_placements(snapshot, WAIT)
    assert found.placements == new.placements == ()


def anti_affinity(app: str, **labels: str) -> t.Any:
    """Of a pod with these labels, to pods of an app."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"labels": labels,
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@pytest.mark.parametrize(("guard", "own"), [({}, {"topologySpreadConstraints": [SPREAD]}),
                                            (anti_affinity("a"), {"labels": {"app": "a"}})])
def test_a_pod_that_terms_speak_of_is_not_passed_over(guard: dict[str, t.Any], own: dict[str, t.Any]) -> None:
    """The guard gets the only free device. Behind a pod that waits, one that no node may ever have is let go."""
    pods = [gated("guard", age=9.0, **guard), gated("waits", age=8.0), gated("never", age=7.0, **own)]
    snapshot = make_snapshot(node("n0"), *pods, free=1)
    live, line = LiveCycle(), LaneQueue()
    renew(line, live, snapshot)
    found = live.plan(snapshot, WAIT, line)
    assert released(found) == released(plan_placements(snapshot, WAIT)) == {("never", True)}
    assert [each.pod.name for each in found.placements] == ["guard"]


def test_a_plan_may_have_something_new_for_a_pod_that_terms_tell_from_those_before_it() -> None:
    """The guard keeps ``a0`` off the only node that has free devices, but not a pod of another app."""
    full = node("n1", stock={A100: Stock(bound=1, limit=8)}, fabric=2)
    pods = [gated("guard", age=9.0, **anti_affinity("a")), gated("a0", age=8.0, labels={"app": "a"})]
    snapshot = make_snapshot(node("n0"), full, *pods, free=2)
    live, line = LiveCycle(), LaneQueue()
    renew(line, live, snapshot)
    first = live.plan(snapshot, WAIT, line)
    assert ([each.pod.name for each in first.placements], first.releases) == (["guard"], ())
    newcomer = gated("b0", labels={"app": "b"})
    after = replace(snapshot, placements=first.placements, waiting=(pods[1], newcomer))
    line.remove(pods[0].uid)
    queued = live.judge(newcomer, after, WAIT)
    assert isinstance(queued, QueuedPod)
    assert line.add(queued)
    assert [each.pod.name for each in live.plan(after, WAIT, line).placements] == ["b0"]


def released(plan: SchedulingPlan) -> set[tuple[str, bool]]:
    """Which pods are let go. Of several reasons for it the plan may name another one."""
    return {(each.pod.name, each.unschedulable) for each in plan.releases}


def renew(line: LaneQueue, live: LiveCycle, snapshot: SchedulingSnapshot) -> None:
    """The line has the pods that wait and have no placement."""
    placed = {each.pod.uid for each in snapshot.placements}
    waiting = {pod.uid: pod for pod in snapshot.waiting if pod.uid not in placed}
    known = {queued.gated.uid for queued in line.pods()}
    for uid in known - waiting.keys():
        line.remove(uid)
    for uid in waiting.keys() - known:
        queued = live.judge(waiting[uid], snapshot, RULES)
        assert isinstance(queued, QueuedPod)
        line.add(queued)
