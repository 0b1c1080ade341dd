# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent of one node, with its watches, its bus worker, and a thread for all other duties."""

from __future__ import annotations

import enum
import logging
import threading
import time
import typing as t
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.event_recorder import Recorder
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    ANNOUNCED,
    BOUND,
    ON_BUS,
    PREPARING,
    READY,
    REMOVAL_HUNG,
    REMOVED,
    TOUCHED,
    WITHDRAWN,
    Evidence,
)
from ansible_collections.composable.infra.plugins.module_utils.runtime.progress import Progress
from ansible_collections.composable.infra.plugins.module_utils.runtime.tracing import NoTracer, Tracer
from ansible_collections.composable.infra.plugins.module_utils.runtime.work_queue import WorkQueue

from . import device_request
from .agent_lease import AgentLease
from .bus_lane import BusLane
from .claim_check import ClaimCheck
from .device_request import DeviceRequest
from .device_work import DeviceWork, Patience
from .evidence_book import EvidenceBook
from .metrics import AgentMetrics, new_steps
from .node_operations import NodeOperations
from .node_state import NodeDriver, NodeState
from .vendor_plugin.plugin_control import PluginControl
from .vendor_plugin.plugin_work import ANNOUNCE_SECONDS, PluginWork

Json = dict[str, t.Any]
log = logging.getLogger("composable.infra")
TICK_SECONDS = 5.0
RETRY_SECONDS = 1.0
# A write of these steps alone waits, so that the next phase is written with them. A crash may lose them, because the
# next process sees them again, on the bus and in the slices.
PATIENT_STEPS = frozenset({ON_BUS, BOUND, TOUCHED, ANNOUNCED, WITHDRAWN})
STEP_SECONDS = 2.0
# The queue item of the bus worker that stands for dead devices instead of a ComposableResource.
DEAD = "dead devices"
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


class _Duty(enum.Enum):
    """A duty of the attendant thread."""

    WRITE = "write"
    PLUGIN = "plugin"
    LEASE = "lease"
    TICK = "tick"


