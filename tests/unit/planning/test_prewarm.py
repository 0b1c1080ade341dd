# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The floor of idle devices: where they are, what is attached for it, and that those who wait go first."""

from __future__ import annotations

import random
import typing as t
from collections import Counter

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.actions import SetSize
from ansible_collections.composable.infra.plugins.module_utils.planning.device_info import BadSetting
from ansible_collections.composable.infra.plugins.module_utils.planning.node.scale import plan_scale
from ansible_collections.composable.infra.plugins.module_utils.planning.prewarm import IdleMinimum, Place, shares
from ansible_collections.composable.infra.tests.unit.planning import builders as it
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, node, of, one, settings


def places(*idle: int, room: int = 8) -> list[Place]:
    """A node for each number of idle devices, which are all that it has."""
    return [Place(f"n{number}", 1, n, n, room) for number, n in enumerate(idle)]


@pytest.mark.parametrize(("floor", "idle", "free", "expected"), [
    (0, (2, 0), 9, {"n0": 0, "n1": 0}),
    (2, (0, 0), 9, {"n0": 1, "n1": 1}),
    (3, (0, 0), 9, {"n0": 2, "n1": 1}),
    (2, (3, 0), 9, {"n0": 2, "n1": 0}),
    (4, (3, 0), 9, {"n0": 3, "n1": 1}),
    (4, (0, 0), 1, {"n0": 1, "n1": 0}),
    (4, (1, 0), 0, {"n0": 1, "n1": 0}),
])
def test_share_of_each_node(floor: int, idle: tuple[int, ...], free: int, expected: dict[str, int]) -> None:
    assert shares(floor, places(*idle), {1: free}, ()) == expected


def test_nothing_is_kept_where_somebody_waits_in_vain() -> None:
    two = [*places(2), Place("far", 2, 1, 1, 8)]
    assert shares(3, two, {1: 0, 2: 5}, {1}) == {"far": 3}


def test_node_without_room_gets_nothing_more() -> None:
    assert shares(4, [*places(1, room=0), Place("n9", 1, 0, 0, 2)], {1: 9}, ()) == {"n0": 1, "n9": 2}


def test_node_with_fewest_devices_gets_the_next() -> None:
    busy = [Place("a", 1, 0, 5, 8), Place("b", 1, 0, 1, 8)]
    assert shares(1, busy, {1: 9}, ()) == {"a": 0, "b": 1}


@pytest.mark.parametrize("seed", range(50))
def test_never_more_than_wanted_or_there_is(seed: int) -> None:
    rng = random.Random(seed)
    all_ = [Place(f"n{i}", rng.randint(1, 3), rng.randint(0, 4), rng.randint(4, 9), rng.randint(0, 5))
            for i in range(rng.randint(0, 12))]
    free = {fabric: rng.randint(-1, 6) for fabric in (1, 2, 3)}
    floor, waiting = rng.randint(0, 20), set(rng.sample((1, 2, 3), rng.randint(0, 2)))
    found = shares(floor, all_, free, waiting)
    assert sum(found.values()) <= floor
    more: Counter[int] = Counter()
    for place in (p for p in all_ if p.node in found):
        assert place.fabric not in waiting
        new = max(0, found[place.node] - place.idle)
        assert new <= place.room
        more[place.fabric] += new
    assert all(n <= max(0, free[fabric]) for fabric, n in more.items())
    rng.shuffle(all_)
    assert shares(floor, all_, free, waiting) == found


def test_node_is_sized_for_its_share() -> None:
    action = one(plan_scale(node(prewarm={A100: 2}), settings()), SetSize)
    assert (action.size, action.reason) == (
        2, "0 x A100 40G wanted on node node-0, 2 more attached for future claims (prewarm)")
    assert not of(plan_scale(node(it.online("a"), it.online("b"), it.request(2), prewarm={A100: 2}),
                             settings(device_no_removal_duration=0)), SetSize)


def test_claim_that_takes_an_idle_device_leaves_a_place_for_the_next() -> None:
    view = node(it.used("a"), it.online("b"), it.request(2), prewarm={A100: 2})
    assert one(plan_scale(view, settings(device_no_removal_duration=0)), SetSize).size == 3


def test_nothing_is_attached_for_the_floor_while_a_claim_is_about_to_take_what_is_idle() -> None:
    """The last free devices of the fabric are for the claim."""
    view = node(it.online("a"), it.request(1), it.claim("c", A100, A100, A100), prewarm={A100: 1})
    assert one(plan_scale(view, settings()), SetSize).size == 3


def test_node_without_a_machine_keeps_nothing() -> None:
    assert not of(plan_scale(node(machine=None, prewarm={A100: 2}), settings()), SetSize)


def test_setting_is_read() -> None:
    (found,) = settings(prewarm=[{"model": A100, "idle": 2, "node_selector": {"gpu": "yes"}}]).idle_minimums
    assert found == IdleMinimum(A100, 2, {"gpu": "yes"})
    assert found.holds_for({"gpu": "yes", "zone": "a"})
    assert not found.holds_for({"zone": "a"})
    assert settings().idle_minimums == ()


@pytest.mark.parametrize(("value", "said"), [
    ({}, "prewarm: {} is not usable: must be a list of mappings with model, idle, node_selector, schedule"),
    ([1], "prewarm[0]: 1 is not usable: must be a mapping with model, idle, node_selector, schedule"),
    ([{"model": "X", "idle": 1}],
     "prewarm[0].model: 'X' is not usable: no such model. Known models are A100 40G, H100 80G, T4"),
    ([{"model": A100, "idle": -1}], "prewarm[0].idle: -1 is not usable: must be a whole number from 0 to 1000"),
    ([{"model": A100, "idle": True}], "prewarm[0].idle: True is not usable: must be a whole number from 0 to 1000"),
    ([{"model": A100}], "prewarm[0].idle: None is not usable: must be a whole number from 0 to 1000"),
    ([{"model": A100, "idle": 1, "node_selector": {"a": 1}}],
     "prewarm[0].node_selector: {'a': 1} is not usable: must be a mapping of labels to values"),
    ([{"model": A100, "idle": 1, "often": 2}],
     "prewarm[0].often: 2 is not usable: unknown key. Known keys are model, idle, node_selector, schedule"),
    ([{"model": A100, "idle": 1, "learn": {"weeks": 4}}],
     "prewarm[0].learn: {'weeks': 4} is not usable: minimums of idle devices are no longer learned. Use idle and "
     "schedule"),
])
def test_setting_is_refused(value: t.Any, said: str) -> None:
    with pytest.raises(BadSetting) as refused:
        settings(prewarm=value)
    assert str(refused.value) == said
