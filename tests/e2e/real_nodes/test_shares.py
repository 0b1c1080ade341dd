# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims for parts of a device's memory, on a real node: attached for the first, shared by others, returned after the
last. The node agents' own driver says what is shared, kube-scheduler counts it, and each container is told its part.
"""

from __future__ import annotations

import os
import typing as t

import pytest

from ansible_collections.composable.infra.lab.binaries.releases import DEFAULT_SERIES
from ansible_collections.composable.infra.lab.demo.installed import Installed
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.names import OWN_DRIVER, machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.support.support import wait_for

Json = dict[str, t.Any]
NODE = "real-0"
SERVED = os.environ.get("LAB_KUBERNETES", DEFAULT_SERIES) not in ("1.34", "1.35")


@pytest.fixture(scope="module")
def stage(stage_factory: StageFactory) -> Stage:
    """A real node without a device, of a fabric with two. Its agent lets claims share the memory of a GPU."""
    made = stage_factory(nodes=0, real_nodes=1, devices={A100: 2}, driver=OWN_DRIVER, capacity={"memory": "40Gi"})
    Installed(made, controllers_agent_dra_shares=["nvidia=memory:40Gi:10Gi"])
    return made


def ask(stage: Stage, name: str, memory: str) -> None:
    """A claim for so much of a device's memory, and a pod for it."""
    exactly = {"deviceClassName": OWN_DRIVER, "capacity": {"requests": {"memory": memory}}}
    stage.client.create(CLAIMS, {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}})
    stage.pod_only(name, NODE)


def result(stage: Stage, name: str) -> Json:
    """What a claim was allocated."""
    (found,) = claims.results(stage.client.get(CLAIMS, name, "default"))
    return dict(found)


def runs(stage: Stage, name: str) -> list[str]:
    """The first line of the pod's container, in words; it has begun by then."""
    line = stage.first_line(name, seconds=90.0)
    assert line, f"{name} printed nothing"
    return line.split()


def attached(stage: Stage) -> int:
    """Devices that the CDI Manager has attached to the node."""
    found = connect(EngineConfig.load(str(stage.config_path)).fabric).snapshot([A100])
    return len(found.machines[machine_uuid(NODE)].devices)


@pytest.mark.skipif(not SERVED, reason="the feature gate DRAConsumableCapacity is off before Kubernetes 1.36")
def test_claims_share_a_device_that_was_attached_for_the_first(stage: Stage) -> None:
    ask(stage, "first", "10Gi")
    assert any(word.endswith("=memory=10Gi") for word in runs(stage, "first"))
    ask(stage, "second", "15Gi")
    assert any(word.endswith("=memory=20Gi") for word in runs(stage, "second"))
    one, two = result(stage, "first"), result(stage, "second")
    assert one["device"] == two["device"]
    assert one["shareID"] != two["shareID"]
    assert [found["consumedCapacity"] for found in (one, two)] == [{"memory": "10Gi"}, {"memory": "20Gi"}]
    assert attached(stage) == 1

    ask(stage, "third", "20Gi")
    runs(stage, "third")
    assert result(stage, "third")["device"] != one["device"]
    assert attached(stage) == 2

    for name in ("first", "third"):
        stage.delete_pod(name)
    wait_for("the device that nobody has is returned", lambda: attached(stage) == 1, 60)
    ask(stage, "fourth", "20Gi")
    runs(stage, "fourth")
    assert result(stage, "fourth")["device"] == one["device"]
    for name in ("second", "fourth"):
        stage.delete_pod(name)
    wait_for("the shared device is returned after its last claim", lambda: attached(stage) == 0, 60)
