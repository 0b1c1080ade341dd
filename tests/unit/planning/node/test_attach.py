# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attaching: what is created, what is asked for, and how an unanswered request is resolved without a second device."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.model.resource import NodeWork
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import (
    Adopt,
    Attach,
    CreateResource,
    DeleteResource,
    Plan,
    Resume,
    SetSize,
    SetState,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.node.compose import (
    POLL,
    plan_compose,
    uncertain,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.node.scale import after, plan_scale
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import ComposableResource
from ansible_collections.composable.infra.tests.unit.planning.builders import (
    A100,
    ATTACH_DEADLINE,
    NOW,
    T4,
    attached,
    claim,
    compose,
    node,
    of,
    on_machine,
    one,
    online,
    request,
    resource,
    settings,
    used,
)


def test_nothing_wanted_nothing_done() -> None:
    assert compose() == Plan()


def test_one_resource_is_created_for_each_device_that_is_missing() -> None:
    plan = compose(request(3), online("r", request="request"))
    assert len(of(plan, CreateResource)) == 2
    action = of(plan, CreateResource)[0]
    assert (action.request, action.model, action.machine) == ("request", A100, "machine-0")
    assert action.reason == "request wants 3 devices and has 1"


def test_resource_remembers_which_devices_nobody_owned() -> None:
    plan = compose(request(1), **on_machine("d2", "mine", "d1", owned=("mine",)))
    assert one(plan, CreateResource).present == ("d1", "d2")


def test_devices_of_another_model_are_not_remembered() -> None:
    assert one(compose(request(1), attached={"x": T4}), CreateResource).present == ()


def test_deleted_resource_does_not_count() -> None:
    assert len(of(compose(request(1), attached("r", deleting=True)), CreateResource)) == 1


def test_resources_of_another_request_do_not_count() -> None:
    plan = compose(request(1), request(1, T4, "other"), resource("r", T4, request="other", busy=True))
    assert [a.request for a in of(plan, CreateResource)] == ["request"]


@pytest.mark.parametrize("missing", [{"machine": None}, {"blocked": {A100: "none left"}}], ids=["machine", "blocked"])
def test_nothing_is_created_without_a_machine_or_while_blocked(missing: dict[str, t.Any]) -> None:
    assert compose(request(1), **missing).actions == ()


def test_nothing_is_asked_for_while_the_machine_could_not_be_read() -> None:
    assert compose(request(1), attached=None).actions == ()
    assert compose(request(1), resource("r"), attached=None).actions == ()


def test_request_that_is_being_deleted_gets_nothing() -> None:
    assert not of(compose(request(2, deleting=True), resource("r", busy=True)), CreateResource)


def test_resource_that_was_not_asked_for_is_attached() -> None:
    action = one(compose(request(1), resource("r"), **on_machine("foreign")), Attach)
    assert (action.resource, action.model, action.machine) == ("r", A100, "machine-0")
    assert action.present == ("foreign",)


@pytest.mark.parametrize("missing", [{"machine": None}, {"blocked": {A100: "none left"}}], ids=["machine", "blocked"])
def test_nothing_is_attached_without_a_machine_or_while_blocked(missing: dict[str, t.Any]) -> None:
    assert compose(request(1), resource("r"), **missing).actions == ()


def test_resource_whose_request_is_under_way_is_left_alone() -> None:
    assert compose(request(1), resource("r", busy=True)).actions == ()


def test_attached_device_waits_for_the_nodes_slice() -> None:
    assert compose(request(1), attached("r")).actions == ()


def test_visible_device_makes_the_resource_online() -> None:
    action = one(compose(request(1), attached("r", visible=True)), SetState)
    assert (action.resource, action.state, action.error) == ("r", "Online", "")
    assert compose(request(1), online("r")).actions == ()


def asked(name: str = "r", age: float = 1.0, **more: t.Any) -> t.Any:
    """A resource that was asked for ``age`` seconds ago; no answer is known."""
    return resource(name, **{"asked": NOW - age, **more})


def test_unanswered_request_takes_the_new_device() -> None:
    action = one(compose(request(1), asked("r"), **on_machine("d")), Adopt)
    assert (action.resource, action.device) == ("r", "d")


@pytest.mark.parametrize("machine", [
    on_machine("d", owned=("d",)), on_machine("d", model=T4), on_machine("old"),
], ids=["owned", "of another model", "there before"])
def test_device_that_cannot_be_from_this_request_is_not_taken(machine: dict[str, t.Any]) -> None:
    plan = compose(request(1), asked("r", present=frozenset({"old"})), **machine)
    assert plan.actions == ()
    assert plan.wake_at == NOW + POLL


@pytest.mark.parametrize(("present", "waits"), [(frozenset(), True), (frozenset({"d"}), False)],
                         ids=["may be its own", "there before"])
@pytest.mark.parametrize("deleting", [False, True])
def test_device_that_another_node_lets_go_is_waited_for(present: frozenset[str], waits: bool, deleting: bool) -> None:
    """Its detach there was not answered; nothing is asked for anew, and nothing given up, until that is told."""
    part = asked("r", age=ATTACH_DEADLINE, present=present, deleting=deleting)
    view = {**on_machine("d", owned=("d",)), "leaving": frozenset({"d"})}
    plan = compose(request(0 if deleting else 1), part, **view)
    assert (plan.actions == ()) is waits
    assert not waits or plan.wake_at == NOW + POLL


def test_one_device_is_adopted_once_by_the_resource_that_asked_first() -> None:
    view = (asked("late", age=1), asked("early", age=2), request(2))
    assert [(a.resource, a.device) for a in of(compose(*view, **on_machine("d")), Adopt)] == [("early", "d")]
    both = of(compose(*view, **on_machine("d", "e")), Adopt)
    assert {a.device for a in both} == {"d", "e"}
    assert {a.resource for a in both} == {"early", "late"}


def test_each_model_adopts_its_own() -> None:
    plan = compose(asked("a"), asked("t", model=T4), request(1), request(1, T4, "t4"), attached={"x": T4, "y": A100})
    assert {a.resource: a.device for a in of(plan, Adopt)} == {"a": "y", "t": "x"}


def test_device_that_was_there_before_the_younger_asked_goes_to_the_older() -> None:
    """Both replies were lost. ``d9`` was there when the younger asked, so the younger's own is ``d1``."""
    older, younger = asked("older", age=9), asked("younger", age=5, present=frozenset({"d9"}))
    plan = compose(older, younger, request(2), **on_machine("d1", "d9"))
    assert {a.resource: a.device for a in of(plan, Adopt)} == {"older": "d9", "younger": "d1"}


def test_nothing_is_adopted_while_the_owner_may_be_about_to_answer() -> None:
    """The new device may be that of the request under way."""
    plan = compose(asked("r"), asked("flying", busy=True), request(2), **on_machine("d"))
    assert plan.actions == ()
    assert plan.wake_at == NOW + POLL


def test_nothing_is_adopted_beside_an_operation_that_an_earlier_process_began() -> None:
    """The new device may be that of the operation, which is asked about at the same time."""
    plan = compose(asked("r"), asked("begun", operation="op-1"), request(2), **on_machine("d"))
    assert of(plan, Adopt) == []
    assert one(plan, Resume).resource == "begun"
    assert plan.wake_at == NOW + POLL


LET_GO = NodeWork(asked=True, removed=True)


@pytest.mark.parametrize("busy", [True, False])
def test_nothing_is_asked_for_while_a_device_is_being_detached(busy: bool) -> None:
    """When the answer is lost, the device may be off, and could come back for the new one; nobody would know."""
    off = online("off", deleting=True, visible=False, node_work=LET_GO, busy=busy)
    view = (off, resource("new"), request(2), claim("c"))
    assert not {CreateResource, Attach} & {type(action) for action in compose(*view).actions}
    gone = replace(off, state="Deleting", device_uid="")
    assert [a.resource for a in of(compose(gone, *view[1:]), Attach)] == ["new"]


def test_device_that_its_node_has_not_let_go_bars_nothing() -> None:
    view = (online("off", deleting=True, node_work=NodeWork(asked=True)), resource("new"), request(1), claim("c"))
    assert [a.resource for a in of(compose(*view), Attach)] == ["new"]


def test_request_under_way_for_another_model_bars_nothing() -> None:
    plan = compose(asked("r"), asked("flying", model=T4, busy=True), request(1), request(1, T4, "t4"),
                   **on_machine("d"))
    assert one(plan, Adopt).resource == "r"


def test_unanswered_request_is_not_asked_again_before_its_deadline() -> None:
    plan = compose(request(1), asked("r", age=ATTACH_DEADLINE - 1), **on_machine())
    assert plan.actions == ()
    assert plan.wake_at == NOW + POLL


def test_unanswered_request_without_effect_is_asked_again() -> None:
    action = one(compose(request(1), asked("r", age=ATTACH_DEADLINE), **on_machine("x", model=T4)), Attach)
    assert (action.resource, action.reason) == ("r", "requested 180 s ago without effect")


def test_it_is_not_asked_again_unless_the_machine_was_seen() -> None:
    plan = compose(request(1), asked("r", age=ATTACH_DEADLINE * 9), attached=None)
    assert plan.actions == ()
    assert plan.wake_at == NOW + POLL


def test_it_is_not_asked_again_while_another_is_under_way() -> None:
    plan = compose(request(2), asked("r", age=ATTACH_DEADLINE * 9), asked("s", busy=True), **on_machine())
    assert plan.actions == ()


def test_asking_again_remembers_what_is_there_now() -> None:
    plan = compose(request(1), asked("r", age=ATTACH_DEADLINE, present=frozenset({"was", "is"})), **on_machine("is"))
    assert one(plan, Attach).present == ("is",)


@pytest.mark.parametrize(("part", "expected"), [
    (asked("r"), True), (asked("r", deleting=True), True), (asked("r", busy=True), False), (resource("r"), False),
    (attached("r"), False), (asked("r", state="Deleting"), False),
], ids=["asked", "asked and deleted", "under way", "not asked", "attached", "detached"])
def test_machine_is_read_afresh_for_unanswered_requests_only(part: t.Any, expected: bool) -> None:
    assert uncertain(node(part)) is expected


def test_created_and_released_in_one_plan_belong_to_different_requests() -> None:
    plan = compose(request(0), online("r"), request(1, T4, "t4"))
    assert [a.resource for a in of(plan, DeleteResource)] == ["r"]
    assert [a.model for a in of(plan, CreateResource)] == [T4]


@pytest.mark.parametrize("part", [used("r", request="gone"), online("r", request="gone", created=NOW - 5)],
                         ids=["in use", "kept for a while"])
def test_device_of_a_request_that_is_gone_does_not_bring_a_second_one(part: ComposableResource) -> None:
    view = node(part, **on_machine("device-r", owned=("device-r",)))
    sized = after(view, plan_scale(view, settings()).actions)
    assert not of(plan_compose(sized, ATTACH_DEADLINE), CreateResource)


@pytest.mark.parametrize(("parts", "size", "told"), [
    ((), 2, ["", ""]),
    ((claim("old", age=9.0), claim("new", age=1.0)), 2, ["uid-old", "uid-new"]),
    ((claim("two", A100, A100),), 2, ["uid-two", "uid-two"]),
    ((claim("old", age=9.0), claim("new", age=1.0), attached("r")), 2, ["uid-new"]),
    ((claim("one"),), 2, ["uid-one", ""]),
    ((claim("other", T4),), 1, [""]),
    ((claim("done", phase="ready"), claim("waits")), 1, ["uid-waits"]),
    ((claim("held", phase="gated"),), 1, ["uid-held"])])
def test_a_new_device_tells_which_claim_it_is_asked_for(parts: tuple[t.Any, ...], size: int, told: list[str]) -> None:
    """The youngest: older ones get what is there or on its way."""
    created = of(compose(request(size), *parts), CreateResource)
    assert [action.claim for action in created] == told


@pytest.mark.parametrize(("parts", "size", "noted", "told"), [
    ((), 1, ("uid-held",), ["uid-held"]),
    ((), 2, ("uid-held",), ["uid-held", "uid-held"]),
    ((), 3, ("uid-old", "uid-new"), ["uid-old", "uid-new", ""]),
    ((attached("r"),), 2, ("uid-old", "uid-new"), ["uid-new"]),
    ((claim("seen"),), 1, ("uid-noted",), ["uid-seen"])])
def test_what_another_process_noted_on_the_request_counts_where_nobody_is_seen_to_wait(
    parts: tuple[t.Any, ...], size: int, noted: tuple[str, ...], told: list[str]
) -> None:
    created = of(compose(request(size, claims=noted), *parts), CreateResource)
    assert [action.claim for action in created] == told


def test_a_size_tells_who_waits_for_it() -> None:
    plan = plan_scale(node(claim("old", A100, A100, age=9.0), claim("new"), claim("other", T4)), settings())
    sizes = {action.model: action.claims for action in of(plan, SetSize)}
    assert sizes == {A100: ("uid-old", "uid-new"), T4: ("uid-other",)}
