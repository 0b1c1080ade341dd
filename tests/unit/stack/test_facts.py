# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Raw objects of Kubernetes and Helm become the plain values that the checks ask about."""

from __future__ import annotations

import base64
import gzip
import json
import time
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.plugins.module_utils.stack import facts
from ansible_collections.composable.infra.plugins.module_utils.stack.reader import Reader

Json = dict[str, t.Any]


def release(name: str, revision: int, status: str, version: str, packed: bool = True) -> Json:
    """A Secret as Helm writes it."""
    body = json.dumps({"chart": {"metadata": {"name": "chart-of-" + name, "version": version}}}).encode()
    data = base64.b64encode(base64.b64encode(gzip.compress(body) if packed else body)).decode()
    return {
        "metadata": {
            "name": f"sh.helm.release.v1.{name}.v{revision}",
            "namespace": "ns",
            "labels": {"name": name, "version": str(revision), "status": status},
        },
        "data": {"release": data},
    }


def test_only_the_newest_revision_counts() -> None:
    found = facts.releases(
        [
            release("a", 9, "superseded", "1"),
            release("a", 10, "deployed", "2"),
            release("b", 1, "failed", "3", packed=False),
        ]
    )
    assert found == [
        {"namespace": "ns", "name": "a", "status": "deployed", "chart": "chart-of-a", "version": "2"},
        {"namespace": "ns", "name": "b", "status": "failed", "chart": "chart-of-b", "version": "3"},
    ]


@pytest.mark.parametrize(
    "data",
    [
        "",
        "!",
        base64.b64encode(b"!").decode(),
        base64.b64encode(base64.b64encode(b"\x1f\x8bxx")).decode(),
        base64.b64encode(base64.b64encode(b"[]")).decode(),
    ],
)
def test_a_release_that_cannot_be_read_has_no_chart(data: str) -> None:
    broken = {**release("a", 1, "deployed", "1"), "data": {"release": data}}
    assert facts.releases([broken]) == [
        {"namespace": "ns", "name": "a", "status": "deployed", "chart": "", "version": ""}
    ]


def test_gates_of_the_metrics() -> None:
    metrics = (
        'kubernetes_feature_enabled{name="DRADeviceTaints",stage="BETA"} 1\n'
        'kubernetes_feature_enabled{name="DynamicResourceAllocation",stage=""} 1\n'
        'kubernetes_feature_enabled{name="DRAPartitionableDevices",stage="ALPHA"} 0\n'
        'kubernetes_feature_enabled{name="Other",stage="BETA"} 1\nother{name="DRAx"} 1\n'
    )
    assert facts.gates(metrics) == {
        "DRADeviceTaints": True,
        "DynamicResourceAllocation": True,
        "DRAPartitionableDevices": False,
    }
    assert facts.gates("") == {}


def a_node(provider: str = "", **annotations: str) -> Json:
    return {
        "metadata": {"name": "n", "annotations": annotations},
        "spec": {"providerID": provider} if provider else {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"nvidia.com/gpu": "2", "nvidia.com/odd": "1k", "cpu": "4"},
        },
    }


def test_a_node_names_its_machine_itself() -> None:
    found = facts.node(a_node("fsas-cdi://uuid-1"), {})
    assert (found["machine"], found["ready"], found["allocatable"]) == ("uuid-1", True, {"nvidia.com/gpu": 2})


def test_or_through_its_bare_metal_host() -> None:
    hosts = [{"metadata": {"name": "h", "namespace": "m", "annotations": {"cluster-manager.cdi.io/machine": "uuid-2"}}}]
    machines = [{"metadata": {"name": "x", "namespace": "m", "annotations": {"metal3.io/BareMetalHost": "m/h"}}}]
    found = facts.node(a_node(**{"machine.openshift.io/machine": "m/x"}), facts.machines_of_hosts(hosts, machines))
    assert found["machine"] == "uuid-2"


def test_another_provider_is_no_machine() -> None:
    assert facts.node(a_node("aws://i-1"), {})["machine"] == ""
    assert facts.node({"metadata": {"name": "bare"}}, {})["ready"] is False


def test_claims_of_a_driver_and_of_pools() -> None:
    claims = [
        {"namespace": "d", "name": name, "devices": [{"driver": driver, "pool": pool, "device": "x"}]}
        for name, driver, pool in (("a", "gpu", "n1"), ("b", "nic", "n1"), ("c", "gpu", "n2"))
    ]
    assert facts.claims_of(claims, "gpu") == ["d/a", "d/c"]
    assert facts.claims_of(claims, "gpu", ["n2"]) == ["d/c"]
    assert facts.claims_of(claims, "gpu", []) == []


class FakeClient:
    """Answers by path; everything else is absent."""

    def __init__(self, answers: Json, lists: Json) -> None:
        self._answers, self._lists = answers, lists
        self.listed: list[t.Any] = []
        self.moment = 0.0

    def server_time(self) -> float:
        return self.moment

    def raw(self, method: str, path: str) -> Json:
        if path not in self._answers:
            raise NotFound(404, "NotFound", "not found")
        answer: Json = self._answers[path]
        return answer

    def text(self, path: str) -> str:
        raise Forbidden(403, "Forbidden", "no metrics for you")

    def list(self, resource: t.Any, field_selector: str | None = None, label_selector: str | None = None) -> t.Any:
        self.listed.append(resource)
        if resource.plural not in self._lists:
            raise NotFound(404, "NotFound", "not found")
        return type("Found", (), {"items": self._lists[resource.plural]})


