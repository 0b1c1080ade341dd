# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold for every cluster, in random histories: no device twice, no half group, no ask that starves."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.scaling.gating import plan as planner
from ansible_collections.composable.infra.plugins.module_utils.scaling.gating.plan import plan_gates
from ansible_collections.composable.infra.plugins.module_utils.scaling.gating.view import GatedPod
from ansible_collections.composable.infra.tests.unit.scaling.builders import A100, T4
from ansible_collections.composable.infra.tests.unit.scaling.gating.cluster import RULES, WAIT, Rules, exactly, gated
from ansible_collections.composable.infra.tests.unit.scaling.gating.living import MODELS, Living, cluster


def random_pod(rng: random.Random, name: str, step: int, group: tuple[str, int] | None = None) -> GatedPod:
    """One to three devices of one model, or alternatives, now and then two requests."""
    def ask() -> dict[str, object]:
        return exactly(rng.choice((*MODELS, None)), rng.randint(1, 3))

    asks = [[ask(), ask()] if rng.random() < 0.2 else ask() for _unused in range(rng.choice((1, 1, 2)))]
    return gated(name, *asks, age=-float(step), group=group, priority=rng.choice((0, 0, 0, 5)))


def arrive(rng: random.Random, living: Living, step: int) -> None:
    """Some pods, and now and then a group."""
    pods = [random_pod(rng, f"p{step}-{i}", step) for i in range(rng.randint(0, 2))]
    if rng.random() < 0.4:
        size = rng.randint(2, 3)
        pods += [random_pod(rng, f"g{step}-{i}", step, (f"g{step}", size)) for i in range(size)]
    living.waiting.update({p.ref.name: p for p in pods})


@pytest.mark.parametrize("rules", [RULES, WAIT, Rules(unserved="wait", allocation_policy="differentnode"),
                                   Rules(allocation_policy="roundrobin")])
def test_conservation(rng: random.Random, rules: Rules) -> None:
    served = 0
    for _unused in range(3):
        living = cluster(rng, rules)
        for step in range(8):
            arrive(rng, living, step)
            living.plan()
            living.live(rng, longest=3)
        served += len(living.served)
    assert served


def test_the_order_in_which_pods_and_nodes_are_given_does_not_matter(rng: random.Random) -> None:
    for _unused in range(5):
        living = cluster(rng)
        for step in range(3):
            arrive(rng, living, step)
        one = living.picture()
        pods, nodes = list(one.waiting), list(one.nodes.items())
        rng.shuffle(pods)
        rng.shuffle(nodes)
        other = replace(one, waiting=tuple(pods), nodes=dict(nodes))
        first, second = plan_gates(one, WAIT), plan_gates(other, WAIT)
        assert set(map(str, first.bookings)) == set(map(str, second.bookings))
        assert {r.pod.name for r in first.releases} == {r.pod.name for r in second.releases}


def test_two_groups_never_hold_half_each(rng: random.Random) -> None:
    """Groups that could not be served at the same time are all served in the end, one after the other."""
    for _unused in range(3):
        living = cluster(rng, nodes=2, units=4, fabrics=1, models=(A100,))
        living.limit = 4
        for name in ("x", "y", "z"):
            size = rng.randint(2, 4)
            living.waiting.update({f"{name}{i}": gated(f"{name}{i}", age=rng.random(), group=(name, size))
                                   for i in range(size)})
        pods = len(living.waiting)
        for _step in range(20):
            living.plan()
            living.live(rng, longest=3)
        assert len(living.served) == pods


PATIENCE = 25


def crowd(rng: random.Random, large: int = 3) -> int | None:
    """Small asks that never stop, and a large one at step 5 which is younger than some: when that is served."""
    living = cluster(rng, nodes=3, units=6, fabrics=rng.choice((1, 2)), models=(A100,))
    living.limit = 3
    for step in range(5 + PATIENCE):
        living.waiting.update({f"s{step}-{i}": gated(f"s{step}-{i}", age=-float(step)) for i in range(3)})
        if step == 5:
            living.waiting["big"] = gated("big", exactly(A100, large), age=-5.0)
        living.plan()
        living.live(rng, longest=3)
        if "big" in living.served:
            return living.served["big"]
    return None


def procession(rng: random.Random) -> int | None:
    """Six devices, of which one comes free each step, and a small ask for it each step; a large one at step 9."""
    living = cluster(rng, nodes=1, units=6, fabrics=1, models=(A100,))
    living.limit, living.rest = 6, 0
    for step in range(9 + PATIENCE):
        living.waiting[f"s{step}"] = gated(f"s{step}", age=-float(step))
        if step == 9:
            living.waiting["big"] = gated("big", exactly(A100, 3), age=-9.0)
        living.plan()
        living.live(rng, longest=6, shortest=6)
        if "big" in living.served:
            return living.served["big"]
    return None


def test_a_large_ask_is_served_although_small_ones_never_stop(rng: random.Random) -> None:
    assert None not in [crowd(rng) for _unused in range(3)]
    assert procession(rng) is not None


def test_it_would_starve_if_it_kept_nothing(rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "keep", lambda *_unused: None)
    assert procession(rng) is None


def test_what_a_large_ask_lacks_only_becomes_less(rng: random.Random) -> None:
    """While it waits no small ask gets a device of its fabric's that it needs."""
    living = cluster(rng, nodes=2, units=4, fabrics=1, models=(A100,))
    living.limit, living.rest = 4, 1
    living.waiting.update({f"s{i}": gated(f"s{i}", age=9 - i) for i in range(3)})
    living.plan()
    living.live(rng, longest=9)
    living.waiting["big"] = gated("big", exactly(A100, 4), age=0.0)
    for step in range(12):
        living.waiting[f"t{step}"] = gated(f"t{step}", age=-1.0 - step)
        found = living.plan()
        if "big" in living.booked:
            return
        assert not found.bookings
        living.live(rng, longest=9)
    raise AssertionError("the large ask was never served")


def test_models_do_not_wait_for_each_other(rng: random.Random) -> None:
    """A waiting ask keeps nothing of a model that it does not want."""
    living = cluster(rng, nodes=3, units=0, fabrics=1)
    living.units = [*cluster(rng, units=2, fabrics=1, models=(A100,)).units]
    for number, model in enumerate((T4, T4, A100)):
        living.units.append(type(living.units[0])(f"x{number}", model, 1, living.units[0].entry))
    living.units[0].node, living.units[0].user = "n0", "somebody"
    living.waiting["big"] = gated("big", exactly(A100, 3), age=9)
    living.waiting["t"] = gated("t", exactly(T4, 2), age=1)
    living.limit = 4
    assert {b.pod.name for b in living.plan().bookings} == {"t"}
