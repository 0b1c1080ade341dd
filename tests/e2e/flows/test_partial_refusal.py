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
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess, StageFactory
from ansible_collections.composable.infra.tests.e2e.support.support import (
    all_free,
    attached,
    delete_all,
    holds_new_pods,
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
    stage.emulator.reset(log=True)
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


def machines(stage: Stage) -> list[str]:
    """Of all attached devices."""
    return [str(device["machine"]) for device in attached(stage).values()]


def assert_both_elsewhere(stage: Stage, pod: str) -> None:
    """The pod runs where both devices are, and what came to the other machine leaves it."""
    assert refused_once(stage)
    machine = machine_uuid(stage.client.get(PODS, pod, "default")["spec"]["nodeName"])
    assert machines(stage).count(machine) == 2
    (refusal,) = [entry for entry in stage.emulator.log() if entry["status"] == 400]
    assert machine not in refusal["path"], "it was tried again on the same node"
    wait_for("what came to the first node goes back", lambda: machines(stage) == [machine] * 2)


def runs(stage: Stage, pod: str) -> bool:
    return pods.phase(stage.client.get(PODS, pod, "default")) == "Running"


def test_claim_with_two_devices(ready: Stage) -> None:
    ready.pod("two", A100, 2)
    wait_for("it runs", lambda: runs(ready, "two"))
    assert_both_elsewhere(ready, "two")


def test_pod_with_two_claims(ready: Stage) -> None:
    for name in ("both", "both-more"):
        ready.claim(name, A100)
    ready.client.create(PODS, two_claims("both"))
    wait_for("it runs", lambda: runs(ready, "both"))
    assert_both_elsewhere(ready, "both")
