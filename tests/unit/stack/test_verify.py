# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must be true after everything was installed, and what is said when it is not."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.plugin_utils.stack.findings import OK, STOP, WARN
from ansible_collections.composable.infra.plugins.plugin_utils.stack.verify import judge, verify
from ansible_collections.composable.infra.tests.unit.stack.cases import node

Changes = dict[str, t.Any]
PLAN: Changes = {
    "platform": "kubernetes",
    "charts": {"node-feature-discovery": "0.19.0"},
    "namespaces": ["gpu-operator"],
    "nodes": [],
    "gpu_operator": True,
    "gpu_operator_mode": "cluster_policy",
    "gpu_operator_namespace": "gpu-operator",
    "dra_driver": True,
    "device_classes": ["gpu.nvidia.com"],
}
RELEASE = {
    "name": "nfd",
    "namespace": "nfd",
    "chart": "node-feature-discovery",
    "version": "0.19.0",
    "status": "deployed",
}
SET = {"namespace": "gpu-operator", "name": "gfd", "desired": 1, "ready": 1, "current": True, "labels": {}}
DEVICE = {"driver": "gpu.nvidia.com", "node": "a", "device": "gpu-0", "uuid": "GPU-1", "taints": []}
LABELLED = node("a", labels={"nvidia.com/gpu.present": "true"}, allocatable={})


def cluster(**more: t.Any) -> Changes:
    """All well: two nodes, one of them with a GPU."""
    return {
        "releases": [RELEASE],
        "cluster_policies": [{"name": "cluster-policy", "state": "ready"}],
        "gpu_clusters": [],
        "daemon_sets": [SET],
        "device_classes": ["gpu.nvidia.com"],
        "slices": [DEVICE],
        "nodes": [LABELLED, node("b")],
        "hosts": [{"name": "a", "gpus": ["GPU-1"]}, {"name": "b", "gpus": []}],
        "taint_rules": [],
        "composable_resources": [],
        "problems": [],
        **more,
    }


ON_FABRIC = node("c", labels={"cohdi.io/fabric": "1"})
HANDS = {"nodes": [LABELLED, ON_FABRIC], "controllers": [{"namespace": "infra", "node_operations": "agent"}]}
LIVING = {"node": "c", "held": True, "seconds": 12.0, "alive": True}
WRONG: list[tuple[str, Changes, Changes, str, str]] = [
    ("no release", {"releases": []}, {}, STOP, "no release of node-feature-discovery is installed"),
    (
        "failed release",
        {"releases": [{**RELEASE, "status": "failed"}]},
        {},
        STOP,
        "node-feature-discovery is failed in version 0.19.0, not 0.19.0",
    ),
    (
        "other version",
        {"releases": [{**RELEASE, "version": "0.18.3"}]},
        {},
        STOP,
        "node-feature-discovery is deployed in version 0.18.3, not 0.19.0",
    ),
    ("no policy", {"cluster_policies": []}, {}, STOP, "there is no ClusterPolicy"),
    (
        "policy not ready",
        {"cluster_policies": [{"name": "p", "state": "notReady"}]},
        {},
        STOP,
        "ClusterPolicy p is notReady",
    ),
    ("no GPUCluster", {}, {"gpu_operator_mode": "gpu_cluster"}, STOP, "there is no GPUCluster"),
    ("daemon set", {"daemon_sets": [{**SET, "desired": 2}]}, {}, STOP, "gpu-operator/gfd is ready on 1 of 2 nodes"),
    (
        "daemon set of another generation",
        {"daemon_sets": [{**SET, "current": False}]},
        {},
        STOP,
        "gpu-operator/gfd is ready on 1 of 1 nodes",
    ),
    ("class", {"device_classes": []}, {}, STOP, "there is no DeviceClass gpu.nvidia.com"),
    ("no agent", HANDS, {}, STOP, "node c is on the fabric and its node agent does not run"),
    (
        "late agent",
        {**HANDS, "agents": [{**LIVING, "seconds": 95.4, "alive": False}]},
        {},
        STOP,
        "node c is on the fabric and its node agent has not renewed its Lease for 95 s",
    ),
    (
        "agent that has ended",
        {**HANDS, "agents": [{**LIVING, "held": False, "alive": False}]},
        {},
        STOP,
        "node c is on the fabric and its node agent does not run",
    ),
    ("not announced", {"slices": []}, {}, STOP, "node a shows GPU-1, which is not announced"),
    (
        "announced though gone",
        {"hosts": [{"name": "a", "gpus": []}]},
        {},
        STOP,
        "node a announces GPU-1, which it does not have",
    ),
    (
        "two ways to a GPU",
        {"nodes": [{**LABELLED, "allocatable": {"nvidia.com/gpu": 1}}]},
        {},
        STOP,
        "node a offers GPUs twice: 1 by the device plugin, and by its ResourceSlice",
    ),
    ("no label", {"nodes": [node("a")]}, {}, WARN, "node a announces GPUs and lacks nvidia.com/gpu.present=true"),
    ("left taint", {"taint_rules": ["gpu-x-taint"]}, {}, WARN, "the DeviceTaintRule gpu-x-taint is left over"),
    (
        "tainted",
        {"slices": [{**DEVICE, "taints": ["gpu.nvidia.com/xid"]}]},
        {},
        WARN,
        "gpu-0 of node a carries gpu.nvidia.com/xid",
    ),
    (
        "unreadable",
        {"problems": ["secrets of v1 could not be read: forbidden"]},
        {},
        WARN,
        "secrets of v1 could not be read: forbidden",
    ),
]


