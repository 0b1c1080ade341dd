# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One random run: pods come and end, nodes are added and removed with a delay, fabric, API server and provider of nodes
refuse, processes start anew, and Cluster Autoscaler's stand-in asks all the while.

Scheduler, fabric, API server and Cluster Autoscaler are stand-ins; the provider and the engine are the real ones.
"""

from __future__ import annotations

import contextlib
import random
import time
import typing as t
from collections import Counter
from collections.abc import Iterable

import grpc

from ansible_collections.composable.infra.controller.autoscaler.errors import ProviderError
from ansible_collections.composable.infra.controller.autoscaler.providers.node_provider import NodeProvider
from ansible_collections.composable.infra.controller.autoscaler.server import Server
from ansible_collections.composable.infra.controller.autoscaler.service import ProviderService
from ansible_collections.composable.infra.lab.autoscaling.stand_in import AutoscalerStandIn, LoopEnded, Times
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Busy
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    NODES,
    PODS,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import Placement
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.memory import AttachBlocks
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.conftest import Clock
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.machines import regroup
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.testbed import GPU, Testbed, WorldView, gpus

Json = dict[str, t.Any]
STEPS, SETTLE, DECISIONS = 14, 20, 6
"""Turns with something that happens, turns without, and how often devices may be asked for one pod."""


class Nursery:
    """A provider of nodes that takes its time. ``closed``: why nothing can be ordered."""

    def __init__(self, testbed: Testbed, rng: random.Random) -> None:
        self._testbed, self._random = testbed, rng
        self.coming: list[int] = []
        self.going: dict[str, int] = {}
        self.added, self.closed = 0, ""

    def provider(self) -> NodeProvider:
        """A row as the table has."""
        return NodeProvider(self._count, self._grow, self._shrink)

    def _count(self) -> int:
        self._refuse()
        return len(self.coming)

    def _grow(self, count: int) -> None:
        self._refuse()
        self.coming += [self._random.randint(1, 4) for _unused in range(count)]

    def _shrink(self, node: str) -> None:
        self._refuse()
        if node in self.going:
            return
        assert not self._testbed.devices_of(node), f"{node} is removed with a device"
        assert not self._testbed.pods_on(node), f"{node} is removed with a pod"
        self.going[node] = self._random.randint(1, 3)

    def _refuse(self) -> None:
        if self.closed:
            raise ProviderError(self.closed)

    def turn(self) -> None:
        """What was ordered comes and goes when its time is over."""
        self.coming = [left - 1 for left in self.coming]
        for _unused in range(sum(left <= 0 for left in self.coming)):
            self.added += 1
            self._testbed.add_node(f"node-{10 + self.added}")
        self.coming = [left for left in self.coming if left > 0]
        for name in sorted(self.going):
            self.going[name] -= 1
            if self.going[name] <= 0:
                self._testbed.remove_node(name)
                del self.going[name]


class Run:
    """One run of a seed. ``decided``: how often devices were asked for a pod."""

    def __init__(self, seed: int, kinds: dict[str, t.Any]) -> None:
        self.random = random.Random(seed)
        self.testbed = Testbed(nodes=self.random.randint(1, 3), devices=self.random.randint(1, 5))
        self.most = len(self.testbed.api.of(NODES)) + self.random.randint(0, 2)
        self.nursery, self.broken = Nursery(self.testbed, self.random), False
        kinds["static"] = lambda *_unused: self.nursery.provider()
        self.least = self.random.randint(0, 1)
        regroup(self.testbed, nodes={"max_size": self.most, "min_size": self.least}, scale_down={
            "policy": self.random.choice(["reserve", "power"]), "reserve_nodes": self.random.randint(0, 2)})
        self.clock, self.count = Clock(), 0
        self.decided: Counter[str] = Counter()
        self.serve()

    def serve(self) -> None:
        """A new server for the provider as it is now, without TLS."""
        testbed = self.testbed
        testbed.cluster.fence.require(self.reached)
        asking = testbed.provider.scale_ups._writer
        ask = asking.ask

        def counted(placements: Iterable[Placement], until: float) -> None:
            found = list(placements)
            ask(found, until)
            self.decided.update(placement.pod.name for placement in found)

        vars(asking)["ask"] = counted
        self.server = Server("127.0.0.1:0", ProviderService(testbed.provider, testbed.measurements), None)
        self.server.start()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.server.port}")
        times = Times(max_node_provision_time=120.0, backoff=20.0, scale_down_unneeded_time=25.0)
        self.standin = AutoscalerStandIn(self.channel, WorldView(testbed), times, self.clock)
        self.told = 0

    def reached(self) -> bool:
        """The provider leads; in an outage of the API server every other of its calls fails."""
        if self.broken and self.random.random() < 0.5:
            raise ApiError(503, "ServiceUnavailable", "etcd has no leader")
        return True

    def stop(self) -> None:
        """The provider's process ends, and Cluster Autoscaler's."""
        self.channel.close()
        self.server.stop()

    def step(self) -> None:
        """Something happens, then everybody has a turn."""
        self.random.choice([self.come, self.come, self.come, self.go, self.refuse, self.lose, self.restart,
                            self.close_nursery, self.break_api, self.intrude])()
        self.turn()

    def turn(self) -> None:
        """Each once."""
        self.testbed.sync()
        with contextlib.suppress(LoopEnded):
            self.standin.loop()
        self.nursery.turn()
        self.tell()
        for work in (self.testbed.provider.serve_untriggered, lambda: self.testbed.tick(1)):
            with contextlib.suppress(ApiError):
                work()
        self.clock.now += 10
        here = len(self.testbed.api.of(NODES))
        assert here + len(self.nursery.coming) <= self.most + len(self.nursery.going), "too many nodes were ordered"

    def tell(self) -> None:
        """Cluster Autoscaler's events about pods are the API server's, too."""
        for reason, about, _message in self.standin.events[self.told:]:
            if reason == "NotTriggerScaleUp":
                self.testbed.told(about, reason, format_time(time.time()))
        self.told = len(self.standin.events)

    def come(self) -> None:
        """A pod; some ask for no device."""
        self.count += 1
        self.testbed.pod(f"p{self.count:02}", self.random.randint(0, 2), cpu=str(self.random.randint(1, 5)))

    def go(self) -> None:
        """A pod ends."""
        names = sorted(raw["metadata"]["name"] for raw in self.testbed.api.of(PODS))
        if names:
            self.testbed.end(self.random.choice(names))

    def refuse(self) -> None:
        """The next attach is refused for now."""
        self.testbed.fabric.answers.append(Busy("try again"))

    def lose(self) -> None:
        """The CDI Manager refuses everything from now on, or no longer."""
        self.testbed.fabric.closed = "" if self.testbed.fabric.closed else "closed for repairs"

    def close_nursery(self) -> None:
        """So does the provider of nodes."""
        self.nursery.closed = "" if self.nursery.closed else "no machine answers"

    def break_api(self) -> None:
        """The API server fails, or no longer."""
        self.broken = not self.broken

    def intrude(self) -> None:
        """A pod that tolerates everything lands on a node that goes."""
        leaving = sorted(self.testbed.cluster.groups.leaving - self.nursery.going.keys())
        if leaving and any(raw["metadata"]["name"] == leaving[0] for raw in self.testbed.api.of(NODES)):
            self.count += 1
            self.testbed.pod(f"p{self.count:02}", 0, cpu="1")
            raw = self.testbed.api.one(PODS, f"p{self.count:02}", "default")
            self.testbed.api.put(PODS, {**raw, "spec": {**raw["spec"], "nodeName": leaving[0]},
                                        "status": {"phase": "Running"}})

    def restart(self) -> None:
        """Provider and Cluster Autoscaler start anew, with what is written down."""
        self.stop()
        self.testbed.cluster.engine.stop()
        self.testbed.start()
        self.serve()

    def settle(self) -> None:
        """All is well again, and there is time."""
        self.testbed.fabric.closed, self.nursery.closed, self.broken = "", "", False
        self.testbed.fabric.answers.clear()
        for _unused in range(SETTLE):
            self.turn()
            self.testbed.bench.state.blocks, self.testbed.cluster.state.blocks = AttachBlocks(), AttachBlocks()

    def check(self) -> None:
        """No device lost or doubled, no node lost, no pod left that could be served, and nobody swings to and fro."""
        testbed = self.testbed
        attached = {device.uid for device in testbed.fabric.devices()}
        owned = [raw["status"]["cdi_device_id"] for raw in testbed.api.of(COMPOSABLE_RESOURCES)
                 if (raw.get("status") or {}).get("cdi_device_id")]
        assert sorted(owned) == sorted(attached), "each attached device has one ComposableResource"
        assert len(testbed.api.of(NODES)) >= self.least, "fewer nodes than the group keeps"
        left = testbed.fabric.total - len(attached)
        for pod in testbed.api.of(PODS):
            if not pod["spec"].get("nodeName") and gpus(pod) <= self.most_devices(pod, left):
                raise AssertionError(f"{pod['metadata']['name']} is not served, and {left} devices are free")
        assert all(n <= DECISIONS for n in self.decided.values()), self.decided
        assert testbed.provider.target_size("vertical") == 0 or any(
            not pod["spec"].get("nodeName") for pod in testbed.api.of(PODS))

    def most_devices(self, pod: Json, left: int) -> int:
        """How many devices a pod could be given on a node with room for it, or on one that could be added. What is idle
        on another node stays there for its hold time, and is given to nobody else before."""
        plain = {**pod, "spec": _without_devices(pod)}
        there = self.testbed.api.of(NODES)
        here = [left + len(self.testbed.idle(node["metadata"]["name"])) for node in there
                if self.testbed._fits(plain, node)]
        return max([*here, *([left] if len(there) < self.most else [])], default=-1)

    def close(self) -> None:
        """End all."""
        self.stop()
        self.testbed.close()


def _without_devices(pod: Json) -> Json:
    spec = pod["spec"]
    return {**spec, "containers": [{**c, "resources": {"requests": {
        name: text for name, text in c["resources"]["requests"].items() if name != GPU}}} for c in spec["containers"]]}
