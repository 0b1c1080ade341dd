# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet plugin of one node, with its sockets, and a thread that reads the bus, publishes, and
reports health.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import typing as t
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Forbidden, Invalid
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.device_users import DeviceName, user
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host
from ansible_collections.composable.infra.plugins.module_utils.node.vendors import VENDORS

from ..node_state import OwnPlugin
from .allocation import Place
from .cdi.container_edits import ContainerEdits
from .cdi.specs import SpecFolder
from .checkpoint import FILE, Checkpoint, PreparedClaim
from .claim_status import ClaimStatus
from .device_view import DeviceView, Kept
from .devices import DEFAULT_KINDS, NodeDevice
from .errors import Refused
from .health import DeviceHealth, HealthStream
from .keepers import Keepers
from .memory import MemoryGuard
from .preparation import OnNode, Preparation
from .publisher import Publisher
from .service import PluginService
from .shares import Share
from .wire.rpc import DRA, EARLIER_DRA, HEALTH, LATER_HEALTH, service
from .wire.sockets import Registration, Sockets, serving

ClaimName = tuple[str, str]
log = logging.getLogger("composable.infra")
# sysfs has no events. The plugin reads the bus at least this often, in seconds.
LOOK_SECONDS = 1.0
# Seconds that the removal of a device waits for a slice without the device.
WITHDRAW_SECONDS = 5.0
SWEEP_SECONDS = 60.0
_HEALTH_SERVICE = "DRAResourceHealth"
SERVICES = ("v1.DRAPlugin", "v1beta1.DRAPlugin", f"{HEALTH}.{_HEALTH_SERVICE}", f"{LATER_HEALTH}.{_HEALTH_SERVICE}")


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """Options of the plugin.

    ``driver``: name of the DRA driver. ``kinds``: rows of the table of vendors that it offers.
    ``kubelet``: the kubelet's folder. ``cdi``: the folder from which the container runtime reads
    specs. Both are paths as on the node. ``shares``: which devices several claims may share, and
    how. ``unsanitized``: see ``MemoryGuard``.
    """

    driver: str
    kinds: tuple[str, ...] = DEFAULT_KINDS
    kubelet: Path = Path("/var/lib/kubelet")
    cdi: Path = Path("/var/run/cdi")
    shares: tuple[Share, ...] = ()
    unsanitized: tuple[str, ...] = ()


def _no_claims(_but: Collection[ClaimName]) -> Iterable[Json]:
    """Return no claims, for a node without pods."""
    return ()


def _no_report(_uuid: str, _address: str, _message: str) -> None:
    """Do nothing, for an agent without a recorder."""


@dataclass(frozen=True, slots=True)
class Agent:
    """The parts of the node agent that the plugin uses.

    ``slices``: all ResourceSlices of the node. ``synced``: whether they were read. ``kept``: see
    ``DeviceView``. ``claims``: returns the claims of the node's pods, without those of the given
    namespaces and names. ``other_driver``: returns the driver that offers the node's devices
    instead of this one, empty for none. ``pods``: returns all pods of the node that the API server
    has. ``report``: called with UUID, address and sentence of a device that is withheld.
    """

    node: str
    host: Host
    slices: Store
    evidences: Callable[[], Iterable[Evidence]]
    synced: Callable[[], bool]
    kept: Callable[[], Kept] = dict
    claims: Callable[[Collection[ClaimName]], Iterable[Json]] = _no_claims
    other_driver: Callable[[], str] = str
    pods: Callable[[], Iterable[Json]] = tuple
    report: Callable[[str, str, str], None] = _no_report


