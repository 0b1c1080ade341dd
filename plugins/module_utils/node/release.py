# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Release one device from its last use on the node until it is off the bus. Undo all on a problem.

A removal that begins while a process has the device open may never end (NVIDIA's open modules 595
to 610). So prove that the device is idle, and prove it again when no new user can come. Standard
library only, Python 3.8, because the file runs on nodes.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Collection
from dataclasses import replace

from . import bus, pci, sanitize
from .drain import drain, unbind, undrain
from .evidence import (
    BOUND,
    CLAIM_IN_USE,
    COMMAND_FAILED,
    DRAINED,
    IDLE,
    NOT_PROVEN,
    OPEN_ON_NODE,
    PREPARING,
    READY,
    RELEASING,
    REMOVAL_HUNG,
    REMOVED,
    REMOVED_FROM_BUS,
    SANITIZE_STARTED,
    SANITIZED,
    SANITIZING,
    TOUCHED,
    Evidence,
    NodeTrouble,
    Progress,
)
from .holders import Holders
from .host import Host, Undo
from .options import Options
from .probe import NotProven
from .removal import hung, removal_command, remove, still_under_way, unload_last
from .vendors import OFFLINE, may_be, vendor_of


class NotRestarted(Exception):
    """The vendor's plugin must not be restarted. The message says why."""


class VendorPlugin(t.Protocol):
    """The vendor's DRA plugin on this node. With some feature gates it keeps every device open.

    Source: NVIDIA's DRA driver 0.4.1, `device_health.go` and `nvlib.go` (NVMLDeviceHealthCheck,
    DynamicMIG).
    """

    def pods(self) -> Collection[str]:
        """Return the UIDs of its pods on this node."""

    def restart(self) -> None:
        """Restart the plugin. It then opens every device except drained devices.

        Raise NotRestarted if it must keep running, and any exception if it cannot be reached.
        """


def release(host: Host, device: Evidence, options: Options, note: Callable[[Evidence], None],
            still_free: Callable[[], str], known: Collection[str] = (),
            plugin: VendorPlugin | None = None) -> Evidence:
    """Remove an idle device from the node's bus.

    ``device`` is the evidence so far, with the device's UUID and address. ``note`` receives the
    evidence after every step. When no new user can come, ``still_free`` returns the claim that uses
    the device, or empty. ``known`` are addresses and UUIDs of devices that are certainly others.
    ``options.force`` removes the device in any case. ``plugin`` is restarted once the device is
    drained, if only the plugin has it open. It is None if the plugin cannot be restarted.

    Return the evidence in the phase Removed. Raise NodeTrouble after its evidence was noted. After
    ClaimInUse, OpenOnNode, NotProven and CommandFailed all is undone and the device is usable.
    After RemovalHung the removal is still in flight. After Sanitizing the kernel is sanitizing CXL
    memory. Any other exception is raised after all was undone. A caller may call again after any of
    them.
    """
    progress = Progress(replace(device, by=options.by), options, note)
    try:
        found = _find(host, device, known)
    except NodeTrouble as trouble:
        progress.trouble(trouble)
        raise
    if found is None:
        _gone(progress)
    else:
        _Release(host, found, options, progress, still_free, plugin).run()
    return progress.evidence


def take_back(host: Host, device: Evidence, options: Options, note: Callable[[Evidence], None]) -> Evidence:
    """Make a device usable again after an earlier run began a release that is no longer requested.

    Return the evidence, in the phase Ready after a first use and else Preparing, or Removed if the
    device is off the bus. Raise NodeTrouble after it was noted.
    """
    progress = Progress(replace(device, by=options.by), options, note)
    try:
        found = _find(host, device, ())
        if found is not None:
            _Release(host, found, options, progress, lambda: "").take_back()
            return progress.evidence
    except NodeTrouble as trouble:
        progress.trouble(trouble)
        raise
    _gone(progress)
    return progress.evidence


def _find(host: Host, device: Evidence, known: Collection[str]) -> pci.PciDevice | None:
    """Return the device on the bus, or None if it is certainly not there.

    A UUID decides first. The evidence of a lost device keeps its address, and the fabric may put
    another device there. Raise NodeTrouble(NotProven).
    """
    try:
        there = [d for d in pci.devices(host.root) if may_be(device.uuid, d.vendor, d.pci_class)]
    except NotProven as error:
        raise NodeTrouble(NOT_PROVEN, f"cannot find out whether the device is on the bus: {error}") from None
    by_uuid = next((d for d in there if device.uuid and d.uuid == device.uuid), None)
    if by_uuid:
        if device.uuid in known:
            raise _shared("UUID", device.uuid)
        return by_uuid
    unnamed = [d for d in there if not (d.uuid and (device.uuid or d.uuid in known))]
    by_address = next((d for d in unnamed if d.address == device.address), None)
    if by_address and device.address in known:
        raise _shared("address", device.address)
    unnamed = [d for d in unnamed if d.address not in known]
    if by_address or not unnamed:
        return by_address
    raise NodeTrouble(NOT_PROVEN, "cannot find out which device of the node it is. It may be "
                                  f"{' or '.join(d.address for d in unnamed)}, which has no UUID. Bind its driver")


