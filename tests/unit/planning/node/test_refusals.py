# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims that cannot be served: each is told why, and none drags another along."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.actions import MarkClaim, SetSize
from ansible_collections.composable.infra.plugins.module_utils.planning.node.scale import plan_scale
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import (
    ComposableResource,
    NodeSnapshot,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import (
    A100,
    H100,
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
    verdict,
)
from ansible_collections.composable.infra.tests.unit.planning.node.refusals_support import (
    failed,
)

SETTINGS = settings()
MAX_LABEL = "cohdi.io/a100-size-max"


def test_failed_claim_gets_no_device_and_asks_for_none() -> None:
    plan = plan_scale(node(claim("c"), blocked={A100: "no free device"}), SETTINGS)
    mark = one(plan, MarkClaim)
    assert (mark.condition, mark.devices) == ("FabricDeviceFailed", ())
    assert not of(plan, SetSize)
    assert verdict(plan, "c").waits_for == f"scheduler to act on FabricDeviceFailed: {mark.reason}"


def test_blocked_model_names_the_reason() -> None:
    plan = plan_scale(node(claim("c"), blocked={A100: "E02XXXX: no free device"}), SETTINGS)
    assert failed(plan) == {"c": "A100 40G cannot be attached to node node-0: E02XXXX: no free device"}


def test_blocked_model_still_serves_from_what_is_idle() -> None:
    plan = plan_scale(node(claim("c"), request(1), online("r"), blocked={A100: "none left"}), SETTINGS)
    assert one(plan, MarkClaim).condition == "FabricDeviceReschedule"


def test_blocked_model_fails_only_who_is_left_without() -> None:
    view = node(claim("old", age=9), claim("new", age=1), request(2), online("r"), blocked={A100: "none left"})
    plan = plan_scale(view, SETTINGS)
    conditions = {m.name: m.condition for m in of(plan, MarkClaim)}
    assert conditions == {"old": "FabricDeviceReschedule", "new": "FabricDeviceFailed"}


def test_blocked_model_leaves_the_claim_whose_device_is_attached_already() -> None:
    view = node(claim("old", age=9), claim("new", age=1), request(2), attached("r"), resource("s"),
                blocked={A100: "none left"})
    assert failed(plan_scale(view, SETTINGS)).keys() == {"new"}


def test_blocked_model_does_not_touch_others() -> None:
    plan = plan_scale(node(claim("c", T4), blocked={A100: "none left"}), SETTINGS)
    assert (failed(plan), one(plan, SetSize).model) == ({}, T4)


def test_node_without_a_machine() -> None:
    view = node(claim("c"), machine=None, fabric=None, problem="its providerID is 'empty'")
    assert failed(plan_scale(view, SETTINGS)) == {
        "c": "no device can be attached to node node-0: its providerID is 'empty'"}


def test_unknown_pool_is_named() -> None:
    plan = plan_scale(node(claim("bad", None), claim("good")), SETTINGS)
    assert failed(plan) == {"bad": "pool strange-fabric1 belongs to no model of device_info"}
    assert one(plan, SetSize).size == 1


def test_one_bad_claim_of_a_pod_fails_all_of_the_pod() -> None:
    plan = plan_scale(node(claim("bad", None, pods=("p",)), claim("good", pods=("p",)), request(1), online("r")),
                      SETTINGS)
    assert failed(plan).keys() == {"bad", "good"}
    assert all(not m.devices for m in of(plan, MarkClaim))


def test_device_refused_to_one_pod_goes_to_the_next() -> None:
    view = node(claim("bad", A100, None, age=9), claim("good", age=1), request(1), online("r"))
    plan = plan_scale(view, SETTINGS)
    assert failed(plan).keys() == {"bad"}
    assert [m.devices for m in of(plan, MarkClaim) if m.name == "good"] == [("r",)]


@pytest.mark.parametrize(("older", "newer"), [(A100, H100), (H100, A100)])
def test_of_two_conflicting_claims_the_older_wins(older: str, newer: str) -> None:
    plan = plan_scale(node(claim("new", newer, age=1), claim("old", older, age=9)), SETTINGS)
    assert failed(plan) == {"new": f"{newer} cannot be on node node-0 together with {older}"}
    assert one(plan, SetSize).model == older


def test_models_that_get_along_are_both_served() -> None:
    plan = plan_scale(node(claim("a", A100), claim("t", T4)), SETTINGS)
    assert (failed(plan), len(of(plan, SetSize))) == ({}, 2)


def test_claim_that_conflicts_with_itself() -> None:
    plan = plan_scale(node(claim("c", A100, H100)), SETTINGS)
    assert failed(plan) == {"c": "A100 40G cannot be on node node-0 together with H100 80G"}
    assert not of(plan, SetSize)


def test_pod_whose_claims_conflict_fails_as_a_whole() -> None:
    plan = plan_scale(node(claim("a", A100, pods=("p",)), claim("b", H100, pods=("p",))), SETTINGS)
    assert failed(plan).keys() == {"a", "b"}


@pytest.mark.parametrize("present", [
    node(request(1, H100)), node(resource("r", H100)), node(online("r", H100)), node(used("r", H100)),
    node(online("r", H100, deleting=True)),
], ids=["requested", "asked for", "idle", "in use", "leaving"])
def test_conflict_with_what_is_on_the_node(present: NodeSnapshot) -> None:
    view = node(claim("c", A100), resources=present.resources, requests=present.requests)
    assert failed(plan_scale(view, SETTINGS)) == {"c": "A100 40G cannot be on node node-0 together with H100 80G"}


def test_request_of_size_zero_is_no_conflict() -> None:
    assert not failed(plan_scale(node(claim("c", A100), request(0, H100)), SETTINGS))


def test_model_that_no_row_describes_is_no_conflict() -> None:
    assert not failed(plan_scale(node(claim("c", H100), online("r", "unheard of"), request(1, "unheard of")), SETTINGS))


def test_failed_conflict_does_not_bar_the_next_claim() -> None:
    view = node(claim("a", A100, age=9), claim("h", H100, age=8), claim("t", T4, age=7))
    plan = plan_scale(view, SETTINGS)
    assert failed(plan).keys() == {"h"}
    assert {a.model for a in of(plan, SetSize)} == {A100, T4}


def test_more_than_the_node_may_hold() -> None:
    plan = plan_scale(node(claim("old", age=9), claim("new", age=1), labels={MAX_LABEL: "1"}), SETTINGS)
    assert failed(plan) == {"new": "node node-0 may have at most 1 x A100 40G, and would have 2 with this claim"}
    assert one(plan, SetSize).size == 1


@pytest.mark.parametrize("there", [used("r"), held("r")], ids=["in use", "held"])
def test_what_others_have_counts_against_the_limit(there: ComposableResource) -> None:
    view = node(claim("c"), request(1), there, labels={MAX_LABEL: "1"})
    assert failed(plan_scale(view, SETTINGS)).keys() == {"c"}


def test_idle_devices_do_not_count_against_the_limit() -> None:
    plan = plan_scale(node(claim("c"), request(1), online("r"), labels={MAX_LABEL: "1"}), SETTINGS)
    assert one(plan, MarkClaim).condition == "FabricDeviceReschedule"


def test_bigger_claim_fails_and_a_smaller_one_behind_it_is_served() -> None:
    view = node(claim("big", A100, A100, age=9), claim("small", age=1), labels={MAX_LABEL: "1"})
    plan = plan_scale(view, SETTINGS)
    assert failed(plan).keys() == {"big"}
    assert one(plan, SetSize).size == 1


@pytest.mark.parametrize("text", ["", "many", "-1", "1.5", " 1"])
def test_limit_that_is_no_number_leaves_the_default(text: str) -> None:
    view = node(claim("old", age=9), claim("new", age=1), labels={MAX_LABEL: text})
    plan = plan_scale(view, settings(max_devices_per_node=2))
    assert (failed(plan), one(plan, SetSize).size) == ({}, 2)


def test_default_limit() -> None:
    plan = plan_scale(node(claim("old", age=9), claim("new", age=1)), settings(max_devices_per_node=1))
    assert failed(plan).keys() == {"new"}


def test_limit_uses_the_configured_prefix() -> None:
    view = node(claim("c"), labels={"gpu.example/a100-size-max": "0", MAX_LABEL: "5"})
    assert failed(plan_scale(view, settings(label_prefix="gpu.example"))).keys() == {"c"}


def test_failure_is_since_the_allocation() -> None:
    assert verdict(plan_scale(node(claim("c", None, age=4)), SETTINGS), "c").since == NOW - 4
