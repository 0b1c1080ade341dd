# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the devices of one claim are: what a claim asks for, which node is preferred, and what the reason says."""

from __future__ import annotations

import itertools
import random
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import (
    GatedPod,
    IdleDevice,
    NodeFacts,
    SchedulingPlan,
    Stock,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.topology_distance import (
    distance,
    where,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    WAIT,
    claim,
    device,
    exactly,
    gated,
    node,
    nodes_by_pod,
    placement,
    plan,
    release,
    wait_reason,
)

Json = dict[str, t.Any]
ROOT, SWITCH = "resource.kubernetes.io/pcieRoot", f"{DRIVER}/switch"
ON_NUMA_1 = f'device.attributes["{DRIVER}"].numaNode == 1'


def at(place: str, number: int = 0, width: int = 16) -> Json:
    """A device at a place such as ``1a2``: NUMA node, root complex, switch; ``?`` is not told."""
    numa, root, switch = tuple(place)
    said = {"numaNode": ("int", int(numa) if numa.isdecimal() else None), "linkWidth": ("int", width),
            ROOT: ("string", f"pci{root}"), "switch": ("string", f"{numa}{root}{switch}")}
    unknown = {name for name, text in zip(("numaNode", ROOT, "switch"), place, strict=True) if text == "?"}
    entry = device(number)
    entry["attributes"] |= {name: {kind: value} for name, (kind, value) in said.items() if name not in unknown}
    return entry


def idle_at(*places: str, name: str = "n") -> NodeFacts:
    """A node with idle devices at these places, in the order of its ResourceSlice."""
    found = tuple(IdleDevice(f"{name}-{n}", at(place, n)) for n, place in enumerate(places))
    return node(name, stock={A100: Stock(idle=found)})


def sharing(*attributes: str, count: int = 2, requests: int = 1) -> GatedPod:
    """A pod whose devices share these attributes."""
    constraints = [{"matchAttribute": name} for name in attributes]
    return gated("p", claims={"gpu": claim("c", *[exactly(A100, count)] * requests, constraints=constraints)})


def chosen(found: SchedulingPlan) -> tuple[str, ...]:
    return placement(found, "p").devices["uid-c"]


@pytest.mark.parametrize(("places", "near", "words"), [
    (["0a1", "0a1"], 0, "on one switch, NUMA node 0"), (["0a1", "0a2"], 1, "on one root complex, NUMA node 0"),
    (["0a1", "0b1"], 2, "on NUMA node 0"), (["0a1", "1b1"], 3, "on 2 NUMA nodes"),
    (["?a?", "?a?"], 1, "on one root complex"), (["???", "???"], 3, ""), (["0a1"], 0, ""), ([], 0, "")])
def test_how_near_devices_are(places: list[str], near: int, words: str) -> None:
    devices = [at(place) for place in places]
    assert (distance(devices)[0], where(devices)) == (near, words)


def test_standard_name_of_the_numa_node_is_read_too() -> None:
    devices = [{"attributes": {"resource.kubernetes.io/numaNode": {"int": 1}}} for _each in range(2)]
    assert where(devices) == "on NUMA node 1"


def test_narrow_link_is_told_and_comes_last() -> None:
    assert where([at("0a1", width=16), at("0a1", width=4)]) == "on one switch, NUMA node 0, links of 4 and 16 lanes"
    narrow = node("a", stock={A100: Stock(idle=(IdleDevice("a", at("0a1", width=4)),))})
    assert nodes_by_pod(plan(narrow, idle_at("0a1", name="b"), gated("p"))) == {"p": "b"}


def test_node_whose_devices_are_near_each_other_is_chosen_and_the_reason_says_so() -> None:
    found = plan(idle_at("0a1", "1b1", name="a"), idle_at("1b1", "1b1", name="b"), gated("p", exactly(A100, 2)))
    assert placement(found, "p").reason == "node b has room and 2 x A100 40G (2 idle on one switch, NUMA node 1)"


def test_fewest_attaches_come_first() -> None:
    found = plan(idle_at("0a1", name="a"), idle_at("0a1", "1b1", name="b"), gated("p", exactly(A100, 2)), free=1)
    assert nodes_by_pod(found) == {"p": "b"}


def test_several_claims_of_a_pod_need_not_be_near_each_other() -> None:
    two = gated("p", claims={"a": claim("c", exactly()), "b": claim("d", exactly())})
    assert nodes_by_pod(plan(idle_at("0a1", "1b1", name="a"), idle_at("0a1", "0a1", name="b"), two)) == {"p": "a"}


def test_claim_gets_the_first_devices_that_share_what_it_asks_for() -> None:
    assert chosen(plan(idle_at("0a1", "0b1", "0b2", "0a2"), sharing(ROOT))) == ("n-0", "n-3")
    assert chosen(plan(idle_at("0a1", "0b1", "0b2", "0b2"), sharing(SWITCH))) == ("n-2", "n-3")
    assert chosen(plan(idle_at("0a1", "0a2", "0b1", "0b1"), sharing(ROOT, SWITCH))) == ("n-2", "n-3")


def test_requests_of_a_claim_share_it_among_each_other() -> None:
    assert chosen(plan(idle_at("0a1", "0b1", "0b2"), sharing(ROOT, count=1, requests=2))) == ("n-1", "n-2")


@pytest.mark.parametrize("places", [["0a1", "0b1"], ["0a1"], ["0?1", "0?1"], []])
def test_what_no_node_has_is_let_go_with_the_reason_and_nothing_is_attached_for_it(places: list[str]) -> None:
    found = plan(idle_at(*places), sharing(ROOT), free=9, rules=WAIT)
    assert release(found, "p").reason == ("2 x A100 40G: 0/1 nodes: 1 had no 2 idle devices that share "
                                          f"{ROOT} (only attached devices show it)")


def test_devices_that_an_earlier_pod_took_are_not_counted_on() -> None:
    found = plan(idle_at("0a1", "0a1"), gated("first", age=9), sharing(ROOT))
    assert nodes_by_pod(found) == {"first": "n"}


def test_selector_on_a_place_is_answered_by_the_devices_that_are_there() -> None:
    samples = {A100: (at("0a1"), at("1b1"))}
    asks = exactly(A100, 1, ON_NUMA_1)
    found = plan(idle_at("0a1", "1b1"), gated("p", asks), samples=samples, free=9)
    assert placement(found, "p").devices == {"uid-p-gpu": ("n-1",)}
    found = plan(idle_at("0a1"), gated("p", asks), samples=samples, free=9, rules=WAIT)
    assert release(found, "p").reason == "1 x A100 40G: 0/1 nodes: 1 had no idle A100 40G that fits"


def test_a_group_with_a_place_that_no_node_has_is_let_go_whole() -> None:
    pair = [gated("a", group=("g", 2)), gated("b", exactly(A100, 1, ON_NUMA_1), group=("g", 2))]
    found = plan(idle_at("0a1"), *pair, samples={A100: (at("0a1"), at("1b1"))}, free=9, rules=WAIT)
    assert "had no idle A100 40G that fits" in release(found, "a").reason


SAMPLES = {A100: (at("0a1"), at("1b1"))}


def behind(root: str, *idle: str, coming: int = 0, name: str = "n") -> NodeFacts:
    """A node whose fabric is behind one root complex, with idle devices of this and other places."""
    facts = idle_at(*idle, name=name)
    stock = Stock(facts.stock[A100].idle, coming=coming)
    return replace(facts, stock={A100: stock}, places={"pcieRoot": f"pci{root}"})


@pytest.mark.parametrize(("idle", "coming", "named", "reason"), [
    ([], 0, (), "2 to be attached"), (["0a1"], 0, ("n-0",), "1 idle, 1 to be attached"),
    (["0b1"], 0, (), "2 to be attached"), (["0b1", "0a1"], 1, ("n-1",), "1 idle, 1 being attached"),
    (["0a1", "0b1", "0b2"], 0, ("n-1", "n-2"), "2 idle on one root complex, NUMA node 0")])
def test_devices_are_attached_where_the_whole_fabric_is_behind_one_place(
        idle: list[str], coming: int, named: tuple[str, ...], reason: str) -> None:
    found = placement(plan(behind("a", *idle, coming=coming), sharing(ROOT), samples=SAMPLES, free=2), "p")
    assert found.devices.get("uid-c", ()) == named
    assert found.reason == f"node n has room and 2 x A100 40G ({reason})"


def test_requests_share_it_with_devices_to_come() -> None:
    two = sharing(ROOT, count=1, requests=2)
    found = placement(plan(behind("a", "0b1", "0a1"), two, samples=SAMPLES, free=1), "p")
    assert found.devices["uid-c"] == ("n-1",)


def test_such_a_node_is_preferred_to_one_that_is_not_known_to_be_so() -> None:
    nodes = node("a"), behind("a", name="b")
    assert nodes_by_pod(plan(*nodes, sharing(ROOT), samples=SAMPLES, free=2)) == {"p": "b"}


@pytest.mark.parametrize(("samples", "attribute"), [
    ({}, ROOT), ({A100: (device(),)}, ROOT), (SAMPLES, SWITCH), (SAMPLES, "resource.kubernetes.io/numaNode")],
    ids=["nobody knows the model", "its devices do not say it", "the node does not say it", "another driver's"])
def test_nothing_is_attached_for_what_is_not_known_to_be_shared(
    samples: dict[str, tuple[Json, ...]], attribute: str
) -> None:
    found = plan(behind("a"), sharing(attribute), samples=samples, free=9)
    assert "only attached devices show it" in release(found, "p").reason


def test_free_devices_that_others_have_are_waited_for() -> None:
    found = plan(behind("a"), sharing(ROOT), samples=SAMPLES, free=1, rules=WAIT)
    assert release(found, "p").reason.endswith("had only 1 x A100 40G in total on fabric 1")
    busy = replace(behind("a"), stock={A100: Stock(bound=1)})
    assert wait_reason(plan(busy, sharing(ROOT), samples=SAMPLES, free=1, rules=WAIT), "p").waits_for.endswith(
        "had no free A100 40G on fabric 1")


def can_share(places: list[str], attributes: list[str], wanted: int) -> bool:
    """Whether so many devices have the same known value of each attribute, found by trying all."""
    digits = {ROOT: 1, SWITCH: 2, f"{DRIVER}/numaNode": 0}
    # The root complex's name has no NUMA node in it, the switch's name has all three.
    values = [tuple(place[:3] if name == SWITCH else place[digits[name]] for name in attributes) for place in places
              if all(place[digits[name]] != "?" for name in attributes)]
    return any(len(set(chosen)) == 1 for chosen in itertools.combinations(values, wanted))


def test_a_claim_is_served_exactly_where_some_devices_share_it(rng: random.Random) -> None:
    served = 0
    for _run in range(300):
        places = ["".join(rng.choice(part) for part in ("01?", "ab?", "12?")) for _device in range(rng.randrange(7))]
        attributes = rng.sample([ROOT, SWITCH, f"{DRIVER}/numaNode"], rng.randrange(1, 4))
        count, requests = rng.choice([(1, 2), (2, 1), (2, 2), (3, 1), (1, 3)])
        found = plan(idle_at(*places), sharing(*attributes, count=count, requests=requests))
        assert bool(found.placements) == can_share(places, attributes, count * requests), (places, attributes)
        served += len(found.placements)
    assert 5 < served < 295