def _shared(what: str, value: str) -> NodeTrouble:
    return NodeTrouble(NOT_PROVEN, f"{value} is also the {what} of another device. Compare the node's devices with "
                                   "those that the CDI Manager and the ComposableResources name")


def _gone(progress: Progress) -> None:
    """Record that the device is off the bus. Without an address, it was never on it."""
    progress.evidence = progress.evidence.with_phase(RELEASING)
    if progress.evidence.address:
        progress.step(REMOVED_FROM_BUS, phase=REMOVED, trouble=None)
    else:
        progress.become(progress.evidence.with_phase(REMOVED).without_trouble())


class _Release:
    """The work on one device on the bus."""

    def __init__(self, host: Host, device: pci.PciDevice, options: Options, progress: Progress,
                 still_free: Callable[[], str], plugin: VendorPlugin | None = None) -> None:
        self.host, self.device, self.options = host, device, options
        self.progress, self.still_free, self.plugin = progress, still_free, plugin
        self.is_plugin_restarted = False
        self.vendor = vendor_of(device.vendor, device.pci_class)
        self.holders = Holders(host, device, self.vendor, options)
        self.services, self.undo = Undo(), Undo()
        # No new user can come after a drain, or if the device has no driver.
        self.closed = device.driver is None
        # Without its own driver, the vendor's tools do not know the device. If it does not answer,
        # they hang.
        self.by_tools = device.driver == self.vendor.driver and not pci.is_lost(host.root, device.address)
        self.command = removal_command(self.vendor, device.address) if self.by_tools else []

    def run(self) -> None:
        before = self.progress.evidence
        if self._removal_runs():
            _gone(self.progress)
            return
        self.progress.become(replace(before.with_phase(RELEASING), address=self.device.address,
                                     uuid=self.device.uuid or before.uuid))
        try:
            self._close()
            remove(self.host, self.device, self.command, self.options)
        except NodeTrouble as trouble:
            if self._is_there():
                self._give_up(trouble)
                raise
        except BaseException as error:
            self._give_up(_as_trouble(error))
            raise
        self.services.all()
        _gone(self.progress)

    def take_back(self) -> None:
        """Make the device usable again after any steps."""
        if self._removal_runs():
            _gone(self.progress)
            return
        self._undo_earlier()
        said = self.undo.all()
        if said:
            raise NodeTrouble(COMMAND_FAILED, "; ".join(said))
        self.progress.become(self.progress.evidence.with_phase(_usable(self.progress.evidence)).without_trouble())

    def _removal_runs(self) -> bool:
        """Return whether an earlier run's removal has just ended. Raise RemovalHung if not."""
        running = still_under_way(self.host, self.device.address, self.command)
        if not running:
            return False
        if bus.until(lambda: not self._is_there(), self.options.event_patience):
            return True
        trouble = hung(self.device.address, f"begun earlier, process {', '.join(running)}")
        self.progress.become(self.progress.evidence.with_phase(RELEASING))
        self.progress.trouble(trouble)
        raise trouble

    def _is_there(self) -> bool:
        return (self.host.root / "sys/bus/pci/devices" / self.device.address).exists()

    def _undo_earlier(self) -> None:
        """Undo the drain or unbind of an earlier run that was interrupted."""
        if self.by_tools and self.vendor.undrain:
            self.undo.later(lambda: undrain(self.host, self.device, self.vendor, self.options))
        if self.device.driver is None and self.progress.evidence.has_ever(BOUND):
            self.undo.later(lambda: bus.bind(self.host.root, self.device.address, self.vendor.driver,
                                             self.options.patience))

    def _close(self) -> None:
        """Prove that no process or claim uses the device and that no new user can come."""
        if self.progress.evidence.has(IDLE):
            self._undo_earlier()
        if self.by_tools:
            self._unless_forced(lambda: self.holders.pause(self.undo))
            self._unless_forced(lambda: self.holders.stop_services(self.services))
        held = self._prove_before_the_drain()
        if self.by_tools and self.vendor.drain:
            self._unless_forced(self._drain)
        self._unless_forced(self._ask_claims)
        plugin = self.plugin
        if held and self.closed and plugin is not None:
            self._unless_forced(lambda: self._restart(plugin))
        self._prove()
        if self.by_tools and sanitize.offered(self.host.root, self.device.address):
            self._unless_forced(self._sanitize)
        if not self.vendor.drain:
            self._unless_forced(self._unbind)
        if self.closed:
            self.progress.step(DRAINED)
        if self.by_tools and self.vendor.last_unloads:
            self._unless_forced(self._unload)

    def _prove_before_the_drain(self) -> bool:
        """Return whether the proof must wait until the vendor's plugin is restarted."""
        if self._is_held_by_plugin():
            self.undo.later(self._show_to_plugin)
            return True
        if self.vendor.idle_by != OFFLINE:
            self._prove()
        return False

    def _is_held_by_plugin(self) -> bool:
        """Return whether only the vendor's plugin has the device open, and a tool can drain it."""
        return (self.plugin is not None and self.by_tools and bool(self.vendor.drain)
                and self.holders.is_open_by_pods_alone(self.plugin.pods()))

    def _restart(self, plugin: VendorPlugin) -> None:
        self.is_plugin_restarted = True
        try:
            plugin.restart()
        except NotRestarted as error:
            self.is_plugin_restarted = False
            raise NodeTrouble(OPEN_ON_NODE, f"the vendor's plugin has {self.device.address} open: {error}") from error
        bus.until(lambda: not self.holders.is_open(), self.options.patience)

    def _show_to_plugin(self) -> None:
        """Restart the plugin as an undo, because it did not see the drained device."""
        if self.plugin is None or not self.is_plugin_restarted:
            return
        try:
            self.plugin.restart()
        except NotRestarted as error:
            said = f"the vendor's plugin does not see {self.device.address}: {error}"
            raise NodeTrouble(OPEN_ON_NODE, said) from error

    def _unless_forced(self, step: Callable[[], None]) -> None:
        try:
            step()
        except NodeTrouble:
            if not self.options.force:
                raise

    def _prove(self) -> None:
        def prove() -> None:
            self.holders.prove_idle()
            self.progress.step(IDLE)

        self._unless_forced(prove)

    def _drain(self) -> None:
        self.closed = drain(self.host, self.device, self.vendor, self.options, self.undo)
        if not self.closed:
            self.command = []

    def _sanitize(self) -> None:
        """Sanitize the memory. Enable its driver only for the request, as the kernel needs it."""
        root, address = self.host.root, self.device.address
        sanitize.await_end(root, address, self.options.event_patience)
        if not self.progress.evidence.has(SANITIZE_STARTED):
            undrain(self.host, self.device, self.vendor, self.options)
            sanitize.start(root, address, self.options.patience)
            self.progress.step(SANITIZE_STARTED)
            self._drain()
            sanitize.await_end(root, address, self.options.event_patience)
        self.progress.step(SANITIZED)

    def _unbind(self) -> None:
        unbind(self.host, self.device, self.options, self.undo)
        self.closed = True

    def _ask_claims(self) -> None:
        used = self.still_free()
        if used:
            raise NodeTrouble(CLAIM_IN_USE, used)

    def _unload(self) -> None:
        if unload_last(self.host, self.device, self.vendor, self.options, self.undo):
            self.command = []

    def _give_up(self, trouble: NodeTrouble) -> None:
        """Undo all steps, unless an operation is in flight that cannot be undone."""
        lasts = trouble.reason in (REMOVAL_HUNG, SANITIZING)
        if lasts or still_under_way(self.host, self.device.address, self.command):
            self.services.all()
            self.progress.trouble(trouble)
            return
        said = [trouble.message, *self.undo.all(), *self.services.all()]
        trouble.message = ". Taking it back failed: ".join(said)
        evidence = self.progress.evidence
        back = evidence.with_phase(_usable(evidence))
        self.progress.become(back.with_trouble(trouble.reason, trouble.message, self.options.clock()))


def _as_trouble(error: BaseException) -> NodeTrouble:
    """Convert any other error, such as of the API server or a stop from outside."""
    reason = NOT_PROVEN if isinstance(error, NotProven) else COMMAND_FAILED
    return NodeTrouble(reason, f"the release ended with an error: {type(error).__name__}: {error}")


def _usable(evidence: Evidence) -> str:
    """Return the phase of a device after its release was undone."""
    return READY if evidence.has_ever(TOUCHED) else PREPARING
