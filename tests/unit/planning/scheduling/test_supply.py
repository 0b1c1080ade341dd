# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices for held pods: what is idle first, then what is coming, then what the fabric has; and every limit."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling import supply
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import (
    GatedPod,
    NodeFacts,
    Stock,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER, H100, T4, row
from ansible_collections.composable.infra.tests.unit.planning.builders import settings as table
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    CLASS,
    Rules,
    assumed,
    device,
    exactly,
    gated,
    idle,
    node,
    nodes_by_pod,
    placement,
    plan,
    release,
)

Json = dict[str, t.Any]
ANY = exactly(None)
UUID = f'device.attributes["{DRIVER}"].uuid == "GPU-1"'
TAINT = {"taints": [{"key": "sick", "value": "yes", "effect": "NoSchedule"}]}


def a100(**stock: t.Any) -> dict[str, Stock]:
    return {A100: Stock(**stock)}


def test_idle_device_is_used_and_named() -> None:
    found = placement(plan(node("n", stock=a100(idle=idle(2, node="n-"))), gated("p")), "p")
    assert found.devices == {"uid-p-gpu": ("n-a0",)}
    assert found.reason == "node n has room and 1 x A100 40G (1 idle)"


def test_idle_then_coming_then_free() -> None:
    found = placement(plan(node("n", stock=a100(idle=idle(1), coming=1)), gated("p", exactly(A100, 3)), free=5), "p")
    assert found.needs == {"uid-p-gpu": {A100: 3}}
    assert found.devices == {"uid-p-gpu": ("a0",)}
    assert found.reason.endswith("3 x A100 40G (1 idle, 1 being attached, 1 to be attached)")


@pytest.mark.parametrize(("count", "free", "fits"), [(1, 0, False), (1, 1, True), (2, 1, False), (3, 3, True)])
def test_no_more_than_the_fabric_has(count: int, free: int, fits: bool) -> None:
    assert bool(nodes_by_pod(plan(node("n"), gated("p", exactly(A100, count)), free=free))) is fits


def test_devices_of_another_fabric_are_out_of_reach() -> None:
    found = plan(node("n"), gated("p"), free={(A100, 2): 5})
    assert release(found, "p").reason == "1 x A100 40G: 0/1 nodes: 1 had only 0 x A100 40G in total on fabric 1"
    assert nodes_by_pod(plan(node("n"), node("m", fabric=2), gated("p"), free={(A100, 2): 5})) == {"p": "m"}


@pytest.mark.parametrize(("stock", "count", "reason"), [
    ({"limit": 2}, 2, ""), ({"limit": 2}, 3, "may have only 2 x A100 40G"),
    ({"limit": 2, "bound": 1}, 1, ""), ({"limit": 2, "bound": 2}, 1, "may have only 2 x A100 40G"),
    ({"limit": 2, "bound": 1, "idle": idle(1)}, 1, ""),
    ({"limit": 1, "bound": 1, "idle": idle(1)}, 1, "may have only 1 x A100 40G"),
    ({"limit": 2, "bound": 1, "idle": idle(1)}, 2, "may have only 2 x A100 40G")])
def test_limit_of_a_node(stock: Json, count: int, reason: str) -> None:
    found = plan(node("n", stock=a100(**stock)), gated("p", exactly(A100, count)), free=9)
    if reason:
        assert release(found, "p").reason.endswith(reason)
    else:
        assert nodes_by_pod(found) == {"p": "n"}


def test_requests_of_one_pod_count_together() -> None:
    pod = gated("p", exactly(A100, 2), exactly(A100, 2))
    assert not nodes_by_pod(plan(node("n", stock=a100(limit=3)), pod, free=9))
    assert not nodes_by_pod(plan(node("n"), node("m", stock=a100(bound=2)), pod, free=3))
    assert nodes_by_pod(plan(node("n", stock=a100(limit=4)), pod, free=4)) == {"p": "n"}


def test_a_node_is_asked_anew_when_others_took_what_it_counted_on() -> None:
    pods = gated("a", ANY, age=9, cpu="1"), gated("b", ANY, cpu="8")
    found = plan(node("m", allocatable={"cpu": "4"}), node("n"), *pods, free={(A100, 1): 1, (T4, 1): 1})
    assert placement(found, "a").needs == {"uid-a-gpu": {A100: 1}}
    assert placement(found, "b").needs == {"uid-b-gpu": {T4: 1}}