class KubeletPlugin(OwnPlugin):
    """The plugin of one node. Call ``start`` once and ``stop`` once."""

    def __init__(self, client: Client, options: PluginOptions, agent: Agent) -> None:
        self.options, self._agent = options, agent
        place = Place(options.driver, agent.node)
        self._place, self._sockets = place, Sockets(options.kubelet, options.driver)
        self._view = DeviceView(options.driver, agent.host.root, options.kinds, agent.evidences, agent.slices.list,
                                agent.kept)
        self._edits = ContainerEdits(agent.host)
        checkpoint = Checkpoint(self._sockets.endpoint.parent / FILE)
        on_node = OnNode(self._view, self._edits, SpecFolder(options.cdi, options.driver), checkpoint,
                         Keepers(agent.host.root, agent.pods), MemoryGuard(agent.host.root, options.unsanitized))
        self._preparation = Preparation(place, client, on_node, self._prepared)
        self._publisher = Publisher(client, place, agent.slices, options.shares)
        self._status, self._health = ClaimStatus(client, options.driver), HealthStream()
        self._registered = threading.Event()
        self._unwritten: dict[str, PreparedClaim] = {}
        self._devices: tuple[NodeDevice, ...] | None = None
        self._left_out: dict[str, str] = {}
        self._problems: dict[str, str] = {}
        self._swept, self._begun = 0.0, False
        self._loose: set[str] = set()
        self._reported: set[str] = set()
        self._lock, self._due, self._stopping = threading.Lock(), threading.Event(), threading.Event()
        self._rounds_begun, self._rounds_ended, self._round = 0, 0, threading.Condition()
        self._serving = contextlib.ExitStack()
        self._thread = threading.Thread(target=self._run, name=f"kubelet-plugin-{agent.node}", daemon=True)

    def start(self) -> None:
        """Start the thread. It serves the kubelet when the agent has read its node."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and leave no socket behind.

        Claims stay prepared. The kubelet removes the slices after a while.
        """
        self._stopping.set()
        self._due.set()
        with self._round:
            self._round.notify_all()
        self._thread.join(5.0)
        self._health.close()
        self._serving.close()

    def poke(self) -> None:
        """Read the bus now, because something has changed."""
        self._due.set()

    def withdraw(self) -> None:
        """Return when the slices show the state after this call.

        Call it when a device has left the bus.

        Otherwise, if the device came back at once, the slices would show its old entry without a
        break.
        """
        with self._round:
            wanted = self._rounds_begun + 1
            self.poke()
            self._round.wait_for(lambda: self._rounds_ended >= wanted or self._stopping.is_set()
                                 or not self._registered.is_set(), WITHDRAW_SECONDS)

    def holder(self, uuid: str, address: str) -> str:
        """Return in a sentence which claim has the device prepared, empty for none."""
        return self._preparation.holder(uuid, address)

    def problems(self) -> list[str]:
        """Return the current problems, each as a sentence."""
        with self._lock:
            return list(self._problems.values())

    def status(self) -> dict[str, t.Any]:
        """Return for people the devices that are offered, left to other drivers, and prepared."""
        claims = {f"{c.namespace}/{c.name}": [d.device for d in c.devices] for c in self._preparation.claims()}
        return {"driver": self.options.driver, "registered": self._registered.is_set(), "prepared": claims,
                "devices": [device.name for device in self._devices or ()], "left_out": dict(self._left_out)}

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._due.wait(LOOK_SECONDS)
            self._due.clear()
            if self._stopping.is_set() or not self._agent.synced():
                continue
            with self._round:
                self._rounds_begun += 1
            for duty in (self._look, self._serve, self._sweep, self._publish, self._tell_health, self._write_status,
                         self._report_withheld):
                self._try(duty)
            with self._round:
                self._rounds_ended = self._rounds_begun
                self._round.notify_all()

    def _try(self, duty: Callable[[], None]) -> None:
        """Run a duty. If it fails, note the problem, so that other duties run.

        The next round tries it again.
        """
        try:
            duty()
            problem = ""
        except (Refused, ApiError, OSError, RuntimeError) as error:
            problem = str(error)
        except Exception as error:
            log.exception("%s of the DRA driver %s failed", duty.__name__, self.options.driver)
            problem = f"{type(error).__name__}: {error}"
        with self._lock:
            before = self._problems.pop(duty.__name__, "")
            if problem:
                self._problems[duty.__name__] = problem
        if problem and problem != before:
            log.warning("the DRA driver %s has a problem: %s", self.options.driver, problem)

    def _look(self) -> None:
        found = self._view.look()
        if self._devices is not None and found != self._devices:
            self._edits.forget()
        self._devices = found

    def _serve(self) -> None:
        """Serve the kubelet, also after the sockets were removed."""
        if self._begun and self._sockets.are_there():
            return
        self._begun = False
        self._serving.close()
        self._registered.clear()
        registration = Registration(self._sockets, SERVICES, self._on_registered, log.info)
        self._serving.enter_context(serving(self._sockets, self._handlers(), registration))
        self._begun = True

    def _handlers(self) -> list[grpc.GenericRpcHandler]:
        health = f"{HEALTH}.{_HEALTH_SERVICE}"
        methods = PluginService(self._preparation).methods()
        return [service(f"{DRA}.DRAPlugin", methods),
                service(f"{DRA}.DRAPlugin", methods, f"{EARLIER_DRA}.DRAPlugin"),
                service(health, self._health.methods()),
                service(health, self._health.methods(), f"{LATER_HEALTH}.{_HEALTH_SERVICE}")]

    def _on_registered(self) -> None:
        self._registered.set()
        self.poke()

    def _publish(self) -> None:
        """Publish the devices, but not before the kubelet has registered the plugin."""
        if self._registered.is_set() and self._devices is not None:
            shown = self._to_show(self._devices)
            if self._publisher.publish(shown):
                log.info("Published devices: %s", ", ".join(device.name for device in shown) or "none")

    def _to_show(self, devices: Sequence[NodeDevice]) -> list[NodeDevice]:
        """Return the devices for the slices.

        A device that a claim has prepared stays. A device that another driver shows, or that a
        claim has through the other driver, is left to that driver, and so are all devices if the
        node has another driver. A device of a claim that is over, which something may still use, is
        withheld.
        """
        prepared = {d.address for claim in self._preparation.claims() for d in claim.devices
                    if d.pool == self._place.pool}
        shown = self._publisher.shown()
        other = self._agent.other_driver()
        left = {d.name: driver for d in devices if d.address not in prepared
                and (driver := other or self._view.shown_by(d) or (d.name not in shown and self._held_by(d)))}
        if left != self._left_out:
            for name, driver in left.items():
                log.warning("the device %s is left to the driver %s: %s", name, driver,
                            "the node's label selects that driver" if other else
                            "its ResourceSlice shows the device, or a claim has the device")
            self._left_out = left
        withheld = {d.address for claim, _reason in self._preparation.withheld() for d in claim.devices if not d.admin}
        return [device for device in devices if device.name not in left and device.address not in withheld and (
            device.address in prepared or not self._view.reason_to_hide(device, shown))]

    def _held_by(self, device: NodeDevice) -> str:
        """Return the vendor's driver through which a claim may have the device, though no slice
        shows it.

        Empty for none. This happens when the vendor's plugin was removed from the node, because its
        claims stay. Raises ApiError.
        """
        driver = next(vendor.dra_driver for vendor in VENDORS if vendor.name == device.kind)
        if driver in ("", self.options.driver):
            return ""
        theirs = self._agent.claims({(c.namespace, c.name) for c in self._preparation.claims()})
        name = DeviceName(device.uuid, device.address)
        return driver if user(theirs, self._agent.slices.list(), self._place.node, name, {driver}) else ""

    def _tell_health(self) -> None:
        known = {device.name: device for device in self._devices or ()}
        pairs = {(self._place.pool, name): (device.address, device.uuid) for name, device in known.items()}
        for claim in self._preparation.claims():
            pairs |= {(d.pool, d.device): (d.address, d.uuid) for d in claim.devices}
        self._health.tell([DeviceHealth(*key, self._view.illness(*pair)) for key, pair in sorted(pairs.items())])

    def _prepared(self, claim: PreparedClaim) -> None:
        with self._lock:
            self._unwritten[claim.uid] = claim
        self.poke()

    def _write_status(self) -> None:
        with self._lock:
            todo = list(self._unwritten.values())
        for claim in todo:
            try:
                self._status.write(claim)
            except (Forbidden, Invalid) as error:
                log.warning("cannot write the status of claim %s/%s: %s", claim.namespace, claim.name, error)
            with self._lock:
                if self._unwritten.get(claim.uid) is claim:
                    del self._unwritten[claim.uid]

    def _sweep(self) -> None:
        """Sweep once a minute, and at once when no pod names a prepared claim any more."""
        named = {(pod["metadata"].get("namespace"), name) for pod in self._agent.pods()
                 for name in pods.claim_names(pod).values()}
        loose = {c.uid for c in self._preparation.claims() if (c.namespace, c.name) not in named}
        if time.monotonic() - self._swept >= SWEEP_SECONDS or not self._swept or loose - self._loose:
            self._preparation.sweep()
            self._swept, self._loose = time.monotonic(), loose

    def _report_withheld(self) -> None:
        """Report each claim once that is over while something may use its devices.

        Raises Refused while there is such a claim.
        """
        found = self._preparation.withheld()
        said = {claim.uid: f"the claim {claim.namespace}/{claim.name} has ended, but the kubelet has not unprepared "
                           f"it. No other claim gets its devices, because {reason}" for claim, reason in found}
        for claim, _reason in found:
            for device in claim.devices if claim.uid not in self._reported else ():
                self._agent.report(device.uuid, device.address, said[claim.uid])
        self._reported = set(said)
        if said:
            raise Refused("; ".join(said.values()))
