# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detaching: which device goes first, what is never touched, and when an object may be let go."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.model.resource import NodeWork
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import (
    Adopt,
    DeleteResource,
    Detach,
    Finish,
    FinishRequest,
    Plan,
    SetState,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import ComposableResource
from ansible_collections.composable.infra.tests.unit.planning.builders import (
    ATTACH_DEADLINE,
    NOW,
    attached,
    compose,
    held,
    of,
    on_machine,
    one,
    online,
    request,
    resource,
    used,
)

LET_GO = NodeWork(asked=True, removed=True)


def released(size: int, *parts: ComposableResource, **more: t.Any) -> list[str]:
    """Resources that go when a request of ``size`` has these, in order."""
    return [a.resource for a in of(compose(request(size), *parts, **more), DeleteResource)]


def test_surplus_resource_is_deleted() -> None:
    action = one(compose(request(0), online("r")), DeleteResource)
    assert (action.resource, action.reason) == ("r", "request wants 0 devices and has 1")


def test_no_more_than_the_surplus_goes() -> None:
    assert len(released(2, *[online(f"r{i}") for i in range(5)])) == 3


@pytest.mark.parametrize("part", [used("r"), held("r")], ids=["in use", "held for a claim"])
def test_device_that_somebody_has_does_not_go(part: ComposableResource) -> None:
    assert released(0, part) == []


def test_others_go_in_its_place() -> None:
    assert released(1, used("u", created=0), held("h"), online("i")) == ["i"]


def test_force_takes_it_from_whoever_has_it() -> None:
    assert set(released(0, used("u", force_detach=True), held("h", force_detach=True))) == {"h", "u"}


def test_force_takes_idle_ones_first() -> None:
    busy = used("busy", force_detach=True, last_used=NOW - 9000)
    assert released(1, busy, online("idle", force_detach=True, last_used=NOW - 10)) == ["idle"]


ORDER = [resource("never asked"), online("marked", delete_first=True), resource("asked", asked=NOW - 5),
         online("faulty", error="no health"), online("fine")]


@pytest.mark.parametrize("size", range(len(ORDER)))
def test_order_of_leaving(size: int) -> None:
    shuffled = [ORDER[i] for i in (3, 0, 4, 2, 1)]
    assert released(size, *shuffled, **on_machine()) == [r.name for r in ORDER[:len(ORDER) - size]]


def test_of_equals_the_longest_idle_goes_first() -> None:
    parts = [online("b", last_used=NOW - 10), online("a", last_used=NOW - 5), online("c", held_since=NOW - 1)]
    assert released(0, *parts) == ["b", "a", "c"]


def test_device_that_is_not_yet_online_goes_before_one_that_is() -> None:
    assert released(1, online("idle", last_used=NOW - 900), attached("coming", last_used=NOW - 1)) == ["coming"]


def test_request_being_deleted_gives_all_up_and_goes_when_all_are_gone() -> None:
    plan = compose(request(2, deleting=True), online("a"), used("b"))
    assert [a.resource for a in of(plan, DeleteResource)] == ["a"]
    assert not of(plan, FinishRequest)
    assert not of(compose(request(2, deleting=True), attached("a", deleting=True)), FinishRequest)
    assert one(compose(request(2, deleting=True)), FinishRequest).request == "request"


def test_live_request_without_resources_is_not_let_go() -> None:
    assert not of(compose(request(0)), FinishRequest)


def test_resource_whose_request_is_gone_is_released() -> None:
    action = one(compose(online("r", request="gone")), DeleteResource)
    assert action.reason == "its ComposabilityRequest gone is gone"


def test_resource_whose_request_is_gone_stays_while_in_use() -> None:
    assert compose(used("r", request="gone")).actions == ()
    assert compose(held("r", request="gone")).actions == ()


def test_resource_without_a_request_is_somebody_elses() -> None:
    assert compose(online("r", request="")).actions == ()


def leaving(part: ComposableResource, **more: t.Any) -> Plan:
    """The plan for one deleted resource of a request of size 0."""
    return compose(request(0), part, **more)


def test_deleted_resource_is_detached() -> None:
    action = one(leaving(online("r", deleting=True, visible=False, node_work=LET_GO)), Detach)
    assert (action.resource, action.machine, action.device, action.force) == ("r", "machine-0", "device-r", False)


def test_detach_is_asked_where_it_was_attached_even_if_the_node_is_gone() -> None:
    part = online("r", deleting=True, visible=False, machine="machine-before", node_work=LET_GO)
    assert one(leaving(part, machine=None, exists=False), Detach).machine == "machine-before"
    unnamed = online("r", deleting=True, visible=False, machine="", node_work=LET_GO)
    assert one(leaving(unnamed), Detach).machine == "machine-0"


def test_device_that_a_slice_still_shows_leaves_only_when_it_is_tainted() -> None:
    shown = online("r", deleting=True, node_work=LET_GO)
    action = one(leaving(shown), SetState)
    assert action.error.startswith("not detached: a ResourceSlice of the node still shows the device")
    assert not of(leaving(shown), Detach)
    assert of(leaving(replace(shown, tainted=True)), Detach)


def test_force_that_its_request_is_given_later_reaches_what_exists() -> None:
    """It was set when the device would not go."""
    part = used("r", deleting=True)
    assert one(compose(request(0, force_detach=True), part), Detach).force
    assert not of(compose(request(0), part), Detach)
    assert [a.resource for a in of(compose(request(0, force_detach=True), used("r")), DeleteResource)] == ["r"]
    assert not of(compose(request(0, force_detach=True, name="other"), part), Detach)


LOST = {"machine": None, "exists": False, "lost": "node node-0 has been gone for 300 s", "no_agent": "no agent"}


def test_device_of_a_lost_node_is_detached_without_its_node() -> None:
    action = one(leaving(online("r", deleting=True), **LOST), Detach)
    assert (action.machine, action.force, action.lost, action.reason) == ("machine-0", False, True, LOST["lost"])


def test_device_of_a_lost_node_stays_while_a_claim_has_it() -> None:
    assert not of(leaving(used("r", deleting=True), **LOST), Detach)
    assert not of(leaving(held("r", deleting=True), **LOST), Detach)


def test_device_of_a_node_that_is_gone_for_a_short_time_stays() -> None:
    plan = leaving(online("r", deleting=True), **{**LOST, "lost": "", "lost_at": NOW + 200})
    assert not of(plan, Detach)
    assert plan.wake_at == NOW + 200


def test_lost_node_gives_its_devices_up() -> None:
    assert released(0, online("r"), **LOST) == ["r"]
    assert released(0, online("r"), **{**LOST, "lost": ""}) == []


def test_deleted_resource_in_use_says_so_and_stays() -> None:
    action = one(leaving(used("r", by="ns/c", deleting=True)), SetState)
    assert (action.state, action.error) == ("Detaching", "not detached: claim ns/c uses the device")
    assert not of(leaving(used("r", by="ns/c", deleting=True)), Detach)


def test_deleted_resource_that_is_kept_for_a_claim_says_so_and_stays() -> None:
    action = one(compose(held("r", deleting=True, held_for="uid-train")), SetState)
    assert action.error == "not detached: the device is reserved for claim uid-train"


def test_it_is_said_once() -> None:
    said = used("r", by="ns/c", deleting=True, error="not detached: claim ns/c uses the device")
    assert leaving(said).actions == ()


def test_forced_detach_asks_nobody() -> None:
    action = one(leaving(used("r", deleting=True, force_detach=True)), Detach)
    assert action.force


def test_deleted_resource_under_way_is_left_alone() -> None:
    assert leaving(online("r", deleting=True, busy=True)).actions == ()


def test_detached_resource_goes_when_the_nodes_slice_has_let_it_go() -> None:
    gone = resource("r", state="Deleting", deleting=True, asked=NOW - 5, serial="GPU-r")
    assert one(leaving(gone), Finish).resource == "r"
    assert leaving(resource("r", state="Deleting", deleting=True, visible=True)).actions == ()


def test_detached_resource_goes_although_its_device_came_back_for_another() -> None:
    gone = resource("old", state="Deleting", deleting=True, serial="GPU-1", visible=True)
    plan = compose(request(1), gone, online("new", serial="GPU-1", device_uid="d"))
    assert one(plan, Finish).resource == "old"


def test_taint_of_a_detached_device_stays_until_no_slice_shows_it_when_it_came_back_for_one_claim() -> None:
    """A pool device is for one claim: until its node's slice is written anew, others could be given it as the old."""
    gone = resource("old", state="Deleting", deleting=True, serial="GPU-1", visible=True)
    back = online("new", serial="GPU-1", device_uid="d", pool_device="a100/a100-1")
    assert not [a for a in compose(request(1), gone, back).actions if isinstance(a, Finish)]
    assert one(compose(request(1), replace(gone, visible=False), back), Finish).resource == "old"


def test_deleted_resource_that_was_never_asked_for_goes_at_once() -> None:
    assert one(leaving(resource("r", deleting=True)), Finish).resource == "r"


def test_deleted_while_unanswered_takes_its_device_so_that_it_is_detached() -> None:
    part = resource("r", deleting=True, asked=NOW - 1)
    action = one(leaving(part, **on_machine("d")), Adopt)
    assert (action.resource, action.device) == ("r", "d")


def test_deleted_while_unanswered_waits_until_nothing_can_come_any_more() -> None:
    early = leaving(resource("r", deleting=True, asked=NOW - ATTACH_DEADLINE + 1), **on_machine())
    assert (early.actions, early.wake_at) == ((), NOW + 0.5)
    late = resource("r", deleting=True, asked=NOW - ATTACH_DEADLINE)
    assert one(leaving(late, **on_machine()), Finish).resource == "r"
    assert leaving(late, attached=None).actions == ()


def test_deleted_while_a_sibling_is_under_way_waits() -> None:
    plan = compose(request(1), resource("r", deleting=True, asked=NOW - ATTACH_DEADLINE * 2), resource("s", busy=True),
                   **on_machine("d"))
    assert plan.actions == ()
