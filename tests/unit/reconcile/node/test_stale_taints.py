# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DeviceTaintRules that outlive their ComposableResource keep a device of the node from all claims."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import ApiResource
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.taints import KEY
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey, NodeRecordsKey
from ansible_collections.composable.infra.tests.unit.planning.builders import DRIVER
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

RULES = ApiResource("resource.k8s.io/v1", "devicetaintrules", "DeviceTaintRule", False)
RESOURCE = objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=60, state="Online")


@pytest.fixture
def node(bench: Bench) -> Bench:
    """A node that shows the device of ``gpu-a``, and an API server that serves DeviceTaintRules."""
    bench.fabric.attached["d1"] = device("d1")
    bench.api.paths = {"/apis/resource.k8s.io/v1": {"resources": [{"name": "devicetaintrules"}]}}
    bench.put(objects.request(size=1), objects.local_slice("GPU-d1"), RESOURCE)
    return bench


def put_rule(bench: Bench, name: str, key: str = KEY) -> None:
    """A rule about the only device of the node."""
    spec = {"deviceSelector": {"driver": DRIVER, "pool": "node-0", "device": "gpu-0"},
            "taint": {"key": key, "value": "GPU-old", "effect": "NoSchedule"}}
    bench.api.put(RULES, {"metadata": {"name": name}, "spec": spec})


def rules(bench: Bench) -> list[t.Any]:
    return [rule["metadata"]["name"] for rule in bench.api.of(RULES)]


def test_new_leader_lifts_those_of_a_resource_that_is_gone(node: Bench) -> None:
    put_rule(node, "gpu-gone-taint")
    put_rule(node, "gpu-gone-taint-0a1b2c3d")
    put_rule(node, "gpu-a-taint")
    node.writer.resources.read_taints()
    assert rules(node) == ["gpu-a-taint"]
    assert node.state.tainted.keys() == {"gpu-a"}


def test_rule_of_an_administrator_stays(node: Bench) -> None:
    put_rule(node, "maintenance-taint", key="example.com/maintenance")
    node.writer.resources.read_taints()
    assert (rules(node), node.state.tainted) == (["maintenance-taint"], {})


def test_leader_lifts_those_of_a_resource_whose_finalizer_somebody_took(node: Bench) -> None:
    put_rule(node, "gpu-a-taint")
    node.writer.resources.read_taints()
    node.drop(RESOURCE)
    node.state.forget("gpu-a")
    node.reconcile(NodeKey("node-0"))
    assert NodeRecordsKey("node-0") in node.keys
    node.reconcile(NodeRecordsKey("node-0"))
    assert (rules(node), node.state.tainted) == ([], {})
