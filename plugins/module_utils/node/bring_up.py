# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring up one device on the node, from its attach to its first use. Steps may be repeated.

Standard library only, Python 3.8, because the file runs on nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from . import bus, pci, sanitize
from .evidence import (
    BOUND,
    DRIVER_FAILED,
    DRIVER_NOT_BOUND,
    LINK_DEGRADED,
    LOST_ON_BUS,
    NO_ROOM_FOR_BARS,
    NOT_ON_BUS,
    NOT_PROVEN,
    NOT_SANITIZABLE,
    ON_BUS,
    PREPARING,
    READY,
    TOUCHED,
    Evidence,
    Link,
    NodeTrouble,
    Progress,
)
from .host import Host
from .kernel_log import LOST_XID, NO_SPACE, PROBE_FAILED, KernelLog, faults
from .options import Options
from .probe import NotProven
from .search import Search, Wanted
from .vendors import CXL_MEMORY, Vendor, vendor_of


def bring_up(host: Host, wanted: Wanted, options: Options, note: Callable[[Evidence], None]) -> Evidence:
    """Find the device on the bus, bind its driver, and use it once.

    ``note`` receives the evidence after every step. Return the evidence with the steps OnBus, Bound
    and Touched. Its phase is Ready if no plugin of the vendor must look again. If a device was not
    used since the boot, begin with new steps, whatever its evidence says. Raise NodeTrouble after
    its evidence was noted: NotOnBus, NoRoomForBars, DriverNotBound, DriverFailed, LostOnBus,
    NotProven, CommandFailed.
    """
    before = wanted.before
    if before is None or before.device != wanted.device or before.phase not in (PREPARING, READY):
        before = Evidence(PREPARING, wanted.device)
    progress = Progress(replace(before, by=options.by), options, note)
    try:
        with KernelLog(host.root) as log:
            return _BringUp(host, wanted, options, progress, log).run()
    except NotProven as error:
        unread = NodeTrouble(NOT_PROVEN, f"{error}. Make the bus of the node readable")
        progress.trouble(unread)
        raise unread from None
    except NodeTrouble as trouble:
        progress.trouble(trouble)
        raise


def was_used(root: Path, device: pci.PciDevice) -> bool:
    """Return whether the device was used since the last boot, with its driver and its files.

    Return True if its vendor needs no first use.
    """
    vendor = vendor_of(device.vendor, device.pci_class)
    return not vendor.touch or (device.driver == vendor.driver and pci.has_files(root, device))


