# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which idle devices move, and what a plan says."""

from __future__ import annotations

import random

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.room.plan import (
    IdleDevices,
    Move,
    Plan,
    RoomRequest,
    brought,
    leaving,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, NOW


def idle(node: str, *since: float, stay: int = 0, prefix: str = "gpu", request: str = "request") -> IdleDevices:
    """Devices that are idle since so many seconds after each other."""
    listed = tuple((f"{prefix}-{number}", NOW - 100 + each) for number, each in enumerate(since))
    return IdleDevices(node, 1, A100, request, listed, stay, "prewarm" if stay else "")


def moves(count: int, *of: IdleDevices, target: str = "n0") -> dict[str, tuple[str, ...]]:
    """Names of the devices by node."""
    return {move.node: move.devices for move in brought(target, of, count, NOW)}


def plan(*names: str, target: str = "n0", since: float = 1.0) -> Plan:
    return Plan(RoomRequest(A100, 2), True, "", target, (Move("n1", A100, "request", names, since, NOW, ""),))


def test_nothing_is_brought_where_nothing_lacks() -> None:
    assert moves(0, idle("n1", 1)) == {}


def test_what_is_missing_comes_from_other_nodes() -> None:
    (move,) = brought("n0", [idle("n0", 1, 2), idle("n1", 1)], 1, NOW)
    assert (move.node, move.devices, move.request, move.since, move.until) == (
        "n1", ("gpu-0",), "request", NOW - 99, NOW)
    assert move.reason == f"node n0 lacks 1 x {A100}"


def test_the_longest_idle_go_first_and_the_moment_leaves_the_others() -> None:
    (move,) = brought("n0", [idle("n1", 5, 6, 7)], 1, NOW)
    assert (move.devices, move.since, move.until) == (("gpu-0",), NOW - 95, NOW - 94)


def test_devices_that_are_idle_since_the_same_moment_go_together() -> None:
    assert moves(1, idle("n1", 5, 5, 5)) == {"n1": ("gpu-0", "gpu-1", "gpu-2")}
    assert moves(1, idle("n1", 5, 5, 5, stay=1)) == {}


def test_node_with_most_to_give_gives_first() -> None:
    assert moves(2, idle("n1", 1), idle("n2", 1, 2, 3)) == {"n2": ("gpu-0", "gpu-1")}


def test_of_another_s_request_nothing_leaves() -> None:
    assert moves(1, idle("n1", 1, request="")) == {}
    assert leaving(idle("n1", 1, request=""), 1, NOW, "").devices == ()


def test_id_names_target_and_devices_and_nothing_else() -> None:
    assert plan("a", "b").id == plan("b", "a", since=2.0).id, "the moment is not in it"
    assert len({plan("a").id, plan("b").id, plan("a", target="n9").id}) == 3
    assert Plan(RoomRequest(A100, 2), True, "", "n0").id == ""


def test_a_plan_in_a_sentence() -> None:
    assert plan("a", "b").sentence == f"move 2 x {A100} from node n1, then 2 x {A100} on one node fits on node n0"
    assert Plan(RoomRequest(A100, 2), False, "no node is there").sentence == "no node is there"
    labelled = RoomRequest(A100, 1, {"zone": "a", "team": "vision"}, "default/large")
    assert str(labelled) == f"1 x {A100} on one node with team=vision, zone=a for claim default/large"


@pytest.mark.parametrize("seed", range(60))
def test_only_what_may_go_is_moved(seed: int) -> None:
    rng = random.Random(seed)
    nodes = []
    for number in range(rng.randint(1, 7)):
        since = sorted(rng.randint(0, 3) for _unused in range(rng.randint(0, 4)))
        nodes.append(idle(f"n{number}", *since, stay=rng.randint(0, len(since)), prefix=f"g{number}"))
    count = rng.randint(1, 8)
    found = list(brought("n0", nodes, count, NOW))
    by_name = {each.node: each for each in nodes}
    for move in found:
        source = by_name[move.node]
        assert move.node != "n0"
        assert len(move.devices) <= source.may_go
        assert move.devices == tuple(name for name, since in source.devices if since < move.until)
    gained = sum(len(move.devices) for move in found)
    single = [each.may_go for each in nodes if each.node != "n0" and len({s for _n, s in each.devices}) == len(
        each.devices)]
    assert gained >= min(count, sum(single)), "devices that leave one by one are enough"
    rng.shuffle(nodes)
    assert list(brought("n0", nodes, count, NOW)) == found
