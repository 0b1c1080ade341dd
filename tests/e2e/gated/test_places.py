# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the devices of a claim are: what is planned for a held pod is what kube-scheduler then gives it.

One node with six idle devices of the node agents' own driver: two below each switch, four below the first root complex,
which is on NUMA node 0, and two below the second, on NUMA node 1.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.names import OWN_DRIVER
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, PODS, SLICES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, pods, slices
from ansible_collections.composable.infra.tests.e2e.support.support import (
    changes_asked,
    delete_all,
    holds_new_pods,
    mark,
    wait_for,
)

pytestmark = pytest.mark.e2e
Json = dict[str, t.Any]
NODE = "node-0"
STAGE: Json = {"handover": "gated", "driver": OWN_DRIVER, "nodes": 1, "devices": {A100: 6}, "hold": 600.0}
ROOT, SWITCH, NUMA = "resource.kubernetes.io/pcieRoot", f"{OWN_DRIVER}/switch", "resource.kubernetes.io/numaNode"


def shown(stage: Stage) -> list[Json]:
    """Devices of the node's ResourceSlice, in its order."""
    return [device for item in stage.client.list(SLICES).items if slices.pool(item) == NODE
            for device in slices.devices(item)]


@pytest.fixture(scope="module")
def controller(stage: Stage) -> Iterator[front_doors.Process]:
    process = front_doors.controller(stage)
    wait_for("new pods are held", lambda: holds_new_pods(stage))
    stage.pod("before", A100, 6)
    values(stage, "before", SWITCH)
    delete_all(stage)
    yield process
    process.stop()


@pytest.fixture(autouse=True)
def clean(stage: Stage, controller: front_doors.Process) -> Iterator[None]:
    """Nothing is misjudged, nothing is attached or detached, and no claim is left."""
    since = mark(stage)
    yield
    delete_all(stage)
    assert changes_asked(stage, since) == []
    assert "NodeMisjudged" not in controller.text()


def ask(stage: Stage, name: str, count: int, *attributes: str, cel: str = "") -> None:
    """A claim for devices that share attributes, and its pod."""
    request: Json = {"deviceClassName": OWN_DRIVER, "count": count}
    if cel:
        request["selectors"] = [{"cel": {"expression": cel}}]
    devices: Json = {"requests": [{"name": "gpu", "exactly": request}],
                     "constraints": [{"matchAttribute": each} for each in attributes]}
    stage.client.create(CLAIMS, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                                 "metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}})
    stage.pod_only(name)


def values(stage: Stage, name: str, attribute: str) -> list[object]:
    """An attribute of each device that the claim of a running pod has."""
    wait_for("it runs", lambda: pods.phase(stage.client.get(PODS, name, "default")) == "Running")
    given = {result["device"] for result in claims.results(stage.client.get(CLAIMS, name, "default"))}
    short = attribute.removeprefix(f"{OWN_DRIVER}/")
    return [next(iter(device["attributes"][short].values())) for device in shown(stage) if device["name"] in given]


def test_devices_of_one_switch_come_one_after_the_other(stage: Stage, controller: front_doors.Process) -> None:
    places = [device["attributes"]["switch"]["string"] for device in shown(stage)]
    assert places == sorted(places)
    assert len(set(places)) == 3
    ask(stage, "near", 2)
    assert len(set(values(stage, "near", SWITCH))) == 1
    (said,) = [line for line in controller.text().splitlines() if "NodeChosen default/near:" in line]
    assert "has room and 2 x NVIDIA-A100-PCIE-40GB (2 idle on one switch, NUMA node 0)" in said


@pytest.mark.parametrize(("count", "attribute", "before"), [(2, SWITCH, 1), (4, ROOT, 0), (2, NUMA, 3)])
def test_claim_gets_devices_that_share_what_it_asks_for(stage: Stage, count: int, attribute: str, before: int) -> None:
    if before:
        ask(stage, "first", before)
        values(stage, "first", attribute)
    ask(stage, "near", count, attribute)
    found = values(stage, "near", attribute)
    assert (len(found), len(set(found))) == (count, 1)


def test_selector_on_the_numa_node(stage: Stage) -> None:
    ask(stage, "second", 2, cel=f'device.attributes["{OWN_DRIVER}"].numaNode == 1')
    assert values(stage, "second", NUMA) == [1, 1]


def test_what_nobody_has_is_let_go_and_the_scheduler_agrees(stage: Stage, controller: front_doors.Process) -> None:
    ask(stage, "wide", 5, ROOT)
    wait_for("the scheduler refuses it", lambda: pods.unschedulable(stage.client.get(PODS, "wide", "default")))
    controller.wait_for("GateReleased default/wide: 5 x NVIDIA-A100-PCIE-40GB: 0/1 nodes: 1 had no 5 idle devices "
                        f"that share {ROOT} (only attached devices show it)")
    why = pods.why_not_served(stage.client.get(PODS, "wide", "default"))
    assert why.startswith("5 x NVIDIA-A100-PCIE-40GB: 0/1 nodes: 1 had no 5 idle devices")
