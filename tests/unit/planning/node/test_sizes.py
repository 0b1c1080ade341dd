# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many devices a node should have: limits, holds, idle devices that leave, and use that is noted."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.actions import MarkClaim, SetSize, Touch
from ansible_collections.composable.infra.plugins.module_utils.planning.node.scale import plan_scale
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import ComposableResource
from ansible_collections.composable.infra.plugins.module_utils.planning.node.supply import supply
from ansible_collections.composable.infra.tests.unit.planning.builders import (
    A100,
    HANDOVER,
    HOLD,
    NOW,
    T4,
    attached,
    claim,
    held,
    node,
    of,
    one,
    online,
    request,
    resource,
    settings,
    used,
)
from ansible_collections.composable.infra.tests.unit.planning.node.sizes_support import (
    MAX_LABEL,
    MIN_LABEL,
)

SETTINGS = settings()
LONG_AGO = NOW - HOLD


def test_supply_puts_every_live_resource_into_one_list() -> None:
    parts = (used("u"), held("h"), online("i"), attached("a"), resource("n"), online("x", deleting=True),
             online("t", T4))
    found = supply(node(*parts), A100, SETTINGS)
    names = {kind: [r.name for r in getattr(found, kind)] for kind in ("used", "held", "idle", "coming")}
    assert names == {"used": ["u"], "held": ["h"], "idle": ["i"], "coming": ["a", "n"]}
    assert found.bound == 2


def test_device_in_use_stays() -> None:
    assert not of(plan_scale(node(used("r", last_used=LONG_AGO), request(1)), SETTINGS), SetSize)


def test_idle_device_stays_for_the_hold_time() -> None:
    plan = plan_scale(node(online("r", last_used=LONG_AGO + 1), request(1)), SETTINGS)
    assert not of(plan, SetSize)
    assert plan.wake_at == NOW + 1


def test_idle_device_past_the_hold_time_leaves() -> None:
    plan = plan_scale(node(online("r", last_used=LONG_AGO), request(1)), SETTINGS)
    action = one(plan, SetSize)
    assert (action.size, action.before, action.reason) == (0, 1, "0 x A100 40G wanted on node node-0")
    assert plan.wake_at is None


@pytest.mark.parametrize("recent", [{"last_used": NOW - 5}, {"held_since": NOW - 5}, {"created": NOW - 5}],
                         ids=lambda d: next(iter(d)))
def test_hold_time_counts_from_the_last_of_use_handover_and_creation(recent: dict[str, t.Any]) -> None:
    never = online("r", last_used=0.0, held_since=0.0, created=NOW - 9999)
    plan = plan_scale(node(replace(never, **recent), request(1)), SETTINGS)
    assert not of(plan, SetSize)
    assert plan.wake_at == NOW - 5 + HOLD


def test_wake_is_for_the_first_that_is_due() -> None:
    view = node(online("a", last_used=NOW - 100), online("b", last_used=NOW - 200), request(2))
    assert plan_scale(view, SETTINGS).wake_at == NOW - 200 + HOLD


def test_one_idle_past_its_hold_goes_and_the_recent_one_stays() -> None:
    view = node(online("old", last_used=LONG_AGO), online("new", last_used=NOW - 10), request(2))
    plan = plan_scale(view, SETTINGS)
    action = one(plan, SetSize)
    assert action.size == 1
    assert action.reason == "0 x A100 40G wanted on node node-0, 1 more attached for 600 s after use"


def test_of_four_one_in_use_and_two_used_a_moment_ago_stay() -> None:
    view = node(used("u"), online("a", last_used=NOW - 1), online("b", last_used=NOW - 1),
                online("c", last_used=LONG_AGO), request(4))
    assert one(plan_scale(view, SETTINGS), SetSize).size == 3


def test_without_a_hold_time_idle_devices_leave_at_once() -> None:
    plan = plan_scale(node(online("r", last_used=NOW), request(1)), settings(device_no_removal_duration=0))
    assert one(plan, SetSize).size == 0


def test_request_without_resources_shrinks_to_what_is_wanted() -> None:
    plan = plan_scale(node(claim("a"), claim("b"), request(5)), SETTINGS)
    assert one(plan, SetSize).size == 2


def test_preparing_claims_keep_idle_devices_of_their_model_only() -> None:
    view = node(claim("c", A100, A100), online("a", last_used=LONG_AGO), request(2),
                online("t", T4, last_used=LONG_AGO), request(1, T4, "t4"))
    assert one(plan_scale(view, SETTINGS), SetSize).model == T4


def test_attach_under_way_stays_until_it_is_answered() -> None:
    operations_under_way = resource("r", asked=NOW - 999, created=LONG_AGO - 9, busy=True)
    assert not of(plan_scale(node(operations_under_way, request(1)), SETTINGS), SetSize)


def test_resource_that_cannot_be_attached_does_not_stay() -> None:
    fresh = resource("r", created=NOW - 1)
    assert one(plan_scale(node(fresh, request(1), blocked={A100: "none left"}), SETTINGS), SetSize).size == 0
    assert not of(plan_scale(node(fresh, request(1)), SETTINGS), SetSize)


