# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold for every cluster, in random histories: no device twice, no half group, no pod that starves."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling import plan as planner
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.plan import plan_placements
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import GatedPod
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, T4
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    RULES,
    WAIT,
    Rules,
    exactly,
    gated,
)
from ansible_collections.composable.infra.tests.unit.planning.scheduling.simulated_cluster import (
    MODELS,
    SimulatedCluster,
    random_cluster,
)


def random_pod(rng: random.Random, name: str, step: int, group: tuple[str, int] | None = None) -> GatedPod:
    """One to three devices of one model, or alternatives, now and then two requests."""
    def ask() -> dict[str, object]:
        return exactly(rng.choice((*MODELS, None)), rng.randint(1, 3))

    asks = [[ask(), ask()] if rng.random() < 0.2 else ask() for _unused in range(rng.choice((1, 1, 2)))]
    return gated(name, *asks, age=-float(step), group=group, priority=rng.choice((0, 0, 0, 5)))


def arrive(rng: random.Random, cluster: SimulatedCluster, step: int) -> None:
    """Some pods, and now and then a group."""
    pods = [random_pod(rng, f"p{step}-{i}", step) for i in range(rng.randint(0, 2))]
    if rng.random() < 0.4:
        size = rng.randint(2, 3)
        pods += [random_pod(rng, f"g{step}-{i}", step, (f"g{step}", size)) for i in range(size)]
    cluster.waiting.update({p.ref.name: p for p in pods})


@pytest.mark.parametrize("rules", [RULES, WAIT, Rules(unserved="wait", allocation_policy="differentnode"),
                                   Rules(allocation_policy="roundrobin")])
def test_conservation(rng: random.Random, rules: Rules) -> None:
    served = 0
    for _unused in range(3):
        cluster = random_cluster(rng, rules)
        for step in range(8):
            arrive(rng, cluster, step)
            cluster.plan()
            cluster.live(rng, longest=3)
        served += len(cluster.served)
    assert served


def test_the_order_in_which_pods_and_nodes_are_given_does_not_matter(rng: random.Random) -> None:
    for _unused in range(5):
        cluster = random_cluster(rng)
        for step in range(3):
            arrive(rng, cluster, step)
        one = cluster.snapshot()
        pods, nodes = list(one.waiting), list(one.nodes.items())
        rng.shuffle(pods)
        rng.shuffle(nodes)
        other = replace(one, waiting=tuple(pods), nodes=dict(nodes))
        first, second = plan_placements(one, WAIT), plan_placements(other, WAIT)
        assert set(map(str, first.placements)) == set(map(str, second.placements))
        assert {r.pod.name for r in first.releases} == {r.pod.name for r in second.releases}


def test_two_groups_never_hold_half_each(rng: random.Random) -> None:
    """Groups that could not be served at the same time are all served in the end, one after the other."""
    for _unused in range(3):
        cluster = random_cluster(rng, nodes=2, devices=4, fabrics=1, models=(A100,))
        cluster.limit = 4
        for name in ("x", "y", "z"):
            size = rng.randint(2, 4)
            cluster.waiting.update({f"{name}{i}": gated(f"{name}{i}", age=rng.random(), group=(name, size))
                                   for i in range(size)})
        pods = len(cluster.waiting)
        for _step in range(20):
            cluster.plan()
            cluster.live(rng, longest=3)
        assert len(cluster.served) == pods


PATIENCE = 25


def crowd(rng: random.Random, large: int = 3) -> int | None:
    """Small pods that never stop, and a large one at step 5, younger than some: the step at which it is served."""
    cluster = random_cluster(rng, nodes=3, devices=6, fabrics=rng.choice((1, 2)), models=(A100,))
    cluster.limit = 3
    for step in range(5 + PATIENCE):
        cluster.waiting.update({f"s{step}-{i}": gated(f"s{step}-{i}", age=-float(step)) for i in range(3)})
        if step == 5:
            cluster.waiting["big"] = gated("big", exactly(A100, large), age=-5.0)
        cluster.plan()
        cluster.live(rng, longest=3)
        if "big" in cluster.served:
            return cluster.served["big"]
    return None


def procession(rng: random.Random) -> int | None:
    """Six devices, of which one comes free each step, and a small pod for it each step; a large one at step 9."""
    cluster = random_cluster(rng, nodes=1, devices=6, fabrics=1, models=(A100,))
    cluster.limit, cluster.rest = 6, 0
    for step in range(9 + PATIENCE):
        cluster.waiting[f"s{step}"] = gated(f"s{step}", age=-float(step))
        if step == 9:
            cluster.waiting["big"] = gated("big", exactly(A100, 3), age=-9.0)
        cluster.plan()
        cluster.live(rng, longest=6, shortest=6)
        if "big" in cluster.served:
            return cluster.served["big"]
    return None


def test_a_large_pod_is_served_although_small_ones_never_stop(rng: random.Random) -> None:
    assert None not in [crowd(rng) for _unused in range(3)]
    assert procession(rng) is not None


def test_it_would_starve_if_nothing_was_withheld(rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "withhold_for", lambda *_unused: None)
    assert procession(rng) is None


def test_what_a_large_pod_lacks_can_only_fall(rng: random.Random) -> None:
    """While it waits no small pod gets a device of its fabric that it needs."""
    cluster = random_cluster(rng, nodes=2, devices=4, fabrics=1, models=(A100,))
    cluster.limit, cluster.rest = 4, 1
    cluster.waiting.update({f"s{i}": gated(f"s{i}", age=9 - i) for i in range(3)})
    cluster.plan()
    cluster.live(rng, longest=9)
    cluster.waiting["big"] = gated("big", exactly(A100, 4), age=0.0)
    for step in range(12):
        cluster.waiting[f"t{step}"] = gated(f"t{step}", age=-1.0 - step)
        found = cluster.plan()
        if "big" in cluster.placed:
            return
        assert not found.placements
        cluster.live(rng, longest=9)
    raise AssertionError("the large pod was never served")


def test_models_do_not_wait_for_each_other(rng: random.Random) -> None:
    """Nothing of a model that a waiting pod does not request is withheld for it."""
    cluster = random_cluster(rng, nodes=3, devices=0, fabrics=1)
    cluster.devices = [*random_cluster(rng, devices=2, fabrics=1, models=(A100,)).devices]
    for number, model in enumerate((T4, T4, A100)):
        cluster.devices.append(type(cluster.devices[0])(f"x{number}", model, 1, cluster.devices[0].entry))
    cluster.devices[0].node, cluster.devices[0].user = "n0", "somebody"
    cluster.waiting["big"] = gated("big", exactly(A100, 3), age=9)
    cluster.waiting["t"] = gated("t", exactly(T4, 2), age=1)
    cluster.limit = 4
    assert {b.pod.name for b in cluster.plan().placements} == {"t"}
