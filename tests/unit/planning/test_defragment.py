# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which idle devices have to move so that a large ask fits on one node."""

from __future__ import annotations

import random
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.defragment import (
    Ask,
    FabricDevices,
    IdleDevices,
    NodeDevices,
    Proposal,
    proposals,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, H100, NOW, T4, settings


def idle(*since: float, stay: int = 0, why: str = "", prefix: str = "gpu") -> IdleDevices:
    """Devices that are idle since so many seconds after each other."""
    return IdleDevices("request", tuple((f"{prefix}-{number}", NOW - 100 + each) for number, each in enumerate(since)),
                       stay, why)


def node(name: str, devices: IdleDevices | None = None, model: str = A100, fabric: int = 1, most: int = 8,
         **more: t.Any) -> NodeDevices:
    """A node with idle devices of one model."""
    return NodeDevices(name, fabric, idle={model: devices} if devices else {}, most=most, **more)


def proposed(ask: Ask, *nodes: NodeDevices, free: int = 0) -> Proposal:
    """The best one."""
    return proposals(FabricDevices(nodes, {(A100, 1): free}, NOW), settings(), ask)[0]


def moved(proposal: Proposal) -> dict[str, tuple[str, ...]]:
    """Names of the devices by node."""
    return {move.node: move.devices for move in proposal.moves}


def test_ask_that_fits_moves_nothing() -> None:
    found = proposed(Ask(A100, 3), node("n0", idle(1)), node("n1", idle(1)), free=2)
    assert (found.fits, found.target, found.moves, found.id) == (True, "n0", (), "")
    assert found.why == f"node n0 has 1 x {A100} idle and fabric 1 has 2 free, of 3"


def test_what_is_missing_comes_from_other_nodes_of_the_fabric() -> None:
    nodes = (node("n0", idle(1, 2)), node("n1", idle(1)), node("far", idle(1, 2), fabric=2))
    found = proposed(Ask(A100, 3), *nodes)
    assert (found.target, moved(found)) == ("n0", {"n1": ("gpu-0",)})
    (move,) = found.moves
    assert (move.request, move.since, move.until) == ("request", NOW - 99, NOW)
    assert move.reason == f"node n0 lacks 1 x {A100}"


def test_the_longest_idle_go_first_and_the_moment_leaves_the_others() -> None:
    found = proposed(Ask(A100, 3), node("n0", idle(1, 2)), node("n1", idle(5, 6, 7), most=2))
    (move,) = found.moves
    assert (move.devices, move.since, move.until) == (("gpu-0",), NOW - 95, NOW - 94)


def test_devices_that_are_idle_since_the_same_moment_go_together() -> None:
    target, many = node("n0", idle(1, 2)), idle(5, 5, 5)
    assert moved(proposed(Ask(A100, 3), target, node("n1", many, most=2))) == {"n1": ("gpu-0", "gpu-1", "gpu-2")}
    kept = node("n1", replace(many, stay=1, why="prewarm"), most=2)
    found = proposed(Ask(A100, 3), target, kept)
    assert not found.fits
    assert "n1 keeps 1 (prewarm)" in found.why


def test_node_with_most_to_give_gives_first() -> None:
    nodes = (node("n0"), node("n1", idle(1), most=1), node("n2", idle(1, 2, 3), most=1))
    assert moved(proposed(Ask(A100, 2), *nodes)) == {"n2": ("gpu-0", "gpu-1")}


def test_model_that_cannot_be_there_too_goes_first() -> None:
    """H100 goes with nobody."""
    mixed = NodeDevices("n0", 1, idle={H100: idle(1, prefix="h100"), T4: idle(1, prefix="t4")}, most=8)
    found = proposed(Ask(A100, 1), mixed, free=1)
    assert [(move.model, move.devices) for move in found.moves] == [(H100, ("h100-0",))]
    assert found.moves[0].reason == f"{H100} cannot be on a node together with {A100}"
    used = proposed(Ask(A100, 1), replace(mixed, idle={}, bound={H100: 1}))
    assert f"has {H100} in use or on its way, which cannot be on a node together with {A100}" in used.why
    kept = replace(mixed, idle={H100: idle(1, stay=1, why="prewarm")})
    assert "and stays: prewarm" in proposed(Ask(A100, 1), kept, free=1).why


@pytest.mark.parametrize(("nodes", "said"), [
    ((), "there is no node"),
    ((node("n0", idle(1)),), "node n0 would have 1 of 4 at most"),
    ((node("n0", idle(1, 2, 3, 4), closed="it is cordoned"),), "node n0 can be given none: it is cordoned"),
    ((node("n0", idle(1, 2), most=3),), "node n0 may have 3, 0 of them are in use or on their way"),
    ((node("n0", bound={A100: 5}),), "node n0 may have 8, 5 of them are in use or on their way"),
    ((node("n0", most=8), node("n1", idle(1, 2, 3, 4, stay=4, why="its label a"), most=0)), "n1 keeps 4 (its label a)"),
    ((node("n0"), node("n1", replace(idle(1, 2, 3, 4), request=""), most=0)), "node n0 would have 0 of 4 at most"),
])
def test_where_nothing_helps_it_says_why(nodes: tuple[NodeDevices, ...], said: str) -> None:
    found = proposed(Ask(A100, 4, claim="default/large"), *nodes)
    assert (found.fits, found.moves, found.id) == (False, (), "")
    assert found.why.startswith(f"no move makes room for 4 x {A100} on one node for claim default/large: ")
    assert said in found.why


def test_labels_of_the_ask_choose_the_nodes() -> None:
    nodes = (node("n0", idle(1)), node("n1", labels={"team": "vision", "zone": "a"}))
    found = proposed(Ask(A100, 1, {"team": "vision"}), *nodes)
    assert (found.target, moved(found)) == ("n1", {"n0": ("gpu-0",)})
    assert str(found.ask) == f"1 x {A100} on one node with team=vision"


def test_unknown_model_is_told() -> None:
    assert proposed(Ask("B300", 1)).why == "B300 is no model of device_info"


def test_id_names_target_and_devices_and_nothing_else() -> None:
    ids = {proposed(Ask(A100, 2), node("n0", idle(1)), node("n1", idle(*since))).id for since in ((2,), (3,))}
    assert len(ids) == 1, "the moment is not in it"
    other = idle(2, prefix="other")
    assert proposed(Ask(A100, 2), node("n0", idle(1)), node("n1", other)).id not in ids
    assert proposed(Ask(A100, 2), node("n9", idle(1)), node("n1", idle(2))).id not in ids


@pytest.mark.parametrize("seed", range(60))
def test_only_what_may_go_is_moved_and_then_it_fits(seed: int) -> None:
    rng = random.Random(seed)
    nodes = []
    for number in range(rng.randint(1, 7)):
        since = sorted(rng.randint(0, 3) for _unused in range(rng.randint(0, 4)))
        nodes.append(node(f"n{number}", idle(*since, stay=rng.randint(0, len(since)), why="x", prefix=f"g{number}"),
                          fabric=rng.randint(1, 2), most=rng.randint(2, 8), bound={A100: rng.randint(0, 2)}))
    ask, free = Ask(A100, rng.randint(1, 8)), {(A100, 1): rng.randint(0, 3), (A100, 2): rng.randint(0, 3)}
    devices = FabricDevices(tuple(nodes), free, NOW)
    for found in proposals(devices, settings(), ask):
        if not found.fits:
            assert not found.moves
            continue
        by_name = {each.name: each for each in nodes}
        target = by_name[found.target]
        for move in found.moves:
            source = by_name[move.node]
            listed = source.idle[A100].devices
            assert (move.node != found.target, source.fabric) == (True, target.fabric)
            assert len(move.devices) <= len(listed) - source.idle[A100].stay
            assert move.devices == tuple(name for name, since in listed if since < move.until)
        gained = sum(len(move.devices) for move in found.moves)
        assert len(target.idle[A100].devices) + free[A100, target.fabric] + gained >= ask.count
        assert target.bound[A100] + ask.count <= target.most
    rng.shuffle(nodes)
    assert proposals(replace(devices, nodes=tuple(nodes)), settings(), ask) == proposals(devices, settings(), ask)