def test_all_well() -> None:
    found = judge(cluster(), PLAN)
    assert [finding for finding in found if finding.level != OK] == []
    assert {"node a: 1 GPUs, ready to attach", "node b: 0 GPUs, ready to attach"} <= {f.found for f in found}


def test_agents_are_looked_for_where_they_do_the_work() -> None:
    found = judge(cluster(**HANDS, agents=[LIVING]), PLAN)
    assert [f.found for f in found if f.check == "node agents"] == ["the agent of node c lives"]
    others = {**HANDS, "controllers": [{"namespace": "infra", "node_operations": "ssh"}]}
    for more in (others, {**HANDS, "controllers": []}):
        assert verify(cluster(**more), PLAN)["stop"] == []


def test_a_cluster_without_any_gpu_is_well() -> None:
    found = verify(cluster(slices=[], hosts=[{"name": "a", "gpus": []}]), PLAN)
    assert found["stop"] == []
    assert "node a: 0 GPUs, ready to attach" in found["report"]


def test_a_host_that_could_not_be_asked_is_not_compared() -> None:
    assert verify(cluster(hosts=[{"name": "a", "gpus": None}]), PLAN)["stop"] == []
    assert verify(cluster(hosts=[]), PLAN)["stop"] == []


@pytest.mark.parametrize(
    ("in_cluster", "in_plan", "level", "says"), [row[1:] for row in WRONG], ids=[r[0] for r in WRONG]
)
def test_it_is_told(in_cluster: Changes, in_plan: Changes, level: str, says: str) -> None:
    found = [finding for finding in judge(cluster(**in_cluster), {**PLAN, **in_plan}) if finding.level != OK]
    assert (level, says) in [(finding.level, finding.found) for finding in found]
    assert [finding for finding in found if not finding.change] == []


def test_a_taint_whose_resource_lives_is_no_left_over() -> None:
    alive = cluster(taint_rules=["gpu-x-taint"], composable_resources=[{"name": "gpu-x"}])
    assert [f for f in judge(alive, PLAN) if f.level != OK] == []


def test_daemon_sets_of_others_do_not_count() -> None:
    other = {**SET, "namespace": "kube-system", "ready": 0}
    assert [f for f in judge(cluster(daemon_sets=[SET, other]), PLAN) if f.level != OK] == []
