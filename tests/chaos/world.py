# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster, a fabric and the controllers of a scenario in one process."""

from __future__ import annotations

import random
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ansible_collections.composable.infra.emulator import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.tests.chaos.models import cdi_manager, transport
from ansible_collections.composable.infra.tests.chaos.models.api_server import ApiServer, Call
from ansible_collections.composable.infra.tests.chaos.models.cdi_manager import CdiManager
from ansible_collections.composable.infra.tests.chaos.models.cluster_queues import ClusterQueue, Cohort
from ansible_collections.composable.infra.tests.chaos.models.controllers import Controllers
from ansible_collections.composable.infra.tests.chaos.models.kube_controllers import ClaimController
from ansible_collections.composable.infra.tests.chaos.models.kube_scheduler import KubeScheduler
from ansible_collections.composable.infra.tests.chaos.models.kueue import HOSTNAME, Kueue
from ansible_collections.composable.infra.tests.chaos.models.node import Node
from ansible_collections.composable.infra.tests.chaos.models.transport import Network
from ansible_collections.composable.infra.tests.chaos.scenario import Scenario
from ansible_collections.composable.infra.tests.chaos.simulation import stand_ins
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Killed, Process, Simulation
from ansible_collections.composable.infra.tests.chaos.workload import NAMESPACES
from ansible_collections.composable.infra.tests.unit.planning.builders import DRIVER, rows

# No backup is older than the cluster with its nodes.
FIRST_BACKUP = 1.0
HOLD_TIMEOUT, PLACEMENT_TIMEOUT = 10.0, 40.0
_FABRIC = {"endpoint": "https://manager.example", "tenant": "00000000-0000-4000-8000-000000000001", "username": "u",
           "password": "p", "realm": "r", "client_id": "c", "client_secret": "s"}


