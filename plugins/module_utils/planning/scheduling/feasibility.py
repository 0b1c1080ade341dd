# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the nodes that are feasible for a pod, as kube-scheduler would, and its reasons against the
others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .cycle import CycleState, NodeState
from .filters.node_affinity import filter_node_affinity
from .filters.node_unschedulable import filter_unschedulable
from .filters.taint_toleration import filter_taints
from .framework.node_info import NodeInfo
from .framework.pod_info import PodInfo
from .queue import QueuedPod
from .scoring import ScoredNodes
from .supply import Allocation, Rejection, Supplier

GROUP_TOO_LARGE = Rejection("can serve this pod, but not together with the other pods of its group")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why no node serves a pod. As ``FitError`` and ``Diagnosis`` of kube-scheduler's
    ``framework/types.go``.

    ``text``: one sentence. ``counts``: nodes by reason. ``resolvable``: some node lacks only
    devices that others have.
    """

    text: str
    counts: Mapping[str, int]
    resolvable: bool


class FeasibilityCheck:
    """Filters and scores nodes for the pods of one cycle. Results that are equal for several pods
    are shared.

    Arguments: ``state``: the cluster with the reservations so far, which is only read.
    ``supplier``: finds devices on a node. ``policy``: ``samenode``, ``differentnode`` or
    ``roundrobin``.

    Source: ``findNodesThatFitPod`` and ``prioritizeNodes`` in kube-scheduler's ``schedule_one.go``,
    with the default plugins of Kubernetes 1.34 to 1.36. Filters with a result that no other pod
    changes (NodeUnschedulable, TaintToleration, NodeAffinity) run once per node signature, devices
    once per demand, and the others for every pod.
    """

    def __init__(self, state: CycleState, supplier: Supplier, policy: str) -> None:
        self.state, self.supplier, self.policy = state, supplier, policy
        self._node_reasons: dict[str, tuple[PodInfo, dict[str, str]]] = {}
        self._scored: dict[tuple[str, int], ScoredNodes] = {}

    def best(self, pod: QueuedPod) -> tuple[NodeState, Allocation] | None:
        """Return the best feasible node with the devices to take there, None if no node is
        feasible.
        """
        return self._scored_nodes(pod).best(self._pod_filter(pod))

    def diagnose(self, pod: QueuedPod) -> Diagnosis:
        """Return why no node is feasible now. If no node has the devices, room is not checked for
        each node.
        """
        scored, reasons, check = self._scored_nodes(pod), self._reasons(pod.info), self._pod_filter(pod)
        scored.refresh()
        lacking_devices = (name for name, rejection in scored.rejections.items() if not rejection.unresolvable)
        resolvable = any(not check(self.state.nodes[name]) for name in lacking_devices)
        if scored.order:
            counts = Counter(reasons[name] or check(node) or scored.rejections.get(name, GROUP_TOO_LARGE).reason
                             for name, node in self.state.nodes.items())
        else:
            counts = scored.reasons() + Counter(reason for reason in reasons.values() if reason)
        return Diagnosis(summary(counts, len(self.state.nodes)), counts, resolvable)

    def candidates(self, pod: QueuedPod) -> tuple[str, ...]:
        """Return nodes that suit the pod and have the devices, or will have them when others return
        theirs.
        """
        scored, reasons, check = self._scored_nodes(pod), self._reasons(pod.info), self._pod_filter(pod)
        scored.refresh()
        unresolvable = {name for name, rejection in scored.rejections.items() if rejection.unresolvable}
        return tuple(name for name, node in self.state.nodes.items()
                     if not reasons[name] and name not in unresolvable and not check(node))

    @property
    def kept(self) -> int:
        """Return how many results are kept, of which some have an entry for each node."""
        return len(self._node_reasons) + len(self._scored) + self.state.kept

    def forget(self, *, simple: bool) -> None:
        """Forget cached results of nodes and demands. ``simple``: simple demands too."""
        self._scored = {key: scored for key, scored in self._scored.items() if scored.demand.simple and not simple}

    def node_changed(self, name: str) -> None:
        """Filter a node again after its Node object has changed."""
        for signature, (pod, reasons) in self._node_reasons.items():
            before, reasons[name] = reasons[name], filter_node(pod, self.state.infos[name])
            if bool(before) is not bool(reasons[name]):
                self._scored = {key: scored for key, scored in self._scored.items() if key[0] != signature}

    def _pod_filter(self, queued: QueuedPod) -> Callable[[NodeState], str]:
        """Return the filters that depend on pods on the nodes: room, host ports, terms about other
        pods.
        """
        pod, extended = queued.info, queued.demand.extended
        if not self.state.other_pods_matter(pod):
            return lambda node: node.filter_room(pod, extended)
        plugins = (self.state.interpod_affinity.pre_filter(pod), self.state.topology_spread.pre_filter(pod))
        checks = [check for check in plugins if check is not None]

        def check_all(node: NodeState) -> str:
            if reason := node.filter_room(pod, extended):
                return reason
            for check in checks:
                if reason := check(node.info):
                    return reason
            return ""

        return check_all

    def _reasons(self, pod: PodInfo) -> dict[str, str]:
        """Return by node why the pod can never be there as the node is now, empty if it can."""
        if pod.node_signature not in self._node_reasons:
            self._node_reasons[pod.node_signature] = pod, {
                name: filter_node(pod, info) for name, info in self.state.infos.items()}
        return self._node_reasons[pod.node_signature][1]

    def _scored_nodes(self, pod: QueuedPod) -> ScoredNodes:
        key = (pod.info.node_signature, pod.demand.signature)
        if key not in self._scored:
            names = [name for name, reason in self._reasons(pod.info).items() if not reason]
            self._scored[key] = ScoredNodes(self.supplier, pod.demand, names, self.policy)
        return self._scored[key]


def filter_node(pod: PodInfo, node: NodeInfo) -> str:
    """Run the filters that read only the Node object. Return an empty text if the pod passes."""
    spec = pod.raw["spec"]
    tolerations = spec.get("tolerations") or ()
    return (filter_unschedulable(node.unschedulable, tolerations) or filter_taints(node.taints, tolerations)
            or filter_node_affinity(spec, node.name, node.labels))


def summary(counts: Mapping[str, int], total: int) -> str:
    """Return a text like kube-scheduler's: ``0/5 nodes: 2 had untolerated taint {a: b}, 3 had no
    free A100 on fabric 1``.
    """
    parts = [f"{n} {reason}" for reason, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    return f"0/{total} nodes: {', '.join(parts)}" if parts else "the cluster has no nodes"
