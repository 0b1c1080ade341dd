# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of watched objects says the same to every reader as the whole object does."""

from __future__ import annotations

import copy
import inspect
import types
import typing as t
from collections.abc import Callable, Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import (
    claims,
    conditions,
    device_users,
    nodes,
    pods,
    slice_values,
    slices,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.provisioning_requests import consumed
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.eligibility import (
    unsupported_feature,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.filters.dynamic_resources import (
    extended_resources,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.framework.pod_info import PodInfo
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import Settings
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state import indexers
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values import claim_values
from ansible_collections.composable.infra.tests.bench.large import objects

Json = dict[str, t.Any]
WHOLE = ("trimmed", "without_bookkeeping")  # what gives an object
EXTENDED = "deviceclass.resource.kubernetes.io/gpu"
SETTINGS = Settings.from_dict({"device_info": [objects.ROW]})


def readers(module: types.ModuleType, name: str) -> Iterator[Callable[[Json], t.Any]]:
    """Public functions of a module whose only needed argument has this name."""
    for found in vars(module).values():
        if inspect.isfunction(found) and found.__module__ == module.__name__ and not found.__name__.startswith("_"):
            needed = [p.name for p in inspect.signature(found).parameters.values() if p.default is p.empty]
            if needed == [name] and found.__name__ not in WHOLE:
                yield found


def said(reader: Callable[[Json], t.Any], obj: Json) -> t.Any:
    """What a reader says of an object."""
    found = reader(obj)
    return list(found) if isinstance(found, Iterator) else found


def same(obj: Json, trim: Callable[[Json], Json], read: list[Callable[[Json], t.Any]]) -> None:
    """All readers say the same of the object and of what is kept of it."""
    whole = copy.deepcopy(obj)
    kept = trim(obj)
    assert obj == whole, "the object itself is changed"
    assert read
    for reader in read:
        assert said(reader, kept) == said(reader, whole), reader


def pod(**status: t.Any) -> Json:
    """A pod of which much is read."""
    raw = objects.pod(0, 0)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "train"}}}
    raw["spec"] |= {
        "affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
                     for kind in ("podAffinity", "podAntiAffinity")},
        "overhead": {"cpu": "250m"}, "resources": {"requests": {"memory": "20Gi"}},
        "initContainers": [{"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}},
                            "ports": [{"hostPort": 80}]}]}
    raw["metadata"] |= {"annotations": {pods.GROUP_SIZE: "4", "other": "x"},
                        "labels": {"composable.infra/group": "g", "app": "train"}}
    raw["status"]["containerStatuses"][0] |= {"resources": {"requests": {"cpu": "6"}},
                                              "allocatedResources": {"cpu": "5"}}
    raw["status"] |= {"resources": {"requests": {"memory": "30Gi"}}, **status}
    return raw


def pod_facts(raw: Json) -> dict[str, t.Any]:
    """What the filters read of a pod that is on a node."""
    found = PodInfo.from_raw(raw)
    return {name: getattr(found, name)
            for name in ("namespace", "labels", "requests", "ports", "terminating", "affinity", "anti_affinity")}


def says_the_same(raw: Json) -> None:
    """The value of a pod says what the readers of its object say."""
    value = pods.read(copy.deepcopy(raw))
    back = value.as_object()
    assert pods.read(copy.deepcopy(back)) == value
    assert pod_facts(back) == pod_facts(raw)
    for name in ("held", "ended", "wants_devices", "group", "phase", "nominated"):
        assert getattr(value, name) == getattr(pods, name)(raw), name
    assert (value.node, {**value.claims}, [*value.foreign]) == (
        pods.bound(raw), pods.claim_names(raw), pods.foreign(raw))
    assert (value.unschedulable, value.not_served, value.consumes, value.of_job) == (
        pods.unschedulable(raw), pods.why_not_served(raw), consumed(raw), pods.job(raw) is not None)
    assert (value.whole is None) is bool(pods.bound(raw))


INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]


SPECIAL_CLAIM = {"extendedResourceClaimStatus": {"resourceClaimName": "train-extended-resources"}}


@pytest.mark.parametrize("status", [{}, {"conditions": INFEASIBLE}, {"phase": "Failed"}, SPECIAL_CLAIM])
def test_a_pod_on_a_node(status: Json) -> None:
    same(pod(**status), pods.trimmed, [*readers(pods, "pod"), pod_facts, consumed])
    says_the_same(pod(**status))


