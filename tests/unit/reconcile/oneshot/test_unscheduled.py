# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about pods that ask by an extended resource, that no gate holds and that the scheduler could place nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NAMESPACES, NODES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.oneshot.explain import explain
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.testbed import Testbed
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods


@pytest.fixture
def testbed() -> Iterator[Testbed]:
    """Two nodes, four devices."""
    made = Testbed()
    yield made
    made.close()


def told(testbed: Testbed) -> dict[str, str]:
    """What each claim waits for, by its name."""
    testbed.sync()
    return {reason.claim: reason.waits_for for reason in explain(testbed.cluster.engine)}


def test_pod_that_could_be_served_waits_for_who_asks_and_then_for_its_device(testbed: Testbed) -> None:
    testbed.pod("train")
    (name, said), = told(testbed).items()
    assert name == "default/train-extended-resources"
    assert "could have them, but Cluster Autoscaler has not requested them for the pod yet" in said
    testbed.provider.increase("vertical", 1)
    said = told(testbed)[name]
    assert said.startswith("1 x A100 40G on node node-"), "from then on it is the node's demand"
    testbed.tick()
    assert told(testbed) == {"default/train-gpu": ""}


def test_pod_that_nobody_can_serve_says_why(testbed: Testbed) -> None:
    testbed.pod("train", 5)
    said = told(testbed)["default/train-extended-resources"]
    assert said.startswith("a node with its devices, or a new node: 5 x A100 40G: 0/2 nodes: 2 had only 4")


def test_pod_that_the_gate_let_go_says_why(testbed: Testbed) -> None:
    testbed.api.put(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": gated_pods.opted_in("default")})
    for node in ("node-0", "node-1"):
        testbed.api.client.merge_patch(NODES, node, {"spec": {"unschedulable": True}})
    testbed.pod("train", schedulingGates=[{"name": pods.GATE}])
    testbed.sync()
    testbed.bench.reconcile(GatesKey())
    assert "2 were unschedulable" in told(testbed)["default/train-extended-resources"]


def test_pods_without_devices_have_no_row(testbed: Testbed) -> None:
    testbed.pod("plain", 0, cpu="64")
    assert told(testbed) == {}