def test_default_limit_holds_for_models_of_which_a_node_has_none() -> None:
    found = plan(node("n", default_limit=1), gated("p", exactly(A100, 2)), free=9)
    assert release(found, "p").reason.endswith("may have only 1 x A100 40G")


COEXIST: list[tuple[str, NodeFacts, str, str]] = [
    ("own row says so", node("n", present=frozenset({A100})), H100, A100),
    ("the other's row says so", node("n", present=frozenset({H100})), A100, H100),
    ("in use", node("n", stock={H100: Stock(bound=1)}), A100, H100),
    ("idle", node("n", stock={H100: Stock(idle=idle(1, H100))}), A100, H100),
    ("coming", node("n", stock={H100: Stock(coming=1)}), A100, H100),
]


@pytest.mark.parametrize(("where", "model", "other"), [c[1:] for c in COEXIST], ids=[c[0] for c in COEXIST])
def test_models_that_cannot_be_together(where: NodeFacts, model: str, other: str) -> None:
    found = plan(where, gated("p", exactly(model)), free={(model, 1): 5})
    assert release(found, "p").reason.endswith(f"had {other}, which cannot share a machine with {model}")


def test_models_that_can_be_together() -> None:
    assert nodes_by_pod(plan(node("n", present=frozenset({T4})), gated("p"), free=5)) == {"p": "n"}
    assert nodes_by_pod(plan(node("n", present=frozenset({A100})), gated("p"), free=5)) == {"p": "n"}


def test_one_pod_cannot_have_both_of_two_models_that_exclude_each_other() -> None:
    pod = gated("p", exactly(A100), exactly(H100))
    found = plan(node("n"), pod, free={(A100, 1): 5, (H100, 1): 5})
    assert release(found, "p").reason.endswith("had A100 40G, which cannot share a machine with H100 80G")


def test_a_pod_placed_before_excludes_other_models() -> None:
    pods = gated("a", age=9), gated("h", exactly(H100))
    free = {(A100, 1): 5, (H100, 1): 5}
    assert nodes_by_pod(plan(node("n"), *pods, free=free)) == {"a": "n"}
    assert nodes_by_pod(plan(node("n"), node("m"), *pods, free=free)) == {"a": "m", "h": "n"}


def test_excluded_models_are_not_given_but_still_exclude() -> None:
    free = {(A100, 1): 5, (H100, 1): 5}
    hidden = frozenset({H100})
    found = plan(node("n", present=frozenset({H100})), gated("p"), free=free, excluded=hidden)
    assert release(found, "p").reason.endswith("had H100 80G, which cannot share a machine with A100 40G")
    found = plan(node("n"), gated("p", exactly(H100)), free=free, excluded=hidden)
    assert release(found, "p").reason.endswith("no model of device_info satisfies it")
    found = plan(node("n", stock={H100: Stock(idle=idle(1, H100))}), gated("p", exactly(H100)), free=free,
                 excluded=hidden)
    assert not found.placements


def test_blocked_model_is_not_attached_but_what_is_idle_is_used() -> None:
    refused: Json = {"blocked": {A100: "the machine is off"}}
    found = plan(node("n", **refused), gated("p"), free=5)
    assert release(found, "p").reason.endswith("could not attach A100 40G: the machine is off")
    assert nodes_by_pod(plan(node("n", stock=a100(idle=idle(1)), **refused), gated("p"), free=5)) == {"p": "n"}
    assert nodes_by_pod(plan(node("n", stock=a100(coming=1), **refused), gated("p"), free=5)) == {"p": "n"}
    found = plan(node("n", stock=a100(idle=idle(1)), **refused), gated("p", exactly(A100, 2)), free=5)
    assert not nodes_by_pod(found)


