# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider's view of cluster and fabric.

It uses the engine's watches and planner, and never acts on devices.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ansible_collections.composable.infra.controller.autoscaler.errors import Kind, Refused
from ansible_collections.composable.infra.controller.autoscaler.groups import NodeGroups
from ansible_collections.composable.infra.controller.autoscaler.template import template_node
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import EVENTS, PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.plugins.module_utils.model.node import Node
from ansible_collections.composable.infra.plugins.module_utils.model.pod import Pod
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.planning.autoscaling.chosen_nodes import why_not_there
from ansible_collections.composable.infra.plugins.module_utils.planning.autoscaling.scale_up import (
    NodeOption,
    ScaleUpPlan,
    plan_scale_up,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.node.demand import REQUESTED
from ansible_collections.composable.infra.plugins.module_utils.planning.node.evaluate import OPERATOR, SCALER
from ansible_collections.composable.infra.plugins.module_utils.planning.node.supply import supply
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.parse_cache import ParseCache
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import GatedPod, NodeFacts
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import (
    AutoscalerConfig,
    NodeGroup,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.node_facts import KnownNodes
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.snapshot import scheduling_snapshot
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.runtime.fence import Fence
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.scale_ups import live_entries

NOT_TRIGGERED = "NotTriggerScaleUp"
# A taint of no real node. It makes the planner leave out the nodes of another vertical group.
OTHER_GROUP = "composable.infra/other-vertical-group"
STATIC_POD = "kubernetes.io/config.mirror"
# Seconds for which a refusal by the CDI Manager, as a ComposabilityRequest shows it, keeps its
# model off the node.
BLOCK_SECONDS = 5.0


class Cluster:
    """The cluster and the fabric. Only one thread at a time plans.

    The other methods are thread-safe.

    ``fence``: open while this process leads. Otherwise it decides and writes nothing.
    """

    def __init__(self, client: Client, manager: FabricManager, config: EngineConfig,
                 autoscaler: AutoscalerConfig) -> None:
        settings = replace(config.settings, handover="gated", handover_namespaces={}, handover_models={},
                           unserved="release")
        self.fence = Fence()
        self.client, self.config = client.guarded(self.fence.check_write), autoscaler
        self.engine = ControllerManager(client, manager, replace(config, settings=settings), events=False,
                                        roles=(SCALER, OPERATOR), component="composable-infra-autoscaler")
        self.engine.fence.require(lambda: False)
        self.state, self.groups = self.engine.state, NodeGroups(autoscaler.nodes, self.engine.state)
        self._cache, self._known, self._lock = ParseCache(), KnownNodes(), threading.Lock()
        self._others: dict[str, tuple[NodeFacts, NodeFacts]] = {}

    def require_ready(self) -> None:
        """Raise Refused until cluster and CDI Manager were read, because decisions need complete
        data.
        """
        if not self.fence.open:
            raise Refused(Kind.UNAVAILABLE, "another process of the provider leads now")
        if not self.engine.ready():
            raise Refused(Kind.UNAVAILABLE, "; ".join(self.engine.problems()) or "the provider still reads the cluster")

    def may_act(self) -> bool:
        """Return whether this process leads, and has read the cluster."""
        return self.fence.open and self.engine.ready()

    def waiting(self, only: Collection[str] | None = None) -> tuple[GatedPod, ...]:
        """Return the pods that the scheduler could not place and for which no node was chosen.

        ``only``: pods with these uids, None for all.
        """
        asked = {entry.pod for _node, _model, entry, _pod in live_entries(self.state, self.state.now())}
        return tuple(self._pod(pod) for pod in self.state.pods.values("unschedulable", True)
                     if pod.uid not in asked and (only is None or pod.uid in only))

    def _pod(self, pod: Pod) -> GatedPod:
        return GatedPod(pod.as_object(), self.state.planned_claims(pod), parse_time(pod.created))

    def plan(self, waiting: tuple[GatedPod, ...], options: tuple[NodeOption, ...], vertical: str = "") -> ScaleUpPlan:
        """Plan now whether to attach devices or to add a node for these pods.

        ``options``: nodes that can be added. ``vertical``: id of a vertical group. Only its nodes
        count then.
        """
        with self._lock:
            for request in self.state.requests.each_value():
                if request.error:
                    self.state.blocks.block(request.node, request.model, BLOCK_SECONDS, request.error)
            snapshot = scheduling_snapshot(self.state, waiting, self._known)
            if selector := self._selector(vertical):
                snapshot = replace(snapshot, nodes={name: facts if _meets(facts.node, selector) else self._barred(facts)
                                                    for name, facts in snapshot.nodes.items()})
                options = tuple(option for option in options if _meets(option.node, selector))
            return plan_scale_up(snapshot, self.state.settings, options, self.config.scale_up, self._cache)

    def read_ahead(self) -> None:
        """Read all nodes and their pods for plans, so that the first decision is as quick as later
        ones.
        """
        self.plan((), ())

    def _selector(self, vertical: str) -> Mapping[str, str]:
        return next((group.selector for group in self.config.vertical if group.id == vertical), {})

    def _barred(self, facts: NodeFacts) -> NodeFacts:
        """Return a node of another vertical group, which gets no pods.

        Its pods still count for affinity terms. The same facts give the same object, so that the
        planner need not read it again.
        """
        before, found = self._others.get(facts.name, (None, facts))
        if before is not facts:
            taints = (*facts.node.taints, {"key": OTHER_GROUP, "effect": "NoSchedule"})
            found = replace(facts, node=replace(facts.node, taints=taints))
            self._others[facts.name] = facts, found
        return found

    def is_waiting(self, uid: str) -> bool:
        """Return whether a pod exists, has not ended, and is not bound."""
        pod = self.state.pods.first_value("uid", uid)
        return pod is not None and pod.waits

    def asked(self, vertical: str = "") -> dict[str, tuple[str, str]]:
        """Return (node, problem) of each pod with a request for devices, by the pod's uid.

        The problem is why no devices come, empty if they do. ``vertical``: id of a vertical group.
        Only its nodes count then.
        """
        found: dict[str, tuple[str, str]] = {}
        selector = self._selector(vertical)
        for node, model, entry, _pod in live_entries(self.state, self.state.now()):
            if selector and not _meets(self.state.nodes.value(node) or Node(node), selector):
                continue
            errors = [request.error for request in self.state.requests.values("node", node) if request.model == model]
            found[entry.pod] = (node, found.get(entry.pod, ("", ""))[1] or next(filter(None, errors), ""))
        return found

    def misfits(self, chosen: Mapping[str, str]) -> dict[str, str]:
        """Return why a chosen node no longer fits its pod, by the pod's uid.

        ``chosen``: node by uid of a pod. Pods with a node that fits are left out.
        """
        if not chosen:
            return {}
        with self._lock:
            snapshot = scheduling_snapshot(self.state, (), self._known)
            found = {uid: why_not_there(snapshot, pod.as_object(), node, self._cache) for uid, node in chosen.items()
                     if (pod := self.state.pods.first_value("uid", uid))}
        return {uid: why for uid, why in found.items() if why}

    def provided(self, nodes: Collection[str]) -> set[str]:
        """Return the uids of pods with all devices idle in the ResourceSlices of these nodes.

        If devices are short, claims that were allocated earlier get them first.
        """
        found: set[str] = set()
        for node in nodes:
            snapshot = node_snapshot(self.state, node)
            idle = {m: len(supply(snapshot, m, self.state.settings).idle) for m in snapshot.models()}
            short: set[str] = set()
            here = sorted((c for c in snapshot.claims if c.phase == REQUESTED), key=lambda c: (c.allocated_at, c.key))
            for claim in here:
                pod = claim.pods[0].uid
                found.add(pod)
                for model, n in claim.need().items():
                    idle[model] = idle.get(model, 0) - n
                    short |= {pod} if idle[model] < 0 else set()
            found -= short
        return found

    def not_triggered(self, since: float) -> set[str]:
        """Return the uids of pods for which Cluster Autoscaler has reported since a moment that it
        adds nothing.

        ``since``: seconds since the epoch.
        """
        listed = self.client.list(EVENTS, field_selector=f"reason={NOT_TRIGGERED},involvedObject.kind=Pod").items
        return {str(event["involvedObject"].get("uid")) for event in listed if _last_seen(event) >= since}

    def free_devices(self) -> int:
        """Return how many devices the fabrics can still attach, of all models that the autoscaler
        may attach.
        """
        snapshot = self.state.snapshot
        if snapshot is None:
            return 0
        barred = self.config.scale_up.not_attached
        return sum(n for (model, _fabric), n in snapshot.free.items()
                   if model not in barred and self.state.settings.model(model))

    def option(self, group: NodeGroup, coming: int, room: int) -> NodeOption:
        """Return the node that a group would add.

        ``coming``, ``room``: nodes that are ordered, and that can be added.
        """
        node = template_node(group.id, group.shape, self.groups.all_members(group), group.selector)
        return NodeOption(group.id, node, room, group.fabric, self.state.settings.max_devices_per_node, group.devices,
                          group.cost, coming)

    def devices(self, node: str) -> Iterator[tuple[str, bool]]:
        """Yield (model, in use) of each ComposableResource on a node."""
        snapshot = node_snapshot(self.state, node)
        yield from ((resource.model, resource.taken) for resource in snapshot.resources)

    def expecting(self) -> set[str]:
        """Return the nodes to which a device is on its way, or where a device is kept for a claim.

        Otherwise Cluster Autoscaler could cordon such a node before its pod arrives.
        """
        found = {node for node, _problem in self.asked().values()}
        for each in self.state.resources.each_value():
            coming = each.asked and not each.device_uid
            if (coming or each.hold[0]) and not each.deleting:
                found.add(each.node)
        return found

    def pods_of(self, node: str) -> Sequence[str]:
        """Return the pods that a removal of the node would end, as namespace/name.

        Read the API server, since a watch may be late. Pods of a DaemonSet and static pods belong
        to the node. Raises ApiError.
        """
        listed = self.client.list(PODS, field_selector=f"spec.nodeName={node}").items
        return sorted(f"{raw['metadata']['namespace']}/{raw['metadata']['name']}" for raw in listed
                      if pods.bound(raw) == node and not _belongs_to_node(raw))


def _meets(node: Node, selector: Mapping[str, str]) -> bool:
    return selector.items() <= node.labels.items()


def _belongs_to_node(pod: Json) -> bool:
    """Return whether a pod may end with its node.

    It has ended, or belongs to a DaemonSet, or is a static pod. kubectl drain leaves these two as
    well.
    """
    meta = pod["metadata"]
    owners = [ref.get("kind") for ref in meta.get("ownerReferences") or () if ref.get("controller")]
    return (pods.phase(pod) in ("Succeeded", "Failed") or "DaemonSet" in owners
            or STATIC_POD in (meta.get("annotations") or {}))


def _last_seen(event: Json) -> float:
    series = event.get("series") or {}
    stamps = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"),
              event["metadata"].get("creationTimestamp"))
    return max(parse_time(stamp) for stamp in stamps)