def test_what_is_not_served_is_not_asked_for_and_what_is_forbidden_is_named() -> None:
    served: Json = {
        "/version": {"gitVersion": "v1.36.3"},
        "/apis": {
            "groups": [
                {"name": "nvidia.com", "versions": [{"groupVersion": "nvidia.com/v1"}]},
                {"name": "apps", "versions": [{"groupVersion": "apps/v1"}]},
            ]
        },
        "/apis/nvidia.com/v1": {"resources": [{"name": "clusterpolicies"}, {"name": "clusterpolicies/status"}]},
    }
    lists: Json = {
        "nodes": [a_node()],
        "clusterpolicies": [{"metadata": {"name": "p"}, "status": {"state": "ready"}}],
        "gpuclusters": [{"metadata": {"name": "must not be asked for"}}],
    }
    client: t.Any = FakeClient(served, lists)
    found = Reader(client).read()
    assert found["kubernetes"] == "v1.36.3"
    assert found["served"] == ["nvidia.com/v1/clusterpolicies"]
    assert (found["cluster_policies"], found["gpu_clusters"]) == ([{"name": "p", "state": "ready"}], [])
    assert [node["name"] for node in found["nodes"]] == ["n"]
    (problem,) = found["problems"]
    assert problem.startswith("the API server's feature gates could not be read: ")


@pytest.mark.parametrize(("served", "read"), [
    (["v1"], "v1"), (["v1alpha3", "v1beta2"], "v1beta2"), (["v1alpha3"], "v1alpha3"), ([], None),
])
def test_taint_rules_are_read_in_the_newest_version_that_is_served(served: list[str], read: str | None) -> None:
    """Kubernetes 1.37 serves v1 only, 1.36 at most v1beta2, and releases before it v1alpha3."""
    paths: Json = {f"/apis/resource.k8s.io/{version}": {"resources": [{"name": "devicetaintrules"}]}
                   for version in served}
    groups = [{"name": "resource.k8s.io",
               "versions": [{"groupVersion": f"resource.k8s.io/{version}"} for version in served]}]
    client: t.Any = FakeClient({"/version": {"gitVersion": "v1.37.2"}, "/apis": {"groups": groups}, **paths},
                               {"devicetaintrules": [{"metadata": {"name": "gpu-a-taint"}}]})
    found = Reader(client).read()
    assert found["taint_rules"] == (["gpu-a-taint"] if read else [])
    assert [r.group_version for r in client.listed if r.plural == "devicetaintrules"] == [
        f"resource.k8s.io/{version}" for version in [read] if version]


def test_an_agents_lease_is_read_by_the_clock_of_the_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the machine that runs the playbook is an hour ahead."""
    lease = {"metadata": {"name": "composable-infra-agent-node-0"},
             "spec": {"holderIdentity": "agent", "renewTime": "2026-01-01T00:00:00Z", "leaseDurationSeconds": 10}}
    groups = [{"name": "coordination.k8s.io", "versions": [{"groupVersion": "coordination.k8s.io/v1"}]}]
    client: t.Any = FakeClient({
        "/version": {"gitVersion": "v1.37.2"}, "/apis": {"groups": groups},
        "/apis/coordination.k8s.io/v1": {"resources": [{"name": "leases"}]}}, {"leases": [lease]})
    client.moment = parse_time("2026-01-01T00:00:04Z")
    monkeypatch.setattr(time, "time", lambda: parse_time("2026-01-01T01:00:00Z"))
    (agent,) = Reader(client).read()["agents"]
    assert (agent["alive"], agent["seconds"]) == (True, 4.0)


@pytest.mark.parametrize(("config", "hands"), [
    ("handover: gated\nnode_hands: agent\n", "agent"), ("node_operations: 'ssh'\n", "ssh"), ("handover: gated\n", ""),
])
def test_controllers_say_who_works_on_the_nodes(config: str, hands: str) -> None:
    item = {"metadata": {"namespace": "infra"}, "data": {"config.yml": config}}
    assert facts.controllers(item) == {"namespace": "infra", "node_operations": hands}


@pytest.mark.parametrize(("holder", "age", "alive"), [
    ("a", 10, True), ("a", 91, False), ("", 10, False), ("a", -5, True),
])
def test_agent_lives_while_it_renews_its_lease(holder: str, age: float, alive: bool) -> None:
    renewed = "2026-03-01T10:00:00.000000Z"
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 90}
    found = facts.agent({"metadata": {"name": "node-agent-a"}, "spec": spec}, parse_time(renewed) + age)
    assert found == {"node": "a", "held": bool(holder), "seconds": max(0.0, age), "alive": alive}


@pytest.mark.parametrize("template", [False, True])
def test_requests_of_claims_and_templates_are_read_alike(template: bool) -> None:
    wanted = {"deviceClassName": "gpu.nvidia.com", "selectors": [{"cel": {"expression": "true"}}]}
    spec: dict[str, t.Any] = {"devices": {"requests": [
        {"name": "one", "exactly": wanted}, {"name": "two", "firstAvailable": [{"deviceClassName": "a"}, wanted]}]}}
    item = {"metadata": {"namespace": "team", "name": "train"}, "spec": {"spec": spec} if template else spec}
    assert [(r["object"], r["class"], r["selectors"]) for r in facts.requests(item)] == [
        ("team/train", "gpu.nvidia.com", ["true"]), ("team/train", "a", []), ("team/train", "gpu.nvidia.com", ["true"])]
    assert facts.requests({"metadata": {"namespace": "team", "name": "empty"}}) == []
