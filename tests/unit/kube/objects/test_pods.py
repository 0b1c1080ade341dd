# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading pods that a scheduling gate may hold."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods

Json = dict[str, t.Any]


def pod(*held_by: str, status: Json | None = None, **meta: t.Any) -> Json:
    """A pod with these gates."""
    return {"metadata": {"name": "p", "namespace": "ns", **meta}, "status": status or {},
            "spec": {"schedulingGates": [{"name": g} for g in held_by]}}


@pytest.mark.parametrize(("raw", "held"), [
    (pod(), False), (pod(pods.GATE), True), (pod("other"), False), (pod("other", pods.GATE), True),
    (pod(pods.GATE, deletionTimestamp="2026-01-01T00:00:00Z"), False),
    (pod(pods.GATE, status={"phase": "Failed"}), False), ({"metadata": {"name": "p"}}, False),
], ids=["no gate", "ours", "another", "both", "deleted", "failed", "bare"])
def test_held(raw: Json, held: bool) -> None:
    assert pods.held(raw) is held


def test_gates_of_others() -> None:
    assert pods.foreign(pod("b", pods.GATE, "a")) == ["b", "a"]


def test_node_is_the_bound_one_before_the_nominated_one() -> None:
    raw = pod(status={"nominatedNodeName": "n"})
    assert (pods.node(raw), pods.bound(raw)) == ("n", "")
    raw["spec"]["nodeName"] = "b"
    assert (pods.node(raw), pods.bound(raw)) == ("b", "b")
    assert pods.node(pod()) == ""


@pytest.mark.parametrize(("reason", "said"), [("Unschedulable", "0/2 nodes"), ("SchedulingGated", "")])
def test_words_of_the_scheduler(reason: str, said: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/2 nodes"}
    assert pods.unschedulable(pod(status={"conditions": [{"type": "Ready", "reason": reason}, condition]})) == said


def test_claims_by_name_and_by_template() -> None:
    raw = pod(status={"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-x"}]})
    raw["spec"]["resourceClaims"] = [{"name": "a", "resourceClaimName": "mine"},
                                     {"name": "b", "resourceClaimTemplateName": "t"},
                                     {"name": "c", "resourceClaimTemplateName": "t"}]
    assert pods.claim_names(raw) == {"a": "mine", "b": "p-b-x", "c": None}


def test_claim_that_the_scheduler_made_for_extended_resources_is_one_of_them() -> None:
    raw = pod(status={"extendedResourceClaimStatus": {"resourceClaimName": "p-extended-resources-x"}})
    assert pods.claim_names(raw) == {"": "p-extended-resources-x"}


@pytest.mark.parametrize(("labels", "size", "group"), [
    ({"composable.infra/group": "g"}, "3", ("ns/g", 3)), ({"scheduling.x-k8s.io/pod-group": "g"}, "2", ("ns/g", 2)),
    ({"composable.infra/group": "g"}, None, ("ns/g", 0)), ({"composable.infra/group": "g"}, "many", ("ns/g", 0)),
    ({"composable.infra/group": "g"}, "0", ("ns/g", 0)), ({}, "3", None),
    ({"composable.infra/group": "g"}, "1" * 5000, ("ns/g", 0)), ({"composable.infra/group": "g"}, "٣", ("ns/g", 0)),
])
def test_group(labels: dict[str, str], size: str | None, group: tuple[str, int] | None) -> None:
    annotations = {pods.GROUP_SIZE: size} if size is not None else {}
    assert pods.group(pod(labels=labels, annotations=annotations)) == group


@pytest.mark.parametrize(("owner", "group"), [
    ({}, ("ns/run/u1", 4)), ({"controller": False}, ("ns/job", 4)), ({"kind": "ReplicaSet"}, ("ns/job", 4)),
    ({"apiVersion": "example.com/v1"}, ("ns/job", 4)), ({"uid": "u1\nGateOpened"}, ("ns/job", 4)),
    ({"name": "run " * 100_000}, ("ns/job", 4))])
def test_the_pods_of_a_job_are_a_group_of_their_own(owner: Json, group: tuple[str, int]) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "run", "uid": "u1", "controller": True}
    raw = pod(labels={"composable.infra/group": "job"}, annotations={pods.GROUP_SIZE: "4"},
              ownerReferences=[{**job, "kind": "Workflow", "controller": False}, {**job, **owner}])
    assert (pods.group(raw), pods.group(pods.trimmed(raw))) == (group, group)


def test_trimmed_pod_keeps_no_owner_that_is_not_read() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "run", "uid": "u1", "controller": True}
    assert "ownerReferences" not in pods.trimmed(pod(labels={"app": "x"}, ownerReferences=[job]))["metadata"]


def test_trimmed_pod_keeps_what_decisions_need() -> None:
    raw = pod(pods.GATE, labels={"a": "b"}, managedFields=[{"manager": "m"}],
              status={"phase": "Pending", "podIP": "10.0.0.1", "conditions": []})
    container = {"name": "c", "image": "i", "env": [{"name": "PASSWORD", "value": "x"}], "ports": [{"hostPort": 1}],
                 "resources": {"requests": {"cpu": "1"}}}
    raw["spec"] |= {"containers": [container], "initContainers": [{**container, "restartPolicy": "Always"}],
                    "tolerations": [{"key": "k"}], "ephemeralContainers": [container]}
    found = pods.trimmed(raw)
    kept = {"name": "c", "ports": [{"hostPort": 1}], "resources": {"requests": {"cpu": "1"}}}
    assert found["spec"] == {"schedulingGates": [{"name": pods.GATE}], "tolerations": [{"key": "k"}],
                             "containers": [kept], "initContainers": [{**kept, "restartPolicy": "Always"}]}
    assert found["status"] == {"phase": "Pending", "conditions": []}
    assert found["metadata"] == {"name": "p", "namespace": "ns", "labels": {"a": "b"}}
    assert "podIP" in raw["status"]
