# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent of one node, with its watches, and the lane of its work."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.event_recorder import Recorder
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import REMOVAL_HUNG
from ansible_collections.composable.infra.plugins.module_utils.runtime.tracing import NoTracer, Tracer

from .agent_lease import AgentLease
from .claim_check import ClaimCheck
from .device_work import DeviceWork, Patience
from .evidence_book import EvidenceBook
from .lane import Duty, Lane
from .metrics import AgentMetrics
from .node_operations import NodeOperations
from .node_state import NodeDriver, NodeState
from .vendor_plugin.device_moments import DeviceMoments
from .vendor_plugin.plugin_control import PluginControl
from .vendor_plugin.plugin_work import ANNOUNCE_SECONDS, PluginWork

TICK_SECONDS = 5.0
PATIENCE = Patience()
# Reason of the Event on a device that no claim gets, because something may still use it.
DEVICE_WITHHELD = "DeviceWithheld"
PLUGIN_NAMESPACES = ("dra-driver-nvidia-gpu", "nvidia-dra-driver-gpu", "gpu-operator")


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Options of a node agent.

    ``lease_namespace``: of the agent's Lease. ``plugin_namespaces``: where a vendor's plugin may
    run. ``announce_seconds``: how long the vendor's plugin may take to announce a device.
    ``own_driver``: the DRA driver of the agent's own kubelet plugin, empty for none.
    """

    node: str
    lease_namespace: str = "composable-infra"
    plugin_namespaces: tuple[str, ...] = PLUGIN_NAMESPACES
    patience: Patience = PATIENCE
    announce_seconds: float = ANNOUNCE_SECONDS
    own_driver: str = ""


class NodeAgent:
    """The agent of one node. Call ``start`` once and ``stop`` once.

    The agent acts on the node only through ``operations``. ``lease_client``: renews the agent's Lease,
    by default ``client``. ``driver``: decides whether the agent's own driver offers the node's
    devices.
    """

    def __init__(self, client: Client, operations: NodeOperations, options: AgentOptions, metrics: AgentMetrics,
                 recorder: Recorder | None = None, lease_client: Client | None = None,
                 tracer: Tracer | None = None, driver: NodeDriver | None = None) -> None:
        self.options, self._operations, self._metrics, self._recorder = options, operations, metrics, recorder
        self.lane = Lane(options.node)
        self.state = NodeState(client, options.node, options.plugin_namespaces, self.lane)
        self.driver = driver or NodeDriver(options.node, options.own_driver)
        self.state.reflectors += self.driver.reflectors(client, self.state.changed)
        control = PluginControl(client, self.state, metrics)
        self._moments = DeviceMoments(operations, control)
        self.book = EvidenceBook(client, self.state, self.lane, self._moments, metrics, recorder, tracer or NoTracer())
        self.devices = DeviceWork(self.state, self.book, operations, ClaimCheck(client, self.state, options.own_driver),
                                  options.patience, self.lane, control)
        self.plugins = PluginWork(client, self.state, self.book, operations, self.devices, control, self._moments,
                                  options.announce_seconds)
        self.lease = AgentLease(lease_client or client, options.lease_namespace, options.node,
                                places=operations.places)
        self._ready = threading.Event()
        self._stopping = threading.Event()
        self._beginner = threading.Thread(target=self._begin, name=f"begin-{options.node}", daemon=True)

    def start(self) -> None:
        """Start the watches. The work begins when every list was read."""
        for reflector in self.state.reflectors:
            reflector.start()
        self._beginner.start()

    def stop(self) -> None:
        """Stop the work, write the evidence that is left, and release the Lease."""
        self._stopping.set()
        self._beginner.join(5.0)
        self.lane.stop()
        for reflector in self.state.reflectors:
            reflector.stop()
        self.book.write()
        if self._ready.is_set():
            self.lease.give_up()

    def ready(self) -> bool:
        """Return whether the agent works and its last renewal of the Lease succeeded."""
        return self._ready.is_set() and not self.lease.last_error

    def stuck(self) -> str:
        """Return why the agent is stuck, in a sentence. Empty while it works, and once it stops."""
        return "" if self._stopping.is_set() else self.lane.stuck()

    def problems(self) -> list[str]:
        """Return the current errors of the watches and of the Lease, each once."""
        said = (*(r.last_error for r in self.state.reflectors), self.lease.last_error)
        return list(dict.fromkeys(each for each in said if each))

    def devices_by_phase(self) -> dict[str, int]:
        """Return the number of devices by phase."""
        phases = [a.evidence.phase for a in self.devices.requests() if a.evidence]
        return {phase: phases.count(phase) for phase in phases}

    def hung_removals(self) -> int:
        """Return how many removals the kernel has not finished."""
        troubles = [a.evidence.trouble for a in self.devices.requests() if a.evidence]
        return sum(1 for trouble in troubles if trouble and trouble.reason == REMOVAL_HUNG)

    def report_withheld(self, uuid: str, address: str, message: str) -> None:
        """Record an Event on the ComposableResource of a device that is withheld, though no claim
        has it.

        ``uuid`` and ``address``: of the device. ``message``: of the Event.
        """
        for request in self.devices.requests():
            found, raw = request.evidence, self.state.resources.get(request.name)
            if found and raw and self._recorder and (found.uuid == uuid if found.uuid and uuid
                                                     else found.address == address):
                self._recorder.event(raw, DEVICE_WITHHELD, message, "Warning")

    def _begin(self) -> None:
        """Begin when every list was read, unless stopped before.

        With incomplete lists the agent would restart a plugin for devices that it shows already.
        """
        while not all(reflector.synced.wait(0.2) for reflector in self.state.reflectors):
            if self._stopping.is_set():
                return
        self._moments.find_leavers(self.state.announced())
        self._operations.tell_feature_discovery()
        self.lane.start(self.devices.work, {
            Duty.DEAD: self.devices.clear_dead, Duty.WRITE: self.book.write, Duty.PLUGIN: self.plugins.attend,
            Duty.LEASE: self.lease.renew, Duty.TICK: self._tick})
        self._ready.set()
        for duty in (Duty.LEASE, Duty.PLUGIN, Duty.TICK):
            self.lane.add(duty)

    def _tick(self) -> float:
        self.lane.relieve()
        reports = self._operations.kernel_reports()
        for report in reports:
            self._metrics.xid(report.xid)
        self.devices.look_after(reports)
        if self._operations.dead_device():
            self.lane.add(Duty.DEAD)
        self.lane.add(Duty.PLUGIN)
        return TICK_SECONDS
