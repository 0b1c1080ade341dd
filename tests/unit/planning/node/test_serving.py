# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting claims on a node: who gets a device that is there, and for whom one is asked."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.actions import MarkClaim, SetSize
from ansible_collections.composable.infra.plugins.module_utils.planning.node.scale import plan_scale, request_name
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import ComposableResource
from ansible_collections.composable.infra.tests.unit.planning.builders import (
    A100,
    NOW,
    T4,
    attached,
    claim,
    held,
    node,
    of,
    one,
    online,
    pod,
    request,
    resource,
    settings,
    used,
    verdict,
)

SETTINGS = settings()


def test_a_quiet_node_needs_nothing() -> None:
    plan = plan_scale(node(), SETTINGS)
    assert (plan.actions, plan.wait_reasons, plan.wake_at) == ((), (), None)


def test_preparing_claim_makes_a_request() -> None:
    action = one(plan_scale(node(claim("c")), SETTINGS), SetSize)
    assert (action.model, action.size, action.before) == (A100, 1, None)
    assert action.request == request_name("node-0", A100)
    assert action.reason == "1 x A100 40G wanted on node node-0"


def test_request_name_is_fixed_and_differs_by_node_and_model() -> None:
    names = {request_name(n, m) for n in ("node-0", "node-1") for m in (A100, T4)}
    assert len(names) == 4
    assert request_name("node-0", A100) in names
    assert all(len(name) <= 63 and name.startswith("composability-") for name in names)


def test_request_that_exists_is_raised() -> None:
    action = one(plan_scale(node(claim("a"), claim("b"), request(1, name="theirs")), SETTINGS), SetSize)
    assert (action.request, action.before, action.size) == ("theirs", 1, 2)


def test_request_of_the_right_size_is_left_alone() -> None:
    assert not of(plan_scale(node(claim("c"), request(1), resource()), SETTINGS), SetSize)


def test_request_that_is_being_deleted_does_not_count() -> None:
    action = one(plan_scale(node(claim("c"), request(1, deleting=True)), SETTINGS), SetSize)
    assert (action.before, action.request) == (None, request_name("node-0", A100))


def test_of_two_requests_the_first_by_name_is_kept() -> None:
    view = node(claim("a"), claim("b"), request(0, name="b"), request(1, name="a"))
    assert one(plan_scale(view, SETTINGS), SetSize).request == "a"


def test_claim_for_several_devices() -> None:
    plan = plan_scale(node(claim("c", A100, A100, A100)), SETTINGS)
    assert one(plan, SetSize).size == 3
    assert verdict(plan, "c").waits_for == "3 x A100 40G on node node-0"


def test_claim_for_two_models_makes_two_requests() -> None:
    sizes = of(plan_scale(node(claim("c", A100, T4, T4)), SETTINGS), SetSize)
    assert {a.model: a.size for a in sizes} == {A100: 1, T4: 2}


def test_idle_device_is_used_before_a_new_one_is_asked_for() -> None:
    plan = plan_scale(node(claim("c"), request(1), online("r")), SETTINGS)
    mark = one(plan, MarkClaim)
    assert (mark.condition, mark.devices, mark.pods) == ("FabricDeviceReschedule", ("r",), (pod("c"),))
    assert mark.reason == "1 x A100 40G (GPU-r) attached and visible on node node-0"
    assert not of(plan, SetSize)


def test_oldest_device_is_used_first() -> None:
    view = node(claim("c"), request(2), online("young", created=NOW - 5), online("old", created=NOW - 50))
    assert one(plan_scale(view, SETTINGS), MarkClaim).devices == ("old",)


def test_one_idle_device_serves_one_claim_the_older() -> None:
    plan = plan_scale(node(claim("new", age=1), claim("old", age=9), request(1), online("r")), SETTINGS)
    assert one(plan, MarkClaim).name == "old"
    assert one(plan, SetSize).size == 2


def test_claims_of_equal_age_are_served_by_name() -> None:
    plan = plan_scale(node(claim("b", age=3), claim("a", age=3), request(1), online("r")), SETTINGS)
    assert one(plan, MarkClaim).name == "a"


def test_device_of_another_model_serves_nobody() -> None:
    plan = plan_scale(node(claim("c"), request(1, T4, "t4"), online("r", T4)), SETTINGS)
    assert not of(plan, MarkClaim)


@pytest.mark.parametrize("away", [attached("r"), resource("r"), online("r", deleting=True), used("r"), held("r")],
                         ids=["not visible", "not attached", "being deleted", "in use", "held for another"])
def test_device_that_cannot_be_had_is_not_handed_over(away: ComposableResource) -> None:
    plan = plan_scale(node(claim("c"), request(1), away), SETTINGS)
    assert not of(plan, MarkClaim)


def test_two_devices_or_none() -> None:
    plan = plan_scale(node(claim("c", A100, A100), request(1), online("r")), SETTINGS)
    assert not of(plan, MarkClaim)
    assert one(plan, SetSize).size == 2
    assert verdict(plan, "c").waits_for == "1 x A100 40G on node node-0"


def test_the_idle_device_of_a_bigger_older_claim_is_kept_for_it() -> None:
    view = node(claim("big", A100, A100, age=9), claim("small", age=1), request(1), online("r"))
    plan = plan_scale(view, SETTINGS)
    assert not of(plan, MarkClaim)
    assert one(plan, SetSize).size == 3


