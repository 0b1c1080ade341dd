# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model of a node: its kernel, the node agent, the vendor's DRA plugin, and the kubelet.

The plugin looks for devices only when it starts. The real agent is tested in
tests/unit/controller/agent.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from ansible_collections.composable.infra.controller.agent.agent import TICK_SECONDS
from ansible_collections.composable.infra.controller.agent.agent_lease import AgentLease
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi, device_users, pods
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    CLAIM_IN_USE,
    LOST_ON_BUS,
    OPEN_ON_NODE,
    READY,
    REMOVED,
    Evidence,
)
from ansible_collections.composable.infra.plugins.module_utils.runtime.work_queue import WorkQueue
from ansible_collections.composable.infra.tests.chaos.models.cdi_manager import CdiManager
from ansible_collections.composable.infra.tests.chaos.models.kernel import Kernel
from ansible_collections.composable.infra.tests.chaos.models.patches import Json
from ansible_collections.composable.infra.tests.chaos.models.transport import Network
from ansible_collections.composable.infra.tests.chaos.simulation import stand_ins
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Process, Simulation

NAMESPACE = "composable-infra"
LEASE, TICK = "lease", "tick"
AWAY_SECONDS = 0.5
# Seconds from the request to the last check of the claims, and from this check to the removal. A
# busy machine of the lab took 2.8 and 0.6.
TO_DRAIN, TO_REMOVE = (0.0, 0.3, 1.0, 4.0), (0.0, 0.0, 0.2, 0.6)


def address(minor: int) -> str:
    """Return the PCI address of the device with a minor number."""
    return f"0000:{16 + minor:02x}:00.0"