def shared(default: str | None) -> Json:
    """An entry that several claims may have parts of; a request that names none takes ``default``, else all."""
    policy = {"requestPolicy": {"default": default}} if default else {}
    return {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi", **policy}}}


@pytest.mark.parametrize(("entry", "tolerations", "fits"), [
    ({}, [], True), (TAINT, [], False), (TAINT, [{"key": "sick", "operator": "Exists"}], True),
    (TAINT, [{"key": "sick", "operator": "Equal", "value": "no"}], False),
    ({"taints": [{"key": "sick", "effect": "None"}]}, [], True), ({"allowMultipleAllocations": True}, [], False),
    (shared("80Gi"), [], True), (shared("81920Mi"), [], True), (shared("10Gi"), [], False), (shared(None), [], True),
    ({**shared("80Gi"), "consumesCounters": [{"counterSet": "c"}]}, [], False),
    ({"consumesCounters": [{"counterSet": "c"}]}, [], False)])
def test_idle_devices_that_the_scheduler_would_not_give(entry: Json, tolerations: list[Json], fits: bool) -> None:
    pod = gated("p", exactly(tolerations=tolerations))
    assert bool(nodes_by_pod(plan(node("n", stock=a100(idle=idle(1, **entry))), pod))) is fits


def test_selector_for_one_device_is_evaluated_on_idle_devices() -> None:
    ask = [exactly(A100, 1, UUID), exactly()]
    found = plan(node("n", stock=a100(idle=idle(2))), gated("p", ask), free=0)
    assert "it is unknown" in release(found, "p").reason


def test_device_that_its_model_does_not_describe_is_used_when_it_is_there() -> None:
    bright = f'device.attributes["{DRIVER}"].?colour.orValue("") == "red" || device.driver == "x"'
    red: Json = {"attributes": {"productName": {"string": f"NVIDIA {A100}"}, "colour": {"string": "red"}}}
    samples = {m: (device(0, m),) for m in (A100, H100, T4)}
    samples[T4] = (device(0, T4, attributes=red["attributes"]),)
    where = node("n", stock=a100(idle=idle(1, **red)))
    assert nodes_by_pod(plan(where, gated("p", exactly(None, 1, bright)), samples=samples)) == {"p": "n"}
    assert not nodes_by_pod(plan(where, gated("p", exactly(None, 2, bright)), free=5, samples=samples))


def test_node_with_a_device_on_which_the_selector_fails_is_left_out() -> None:
    request = f'device.attributes["{DRIVER}"].rack == "r"'
    has = {"productName": {"string": f"NVIDIA {A100}"}, "rack": {"string": "r"}}
    samples = {A100: (device(0, attributes=has),), T4: (device(0, T4),), H100: (device(0, H100),)}
    where = node("n", stock=a100(idle=idle(1)))
    found = plan(where, gated("p", exactly(A100, 1, request)), free=5, samples=samples)
    assert release(found, "p").reason.endswith("had a device for which a selector gives no clear answer")
    found = plan(where, node("m"), gated("p", exactly(A100, 1, request)), free=5, samples=samples)
    assert nodes_by_pod(found) == {"p": "m"}


WAYS: list[tuple[str, NodeFacts, GatedPod, dict[tuple[str, int], int], dict[str, int]]] = [
    ("any model, one idle", node("n", stock={T4: Stock(idle=idle(1, T4))}), gated("p", ANY), {(A100, 1): 5}, {T4: 1}),
    ("any model, none idle", node("n"), gated("p", ANY), {(T4, 1): 5}, {T4: 1}),
    ("mixture", node("n"), gated("p", exactly(None, 3)), {(A100, 1): 2, (T4, 1): 1}, {A100: 2, T4: 1}),
    ("one model rather than a mixture", node("n"), gated("p", exactly(None, 3)), {(A100, 1): 2, (T4, 1): 3}, {T4: 3}),
    ("mixture of what is idle", node("n", stock={T4: Stock(idle=idle(1, T4)), A100: Stock(idle=idle(2))}),
     gated("p", exactly(None, 3)), {(A100, 1): 9}, {A100: 2, T4: 1}),
    ("the narrow request is not robbed", node("n", stock={T4: Stock(idle=idle(1, T4))}),
     gated("p", ANY, exactly(T4)), {(A100, 1): 1}, {A100: 1, T4: 1}),
    ("first alternative", node("n"), gated("p", [exactly(H100), exactly(A100)]), {(A100, 1): 1, (H100, 1): 1},
     {H100: 1}),
    ("second alternative", node("n"), gated("p", [exactly(H100), exactly(A100, 2)]), {(A100, 1): 2}, {A100: 2}),
    ("first alternative, though another is idle", node("n", stock={T4: Stock(idle=idle(1, T4))}),
     gated("p", [exactly(A100), exactly(T4)]), {(A100, 1): 1}, {A100: 1}),
    ("alternatives of two requests", node("n"),
     gated("p", [exactly(A100), exactly(T4)], [exactly(A100), exactly(T4)]), {(A100, 1): 1, (T4, 1): 5},
     {A100: 1, T4: 1}),
    ("alternatives that exclude each other", node("n"),
     gated("p", [exactly(H100), exactly(T4)], exactly(A100)), {(A100, 1): 1, (T4, 1): 5, (H100, 1): 5},
     {A100: 1, T4: 1}),
    ("many requests of one model", node("n"), gated("p", *[exactly(A100)] * 30), {(A100, 1): 30}, {A100: 30}),
    ("many requests of any model", node("n"), gated("p", *[ANY] * 5), {(T4, 1): 3, (A100, 1): 2}, {A100: 2, T4: 3}),
    ("an alternative of another class comes too late to matter", node("n"),
     gated("p", [exactly(A100), exactly(deviceClassName="nic")]), {(A100, 1): 1}, {A100: 1}),
]


@pytest.mark.parametrize(("where", "pod", "free", "models"), [w[1:] for w in WAYS], ids=[w[0] for w in WAYS])
def test_ways_to_serve(where: NodeFacts, pod: GatedPod, free: dict[tuple[str, int], int],
                       models: dict[str, int]) -> None:
    assert placement(plan(where, pod, free=free), "p").needs == {"uid-p-gpu": models}


def test_search_tries_the_cheapest_first_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a single step only the first thing that is tried can be found."""
    monkeypatch.setattr(supply, "MAX_STEPS", 1)
    where = node("n", stock={T4: Stock(idle=idle(1, T4))})
    free = {(A100, 1): 5, (T4, 1): 5}
    assert placement(plan(where, gated("p", ANY), free=free), "p").needs == {"uid-p-gpu": {T4: 1}}
    assert not nodes_by_pod(plan(where, gated("p", ANY, ANY), free=free))


def test_placements_take_what_they_wait_for() -> None:
    early = gated("early")
    where = node("n", stock=a100(idle=idle(2)))
    assert placement(plan(where, assumed(early, "n", {A100: 1}), gated("p")), "p").devices == {"uid-p-gpu": ("a1",)}
    named = assumed(early, "n", {A100: 1}, devices={"uid-early-gpu": ("a1",)})
    assert placement(plan(where, named, gated("p")), "p").devices == {"uid-p-gpu": ("a0",)}
    held = assumed(early, "n", {A100: 1}, holding={A100: 1})
    assert placement(plan(where, held, gated("p", exactly(A100, 2))), "p").devices == {"uid-p-gpu": ("a0", "a1")}
    assert not nodes_by_pod(plan(where, assumed(early, "n", {A100: 2}), gated("p")))


def test_placements_take_coming_and_free_devices_and_places() -> None:
    early = gated("early")
    two = assumed(early, "n", {A100: 2})
    assert not nodes_by_pod(plan(node("n", stock=a100(coming=1)), two, gated("p"), free=1))
    assert nodes_by_pod(plan(node("n", stock=a100(coming=1)), two, gated("p"), free=2)) == {"p": "n"}
    assert not nodes_by_pod(plan(node("n", stock=a100(limit=2)), two, gated("p"), free=9))
    assert nodes_by_pod(plan(node("n"), assumed(early, "gone", {A100: 2}), gated("p"), free=1)) == {"p": "n"}


def test_a_placed_pod_is_not_planned_again() -> None:
    early = gated("early")
    found = plan(node("n"), early, assumed(early, "n", {A100: 1}), free=9)
    assert (found.placements, found.releases, found.wait_reasons) == ((), (), ())


def test_models_that_no_machine_can_share() -> None:
    rows = [row(0, A100, "a100", **{"cannot-coexist-with": [1]}), row(1, T4, "t4")]
    rules = Rules(models=table(device_info=rows).models, device_classes=(CLASS,))
    pods = gated("p", exactly(T4)), gated("q", age=9)
    assert nodes_by_pod(plan(node("n"), *pods, free={(A100, 1): 1, (T4, 1): 1}, rules=rules)) == {"q": "n"}
