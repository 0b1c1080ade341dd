# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plan of a node makes of the work on it: devices are used, asked back and detached by its evidence."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.model.resource import NodeWork
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import (
    AskRelease,
    DeleteResource,
    Detach,
    MarkClaim,
    OpenGate,
    Plan,
    SetSize,
    SetState,
    TaintDevice,
    Unreserve,
    WithdrawRelease,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.node.compose import plan_compose
from ansible_collections.composable.infra.plugins.module_utils.planning.node.evaluate import NodePolicy, evaluate_node
from ansible_collections.composable.infra.plugins.module_utils.planning.node.scale import plan_scale
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import ComposableResource
from ansible_collections.composable.infra.tests.unit.planning.builders import (
    A100,
    ATTACH_DEADLINE,
    NOW,
    attached,
    claim,
    node,
    of,
    one,
    online,
    request,
    settings,
    used,
)

NO_AGENT = "node node-0 has no node agent"
HUNG = "the removal has not ended for 30 s"


def compose(*parts: t.Any, **more: t.Any) -> Plan:
    """The compose plan of a node whose hands remove devices before they are detached."""
    return plan_compose(node(*parts, **more), 180.0)


def leaving(**work: t.Any) -> ComposableResource:
    """A deleted resource whose device is attached and tainted, and what its node did about it."""
    return online("r", deleting=True, tainted=True, node_work=NodeWork(**work))


def test_the_node_is_asked_before_the_manager_is() -> None:
    plan = compose(leaving())
    assert [type(a) for a in plan.actions] == [AskRelease]


def test_an_asked_node_is_waited_for() -> None:
    assert compose(leaving(asked=True)).actions == ()


@pytest.mark.parametrize("removed", [False, True])
def test_a_device_that_is_shown_after_its_node_was_asked_is_tainted(removed: bool) -> None:
    """Its plugin was starting when it was asked for, so that there was nothing to taint."""
    late = replace(leaving(asked=True, removed=removed), tainted=False)
    assert one(compose(late), TaintDevice).resource == "r"
    assert of(compose(late), Detach) == []
    assert of(compose(replace(late, visible=False)), TaintDevice) == []
    assert of(compose(replace(late, used_by="default/user")), TaintDevice) == []
    assert of(compose(replace(late, force_detach=True)), TaintDevice) == []


def test_what_the_node_removed_is_detached() -> None:
    action = one(compose(replace(leaving(asked=True, removed=True), visible=False)), Detach)
    assert (action.resource, action.device, action.force) == ("r", "device-r", False)


def test_what_the_node_cannot_let_go_says_so_once() -> None:
    part = leaving(asked=True, trouble=HUNG)
    action = one(compose(part), SetState)
    assert (action.state, action.error) == ("Detaching", f"not detached: {HUNG}")
    said = replace(part, error=f"not detached: {HUNG}")
    assert compose(said).actions == ()


def test_a_warning_keeps_no_device() -> None:
    part = leaving(asked=True, trouble="x4 of x16", warning=True)
    assert compose(part).actions == ()


def test_a_claim_that_turns_up_takes_the_ask_back() -> None:
    plan = compose(used("r", deleting=True, node_work=NodeWork(asked=True)))
    assert one(plan, WithdrawRelease).resource == "r"
    assert one(plan, SetState).error == "not detached: claim default/user uses the device"
    assert of(plan, Detach) == []


def test_a_claim_keeps_even_a_device_that_the_node_removed() -> None:
    plan = compose(used("r", deleting=True, node_work=NodeWork(asked=True, removed=True)))
    assert (len(of(plan, WithdrawRelease)), of(plan, Detach)) == (1, [])


def test_force_does_not_wait_for_the_node() -> None:
    part = online("r", deleting=True, force_detach=True)
    assert one(compose(part, no_agent=NO_AGENT), Detach).force


def test_nothing_is_deleted_or_detached_where_nobody_can_remove_it() -> None:
    more = {"no_agent": NO_AGENT}
    assert of(compose(request(0), online("r"), **more), DeleteResource) == []
    assert of(compose(request(0, deleting=True), online("r"), **more), DeleteResource) == []
    plan = compose(online("r", deleting=True), **more)
    assert [type(a) for a in plan.actions] == [SetState]
    assert one(plan, SetState).error == f"not detached: {NO_AGENT}"


def test_without_hands_the_size_stays_with_the_device() -> None:
    parts = (request(1), online("r", last_used=NOW - 9999))
    assert one(plan_scale(node(*parts), settings()), SetSize).size == 0
    assert of(plan_scale(node(*parts, no_agent=NO_AGENT), settings()), SetSize) == []


def test_without_hands_what_is_forced_or_never_came_goes_all_the_same() -> None:
    found = compose(request(0), online("forced", force_detach=True), attached("never", asked=0.0, device_uid=""),
                    no_agent=NO_AGENT)
    assert {a.resource for a in of(found, DeleteResource)} == {"forced", "never"}


def test_a_device_counts_when_the_node_has_done_its_part() -> None:
    shown = attached("r", visible=True, usable=False)
    assert of(plan_scale(node(claim(phase="gated"), request(1), shown), settings()), OpenGate) == []
    assert of(compose(request(1), shown), SetState) == []
    opens = plan_scale(node(claim(phase="gated"), request(1), attached("r", visible=True)), settings())
    assert len(of(opens, OpenGate)) == 1


def test_what_a_claim_waits_for_on_the_node_is_said() -> None:
    part = attached("r", node_work=NodeWork(last_step="Bound"))
    (reason,) = plan_scale(node(claim(), request(1), part), settings()).wait_reasons
    assert "1 attached but not yet in the node's ResourceSlice (on the node: Bound)" in reason.waits_for


def test_a_device_that_cannot_be_used_here_is_given_back_and_the_model_kept_off() -> None:
    action = one(compose(request(1), attached("r", node_work=NodeWork(trouble="no room", fatal=True))), DeleteResource)
    assert (action.resource, action.reason, action.block) == ("r", "no room", A100)


def test_a_faulty_device_that_a_claim_uses_stays_and_says_so() -> None:
    plan = compose(request(1), used("r", node_work=NodeWork(prepared=True, trouble="Xid 79", fatal=True)))
    assert of(plan, DeleteResource) == []
    assert one(plan, SetState).error == "Xid 79"


def test_a_warning_is_said_and_taken_back() -> None:
    plan = compose(request(1), online("r", node_work=NodeWork(prepared=True, trouble="x4 of x16")))
    assert (one(plan, SetState).state, one(plan, SetState).error) == ("Online", "x4 of x16")
    assert one(compose(request(1), online("r", error="x4 of x16")), SetState).error == ""
    assert compose(request(1), online("r")).actions == ()


def gate(*leavers: ComposableResource) -> list[OpenGate]:
    """Gates that open on a node with one idle device and these."""
    return of(plan_scale(node(claim(phase="gated"), request(1), online("r"), *leavers), settings()), OpenGate)


def test_no_gate_opens_beside_a_device_that_the_scheduler_could_choose_although_it_leaves() -> None:
    assert gate(online("old", deleting=True)) == []
    (reason,) = plan_scale(node(claim(phase="gated"), request(1), online("r"), online("old", deleting=True)),
                           settings()).wait_reasons
    assert reason.waits_for == "GPU-old to leave the ResourceSlice of node node-0"


def test_held_pod_goes_elsewhere_where_a_device_cannot_leave_and_cannot_be_tainted() -> None:
    hung = online("old", deleting=True, node_work=NodeWork(asked=True, trouble=HUNG))
    assert gate(hung) == []
    action = one(plan_scale(node(claim(phase="gated"), request(1), online("r"), hung), settings()), Unreserve)
    assert action.reason == "GPU-old cannot be removed from node node-0 now, and the scheduler could still choose it"
    marked = plan_scale(node(claim(), request(1), online("r"), hung), settings())
    assert len(of(marked, MarkClaim)) == 1, "a claim that was allocated here has no other choice"


def test_claim_is_not_told_to_move_on_beside_a_leaving_device() -> None:
    parts = claim(), request(1), online("r")
    assert not of(plan_scale(node(*parts, online("old", deleting=True)), settings()), MarkClaim)
    assert of(plan_scale(node(*parts, online("old", deleting=True, tainted=True)), settings()), MarkClaim)


@pytest.mark.parametrize("more", [{"tainted": True}, {"visible": False}, {"used_by": "default/other"}],
                         ids=["tainted", "not visible", "in use"])
def test_a_leaving_device_that_nobody_can_choose_holds_up_no_gate(more: dict[str, t.Any]) -> None:
    assert len(gate(online("old", deleting=True, **more))) == 1


def problem(*parts: ComposableResource, **more: t.Any) -> str:
    """What is said of the hands of a node with these."""
    return evaluate_node(node(*parts, **more), NodePolicy(settings(), frozenset({"scaler", "operator"}),
                                                          ATTACH_DEADLINE)).hands_problem


def test_it_is_said_why_devices_stay_and_why_none_come() -> None:
    assert problem(online("r"), used("u"), no_agent=NO_AGENT) == f"1 idle devices stay attached: {NO_AGENT}"
    both = problem(online("r"), no_agent=NO_AGENT, blocked={A100: NO_AGENT})
    assert both == f"1 idle devices stay attached and no device can be attached: {NO_AGENT}"
    assert problem(no_agent=NO_AGENT, blocked={A100: NO_AGENT}) == f"no device can be attached: {NO_AGENT}"


def test_nothing_is_said_where_somebody_works_or_nobody_has_to() -> None:
    assert problem(online("r"), blocked={A100: "refused"}) == ""
    assert problem(no_agent=NO_AGENT) == ""
    assert problem(online("r"), no_agent=NO_AGENT, blocked={A100: NO_AGENT}, machine=None) == ""


def test_device_that_two_drivers_show_is_waited_for_and_told_on_its_object() -> None:
    twice = online("r", usable=False, shown_by=("gpu.nvidia.com", "own.example"))
    said = ("the DRA drivers gpu.nvidia.com and own.example of node node-0 both show GPU-r, so two claims could have "
            "it. Remove one of the drivers from the node")
    assert one(compose(request(1), twice), SetState).error == said
    assert not of(compose(request(1), replace(twice, error=said)), SetState)
    (reason,) = plan_scale(node(claim(), request(1), twice), settings()).wait_reasons
    assert said in reason.waits_for
    assert not of(plan_scale(node(claim(), request(1), twice), settings()), MarkClaim)
    calm = replace(twice, error=said, usable=True, shown_by=("own.example",))
    assert one(compose(request(1), calm), SetState).error == ""


@pytest.mark.parametrize("more", [{}, {"used_by": "default/c", "in_use": True}], ids=["idle", "in use"])
def test_device_that_another_machine_has_too_stays_and_is_told_on_its_object(more: dict[str, t.Any]) -> None:
    twice = online("r", usable=False, also_on="machine m1", **more)
    said = ("the CDI Manager shows GPU-r on machine m1 too, so two machines could use it. Detach it from one of them")
    assert one(compose(request(1), twice), SetState).error == said
    assert len(compose(request(1), twice).actions) == 1
    calm = replace(twice, error=said, usable=True, also_on="")
    assert one(compose(request(1), calm), SetState).error == ""