@dataclass
class Node:
    """One node.

    ``bus``: minor numbers by UUID of devices with a driver. ``open``: UID of the pod that uses a
    device, by UUID. ``pulled``: devices that the fabric removed while they were on the bus.
    ``reads_claims``: whether the node operations check the claims before a removal, as the node
    agent does, or only open devices, as playbooks may.
    """

    simulation: Simulation
    network: Network
    manager: CdiManager
    driver: str
    name: str
    machine: str
    bus: dict[str, int] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)
    pulled: list[str] = field(default_factory=list)
    agent_down: bool = False
    reads_claims: bool = True
    kernel: Kernel = field(default_factory=Kernel)
    _lost: set[str] = field(default_factory=set)
    _removed: set[str] = field(default_factory=set)
    _drained: dict[str, float] = field(default_factory=dict)
    _proven: set[str] = field(default_factory=set)
    _ticks: bool = False
    _seen: dict[str, float] = field(default_factory=dict)
    _announced: dict[str, int] = field(default_factory=dict)
    _minors: dict[str, int] = field(default_factory=dict)
    _plugin_starts: float = 0.0
    _kubelet_starts: float = 0.0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.simulation.rng.random())
        self.process = Process(self.name)
        self.server = self.network.server

    def start(self) -> None:
        """Start the processes."""
        self.simulation.spawn(self.process, "node", self._run)
        self.simulation.spawn(self.process, "agent", self._attend)

    def restart_plugin(self) -> None:
        """Delete the plugin's pod. It returns after a moment, and looks for devices."""
        if not self._plugin_starts:
            self._plugin_starts = self.simulation.now + self.rng.uniform(0.2, 1.0)

    def restart_agent(self) -> None:
        """Restart the agent. It forgets what it had in memory. The bus does not change."""
        self._seen.clear()
        self._drained.clear()
        self._proven.clear()
        self._removed &= {uuid for uuid in self._removed if uuid not in self.bus}

    def restart_kubelet(self) -> None:
        """Restart the kubelet after a moment, and with it the plugin, as the runbook requires after
        a restore of etcd.

        Until then the containers of pods that are gone continue to run.
        """
        self._kubelet_starts = self.simulation.now + self.rng.uniform(0.5, 5.0)

    def _start_kubelet(self) -> None:
        """End the containers of pods that the API server does not have. Start pods without
        containers again.
        """
        self._kubelet_starts = 0.0
        self.restart_plugin()
        mine = {pod["metadata"]["uid"]: pod for pod in self.server.of("pods") if pods.bound(pod) == self.name}
        self.open = {uuid: uid for uuid, uid in self.open.items() if uid in mine}
        for uid, pod in mine.items():
            if pods.phase(pod) == "Running" and uid not in self.open.values():
                self.server.update("pods", pod["metadata"]["name"], pod["metadata"]["namespace"],
                                   {"status": {"phase": "Pending"}})

    def _run(self) -> None:
        while True:
            self.simulation.sleep(self.rng.uniform(0.15, 0.3))
            self._kernel()
            if self.network.down:
                continue
            self._plugin()
            self._kubelet()
            if not self.agent_down:
                self._agent()

    def _attend(self) -> None:
        """Attend to the agent's duties with its shipped queue and Lease."""
        lease = AgentLease(self.network.client(self.process), NAMESPACE, self.name)
        duties: WorkQueue[str] = WorkQueue()
        duties.add(LEASE)
        duties.add(TICK)
        while (duty := duties.get()) is not None:
            seconds = AWAY_SECONDS
            if not self.agent_down:
                seconds = lease.renew() if duty == LEASE else TICK_SECONDS
                self._ticks |= duty == TICK
            duties.add_at(duty, stand_ins.Time.time() + seconds)
            duties.done(duty)

    def _kernel(self) -> None:
        """Add new devices after a moment. Record devices that vanish while they have a driver."""
        there = {d.spec.serial for d in self.manager.pool.shown(self.machine)}
        for uuid in [uuid for uuid in self.bus if uuid not in there]:
            self.pulled.append(uuid)
            del self.bus[uuid]
        self._removed &= there
        self._lost &= there
        self._minors = {uuid: minor for uuid, minor in self._minors.items() if uuid in there}
        self._seen = {uuid: when for uuid, when in self._seen.items() if uuid in there}
        for uuid in sorted(there - self.bus.keys() - self._removed):
            since = self._seen.setdefault(uuid, self.simulation.now + self.rng.uniform(0.1, 0.8))
            if since <= self.simulation.now and not self.agent_down:
                self.bus[uuid] = self._minors.setdefault(uuid, min(set(range(99)) - set(self._minors.values())))

    def _plugin(self) -> None:
        if self._plugin_starts and self._plugin_starts <= self.simulation.now:
            self._plugin_starts = 0.0
            self._announce()

    def _kept(self) -> dict[str, str]:
        """Return the UUIDs of the claims' pool devices on this node, by pool device (handover
        ``direct``).
        """
        mine = [raw for raw in self.server.of("composableresources") if raw["spec"]["target_node"] == self.name]
        return {cohdi.annotation(raw, cohdi.POOL_DEVICE): str((raw.get("status") or {}).get("device_id") or "")
                for raw in mine if cohdi.annotation(raw, cohdi.POOL_DEVICE)}

    def _shown(self) -> dict[str, int]:
        """Return the devices that the plugin publishes, as the node agent's own driver
        (``reason_to_hide`` in kubelet_plugin/device_view.py).

        It hides pool devices of claims, and unknown new devices while such a pool device has not
        come.
        """
        kept = set(self._kept().values())
        hidden = kept | (self.bus.keys() - self._announced.keys() - self._known() if "" in kept else set())
        return {uuid: minor for uuid, minor in self.bus.items() if uuid not in hidden | self._lost}

    def _known(self) -> set[str]:
        return {str((raw.get("status") or {}).get("device_id") or "")
                for raw in self.server.of("composableresources") if raw["spec"]["target_node"] == self.name}

    def _announce(self) -> None:
        self._announced = self._shown()
        name = f"{self.name}-{self.driver}"
        models = {d.spec.serial: d.spec.model for d in self.manager.pool.devices.values()}
        devices = [{"name": f"gpu-{minor}", "attributes": {
            "uuid": {"string": uuid}, "productName": {"string": f"NVIDIA {models[uuid]}"}}}
            for uuid, minor in sorted(self._announced.items(), key=lambda pair: pair[1])]
        old = self.server.find("resourceslices", name)
        generation = old["spec"]["pool"]["generation"] + 1 if old else 1
        spec = {"driver": self.driver, "nodeName": self.name, "devices": devices,
                "pool": {"name": self.name, "generation": generation, "resourceSliceCount": 1}}
        if old:
            self.server.put("resourceslices", {**old, "spec": spec})
        else:
            self.server.create("resourceslices", {"metadata": {"name": name}, "spec": spec})

    def _kubelet(self) -> None:
        if self._kubelet_starts:
            if self._kubelet_starts > self.simulation.now:
                return
            self._start_kubelet()
        for pod in self.server.of("pods"):
            if pods.bound(pod) != self.name:
                continue
            meta = pod["metadata"]
            if meta.get("deletionTimestamp"):
                self.open = {uuid: uid for uuid, uid in self.open.items() if uid != meta["uid"]}
                self.server.remove("pods", meta["name"], meta["namespace"])
            elif pods.phase(pod) != "Running" and (found := self._prepared(pod)) is not None:
                self.open.update(dict.fromkeys(found, meta["uid"]))
                self.server.update("pods", meta["name"], meta["namespace"], {"status": {"phase": "Running"}})

    def _prepared(self, pod: Json) -> list[str] | None:
        """Return the UUIDs of the pod's devices, None if one of them is missing."""
        by_name = {f"gpu-{minor}": uuid for uuid, minor in self._announced.items()}
        kept, found = self._kept(), []
        for name in pods.claim_names(pod).values():
            claim = self.server.find("resourceclaims", name or "", pod["metadata"]["namespace"])
            for result in claims.results(claim) if claim else [None]:
                uuid = by_name.get(result["device"]) if result and result["pool"] == self.name else None
                if result and result.get("bindingConditions"):
                    uuid = kept.get(cohdi.pool_device(result["pool"], result["device"]))
                if uuid is None or uuid not in self.bus or uuid in self.open:
                    return None
                found.append(uuid)
        return found

    def _agent(self) -> None:
        if self._ticks:
            addresses = {address(minor): uuid for uuid, minor in self.bus.items()}
            self._lost |= {addresses[each] for each in self.kernel.lost(set(addresses))}
        label = cohdi.node_label(self.name)
        for raw in self.server.of("composableresources"):
            device = (raw.get("status") or {}).get("cdi_device_id")
            if device and (raw["metadata"].get("labels") or {}).get(cohdi.TARGET_NODE) == label:
                self._work(raw, device)
        self._ticks = False
        if self._announced.keys() != self._shown().keys():
            self.restart_plugin()

    def _work(self, raw: Json, device: str) -> None:
        known = Evidence.parse(cohdi.annotation(raw, cohdi.NODE))
        known = known if known and known.device == device else None
        physical = self.manager.pool.devices.get(device)
        uuid = physical.spec.serial if physical else ""
        if release := cohdi.annotation(raw, cohdi.RELEASE):
            self._release(raw, Evidence(REMOVED, device, uuid=uuid, release=release), known)
            return
        self._removed.discard(uuid)
        self._drained.pop(uuid, None)
        self._proven.discard(uuid)
        if uuid in self._lost:
            if known and known.phase == READY and not known.trouble:
                said = f"the device {device} was lost while its driver used it"
                self._write(raw, known.with_trouble(LOST_ON_BUS, said, self.server.wall()))
            return
        ready = known and known.phase == READY and not known.trouble
        seen = uuid in self._announced or uuid in self._kept().values()
        if uuid in self.bus and seen and not ready:
            self._write(raw, Evidence(READY, device, uuid=uuid))

    def _release(self, raw: Json, done: Evidence, known: Evidence | None) -> None:
        """Prove the device idle, remove it, withdraw it from the slice, then report that. Each step
        takes its time.
        """
        uuid = done.uuid
        came_back = self._ticks and uuid in self.bus
        if done == known and not (came_back or uuid in self._drained):
            return
        if uuid in self.bus:
            if self.simulation.now < self._drained.setdefault(uuid, self.simulation.now + self.rng.choice(TO_DRAIN)):
                return
            if uuid in self._proven:
                self._remove(uuid)
                return
            if trouble := self._in_use(uuid):
                said = Evidence(READY, done.device, uuid=uuid).with_trouble(*trouble, self.server.wall())
                if not (known and known.trouble and known.trouble.reason == trouble[0]):
                    self._write(raw, said)
                return
            self._proven.add(uuid)
            self._drained[uuid] = self.simulation.now + self.rng.choice(TO_REMOVE)
            return
        self._removed.add(uuid)
        if uuid not in self._announced:
            self._write(raw, done)

    def _remove(self, uuid: str) -> None:
        del self.bus[uuid]
        del self._drained[uuid]
        self._proven.discard(uuid)
        self._removed.add(uuid)

    def _in_use(self, uuid: str) -> tuple[str, str] | None:
        if uuid in self.open:
            return OPEN_ON_NODE, "a process has it open"
        name = f"gpu-{self._announced.get(uuid)}"
        kept = next((pool_device for pool_device, each in self._kept().items() if each == uuid), "")
        if said := device_users.keeper(self.server.of("resourceclaims"), self.name, kept):
            return CLAIM_IN_USE, said
        for claim in self.server.of("resourceclaims") if self.reads_claims else ():
            if any(pool == self.name and device == name for _driver, pool, device in claims.device_keys(claim)):
                return CLAIM_IN_USE, f"claim {claim['metadata']['name']} uses it"
        return None

    def _write(self, raw: Json, evidence: Evidence) -> None:
        note = {"metadata": {"annotations": {cohdi.NODE: evidence.to_json()}}}
        self.server.update("composableresources", raw["metadata"]["name"], "", note)
