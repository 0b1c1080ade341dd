# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cache changes no plan, whatever changed since it was filled, and does not grow for ever."""

from __future__ import annotations

import gc
import typing as t
import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.parse_cache import ParseCache
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.plan import plan_placements
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import (
    IdleDevice,
    SchedulingSnapshot,
    Stock,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER, T4
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    CLASS,
    PRODUCT,
    RULES,
    Rules,
    assumed,
    bound,
    claim,
    device,
    device_class,
    exactly,
    gated,
    idle,
    make_snapshot,
    node,
    nodes_by_pod,
    raw_pod,
)

POD = gated("p")
FIRST = make_snapshot(node("n", stock={A100: Stock(limit=1)}), POD, free=1)


def on_node(snapshot: SchedulingSnapshot, **changes: t.Any) -> SchedulingSnapshot:
    """The same node object with other facts about it."""
    return replace(snapshot, nodes={"n": replace(snapshot.nodes["n"], **changes)})


CHANGES: list[tuple[str, Callable[[SchedulingSnapshot], SchedulingSnapshot], bool]] = [
    ("nothing", lambda v: v, True),
    ("stock", lambda v: on_node(v, stock={A100: Stock(bound=1, limit=1)}), False),
    ("machine", lambda v: on_node(v, machine=None), False),
    ("blocked", lambda v: on_node(v, blocked={A100: "off"}), False),
    ("free", lambda v: replace(v, free={}), False),
    ("a pod on the node", lambda v: on_node(v, pods=(bound(raw_pod("old", cpu="8")),)), False),
    ("the node", lambda v: on_node(v, node=node("n", unschedulable=True).node), False),
    ("the class", lambda v: replace(v, classes={CLASS: device_class("false")}), False),
    ("the class is gone", lambda v: replace(v, classes={}), False),
    ("excluded", lambda v: replace(v, excluded=frozenset({A100})), False),
    ("the claim", lambda v: replace(v, waiting=(replace(POD, claims={"gpu": claim("c", exactly(T4))}),)), False),
    ("the pod", lambda v: replace(v, waiting=(replace(POD, raw=gated("p", cpu="9").raw),)), False),
    ("samples", lambda v: replace(v, samples={(A100, DRIVER): (device(0, "B300"),)}), False),
    ("a placement", lambda v: replace(v, placements=(assumed(gated("q"), "n", {A100: 1}),)), False),
]


@pytest.mark.parametrize(("change", "fits"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_a_change_is_seen(change: Callable[[SchedulingSnapshot], SchedulingSnapshot], fits: bool) -> None:
    cache = ParseCache()
    assert nodes_by_pod(plan_placements(FIRST, RULES, cache)) == {"p": "n"}
    later = change(FIRST)
    assert plan_placements(later, RULES, cache) == plan_placements(later, RULES)
    assert bool(plan_placements(later, RULES, cache).placements) is fits


def test_settings_are_seen() -> None:
    cache = ParseCache()
    plan_placements(FIRST, RULES, cache)
    assert not plan_placements(FIRST, Rules(device_classes=("other",)), cache).placements
    assert not plan_placements(FIRST, Rules(models=RULES.models[1:]), cache).placements


def test_two_devices_at_the_same_address_are_not_taken_for_each_other() -> None:
    """A device that is gone may leave its place in memory to another one."""
    cache, request = ParseCache(), exactly(None, 1, PRODUCT.format(A100), f'device.driver == "{DRIVER}"')
    for number in range(60):
        model = (A100, T4)[number % 2]
        stock = {model: Stock(idle(1, model))}
        found = plan_placements(make_snapshot(node("n", stock=stock), gated("p", request)), RULES, cache)
        assert bool(found.placements) is (model == A100)


class Watched(dict[str, t.Any]):
    """A raw object whose end can be seen."""


def test_what_is_gone_is_forgotten() -> None:
    """Pods that waited, and devices: of 150 of each at most 100 are still known. Of a node only its present pods."""
    cache, seen = ParseCache(), list[list[weakref.ref[Watched]]]()
    for number in range(150):
        pod = gated(f"p{number}")
        there, held, entry = raw_pod(f"old-{number}"), Watched(pod.raw), Watched(device())
        stock = {A100: Stock((IdleDevice("r", entry),))}
        seen.append([weakref.ref(held), weakref.ref(entry)])
        snapshot = make_snapshot(node("n", there, stock=stock), replace(pod, raw=held))
        assert plan_placements(snapshot, RULES, cache).placements
    del there, held, entry, pod, stock, snapshot
    gc.collect()
    assert [sum(ref() is not None for ref in kind) <= 100 for kind in zip(*seen, strict=True)] == [True, True]
    assert [pod.uid for info in cache._nodes.values() for pod in info.pods] == ["pod-old-149"]
