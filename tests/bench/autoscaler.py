# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The work of the provider of Cluster Autoscaler in a large cluster: a decision, and the calls of
one loop.

The provider is the shipped one behind real gRPC on loopback, without TLS. The client is the
stand-in's code in the same process, so its share counts too. The stores are filled directly instead
of by watches.
"""

from __future__ import annotations

import statistics
import time
import typing as t
from collections.abc import Callable

import grpc

from ansible_collections.composable.infra.controller.autoscaler.server import Server
from ansible_collections.composable.infra.controller.autoscaler.service import ProviderService
from ansible_collections.composable.infra.lab.autoscaling.stand_in import AutoscalerStandIn
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricSnapshot, Machine
from ansible_collections.composable.infra.plugins.module_utils.planning.autoscaling.scale_up import ScaleUpPlan
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.testbed import GPU, Testbed, WorldView
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects

Json = dict[str, t.Any]
SIZES = (500, 5000)
PODS_ON_A_NODE, WAITING, FREE, LOOPS = 10, 50, 500, 3


class Large:
    """A provider in a cluster with ``nodes`` nodes, each with its own pool and ten pods, and 50
    waiting pods.
    """

    def __init__(self, nodes: int) -> None:
        self.testbed = Testbed(nodes=0, devices=FREE)
        self.provider, self.cluster = self.testbed.provider, self.testbed.cluster
        state, self.nodes = self.cluster.state, [_node(number) for number in range(nodes)]
        for number, raw in enumerate(self.nodes):
            state.nodes.upsert(raw)
            state.slices.upsert(objects.local_slice(node=raw["metadata"]["name"]))
            for each in range(PODS_ON_A_NODE):
                state.pods.upsert(_pod(f"old-{number}-{each}", raw["metadata"]["name"], "100m"))
        for number in range(WAITING):
            state.pods.upsert(_pod(f"new-{number}", "", str(1 + number % 8), gpus=1 + number % 4))
        machines = {f"machine-{n}": Machine(f"machine-{n}", f"node-{n}", 1) for n in range(nodes)}
        state.snapshot = FabricSnapshot(machines, {(A100, 1): FREE}, time.time())

    def decision(self) -> ScaleUpPlan:
        """Return the plan for all waiting pods."""
        plan = self.cluster.plan(self.cluster.waiting(), self.provider.options())
        if len(plan.attaches) != WAITING:
            raise RuntimeError(f"{len(plan.attaches)} of {WAITING} pods were decided")
        return plan


class View(WorldView):
    """The cluster as the client sees it."""

    def __init__(self, large: Large) -> None:
        super().__init__(large.testbed)
        self._nodes = large.nodes

    def nodes(self) -> list[Json]:
        """Return all nodes."""
        return self._nodes


def run(sizes: t.Sequence[int] = SIZES) -> list[Json]:
    """Measure each size. Raise RuntimeError if a pod is not decided or a node is in no group."""
    return [_measure(nodes) for nodes in sizes]


def _measure(nodes: int) -> Json:
    large = Large(nodes)
    try:
        start = _seconds(large.cluster.read_ahead)
        first = _seconds(large.decision)
        again = [_seconds(large.decision) for _unused in range(LOOPS)]
        refresh = [_seconds(large.provider.refresh) for _unused in range(LOOPS)]
        loops = _loops(large)
    finally:
        large.testbed.close()
    return {"name": f"{nodes} nodes", "nodes": nodes, "pods": nodes * PODS_ON_A_NODE, "waiting": WAITING,
            "start_seconds": start, "decision_first_seconds": first, "decision_seconds": statistics.median(again),
            "refresh_seconds": statistics.median(refresh), "loop_seconds": statistics.median(loops)}


def _loops(large: Large) -> list[float]:
    """Return the seconds of Refresh, the groups, and NodeGroupForNode for each node, as in each
    loop of Cluster Autoscaler.
    """
    server = Server("127.0.0.1:0", ProviderService(large.provider, large.testbed.measurements), None)
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        standin = AutoscalerStandIn(channel, View(large))
        found = [_seconds(standin.refresh) for _unused in range(LOOPS)]
        members = len(standin.members("nodes"))
    server.stop()
    if members != len(large.nodes):
        raise RuntimeError(f"{members} of {len(large.nodes)} nodes are in their group")
    return found


def _seconds(work: Callable[[], object]) -> float:
    """Return the processor seconds of this process, with all its threads."""
    began = time.process_time()
    work()
    return time.process_time() - began


def _node(number: int) -> Json:
    return {**objects.node(f"node-{number}", f"machine-{number}", zone="a"), "status": {
        "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}]}}


def _pod(name: str, node: str, cpu: str, gpus: int = 0) -> Json:
    raw = objects.pod(name)
    requests = {"cpu": cpu, **({GPU: str(gpus)} if gpus else {})}
    raw["spec"] = {"containers": [{"name": "c", "resources": {"requests": requests}}],
                   "schedulerName": "default-scheduler", **({"nodeName": node} if node else {})}
    raw["status"] = {"phase": "Running"} if node else {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available"}]}
    return raw
