# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All or none: the CDI Manager refuses one of two devices; the pod gets both elsewhere, and the first one goes back."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, pod_body
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess, StageFactory
from ansible_collections.composable.infra.tests.e2e.support.support import (
    all_free,
    attached,
    delete_all,
    holds_new_pods,
    run_with_devices,
    wait_for,
)

pytestmark = pytest.mark.e2e
Json = dict[str, t.Any]


@pytest.fixture(scope="module", params=["gated", "direct"])
def stage(request: pytest.FixtureRequest, stage_factory: StageFactory) -> Stage:
    """One device more than the pod wants, so that the one that came first can be left where it is."""
    return stage_factory(nodes=2, devices={A100: 3}, handover=request.param)


@pytest.fixture
def ready(stage: Stage, open_process: OpenProcess) -> Iterator[Stage]:
    """A controller with all devices in the pool; the second attach that it asks for is refused."""
    open_process(front_doors.controller, stage)
    wait_for("all devices are in the pool", lambda: all_free(stage))
    if stage.gated:
        wait_for("new pods are held", lambda: holds_new_pods(stage))
    stage.emulator.set_faults({"kind": "status", "status": 400, "purpose": "attach", "nth": [2]})
    yield stage
    stage.emulator.set_faults()
    delete_all(stage)
    wait_for("all devices are back", lambda: all_free(stage))


def two_claims(name: str) -> Json:
    """A pod with a second claim."""
    body = pod_body(name, None)
    body["spec"]["resourceClaims"].append({"name": "more", "resourceClaimName": f"{name}-more"})
    return body


def refused_once(stage: Stage) -> bool:
    (rule,) = stage.emulator.faults()["rules"]
    return bool(rule["applied"] == 1)


def assert_both_elsewhere(stage: Stage, timeline: Timeline, *names: str) -> None:
    """The claims have two devices of one machine, and whatever came to another machine leaves it."""
    assert refused_once(stage)
    devices = [serial for name in names for serial in timeline.claims[name].devices]
    node = timeline.claims[names[0]].node
    on = attached(stage)
    assert len(set(devices)) == 2
    assert {on[serial]["machine"] for serial in devices} == {machine_uuid(node)}
    refusals = [entry for entry in stage.emulator.log() if entry["status"] == 400]
    assert all(machine_uuid(node) not in entry["path"] for entry in refusals), "it was tried again on the same node"
    wait_for("what came to the first node goes back", lambda: set(attached(stage)) == set(devices))


def test_claim_with_two_devices(ready: Stage, timeline: Timeline) -> None:
    ready.pod("two", A100, 2)
    wait_for("it runs", lambda: run_with_devices(timeline, "two"))
    assert_both_elsewhere(ready, timeline, "two")


def test_pod_with_two_claims(ready: Stage, timeline: Timeline) -> None:
    for name in ("both", "both-more"):
        ready.claim(name, A100)
    ready.client.create(PODS, two_claims("both"))
    wait_for("it runs", lambda: pods.phase(ready.client.get(PODS, "both", "default")) == "Running")
    wait_for("the devices are seen", lambda: all(timeline.claims[n].devices for n in ("both", "both-more")))
    assert_both_elsewhere(ready, timeline, "both", "both-more")
