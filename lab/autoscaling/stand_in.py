# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for Cluster Autoscaler that calls an external provider as the real program would.

It follows the tag cluster-autoscaler-1.36.1 (paths below ``cluster-autoscaler/``):

- A call ends after 5 s. An error of Refresh, NodeGroupTargetSize or NodeGroupNodes ends the loop
  (``cloudprovider/externalgrpc``, ``core/static_autoscaler.go``).
- Groups and the groups of nodes are read once after each Refresh, and a template once in a loop.
  Instances are read every two minutes, or in each loop while a group grows
  (``externalgrpc_cloud_provider.go``, ``clusterstate/utils``).
- A group without nodes has its template from the provider, any other from its first ready node.
  That node must have no pod with a claim from a pool that is not its own
  (``processors/nodeinfosprovider``, ``simulator/node_info_utils.go``).
- Pods that fit a coming node (target above nodes) are packed there and cause no further request.
- An error of NodeGroupIncreaseSize, an instance that could not be created, and a target that stays
  up too long each put the group into backoff. In the second case the instance is then deleted, in
  the third the target is decreased (``clusterstate/clusterstate.go``).
- An unneeded node gets the soft taint, later the hard taint, is drained, and is then requested to
  be deleted. A refusal removes the taint, and the request is repeated. Annotated nodes are left
  alone, and pods of a DaemonSet do not keep a node (``core/scaledown``).
- A node counts as not ready if it lacks a pool of its own that the group's template has, or if it
  has the GPU label and no GPU (``processors/customresources``).