class NodeAgent:
    """The agent of one node. Call ``start`` once and ``stop`` once.

    The agent acts on the node only through ``operations``. ``lease_client``: renews the agent's Lease,
    by default ``client``. ``driver``: decides whether the agent's own driver offers the node's
    devices.

    Two callbacks may be set before the start. ``on_change`` is called when the node, or its
    evidence, has changed. ``on_removed`` is called when a device is off the bus. The agent notes
    the removal only after it returns.
    """

    def __init__(self, client: Client, operations: NodeOperations, options: AgentOptions, metrics: AgentMetrics,
                 recorder: Recorder | None = None, lease_client: Client | None = None,
                 tracer: Tracer | None = None, driver: NodeDriver | None = None) -> None:
        self.options, self._operations, self._metrics, self._recorder = options, operations, metrics, recorder
        self._tracer = tracer or NoTracer()
        self._duties: WorkQueue[_Duty] = WorkQueue()
        self.state = NodeState(client, options.node, options.plugin_namespaces, self._resource_changed,
                               self._other_changed)
        self.driver = driver or NodeDriver(options.node, options.own_driver)
        self.state.reflectors += self.driver.reflectors(client, self._other_changed)
        self.book = EvidenceBook(client, self.state.resources, self._noted)
        self.lane = BusLane(options.node, self._work)
        self.check = ClaimCheck(client, self.state, options.own_driver)
        control = PluginControl(client, self.state, metrics.restarts.inc)
        self.devices = DeviceWork(self.state, self.book, operations, self.check, options.patience,
                                  lambda: self._duties.add(_Duty.PLUGIN), self.lane.queue.add,
                                  self._device_removed, control)
        self.plugins = PluginWork(client, self.state, self.book, operations, self.devices, control,
                                  options.announce_seconds)
        self.lease = AgentLease(lease_client or client, options.lease_namespace, options.node,
                                places=operations.places)
        self.on_change: Callable[[], None] = _nobody
        self.on_removed: Callable[[], None] = _nobody
        self.progress = Progress()
        self._ready = threading.Event()
        self._stopping = threading.Event()
        self._attendant = threading.Thread(target=self._attend, name=f"agent-{options.node}", daemon=True)

    def start(self) -> None:
        """Start the watches. The work begins when every list was read."""
        for reflector in self.state.reflectors:
            reflector.start()
        self._attendant.start()

    def stop(self) -> None:
        """Stop the work, write the evidence that is left, and release the Lease."""
        self._stopping.set()
        self._duties.close()
        self.lane.stop()
        self._attendant.join(5.0)
        for reflector in self.state.reflectors:
            reflector.stop()
        self.book.write()
        if self._ready.is_set():
            self.lease.give_up()

    def ready(self) -> bool:
        """Return whether the agent works and its last renewal of the Lease succeeded."""
        return self._ready.is_set() and not self.lease.last_error

    def stuck(self) -> str:
        """Return why the attendant is stuck, in a sentence. Empty while it works.

        Work on the bus has deadlines of its own.
        """
        return "" if self._stopping.is_set() else self.progress.stuck()

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

    def _attend(self) -> None:
        if not self._all_read():
            return
        self.plugins.find_leavers()
        self._operations.tell_feature_discovery()
        self.lane.start()
        self._ready.set()
        for duty in (_Duty.LEASE, _Duty.PLUGIN, _Duty.TICK):
            self._duties.add(duty)
        with self.progress.worker():
            while (now_due := self._duties.get()) is not None:
                try:
                    with self.progress.at(now_due.value):
                        self._do(now_due)
                except Exception:
                    log.exception("the task %s failed on node %s. The agent tries again in %g s", now_due.value,
                                  self.options.node, RETRY_SECONDS)
                    self._duties.add_at(now_due, time.time() + RETRY_SECONDS)
                self._duties.done(now_due)

    def _all_read(self) -> bool:
        """Wait until every list was read. Return False if stopped before.

        With incomplete lists the agent would restart a plugin for devices that it shows already.
        """
        return all(self._wait_for(reflector.synced) for reflector in self.state.reflectors)

    def _wait_for(self, synced: threading.Event) -> bool:
        while not synced.wait(0.2):
            if self._stopping.is_set():
                return False
        return True

    def _do(self, duty: _Duty) -> None:
        if duty == _Duty.WRITE:
            if not self.book.write():
                self._duties.add_at(duty, time.time() + RETRY_SECONDS)
        elif duty == _Duty.PLUGIN:
            if (due := self.plugins.attend()) is not None:
                self._duties.add_after(duty, due - time.monotonic())
        elif duty == _Duty.LEASE:
            self._duties.add_at(duty, time.time() + self.lease.renew())
        else:
            self._tick()
            self._duties.add_at(duty, time.time() + TICK_SECONDS)

    def _tick(self) -> None:
        if self.lane.relieve():
            log.warning("the bus of node %s does not answer. The agent works on other devices meanwhile",
                        self.options.node)
        reports = self._operations.kernel_reports()
        for report in reports:
            self._metrics.xid(report.xid)
        self.devices.look_after(reports)
        if self._operations.dead_device():
            self.lane.queue.add(DEAD)
        self._duties.add(_Duty.PLUGIN)

    def _work(self, name: str) -> float | None:
        if name != DEAD:
            return self.devices.work(name)
        self.devices.clear_dead()
        return None

    def _resource_changed(self, obj: Json, gone: bool) -> None:
        uid = str(obj["metadata"].get("uid"))
        if gone:
            self.devices.forget(uid)
            self.plugins.forget(uid)
        elif self.devices.is_new(device_request.read(obj)):
            self.plugins.arrived()
        self.lane.queue.add(obj["metadata"]["name"])
        self._duties.add(_Duty.PLUGIN)

    def _device_removed(self) -> None:
        self.on_removed()

    def _other_changed(self) -> None:
        self._duties.add(_Duty.PLUGIN)
        self.on_change()

    def _noted(self, request: DeviceRequest, before: Evidence | None, now: Evidence) -> None:
        if _may_wait(before, now):
            self._duties.add_after(_Duty.WRITE, STEP_SECONDS)
        else:
            self._duties.add(_Duty.WRITE)
        self._metrics.evidence(before, now, asked := self.devices.asked_at(request.uid))
        if self._tracer.enabled:
            self._trace(request, new_steps(before, now, asked), now)
        self.plugins.stepped(request, before, now)
        self.on_change()
        self._tell(request, before, now)

    def _trace(self, request: DeviceRequest, steps: Iterable[tuple[str, float, float]], now: Evidence) -> None:
        """Trace the steps of the way up as spans of the claim that the device is for."""
        if request.claim is None or now.phase not in (PREPARING, READY):
            return
        for step, began, ended in steps:
            self._tracer.span(request.claim.uid, f"node {step}", began or ended, ended,
                              {"node": self.options.node, "resource": request.name, "address": now.address})

    def _tell(self, request: DeviceRequest, before: Evidence | None, now: Evidence) -> None:
        """Record an Event on the ComposableResource when its device is ready, off the bus, or has a
        new problem.
        """
        told: list[tuple[str, str, str]] = []
        phase = before.phase if before else ""
        if now.phase == READY and phase != READY:
            told.append(("DeviceReady", f"{now.address} is ready on node {self.options.node}", "Normal"))
        if now.phase == REMOVED and phase != REMOVED:
            told.append(("DeviceRemoved", f"the device was removed from the bus of node {self.options.node}", "Normal"))
        if now.trouble and now.trouble != (before.trouble if before else None):
            told.append((now.trouble.reason, now.trouble.message, "Warning"))
        raw = self.state.resources.get(request.name)
        for reason, message, kind in told:
            log.log(logging.WARNING if kind == "Warning" else logging.INFO, "%s %s: %s", reason, request.name, message,
                    extra={"reason": reason, "about": request.name, **request.logged})
            if self._recorder is not None and raw is not None:
                self._recorder.event(raw, reason, message, kind)


def _may_wait(before: Evidence | None, now: Evidence) -> bool:
    """Return whether the phase is the same and only steps of PATIENT_STEPS came on top.

    A step that is taken back is written at once, and so are a problem and its end.
    """
    known = before or Evidence(PREPARING, now.device)
    if now.trouble or known.trouble or (now.phase, now.release) != (known.phase, known.release):
        return False
    had, has = {each.step for each in known.steps}, {each.step for each in now.steps}
    return had <= has <= had | PATIENT_STEPS


def _nobody() -> None:
    """Do nothing."""