def test_device_attached_of_a_blocked_model_stays_for_the_hold_time() -> None:
    view = node(online("r", last_used=NOW - 1), request(1), blocked={A100: "none left"})
    assert not of(plan_scale(view, SETTINGS), SetSize)


def test_held_device_is_wanted() -> None:
    plan = plan_scale(node(held("r", age=HOLD + 5), request(1)), SETTINGS)
    assert not of(plan, SetSize)


def test_expired_hold_makes_the_device_idle() -> None:
    over = online("r", held_for="uid-gone", held_since=NOW - HANDOVER, last_used=NOW - HANDOVER)
    plan = plan_scale(node(claim("c"), over, request(1)), SETTINGS)
    assert one(plan, MarkClaim).devices == ("r",)


def test_hold_is_looked_at_when_it_runs_out() -> None:
    plan = plan_scale(node(held("r", age=HANDOVER - 10), request(1)), SETTINGS)
    assert plan.wake_at == NOW + 10


def test_plan_never_asks_to_be_woken_in_the_past() -> None:
    wake = plan_scale(node(claim("c", phase="reschedule"), held("r", age=HANDOVER + 1), request(1)), SETTINGS).wake_at
    assert wake is None or wake > NOW


def test_smallest_number_is_kept() -> None:
    plan = plan_scale(node(claim("a"), claim("b"), request(1), labels={MIN_LABEL: "3"}), SETTINGS)
    assert one(plan, SetSize).size == 3


def test_smallest_number_keeps_idle_devices_past_their_hold() -> None:
    view = node(online("a", last_used=LONG_AGO), online("b", last_used=LONG_AGO), request(2), labels={MIN_LABEL: "1"})
    assert one(plan_scale(view, SETTINGS), SetSize).size == 1


def test_smallest_number_is_asked_for_on_a_node_without_claims() -> None:
    assert one(plan_scale(node(labels={MIN_LABEL: "2"}), SETTINGS), SetSize).size == 2


def test_largest_number_caps_what_is_kept() -> None:
    view = node(online("a", last_used=NOW - 1), online("b", last_used=NOW - 2), request(2), labels={MAX_LABEL: "1"})
    assert one(plan_scale(view, SETTINGS), SetSize).size == 1


def test_largest_number_beats_the_smallest() -> None:
    view = node(request(0), labels={MIN_LABEL: "5", MAX_LABEL: "2"})
    assert one(plan_scale(view, SETTINGS), SetSize).size == 2


def test_lowered_limit_takes_nothing_from_those_who_have_it() -> None:
    view = node(used("a"), held("b"), request(2), labels={MAX_LABEL: "1"})
    assert not of(plan_scale(view, SETTINGS), SetSize)


def test_model_that_no_row_describes_is_left_alone() -> None:
    assert not of(plan_scale(node(online("r", "unheard of", last_used=LONG_AGO), request(1, "unheard of")), SETTINGS),
                  SetSize)


def test_deleted_resources_do_not_count() -> None:
    view = node(claim("c"), online("r", deleting=True), request(0))
    assert one(plan_scale(view, SETTINGS), SetSize).size == 1


@pytest.mark.parametrize("last_used", [LONG_AGO, NOW - 5])
def test_marked_claim_keeps_its_device_and_brings_no_second(last_used: float) -> None:
    view = node(claim("c"), online("r", last_used=last_used, created=last_used), request(1))
    plan = plan_scale(view, SETTINGS)
    assert one(plan, MarkClaim).devices == ("r",)
    assert not of(plan, SetSize)


@pytest.mark.parametrize(("part", "in_use", "reason"), [
    (online("r", used_by="ns/c"), True, "in use by claim ns/c"),
    (online("r", in_use=True), False, "no claim uses it any more"),
    (online("r", in_use=True, deleting=True), False, "no claim uses it any more"),
], ids=["began", "ceased", "ceased while leaving"])
def test_change_of_use_is_noted(part: ComposableResource, in_use: bool, reason: str) -> None:
    action = one(plan_scale(node(part, request(1)), SETTINGS), Touch)
    assert (action.resource, action.in_use, action.reason) == ("r", in_use, reason)


@pytest.mark.parametrize("part", [used("r"), online("r"), attached("r")], ids=["in use", "idle", "not visible"])
def test_use_that_did_not_change_is_not_noted(part: ComposableResource) -> None:
    assert not of(plan_scale(node(part, request(1)), SETTINGS), Touch)


def test_plans_of_the_same_view_are_equal() -> None:
    view = node(claim("a"), claim("b", T4), online("r"), held("h"), request(3), labels={MAX_LABEL: "2"})
    assert plan_scale(view, SETTINGS) == plan_scale(view, SETTINGS)


def test_label_of_a_kubelet_keeps_no_more_than_is_allowed() -> None:
    found = plan_scale(node(labels={MIN_LABEL: "9" * 60, MAX_LABEL: "9" * 60}), settings(max_size_min=3))
    assert one(found, SetSize).size == 3