It knows extended resources, cpu and node selectors. It has no expander, no estimator for several
groups and no PDBs, and does not wait 30 s for pods that request a GPU.
"""

from __future__ import annotations

import math
import time
import typing as t
from collections.abc import Callable
from dataclasses import dataclass, field

import grpc

from ansible_collections.composable.infra.controller.autoscaler.wire import externalgrpc_pb2, node_pb2, rpc
from ansible_collections.composable.infra.controller.autoscaler.wire.rpc import SERVICE
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.framework.quantity import amount

Json = dict[str, t.Any]
CALL_SECONDS, INSTANCES_SECONDS = 5.0, 120.0
SOFT, HARD = "DeletionCandidateOfClusterAutoscaler", "ToBeDeletedByClusterAutoscaler"
DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
DAEMON_SET_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"
FAKE_NODE_REASON = {"k8s.io/cluster-autoscaler/fake-node-reason": "create-error"}


class View(t.Protocol):
    """The cluster for the stand-in, as raw JSON."""

    def nodes(self) -> list[Json]:
        """Return all nodes."""

    def pods(self) -> list[Json]:
        """Return all pods."""

    def slices(self) -> list[Json]:
        """Return all ResourceSlices."""

    def claims(self) -> list[Json]:
        """Return all ResourceClaims."""

    def patch_node(self, name: str, body: Json) -> None:
        """Merge-patch a node."""

    def evict(self, namespace: str, name: str) -> None:
        """Evict a pod."""


@dataclass(frozen=True, slots=True)
class Times:
    """Times in seconds, named like the flags."""

    max_node_provision_time: float = 900.0
    backoff: float = 300.0
    scale_down_unneeded_time: float = 600.0


@dataclass(slots=True)
class _Group:
    least: int
    most: int
    target: int = 0
    instances: list[t.Any] = field(default_factory=list)
    read: float = -INSTANCES_SECONDS


class LoopEnded(Exception):
    """An error ended a loop early. The next loop tries again."""


class AutoscalerStandIn:
    """``loop`` runs one main loop.

    ``calls`` has every call with its request, or the error of the call. ``events`` has (reason,
    object, message). ``clock`` returns seconds.
    """

    def __init__(self, channel: grpc.Channel, view: View, times: Times | None = None,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._channel, self._view, self.times, self._clock = channel, view, times or Times(), clock
        self.calls: list[tuple[str, t.Any, str]] = []
        self.events: list[tuple[str, str, str]] = []
        self.groups: dict[str, _Group] = {}
        self.unready: set[str] = set()
        self._of_node: dict[str, str] = {}
        self._templates: dict[str, Json] = {}
        self._backoff: dict[str, float] = {}
        self._growing: dict[str, float] = {}
        self._unneeded: dict[str, float] = {}
        self._label: str | None = None

    def asked(self, method: str) -> list[t.Any]:
        """Return the requests of a method so far."""
        return [request for name, request, _error in self.calls if name == method]

    def _call(self, method: str, **fields: t.Any) -> t.Any:
        request = getattr(externalgrpc_pb2, f"{method}Request")(**fields)
        try:
            answer = rpc.call(self._channel, f"{SERVICE}/{method}", request, CALL_SECONDS)
        except grpc.RpcError as error:
            self.calls.append((method, request, said(error)))
            raise
        self.calls.append((method, request, ""))
        return answer

    def loop(self) -> None:
        """Run one main loop. Raise LoopEnded where an error would end it."""
        try:
            if self._label is None:
                self._label = self._call("GPULabel").label
            self.refresh()
            self._check_templates()
        except grpc.RpcError as error:
            raise LoopEnded(said(error)) from None
        self._note_unready()
        self._end_failed()
        self._end_late()
        if not self._scale_up():
            self._scale_down()

    def refresh(self) -> None:
        """Make the calls at the beginning of each loop. Raise grpc.RpcError."""
        self._call("Refresh")
        self._of_node.clear()
        self._templates.clear()
        for told in self._call("NodeGroups").nodeGroups:
            group = self.groups.setdefault(told.id, _Group(0, 0))
            group.least, group.most = told.minSize, told.maxSize
            group.target = self._call("NodeGroupTargetSize", id=told.id).targetSize
            if told.id in self._growing or self._clock() - group.read >= INSTANCES_SECONDS:
                group.instances = list(self._call("NodeGroupNodes", id=told.id).instances)
                group.read = self._clock()
        for node in self._view.nodes():
            meta = node["metadata"]
            asked = externalgrpc_pb2.ExternalGrpcNode(
                name=meta["name"], providerID=node["spec"].get("providerID", ""), labels=meta.get("labels") or {},
                annotations=meta.get("annotations") or {})
            self._of_node[meta["name"]] = self._call("NodeGroupForNode", node=asked).nodeGroup.id

    def members(self, group: str) -> list[Json]:
        """Return the nodes of a group."""
        return [node for node in self._view.nodes() if self._of_node.get(node["metadata"]["name"]) == group]

    def _check_templates(self) -> None:
        """Check that the first node of each group can be a template: no pod there has a claim from
        elsewhere."""
        local = {each["spec"]["pool"]["name"] for each in self._view.slices() if each["spec"].get("nodeName")}
        foreign = {pod["uid"] for claim in self._view.claims() for pod in claim.get("status", {}).get("reservedFor", [])
                   if any(result["pool"] not in local for result in _results(claim))}
        for group in self.groups:
            for node in self.members(group)[:1]:
                for pod in self._on(node["metadata"]["name"]):
                    if pod["metadata"]["uid"] in foreign:
                        raise LoopEnded(f"node {node['metadata']['name']} can't be sanitized: pod "
                                        f"{pod['metadata']['name']} has a claim from a pool of no node")

    def _on(self, node: str) -> list[Json]:
        return [pod for pod in self._view.pods()
                if node in (pod["spec"].get("nodeName"), (pod.get("status") or {}).get("nominatedNodeName"))]

    def _note_unready(self) -> None:
        pools = {node["metadata"]["name"]: self._pools(node) for node in self._view.nodes()}
        self.unready = {name for name, node in ((n["metadata"]["name"], n) for n in self._view.nodes())
                        if self._label in (node["metadata"].get("labels") or {})}
        for group in self.groups:
            here = self.members(group)
            template = pools[here[0]["metadata"]["name"]] if here else set()
            self.unready |= {name for n in here if not template <= pools[name := n["metadata"]["name"]]}

    def _pools(self, node: Json) -> set[str]:
        return {each["spec"]["driver"] for each in self._view.slices()
                if each["spec"].get("nodeName") == node["metadata"]["name"]}

    def _end_failed(self) -> None:
        """Put groups with instances that could not be created into backoff, and delete these
        instances."""
        for name, group in self.groups.items():
            failed = [each for each in group.instances if each.status.errorInfo.errorCode]
            if not failed:
                continue
            info = failed[0].status.errorInfo
            self._back_off(name, "ScaleUpFailed", f"{info.errorCode}: {info.errorMessage}")
            nodes = [externalgrpc_pb2.ExternalGrpcNode(
                name=each.id, providerID=each.id, annotations=FAKE_NODE_REASON) for each in failed]
            self._try("NodeGroupDeleteNodes", id=name, nodes=nodes)
            group.read = -INSTANCES_SECONDS

    def _end_late(self) -> None:
        for name, since in list(self._growing.items()):
            group = self.groups[name]
            missing = group.target - len(self.members(name))
            if missing <= 0:
                del self._growing[name]
                self.events.append(("ScaleUpFinished", name, ""))
            elif self._clock() - since > self.times.max_node_provision_time:
                self._back_off(name, "ScaleUpTimedOut", f"{missing} nodes did not come")
                self._try("NodeGroupDecreaseTargetSize", id=name, delta=-missing)

    def _back_off(self, group: str, reason: str, message: str) -> None:
        self._growing.pop(group, None)
        self._backoff[group] = self._clock() + self.times.backoff
        self.events.append((reason, group, message))

    def _try(self, method: str, **fields: t.Any) -> str:
        """Call the method and return the error in words, or an empty string."""
        try:
            self._call(method, **fields)
        except grpc.RpcError as error:
            return said(error)
        return ""

    def _scale_up(self) -> bool:
        """Return whether it has requested nodes, or waits for requested nodes."""
        waiting = [pod for pod in self._view.pods() if _unschedulable(pod)]
        asked = False
        for name, group in self.groups.items():
            if self.members(name) or not waiting:
                continue
            template = self._template(name)
            coming = group.target - len(self.members(name))
            fitting = [pod for pod in waiting if template and _fits(pod, template)]
            left = fitting[_capacity(template, fitting) * coming:] if template and coming > 0 else fitting
            asked |= coming > 0
            waiting = [pod for pod in waiting if pod not in fitting or pod in left]
            if not left or not template:
                continue
            if self._clock() < self._backoff.get(name, -math.inf) or group.target >= group.most:
                held = self._clock() < self._backoff.get(name, -math.inf)
                why = "in backoff" if held else "max node group size reached"
                self.events += [("NotTriggerScaleUp", pod["metadata"]["name"], why) for pod in left]
                continue
            delta = min(math.ceil(len(left) / _capacity(template, left)), group.most - group.target)
            asked = True
            if refused := self._try("NodeGroupIncreaseSize", id=name, delta=delta):
                self._back_off(name, "FailedToScaleUpGroup", refused)
            else:
                self._growing[name] = self._clock()
                self.events.append(("TriggeredScaleUp", name, str(delta)))
        return asked

    def _template(self, group: str) -> Json | None:
        if group not in self._templates:
            try:
                content = self._call("NodeGroupTemplateNodeInfo", id=group).nodeBytes
            except grpc.RpcError:
                return None
            node = node_pb2.Node.FromString(content)
            self._templates[group] = {"labels": dict(node.metadata.labels), "allocatable": {
                name: each.string for name, each in node.status.allocatable.items()}}
        return self._templates[group]

    def _scale_down(self) -> None:
        for name, group in self.groups.items():
            here = self.members(name)
            for node in here if group.target > group.least else ():
                self._consider(name, node)
            for gone in self._unneeded.keys() - {n["metadata"]["name"] for n in self._view.nodes()}:
                del self._unneeded[gone]

    def _consider(self, group: str, node: Json) -> None:
        name = node["metadata"]["name"]
        needed = (node["metadata"].get("annotations") or {}).get(DISABLED) == "true" or any(
            pod["spec"].get("nodeName") == name and _keeps(pod) for pod in self._view.pods())
        others = [taint for taint in node["spec"].get("taints") or [] if taint["key"] not in (SOFT, HARD)]
        if needed:
            self._unneeded.pop(name, None)
            if len(others) != len(node["spec"].get("taints") or []):
                self._view.patch_node(name, {"spec": {"taints": others}})
            return
        if name not in self._unneeded:
            self._unneeded[name] = self._clock()
            soft = {"key": SOFT, "value": str(int(self._clock())), "effect": "PreferNoSchedule"}
            self._view.patch_node(name, {"spec": {"taints": [*others, soft]}})
        elif self._clock() - self._unneeded[name] >= self.times.scale_down_unneeded_time:
            self._delete(group, node, others)

    def _delete(self, group: str, node: Json, others: list[Json]) -> None:
        name = node["metadata"]["name"]
        hard = {"key": HARD, "value": str(int(self._clock())), "effect": "NoSchedule"}
        self._view.patch_node(name, {"spec": {"taints": [*others, hard], "unschedulable": True}})
        for pod in filter(_keeps, self._on(name)):
            self._view.evict(pod["metadata"]["namespace"], pod["metadata"]["name"])
        asked = externalgrpc_pb2.ExternalGrpcNode(name=name, providerID=node["spec"].get("providerID", ""))
        del self._unneeded[name]
        if refused := self._try("NodeGroupDeleteNodes", id=group, nodes=[asked]):
            self.events.append(("ScaleDownFailed", name, refused))
            self._view.patch_node(name, {"spec": {"taints": others, "unschedulable": None}})
        else:
            self.events.append(("ScaleDown", name, "node removed"))


def said(error: grpc.RpcError) -> str:
    """Return the code and text of an error of a call."""
    call: t.Any = error
    return f"{call.code().name}: {call.details()}"


def _results(claim: Json) -> list[Json]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    found: list[Json] = (allocation.get("devices") or {}).get("results") or []
    return found


def _unschedulable(pod: Json) -> bool:
    return not pod["spec"].get("nodeName") and any(
        each.get("type") == "PodScheduled" and each.get("reason") == "Unschedulable"
        for each in (pod.get("status") or {}).get("conditions") or [])


def _keeps(pod: Json) -> bool:
    """Return whether the pod keeps its node: not a pod in kube-system or of a DaemonSet.

    Source: ``utils/pod/pod.go``, IsDaemonSetPod.
    """
    meta = pod["metadata"]
    daemon = (meta.get("annotations") or {}).get(DAEMON_SET_POD) == "true" or any(
        ref.get("controller") and ref.get("kind") == "DaemonSet" for ref in meta.get("ownerReferences") or ())
    return meta["namespace"] != "kube-system" and not daemon


def _requests(pod: Json) -> dict[str, int]:
    found: dict[str, int] = {}
    for container in pod["spec"].get("containers") or []:
        wanted = container.get("resources") or {}
        for name, text in {**(wanted.get("limits") or {}), **(wanted.get("requests") or {})}.items():
            found[name] = found.get(name, 0) + amount(name, str(text))
    return found


def _fits(pod: Json, template: Json) -> bool:
    selector = pod["spec"].get("nodeSelector") or {}
    offered = template["allocatable"]
    return selector.items() <= template["labels"].items() and all(
        amount(name, offered.get(name, "0")) >= n for name, n in _requests(pod).items())


def _capacity(template: Json, pods: list[Json]) -> int:
    """Return how many of these pods a node of the template can run, at least one."""
    left = {name: amount(name, text) for name, text in template["allocatable"].items()}
    for count, pod in enumerate(pods):
        for name, n in _requests(pod).items():
            left[name] = left.get(name, 0) - n
        if any(n < 0 for n in left.values()):
            return max(1, count)
    return max(1, len(pods))