def held(**spec: t.Any) -> Json:
    raw = objects.held_pod("train")[1]
    raw["spec"] |= spec
    raw["status"] = {"phase": "Pending", "nominatedNodeName": "n", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes", "x": 1}]}
    return raw


@pytest.mark.parametrize("spec", [
    {}, {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    {"volumes": [{"name": "kube-api-access-x", "projected": {"sources": []}, "csi": None}]},
    {"hostNetwork": True, "hostUsers": False},
    {"containers": [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
    {"containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}]}]},
    {"containers": [{"name": "c", "resources": {"requests": {EXTENDED: "1"}}}]},
    {"schedulingGroup": {"name": "g"}}, {"schedulerName": "other"}, {"tolerations": [{"key": "k", "operator": "Gt"}]},
    {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
])
def test_a_held_pod(spec: Json) -> None:
    read = [lambda raw: unsupported_feature(raw, extended=False),
            lambda raw: extended_resources.extended_resources(raw, {EXTENDED: "gpu"}),
            lambda raw: PodInfo.from_raw(raw).spread,
            lambda raw: PodInfo.from_raw(raw).node_signature]
    same(held(**spec), pods.trimmed, [*readers(pods, "pod"), pod_facts, *read, consumed])
    says_the_same(held(**spec))


def test_of_a_volume_its_kind_is_kept() -> None:
    raw = held(volumes=[{"name": "kube-api-access-own", "projected": {"sources": [{"serviceAccountToken": {}}]}}])
    assert pods.trimmed(raw)["spec"]["volumes"] == [{"name": "kube-api-access-own", "projected": {}}]


def test_of_a_mount_only_its_options_are_kept() -> None:
    mounts = [{"name": "data", "mountPath": "/data"}, {"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}]
    raw = held(containers=[{"name": "a", "volumeMounts": mounts}, {"name": "b", "volumeMounts": mounts[:1]}])
    assert pods.trimmed(raw)["spec"]["containers"] == [
        {"name": "a", "volumeMounts": [{"bindMountOptions": ["noexec"]}]}, {"name": "b"}]


def test_a_node() -> None:
    raw = objects.node(0)
    raw["spec"] |= {"taints": [{"key": nodes.OUT_OF_SERVICE, "effect": "NoSchedule"}], "unschedulable": True}
    raw_readers = [nodes.ready, nodes.machine, nodes.out_of_service, nodes.read]
    read = [lambda node: node["metadata"]["labels"], lambda node: node["spec"]["unschedulable"]]
    same(raw, nodes.trimmed, [*raw_readers, *read])
    assert "images" not in nodes.trimmed(raw)["status"]


@pytest.mark.parametrize("change", [
    {}, {"spec": {}}, {"status": {}},
    {"spec": {"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"}]}},
    {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, {"status": {"allocatable": {"cpu": 4}}}])
def test_value_of_a_node_says_what_its_object_says(change: Json) -> None:
    raw = {**objects.node(0), **change}
    value, kept = nodes.read(copy.deepcopy(raw)), nodes.trimmed(raw)
    assert nodes.read(value.as_object()) == value
    for part in ("metadata", "spec"):
        assert value.as_object()[part] == kept[part]
    assert value.as_object()["status"]["allocatable"] == kept["status"].get("allocatable", {})
    assert (value.ready, value.machine) == (nodes.ready(raw), nodes.machine(raw))
    assert nodes.is_out_of_service(value) is nodes.out_of_service(raw)


def test_heartbeat_gives_an_equal_value() -> None:
    raw, later = objects.node(0), objects.node(0)
    later["metadata"]["resourceVersion"] = "1001"
    later["status"]["conditions"][0]["lastHeartbeatTime"] = "2027-01-01T00:00:00Z"
    assert nodes.read(raw) == nodes.read(later)
    assert nodes.read(raw).version != nodes.read(later).version


def test_a_claim() -> None:
    raw = objects.claim(0, 0)
    result = raw["status"]["allocation"]["devices"]["results"][0]
    result |= {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}
    entry = {**{name: result[name] for name in ("driver", "pool", "device")}, "data": {"large": "x"},
             "conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "m",
                             "lastTransitionTime": "t"}]}
    raw["status"]["devices"] = [entry]
    read = [lambda claim: claims.condition(claim, result, ["Ready"]), claim_values.claim_phase,
            claim_values.read_claim, lambda claim: claim["spec"],
            lambda claim: conditions.device_conditions(claim, "Failed", "True", "R", "m", "now")]
    same(raw, claims.trimmed, [*readers(claims, "claim"), *read, *indexers.UNREAD_CLAIMS.values()])


def test_a_special_claim() -> None:
    raw = objects.claim(0, 0)
    raw["metadata"]["annotations"] = {claims.SPECIAL: "true"}
    same(raw, claims.trimmed, [*readers(claims, "claim"), *indexers.UNREAD_CLAIMS.values()])
    assert claims.identity(claims.trimmed(raw)) != raw["metadata"]["uid"]


def test_an_unallocated_claim() -> None:
    same(objects.held_pod("train", 4)[0], claims.trimmed, [lambda claim: claim["spec"], *readers(claims, "claim")])


@pytest.mark.parametrize("raw", [objects.node_slice(0), objects.pool_slice()])
def test_a_slice(raw: Json) -> None:
    read = [lambda item: item["spec"], *readers(device_users, "node_slice"), *readers(slice_values, "node_slice")]
    same(raw, lambda item: slice_values.read(item).as_object(), [*readers(slices, "item"), *read])


def test_a_pool_is_written_again_whole() -> None:
    raw = objects.pool_slice()
    assert slice_values.read(raw).as_object() is raw
