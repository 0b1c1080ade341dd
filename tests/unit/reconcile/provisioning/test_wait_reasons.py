# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request that waits is listed with the claims that wait."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.plugins.module_utils.planning.device_info import GATED
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.explain import explain
from ansible_collections.composable.infra.plugins.module_utils.reconcile.provisioning.waiting_requests import (
    is_of_request,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.provisioning import provisioning_support as support

NAME = "default/train-provisioning-request"


@pytest.fixture
def waiting(held: Bench) -> Bench:
    """A bench with a request of two pods, for which the fabric has too few devices."""
    support.serve_requests(held)
    held.fabric.free_count = 3
    held.look()
    support.ask(held, count=2, devices=2)
    return held


def test_request_is_listed_with_the_reason_of_its_condition(waiting: Bench) -> None:
    (found,) = explain(waiting.engine)
    assert (found.claim, found.handover, found.evidence) == (NAME, GATED, {"request": "train", "pods": 2})
    assert found.waits_for == support.conditions(waiting)["Provisioned"][2]
    assert f"had no free {A100}" in found.waits_for


def test_request_that_no_controller_has_accepted_is_listed(held: Bench) -> None:
    held.put(support.request())
    (found,) = explain(held.engine)
    assert found.waits_for == "a controller that serves ProvisioningRequests to accept it"


def test_accepted_request_waits_for_its_first_plan(waiting: Bench) -> None:
    raw = waiting.state.provisioning.get("train", "default")
    assert raw is not None
    raw = {**raw, "status": {"conditions": [c for c in raw["status"]["conditions"] if c["type"] == "Accepted"]}}
    waiting.put(raw)
    assert explain(waiting.engine)[0].waits_for == "the first plan for its pods"


def test_request_with_its_devices_is_not_listed(waiting: Bench) -> None:
    waiting.fabric.free_count = 4
    waiting.look()
    support.go_on(waiting)
    (found,) = explain(waiting.engine)
    assert found.waits_for == "devices are being attached to node-0"
    support.attach(waiting)
    assert "Provisioned" in support.true(waiting)
    assert explain(waiting.engine) == []


@pytest.mark.parametrize(("claim", "expected"), [("default/pr-gpu", False), ("default/default/pr-uid-0-0.gpu", True),
                                                 ("default/default/pr-uid-0-0", True)])
def test_claims_of_users_may_begin_like_those_of_a_request(claim: str, expected: bool) -> None:
    assert is_of_request(claim) is expected


def test_request_of_another_class_is_not_listed(held: Bench) -> None:
    held.put(support.request(provisioningClassName="check-capacity.autoscaling.x-k8s.io"))
    assert explain(held.engine) == []


def test_failed_request_waits_for_nothing(held: Bench) -> None:
    support.serve_requests(held)
    support.ask(held, parameters={"ValidUntilSeconds": "soon"})
    assert "Failed" in support.true(held)
    assert explain(held.engine) == []


def test_engine_lists_the_request_and_none_of_the_claims_that_it_expects(waiting: Bench) -> None:
    assert [each.claim for each in waiting.engine.wait_reasons()] == [NAME]
    waiting.fabric.free_count = 4
    waiting.look()
    support.go_on(waiting)
    waiting.run(1)
    assert [each.claim for each in waiting.engine.wait_reasons()] == [NAME]
    support.attach(waiting)
    assert waiting.engine.wait_reasons() == []