@dataclass
class World:
    """Everything in a run.

    ``fates``: (part, fate, share of requests) of requests that fail now. ``armed``: faults for the
    controller that next reaches a point. ``on_restore``: called after each restore of etcd.
    """

    simulation: Simulation
    scenario: Scenario
    fates: list[tuple[str, str, float]] = field(default_factory=list)
    armed: list[dict[str, t.Any]] = field(default_factory=list)
    frozen: list[float] = field(default_factory=list)
    healed: bool = False
    on_restore: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        scenario = self.scenario
        self.rng = random.Random(self.simulation.rng.random())
        names = [f"node-{number}" for number in range(scenario.nodes)]
        pool = cdi_manager.fabric(names, dict(scenario.devices), scenario.fabrics, scenario.attach, scenario.detach)
        self.server = ApiServer(self._wall, scenario.taint_rules)
        self.manager = CdiManager(self.simulation, pool, scenario.asynchronous)
        self.network = Network(self.simulation, self.server)
        self.network.lag = (0.001, scenario.lag)
        self.scheduler = KubeScheduler(self.simulation, self.server)
        self.claims = ClaimController(self.simulation, self.server)
        self.nodes = [Node(self.simulation, self.network, self.manager, DRIVER, name, machine_uuid(name),
                           reads_claims=scenario.agents_read_claims) for name in names]
        self.controllers = Controllers(self.simulation, self.network, self.manager, self._config(),
                                       scenario.replicas, scenario.wired)
        share, rest = divmod(scenario.queue, len(scenario.queues))
        self.kueue: Kueue = Kueue(self, Cohort({name: ClusterQueue(share + (rest if number == 0 else 0))
                                                for number, name in enumerate(scenario.queues)}))
        self.manager.fate, self.network.fate = self._fate_at_manager, self._fate_at_server
        self.manager.lie = lambda: self._drawn("wire") or ""
        self.manager.at_point = self.network.at_point = self._at_point

    def start(self) -> None:
        """Create a cluster as before the first pod, and start all processes."""
        for name, opted_in in NAMESPACES.items():
            self.server.create("namespaces", {"metadata": {"name": name, "labels": {pods.OPT: "true"} if opted_in
                                                           else {}}})
        expression = f'device.driver == "{DRIVER}"'
        self.server.create("deviceclasses", {"metadata": {"name": DRIVER}, "spec": {
            "selectors": [{"cel": {"expression": expression}}]}})
        for number, node in enumerate(self.nodes):
            self.server.create("nodes", {
                "metadata": {"name": node.name, "labels": {
                    "zone": f"zone-{number % 2}", HOSTNAME: node.name}},
                "spec": {"providerID": f"fsas-cdi://{node.machine}"},
                "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"},
                           "conditions": [{"type": "Ready", "status": "True"}]}})
            node.start()
        self.scheduler.start()
        self.claims.start()
        if self.scenario.queue:
            self.kueue.start()
        self.controllers.start()

    def heal(self) -> None:
        """End all faults, also those that are armed."""
        self.healed = True
        self.fates.clear()
        self.armed.clear()
        self.manager.down = self.network.down = self.scheduler.down = False
        for node in self.nodes:
            node.agent_down = False
            self.server.update("nodes", node.name, "", {"spec": {"unschedulable": None}})
        for process in self.controllers.processes:
            if process.frozen:
                self.simulation.thaw(process)

    def node(self, with_: Mapping[str, t.Any]) -> Node:
        """Return the node of a step. A smaller cluster has fewer."""
        return self.nodes[int(with_["node"]) % len(self.nodes)]

    def later(self, seconds: float, what: Callable[[], object]) -> None:
        """Call a function after ``seconds``."""
        self.simulation.spawn(self.simulation.outside, "later", what, seconds)

    def freeze(self, process: Process, seconds: float) -> None:
        """Freeze a process for ``seconds``. Then it continues as if nothing had happened."""
        self.simulation.freeze(process)
        self.frozen.append(self.simulation.now + seconds)
        self.later(seconds, lambda: self.simulation.thaw(process))

    def restore(self, seconds: float) -> None:
        """Restore etcd from a copy of this age. Fabric, nodes and controllers do not change."""
        self.server.rewind(min(seconds, self.simulation.now - FIRST_BACKUP))
        self.scheduler.restart()
        self.claims.changed.set()
        for node in self.nodes:
            node.restart_kubelet()
        for listener in self.on_restore:
            listener()

    def processes(self) -> list[Process]:
        """Return all processes."""
        return [*self.controllers.processes, self.scheduler.process, self.claims.process, self.manager.process,
                self.simulation.outside, self.kueue.process, *(node.process for node in self.nodes)]

    def _wall(self) -> float:
        return stand_ins.EPOCH + self.simulation.now

    def _config(self) -> EngineConfig:
        scenario = self.scenario
        return EngineConfig.from_dict({
            "device_info": rows(), "fabric": {**_FABRIC, "attach_timeout": scenario.attach_timeout},
            "scan_interval": scenario.scan, "workers": 4,
            "node_operations": "agent", "device_no_removal_duration": scenario.hold, "handover_timeout": 15.0,
            "hold_timeout": HOLD_TIMEOUT, "placement_timeout": PLACEMENT_TIMEOUT, "gone_node_duration": 60.0,
            "gone_node_power": scenario.gone_node_power,
            "handover_models": dict.fromkeys(scenario.direct, "direct"),
            "provisioning_requests": bool(scenario.queue)})

    def _drawn(self, whom: str) -> str | None:
        return next((fate for part, fate, share in self.fates if part == whom and self.rng.random() < share), None)

    def _fate_at_manager(self, what: str) -> str:
        return self._drawn("manager") or cdi_manager.FINE

    def _fate_at_server(self, process: Process, call: Call) -> str:
        fate = self._drawn("api") or transport.FINE
        return transport.FINE if fate == transport.CONFLICT and call.method not in ("PUT", "PATCH") else fate

    def _at_point(self, point: str, process: Process) -> None:
        """Kill or freeze a controller at a point with an armed fault."""
        found = next((entry for entry in self.armed if entry["point"] == point), None)
        if found is None or self.controllers.of(process) is None:
            return
        found["left"] -= 1
        if found["left"] > 0:
            return
        self.armed.remove(found)
        if "seconds" in found:
            self.freeze(process, found["seconds"])
            self.simulation.sleep(0.0)
        else:
            self.simulation.kill(process)
            raise Killed
