# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a vertical group shows: the most that a node of its class could be; and only that class serves its calls."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.controller.autoscaler.errors import Refused
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABILITY_REQUESTS, NODES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.autoscaling import read_scale_up
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import AutoscalerConfig
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.machines import Machines, regroup
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.testbed import GPU, Testbed
from ansible_collections.composable.infra.tests.unit.planning.builders import A100

Json = dict[str, t.Any]
SMALL, LARGE = {"class": "small"}, {"class": "large"}


def label(testbed: Testbed, node: str, labels: Json) -> None:
    """Labels of a node."""
    testbed.api.client.merge_patch(NODES, node, {"metadata": {"labels": labels}})


def shown(testbed: Testbed, group: str) -> tuple[Json, Json]:
    """(labels, allocatable) of a group's template."""
    testbed.sync()
    node = testbed.provider.template(group)
    return {**node.labels}, {**node.allocatable}


@pytest.mark.usefixtures("machines")
def test_devices_are_as_many_as_the_fabric_may_attach_to_a_node(testbed: Testbed) -> None:
    """No number in the configuration: the largest label of a node, and no more than there are."""
    regroup(testbed, vertical=[{"id": "vertical"}])
    assert shown(testbed, "vertical")[1][GPU] == "4", "all four of the fabric"
    model = testbed.config.settings.model(A100)
    assert model
    key = testbed.config.settings.label(f"{model.k8s_device_name}-size-max")
    label(testbed, "node-0", {key: "1"})
    label(testbed, "node-1", {key: "3"})
    assert shown(testbed, "vertical")[1][GPU] == "3"
    testbed.fabric.total = 2
    assert shown(testbed, "vertical")[1][GPU] == "2"
    testbed.fabric.total = 0
    assert GPU not in shown(testbed, "vertical")[1], "none is there"


@pytest.mark.usefixtures("machines")
def test_configured_devices_are_no_more_than_there_are(testbed: Testbed) -> None:
    regroup(testbed, vertical=[{"id": "vertical", "devices": {GPU: 9, "example.com/other": 2}}])
    testbed.fabric.total = 3
    found = shown(testbed, "vertical")[1]
    assert (found[GPU], found["example.com/other"]) == ("3", "2")
    snapshot = testbed.cluster.state.snapshot
    assert snapshot
    testbed.cluster.state.snapshot = replace(snapshot, free={}, problems={f"{A100}/1": "it is busy"})
    offered = testbed.provider.template("vertical").allocatable
    assert offered[GPU] == "9", "devices that could not be counted are not none"


def test_call_for_no_pod_is_refused(testbed: Testbed) -> None:
    """Cluster Autoscaler would tell a ProvisioningRequest that it is provisioned, with nothing attached."""
    with pytest.raises(Refused, match="does not serve a ProvisioningRequest"):
        testbed.provider.increase("vertical", 1)
    assert testbed.provider.target_size("vertical") == 0


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_request_ends_by_the_api_servers_clock(testbed: Testbed, ahead: float) -> None:
    """The controllers decide by their clock whether the request is still wanted."""
    testbed.api.clock_ahead = ahead
    testbed.pod("train")
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    (entry,) = [entry for raw in testbed.api.of(COMPOSABILITY_REQUESTS) for entry in read_scale_up(raw)]
    assert entry.until - testbed.api.server_time() == pytest.approx(60.0, abs=5.0)


def test_template_has_the_labels_that_all_its_nodes_have(testbed: Testbed) -> None:
    """A fabric's among them, which claims from its pools need; the hostname is each node's own."""
    for number in range(2):
        label(testbed, f"node-{number}", {"cohdi.io/fabric": "1", "zone": f"z{number}",
                                          "kubernetes.io/hostname": "same"})
    labels, offered = shown(testbed, "vertical")
    assert labels == {"cohdi.io/fabric": "1", "kubernetes.io/hostname": "vertical-template"}
    assert offered["cpu"] == "8"


@pytest.fixture
def classes(machines: Machines) -> Testbed:
    """node-0 is small, node-1 and node-2 are large; each class has a vertical group, and the large one can grow."""
    testbed = machines.testbed
    testbed.add_node("node-2", cpu="32")
    for number, labels in enumerate((SMALL, LARGE, LARGE)):
        label(testbed, f"node-{number}", labels)
    large = {"id": "large-nodes", "selector": LARGE, "max_size": 3, "fabric": 1, "provider": {"kind": "static"},
             "template": {"cpu": "32", "memory": "32Gi"}}
    testbed.groups = AutoscalerConfig.from_dict({
        "vertical": [{"id": "small", "selector": SMALL, "devices": {GPU: 1}}, {"id": "large", "selector": LARGE}],
        "nodes": [{"id": "small-nodes", "selector": SMALL}, large]}, testbed.config.settings)
    testbed.start()
    return testbed


def test_each_class_has_a_template_of_its_own(classes: Testbed) -> None:
    labels, offered = shown(classes, "small")
    assert labels["class"] == "small"
    assert (offered["cpu"], offered[GPU]) == ("8", "1")
    labels, offered = shown(classes, "large")
    assert labels["class"] == "large"
    assert (offered["cpu"], offered[GPU]) == ("32", "4")


def test_call_for_a_class_is_served_by_its_nodes_only(classes: Testbed) -> None:
    classes.pod("any")
    classes.sync()
    classes.provider.increase("large", 1)
    assert (classes.provider.target_size("large"), classes.provider.target_size("small")) == (1, 0)
    (node, _why), = classes.cluster.asked().values()
    assert node in ("node-1", "node-2")
    classes.tick()
    assert classes.provider.target_size("large") == 0


def test_pod_of_another_class_fails_no_call(classes: Testbed) -> None:
    """Each call has its own pods and its own reason."""
    classes.pod("here", nodeSelector=SMALL)
    classes.pod("there", 5, nodeSelector=LARGE)
    classes.sync()
    classes.provider.increase("small", 1)
    with pytest.raises(Refused, match="default/there: 5 x A100 40G") as raised:
        classes.provider.increase("large", 1)
    assert "default/here" not in str(raised.value)
    classes.tick()
    assert classes.bound("here") == "node-0"
    assert classes.provider.target_size("small") == 0


def test_node_is_added_to_its_class_only(classes: Testbed, machines: Machines) -> None:
    for number in range(3):
        classes.api.client.merge_patch(NODES, f"node-{number}", {"spec": {"unschedulable": True}})
    classes.pod("small-one", 0, nodeSelector=SMALL)
    classes.pod("any", 0)
    classes.sync()
    with pytest.raises(Refused, match="no node can be added"):
        classes.provider.increase("small", 1)
    classes.provider.increase("large", 1)
    classes.step()
    assert machines.ordered == 1


def test_restart_goes_on_with_the_calls_of_each_class(classes: Testbed) -> None:
    classes.pod("here", nodeSelector=SMALL)
    classes.pod("there", nodeSelector=LARGE)
    classes.sync()
    classes.provider.increase("small", 1)
    classes.provider.increase("large", 1)
    again = classes.start()
    assert (again.target_size("small"), again.target_size("large")) == (1, 1)
    classes.tick()
    assert classes.bound("here") == "node-0"
    assert classes.bound("there") in ("node-1", "node-2")
    assert (again.target_size("small"), again.target_size("large")) == (0, 0)
