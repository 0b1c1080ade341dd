# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random runs: pods come and end, the fabric refuses, the provider starts anew, and Cluster Autoscaler's stand-in asks
all the while. 40 runs, or as many as AUTOSCALER_RUNS says: 200 take about three minutes on two processors."""

from __future__ import annotations

import contextlib
import os
import random
import typing as t
from collections.abc import Iterable

import grpc
import pytest

from ansible_collections.composable.infra.controller.autoscaler.errors import Refused
from ansible_collections.composable.infra.controller.autoscaler.server import Server
from ansible_collections.composable.infra.controller.autoscaler.service import ProviderService
from ansible_collections.composable.infra.lab.autoscaling.stand_in import AutoscalerStandIn, LoopEnded, Times
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Busy
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    NODES,
    PODS,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import Placement
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.memory import AttachBlocks
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.conftest import Clock
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.testbed import GPU, Testbed, WorldView, gpus

Json = dict[str, t.Any]
RUNS = int(os.environ.get("AUTOSCALER_RUNS", "40"))
STEPS, DECISIONS = 14, 6


class Run:
    """One run of a seed. ``decided``: how often devices were asked for a pod."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.testbed = Testbed(nodes=self.random.randint(1, 3), devices=self.random.randint(1, 5))
        self.clock, self.count = Clock(), 0
        self.decided: dict[str, int] = {}
        self.serve()

    def serve(self) -> None:
        """A new server for the provider as it is now, without TLS."""
        testbed = self.testbed
        asking = testbed.provider.scale_ups._writer
        ask = asking.ask

        def counted(placements: Iterable[Placement], until: float) -> None:
            found = list(placements)
            for placement in found:
                self.decided[placement.pod.name] = self.decided.get(placement.pod.name, 0) + 1
            ask(found, until)

        vars(asking)["ask"] = counted
        self.server = Server("127.0.0.1:0", ProviderService(testbed.provider, testbed.measurements), None)
        self.server.start()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.server.port}")
        times = Times(max_node_provision_time=120.0, backoff=20.0, scale_down_unneeded_time=25.0)
        self.standin = AutoscalerStandIn(self.channel, WorldView(testbed), times, self.clock)

    def stop(self) -> None:
        """The provider's process ends, and Cluster Autoscaler's."""
        self.channel.close()
        self.server.stop()

    def step(self) -> None:
        """Something happens, then everybody has a turn."""
        self.random.choice([self.come, self.come, self.come, self.go, self.refuse, self.lose, self.restart])()
        self.turn()

    def turn(self) -> None:
        """Each once."""
        self.testbed.sync()
        with contextlib.suppress(LoopEnded):
            self.standin.loop()
        self.testbed.tick(1)
        self.clock.now += 10

    def come(self) -> None:
        """A pod."""
        self.count += 1
        self.testbed.pod(f"p{self.count:02}", self.random.randint(1, 2), cpu=str(self.random.randint(1, 3)))

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

    def restart(self) -> None:
        """Provider and Cluster Autoscaler start anew, with what is written down."""
        self.stop()
        self.testbed.cluster.engine.stop()
        self.testbed.start()
        self.serve()

    def settle(self) -> None:
        """All is well again, and there is time."""
        self.testbed.fabric.closed = ""
        self.testbed.fabric.answers.clear()
        for _unused in range(12):
            self.turn()
            self.testbed.bench.state.blocks, self.testbed.cluster.state.blocks = AttachBlocks(), AttachBlocks()

    def check(self) -> None:
        """No device lost or doubled, no node lost, no pod left that could be served, and nobody swings to and fro."""
        testbed = self.testbed
        attached = {device.uid for device in testbed.fabric.devices()}
        owned = [raw["status"]["cdi_device_id"] for raw in testbed.api.of(COMPOSABLE_RESOURCES)
                 if (raw.get("status") or {}).get("cdi_device_id")]
        assert sorted(owned) == sorted(attached), "each attached device has one ComposableResource"
        left = testbed.fabric.total - sum(gpus(pod) for pod in testbed.api.of(PODS) if pod["spec"].get("nodeName"))
        for pod in testbed.api.of(PODS):
            if not pod["spec"].get("nodeName") and gpus(pod) <= left and self.has_room(pod):
                raise AssertionError(f"{pod['metadata']['name']} is not served, and {left} devices are left")
        assert all(n <= DECISIONS for n in self.decided.values()), self.decided
        unused = sum(len(testbed.idle(node["metadata"]["name"])) for node in testbed.api.of(NODES))
        assert unused <= testbed.fabric.total
        assert testbed.provider.target_size("vertical") == 0 or any(
            not pod["spec"].get("nodeName") for pod in testbed.api.of(PODS))

    def has_room(self, pod: Json) -> bool:
        """Whether some node has cpu for a pod, and may have its devices."""
        plain = {**pod, "spec": _without_devices(pod)}
        return any(self.testbed._fits(plain, node) for node in self.testbed.api.of(NODES))

    def close(self) -> None:
        """End all."""
        self.stop()
        self.testbed.close()


def _without_devices(pod: Json) -> Json:
    spec = pod["spec"]
    return {**spec, "containers": [{**c, "resources": {"requests": {
        name: text for name, text in c["resources"]["requests"].items() if name != GPU}}} for c in spec["containers"]]}


@pytest.mark.parametrize("first", range(8))
def test_random_runs(first: int) -> None:
    for seed in range(first, RUNS, 8):
        run = Run(seed)
        try:
            for _unused in range(STEPS):
                run.step()
            run.settle()
            run.check()
        except (AssertionError, Refused) as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        finally:
            run.close()