class _BringUp:
    """The work on one device."""

    def __init__(self, host: Host, wanted: Wanted, options: Options, progress: Progress, log: KernelLog) -> None:
        self.host, self.wanted, self.options, self.progress, self.log = host, wanted, options, progress, log
        self.lines: list[str] = []

    def run(self) -> Evidence:
        start, failed = self.progress.evidence, None
        seen = start
        search = Search(self.host.root, self.wanted, self.options, start.address)
        for device in search.candidates():
            try:
                uuid = self._prepare(device)
                if not self.wanted.uuid or uuid in ("", self.wanted.uuid):
                    return self._done(device)
            except NodeTrouble as trouble:
                if not self._may_be_another(device):
                    raise
                failed, seen = trouble, self.progress.evidence
            search.pass_over(device.address, failed is not None)
            self.progress.become(start)
        self.progress.become(seen)
        raise failed or NodeTrouble(NOT_ON_BUS, search.not_found())

    def _may_be_another(self, device: pci.PciDevice) -> bool:
        """Return whether the device's UUID may still turn out to be another one."""
        found = pci.find(self.host.root, device.address)
        return bool(self.wanted.uuid) and (found is None or found.uuid != self.wanted.uuid)

    def _prepare(self, device: pci.PciDevice) -> str:
        """Do all steps for one device. Return its UUID, or empty if its vendor has none."""
        vendor = vendor_of(device.vendor, device.pci_class)
        link = pci.link(self.host.root, device.address)
        if self.progress.evidence.has(TOUCHED) and not was_used(self.host.root, device):
            # The node was booted since. A plugin that looked before this use knows no file of the
            # device.
            self.progress.become(replace(self.progress.evidence, phase=PREPARING, steps=()))
        self.progress.step(ON_BUS, address=device.address, numa_node=device.numa_node, link=link,
                           uuid=device.uuid or self.progress.evidence.uuid)
        self._check_windows(device)
        if link and _narrow(link):
            self.progress.trouble(NodeTrouble(LINK_DEGRADED, f"the link of {device.address} has {link.width} lanes of "
                                                             f"{link.max_width}. Reseat the device or its cable"))
        self._bind(device, vendor)
        self.progress.step(BOUND)
        uuid = self._touch(device, vendor)
        self.progress.step(TOUCHED, uuid=uuid)
        return uuid

    def _check_windows(self, device: pci.PciDevice) -> None:
        without = pci.bars_without_room(self.host.root, device.address)
        if without:
            with KernelLog(self.host.root, whole=True) as log:
                told = [f.line for f in faults(log.new_lines(), device.address) if f.kind == NO_SPACE]
            raise NodeTrouble(NO_ROOM_FOR_BARS, f"{device.address} got no address for its memory windows (BAR "
                              f"{', '.join(map(str, without))}){_said(told)}. Set the kernel parameters that reserve "
                              "room behind the fabric's ports and reboot the node")

    def _bind(self, device: pci.PciDevice, vendor: Vendor) -> None:
        driver = self.options.driver or vendor.driver
        if device.driver and (not driver or device.driver == driver):
            return
        if device.driver:
            raise NodeTrouble(DRIVER_NOT_BOUND, f"{device.address} is bound to {device.driver} and not to {driver}. "
                                                f"Prevent {device.driver} from loading on the node")
        self._load(driver, vendor)
        try:
            if bus.bind(self.host.root, device.address, driver, self.options.patience):
                return
            said = "the kernel did not bind it"
        except bus.NotDone as error:
            said = str(error)
        self._fail(device, said, DRIVER_NOT_BOUND, f"bind driver {driver or '(any)'}")

    def _load(self, driver: str, vendor: Vendor) -> None:
        """Load the vendor's modules if any is missing.

        A node without a list of modules has them built in.
        """
        modules = self.host.root / "sys/module"
        there = modules.is_dir() and all((modules / m).exists() for m in vendor.modules)
        drivers = self.host.root / "sys/bus/pci/drivers"
        if vendor.modules and driver == vendor.driver and not there and (
                modules.is_dir() or not (drivers / driver).exists()):
            self.host.must(["modprobe", "-a", *vendor.modules], self.options.patience)

    def _touch(self, device: pci.PciDevice, vendor: Vendor) -> str:
        """Use the device for the first time. Return its UUID."""
        found = pci.find(self.host.root, device.address)
        if not vendor.touch or (found and found.driver != vendor.driver):
            return (found.uuid if found else device.uuid) or ""
        done = self.host.run(vendor.touch, self.options.patience)
        listed = _listed(done.out, device.address)
        # Ignore the exit code, which may be about another device.
        if not listed or self._fault(device):
            self._fail(device, done.said, DRIVER_FAILED, f"{vendor.touch[0]} does not show it in order")
        return listed

    def _fault(self, device: pci.PciDevice) -> str:
        """Return the kernel's message against the device since the work began, or empty.

        Other functions judge windows and drivers. A device that answers is not lost, whatever the
        log says.
        """
        self._read_log()
        told = [f for f in faults(self.lines, device.address) if f.kind not in (NO_SPACE, PROBE_FAILED)
                and (f.xid != LOST_XID or pci.is_lost(self.host.root, device.address))]
        return told[-1].line if told else ""

    def _probe_failure(self, device: pci.PciDevice) -> str:
        """Return the kernel's message about a failed probe. A later attempt may have succeeded."""
        told = [f.line for f in faults(self.lines, device.address) if f.kind == PROBE_FAILED]
        return told[-1] if told else ""

    def _fail(self, device: pci.PciDevice, said: str, reason: str, step: str) -> None:
        fault = self._fault(device)
        if pci.find(self.host.root, device.address) is None or pci.is_lost(self.host.root, device.address):
            raise NodeTrouble(LOST_ON_BUS, f"{device.address} has fallen off the bus{_said([fault] if fault else [])}. "
                                           "Check the fabric, detach the device with force and attach it again")
        said = fault or self._probe_failure(device) or said
        raise NodeTrouble(reason, f"{device.address}: {step}: {said}. See the node's kernel log")

    def _read_log(self) -> None:
        self.lines += self.log.new_lines()

    def _done(self, device: pci.PciDevice) -> Evidence:
        done = self.progress.evidence
        if not _narrow(done.link):
            done = done.without_trouble()
        is_memory = vendor_of(device.vendor, device.pci_class) is CXL_MEMORY
        if is_memory and not sanitize.offered(self.host.root, device.address):
            done = done.with_trouble(NOT_SANITIZABLE, sanitize.not_offered(device.address), self.options.clock())
        if not vendor_of(device.vendor, device.pci_class).plugin_selectors:
            done = done.with_phase(READY)
        self.progress.become(done)
        return done


def _listed(text: str, address: str) -> str:
    """Return the UUID in the line of this address, or empty.

    The line is ``<uuid>, <address>``, with 8 digits for the domain.
    """
    for line in text.splitlines():
        uuid, _comma, where = (part.strip() for part in line.partition(","))
        if where.lower().endswith(address.lower()) and not uuid.startswith("["):
            return uuid
    return ""


def _narrow(link: Link | None) -> bool:
    return link is not None and link.width < link.max_width


def _said(lines: list[str]) -> str:
    return f": {lines[-1]}" if lines else ""
