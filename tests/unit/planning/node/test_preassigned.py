# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The handover direct: each pool device of a claim becomes one device, and stays it."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.model.resource import NodeWork
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import (
    CreateResource,
    DeleteResource,
    MarkClaim,
    SetPoolDevice,
    SetSize,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.node.compose import plan_compose
from ansible_collections.composable.infra.plugins.module_utils.planning.node.scale import plan_scale
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import Claim, ComposableResource
from ansible_collections.composable.infra.tests.unit.planning import builders as it
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, ATTACH_DEADLINE, T4, node, of, one

SETTINGS = it.settings(handover="direct")
FIRST, SECOND = "a100-fabric1/a100-0", "a100-fabric1/a100-1"
LOST = NodeWork(trouble="the device answers nothing", fatal=True)


def direct(name: str = "c", *models: str, given: t.Iterable[str] = (), **more: t.Any) -> Claim:
    """A claim that keeps its devices; ``given``: which of its pool devices are devices."""
    return replace(it.claim(name, *models, **more), direct=True, given=frozenset(given))


def given(name: str = "r", pool_device: str = FIRST, **more: t.Any) -> ComposableResource:
    """A ComposableResource that is a pool device of the claim c; ready unless it is said otherwise."""
    return it.attached(name, **{"pool_device": pool_device, "used_by": "default/c", "in_use": True, "usable": True,
                                **more})


def marks(*parts: t.Any, **more: t.Any) -> list[tuple[str, str, tuple[str, ...]]]:
    found = of(plan_scale(node(*parts, **more), SETTINGS), MarkClaim)
    return [(mark.name, mark.condition, mark.devices) for mark in found]


def waits_for(*parts: t.Any) -> str:
    (reason,) = plan_scale(node(*parts), SETTINGS).wait_reasons
    return reason.waits_for


def test_new_device_is_the_pool_device_of_its_claim() -> None:
    claim = direct("c", A100, A100)
    assert one(plan_scale(node(claim), SETTINGS), SetSize).size == 2
    found = of(plan_compose(node(claim, it.request(2)), ATTACH_DEADLINE), CreateResource)
    assert [(action.pool_device, action.claim) for action in found] == [(FIRST, "uid-c"), (SECOND, "uid-c")]


def test_what_was_given_is_not_asked_for_again() -> None:
    claim = direct("c", A100, A100, given=[FIRST])
    view = node(claim, given(), it.request(2))
    (action,) = of(plan_compose(view, ATTACH_DEADLINE), CreateResource)
    assert action.pool_device == SECOND
    assert not of(plan_scale(view, SETTINGS), SetSize)


def test_claim_is_ready_when_all_its_devices_are() -> None:
    claim = direct("c", A100, A100, given=[FIRST, SECOND])
    first, second = given("r"), given("s", SECOND, usable=False)
    assert marks(claim, first, second, it.request(2)) == []
    assert marks(claim, first, replace(second, usable=True), it.request(2)) == [("c", "FabricDeviceReady", ("r", "s"))]


def test_claims_of_a_pod_are_ready_together() -> None:
    mine, other = direct("a", given=[FIRST], pods=("p",)), direct("b", T4, pods=("p",))
    assert marks(mine, other, given(), it.request(1)) == []
    ready = replace(other, given=frozenset({"t4-fabric1/t4-0"}))
    device = given("t", "t4-fabric1/t4-0", model=T4)
    assert [mark[1] for mark in marks(mine, ready, given(), device, it.request(1), it.request(1, T4, "two"))] == \
        ["FabricDeviceReady", "FabricDeviceReady"]


def test_claims_of_both_kinds_in_one_pod() -> None:
    """Each is told what it has to be told: one binds, the other moves, on the same node."""
    mixed = it.settings(handover="reschedule", handover_models={A100: "direct"})
    view = node(direct("a", given=[FIRST], pods=("p",)), it.claim("b", T4, pods=("p",)), given(), it.request(1),
                it.online("t", T4), it.request(1, T4, "two"))
    found = {mark.name: (mark.condition, mark.devices) for mark in of(plan_scale(view, mixed), MarkClaim)}
    assert found == {"a": ("FabricDeviceReady", ("r",)), "b": ("FabricDeviceReschedule", ("t",))}


def test_idle_device_of_the_node_is_none_of_the_pool() -> None:
    claim = replace(direct(), unfit=frozenset({"r"}), unfit_why="attached devices cannot become its pool devices")
    view = node(claim, it.online("r"), it.request(1))
    assert marks(claim, it.online("r"), it.request(1)) == []
    assert one(plan_scale(view, SETTINGS), SetSize).size == 2


def test_device_on_its_way_for_nobody_becomes_the_pool_device() -> None:
    coming = it.resource("r", asked=it.NOW - 1, busy=True)
    view = node(direct(), coming, it.request(1))
    action = one(plan_compose(view, ATTACH_DEADLINE), SetPoolDevice)
    assert (action.resource, action.pool_device, action.claim) == ("r", FIRST, "uid-c")
    assert not of(plan_compose(view, ATTACH_DEADLINE), CreateResource)


@pytest.mark.parametrize("more", [
    {"device_uid": "d"}, {"pool_device": "a100-fabric1/a100-7", "used_by": "x/y"}, {"hold_alive": True},
    {"deleting": True}, {"doubt": "nobody knows"}, {"reclaims": "d"}])
def test_others_do_not(more: dict[str, t.Any]) -> None:
    view = node(direct(), it.resource("r", asked=it.NOW - 1, busy=True, **more), it.request(1))
    assert not of(plan_compose(view, ATTACH_DEADLINE), SetPoolDevice)


def test_device_of_an_ended_claim_is_one_of_the_node() -> None:
    action = one(plan_compose(node(given(used_by=""), it.request(1)), ATTACH_DEADLINE), SetPoolDevice)
    assert (action.resource, action.pool_device) == ("r", "")
    assert not of(plan_compose(node(given(), it.request(1)), ATTACH_DEADLINE), SetPoolDevice)


@pytest.mark.parametrize("spoiled", [
    given("s", SECOND, usable=False, node_work=LOST),
    given("s", SECOND, usable=False, device_uid="", serial=""),
], ids=["lost on the node", "refused by the manager"])
def test_one_that_fails_fails_all_of_the_claim(spoiled: ComposableResource) -> None:
    claim = direct("c", A100, A100, given=[FIRST, SECOND])
    blocked = {"blocked": {A100: "the machine is full"}}
    assert marks(claim, given(), spoiled, it.request(2), **blocked) == [("c", "FabricDeviceFailed", ())]


def test_attach_under_way_is_no_failure() -> None:
    claim, coming = direct(given=[FIRST]), given(device_uid="", serial="", usable=False, busy=True)
    assert marks(claim, coming, it.request(1), blocked={A100: "the machine is full"}) == []


def test_device_of_a_claim_stays() -> None:
    view = node(direct(given=[FIRST]), given(), it.request(0))
    assert not of(plan_compose(view, ATTACH_DEADLINE), DeleteResource)


@pytest.mark.parametrize(("more", "said"), [
    ({"device_uid": "", "serial": ""}, f"r (pool device {FIRST}) on node node-0: requested from the CDI Manager"),
    ({"device_uid": "", "serial": "", "asked": 0.0},
     f"r (pool device {FIRST}) on node node-0: not yet requested from the CDI Manager"),
    ({"visible": True}, f"GPU-r (pool device {FIRST}) on node node-0: a ResourceSlice of the node shows it, so the "
                        "scheduler may allocate it to another claim"),
    ({"node_work": NodeWork(last_step="Bound")},
     f"GPU-r (pool device {FIRST}) on node node-0: attached, but the node agent has not reported Ready yet (so far: "
     "Bound)"),
    ({}, f"GPU-r (pool device {FIRST}) on node node-0: attached, but the node agent has not reported Ready yet"),
])
def test_what_a_claim_waits_for(more: dict[str, t.Any], said: str) -> None:
    assert waits_for(direct(given=[FIRST]), given(usable=False, **more), it.request(1)) == said