def test_claim_of_two_models_waits_for_both() -> None:
    plan = plan_scale(node(claim("c", A100, T4), request(1), online("r")), SETTINGS)
    assert not of(plan, MarkClaim)
    assert verdict(plan, "c").waits_for == "1 x T4 on node node-0"


def test_claims_of_one_pod_are_decided_together() -> None:
    view = node(claim("a", pods=("p",), age=9), claim("b", pods=("p",), age=8), request(1), online("r"))
    plan = plan_scale(view, SETTINGS)
    assert not of(plan, MarkClaim)
    assert one(plan, SetSize).size == 2


def test_claims_of_one_pod_are_marked_together_each_with_its_own_devices() -> None:
    view = node(claim("a", A100, pods=("p",)), claim("b", A100, T4, pods=("p",)), request(2), request(1, T4, "t4"),
                online("r1"), online("r2"), online("t", T4))
    marks = of(plan_scale(view, SETTINGS), MarkClaim)
    assert {m.name: len(m.devices) for m in marks} == {"a": 1, "b": 2}
    assert sorted(d for m in marks for d in m.devices) == ["r1", "r2", "t"]
    assert "t" in next(m for m in marks if m.name == "b").devices


def test_claim_without_a_pod_stands_for_itself() -> None:
    view = node(claim("a", pods=()), claim("b", pods=()), request(2), online("r"))
    assert [m.name for m in of(plan_scale(view, SETTINGS), MarkClaim)] == ["a"]


def test_claim_of_several_pods_steers_all_of_them() -> None:
    plan = plan_scale(node(claim("c", pods=("p", "q")), request(1), online("r")), SETTINGS)
    assert one(plan, MarkClaim).pods == (pod("p"), pod("q"))


@pytest.mark.parametrize("phase", ["reschedule", "failed", "ready"])
def test_claim_that_was_told_is_not_told_again(phase: str) -> None:
    plan = plan_scale(node(claim("c", phase=phase), request(1), online("r")), SETTINGS)
    assert not of(plan, MarkClaim)
    assert not plan.wait_reasons


def test_no_claim_is_marked_twice_and_no_device_is_given_twice() -> None:
    view = node(*[claim(f"c{i}", *([A100] * (1 + i % 3)), age=20 - i, pods=(f"p{i // 2}",)) for i in range(9)],
                request(12), *[online(f"r{i}", created=NOW - i) for i in range(12)])
    marks = of(plan_scale(view, SETTINGS), MarkClaim)
    devices = [d for m in marks for d in m.devices]
    assert len(marks) >= 5
    assert len({m.claim for m in marks}) == len(marks)
    assert len(set(devices)) == len(devices)


def test_recently_used_device_rests_before_it_is_given_away() -> None:
    resting = settings(device_no_allocation_duration=60)
    view = node(claim("c"), request(1), online("r", last_used=NOW - 59))
    assert not of(plan_scale(view, resting), MarkClaim)
    rested = node(claim("c"), request(1), online("r", last_used=NOW - 60))
    assert one(plan_scale(rested, resting), MarkClaim).devices == ("r",)


def test_device_never_used_need_not_rest() -> None:
    view = node(claim("c"), request(1), online("r", created=NOW - 1))
    assert of(plan_scale(view, settings(device_no_allocation_duration=60)), MarkClaim)


def test_claim_that_waits_for_a_resting_device_is_looked_at_when_it_has_rested() -> None:
    view = node(claim("c"), request(1), online("r", last_used=NOW - 59))
    assert plan_scale(view, settings(device_no_allocation_duration=60)).wake_at == NOW + 1


def test_resting_device_keeps_a_second_one_from_being_asked_for() -> None:
    view = node(claim("c"), request(1), online("r", last_used=NOW - 5))
    assert not of(plan_scale(view, settings(device_no_allocation_duration=60)), SetSize)


def test_verdict_of_a_served_claim() -> None:
    plan = plan_scale(node(claim("c", age=7), request(1), online("r")), SETTINGS)
    found = verdict(plan, "c")
    assert found.waits_for.startswith("scheduler to act on FabricDeviceReschedule: 1 x A100 40G (GPU-r) attached")
    assert (found.since, found.evidence) == (NOW - 7, {"node": "node-0", "devices": ("r",)})


def test_verdict_says_what_was_asked_and_when() -> None:
    view = node(claim("c", A100, A100), request(2), resource("r", asked=NOW - 2.5), attached("s"))
    plan = plan_scale(view, SETTINGS)
    assert verdict(plan, "c").waits_for == (
        "2 x A100 40G on node node-0, 1 attached but not yet in the node's ResourceSlice, "
        "1 requested from the CDI Manager 2.5 s ago")
    assert verdict(plan, "c").evidence == {"node": "node-0", "need": {A100: 2}}


def test_verdict_gives_the_errors_of_what_is_coming_once() -> None:
    view = node(claim("c", A100, A100), request(2), resource("r", error="no answer"), resource("s", error="no answer"))
    assert verdict(plan_scale(view, SETTINGS), "c").waits_for == "2 x A100 40G on node node-0 (no answer)"
