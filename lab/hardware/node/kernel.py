# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel of one simulated node: hot plug, rescan, drivers, removal, and its log.

It is as strict as a real kernel. A removal waits while a process has the device open. Until the
removal ends, the node's bus is locked for rescans, other removals and hot-plug events. If the
fabric pulls a device that a driver has, a dead device stays on the bus, with Xid 79 in the log. CXL
memory is sanitized in the background, but not while it is disabled or used (Linux,
drivers/cxl/core/mbox.c, `cxl_mem_sanitize`).
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ansible_collections.composable.infra.lab.hardware.fabric import PluggedDevice
from ansible_collections.composable.infra.lab.hardware.node import driver_files, faults
from ansible_collections.composable.infra.lab.hardware.node.bus import (
    BARS,
    DRIVER,
    REMOVE,
    RESCAN,
    SANITIZE,
    PciBus,
    class_of,
    device_address,
    driver_of,
    port_address,
    product_of,
    vendor_of,
)
from ansible_collections.composable.infra.lab.hardware.node.records import CXL_DRIVER, INFO, BusDevice, Records
from ansible_collections.composable.infra.plugins.module_utils.node import left_behind

_WIDTH, _NARROW = 16, 4
SANITIZE_SECONDS = 0.5


class NodeKernel:
    """Kernel of one node. One thread calls it.

    `slots` is the number of ports from the start. With `events`, a plugged-in device announces
    itself. `offer` makes the file `remove` of a device, or `rescan` of a later port. It is called
    with folder, file name and address before the folder is visible. `on_lost` is called when a
    device was lost. `is_open` says whether a process other than the simulated ones has a device
    open.
    """

    def __init__(self, root: Path, slots: int, events: bool, offer: Callable[[Path, str, str], None],
                 on_lost: Callable[[], None] = lambda: None,
                 is_open: Callable[[BusDevice], bool] = lambda device: False) -> None:
        self.root = root
        self.bus = PciBus(root)
        self.records = Records(root)
        self.hung: str | None = None
        self.sanitizing: dict[str, float] = {}
        self._events, self._offer, self._on_lost = events, offer, on_lost
        self._is_open = is_open
        self._plugged: dict[str, PluggedDevice] = {}
        self._noticed: set[str] = set()
        for slot in range(slots):
            self.bus.add_port(slot)
        (root / "dev" / "kmsg").touch()
        (root / ".simulated-node").write_text(
            "A stand-in: this folder plays a node's kernel, PCI bus and GPU driver for the lab.\n", encoding="utf-8")

    def plug(self, devices: Iterable[PluggedDevice]) -> None:
        """Set the devices that the fabric has plugged in now."""
        slots: dict[str, int] = self.records.read_note("plugged")
        self._plugged = {device.uid: device for device in devices}
        for uid in slots.keys() - self._plugged.keys():
            self._noticed.discard(uid)
            self._pull(uid)
        kept = {uid: slot for uid, slot in slots.items() if uid in self._plugged}
        for uid in sorted(self._plugged.keys() - kept.keys()):
            kept[uid] = self._free_slot(kept.values())
            if self._events and faults.NO_EVENT not in faults.read(self.root):
                self._noticed.add(uid)
        if kept != slots:
            self.records.keep_note("plugged", kept)
        self.notice()

    def notice(self) -> None:
        """Handle the hot-plug events that have arrived. They wait while the bus is locked."""
        if self.hung is None and self._noticed:
            self._discover(self._noticed)
            self._noticed.clear()

    def rescan(self, port: str = "") -> bool:
        """Find devices below one port, or everywhere. Return False if the bus is locked."""
        if self.hung is not None:
            return False
        slots: dict[str, int] = self.records.read_note("plugged")
        self._discover({uid for uid, slot in slots.items() if port in ("", port_address(slot))})
        return True

    def remove(self, address: str) -> bool:
        """Take a device off the bus. Return False if that hangs or waits for a removal that
        hangs."""
        with self.records.lock():
            device = self.records.device(address)
            if device is None:
                return True
            if self.hung is not None and self.hung != address:
                return False
            if self._in_use(device):
                if self.hung is None:
                    self.records.log(f"NVRM: Attempting to remove device {address} with non-zero usage count!")
                self._hang(address)
                return False
            self._hang(None)
            self._take_off(device)
            return True

    def _hang(self, address: str | None) -> None:
        """Take the place of a writer that hangs, because here the writer can be killed."""
        if address is not None:
            left_behind.note(self.root, f"sys/bus/pci/devices/{address}/{REMOVE}", os.getpid())
        elif self.hung is not None:
            shutil.rmtree(self.root / left_behind.FOLDER, ignore_errors=True)
        self.hung = address

    def sanitize(self, address: str) -> bool:
        """Begin to sanitize memory. Return False if the memory is disabled, used or being
        sanitized."""
        with self.records.lock():
            device = self.records.device(address)
            if device is None or device.draining or address in self.sanitizing or self._in_use(device):
                return False
            self.sanitizing[address] = time.monotonic() + SANITIZE_SECONDS
            self.bus.show_security(device, "sanitize")
            return True

    def end_sanitizing(self) -> None:
        """Show which memory has been sanitized."""
        for address in [a for a, due in self.sanitizing.items() if due <= time.monotonic()]:
            del self.sanitizing[address]
            device = self.records.device(address)
            if device is not None and device.driver == CXL_DRIVER:
                self.bus.show_security(device, "disabled")
                self.records.log(f"cxl_pci {address}: Sanitization operation ended", INFO)

    def probe(self, address: str) -> None:
        """Find a driver for a device without one."""
        with self.records.lock():
            device = self.records.device(address)
            if device is not None and not device.driver and self.bus.is_wanted(device):
                self._bind(device)

    def bind(self, address: str) -> None:
        """Bind a device to the vendor's driver, which ignores devices of other drivers."""
        self.probe(address)

    def unbind(self, address: str) -> None:
        """Unbind a device from its driver, unless a process uses it."""
        with self.records.lock():
            device = self.records.device(address)
            if device is None or not device.driver:
                return
            if self._in_use(device):
                self.records.log(f"NVRM: Attempting to remove device {address} with non-zero usage count!")
                return
            self.bus.unbind(device)
            self.records.save(device.but(driver="", minor=-1, touched=False, draining=False))

    def _discover(self, uids: Iterable[str]) -> None:
        with self.records.lock():
            slots: dict[str, int] = self.records.read_note("plugged")
            present = {device.uid for device in self.records.devices() if not device.lost}
            for uid in sorted(uids, key=lambda uid: slots.get(uid, 0)):
                if uid in self._plugged and uid not in present:
                    self._show(self._plugged[uid], slots[uid])

    def _show(self, plugged: PluggedDevice, slot: int) -> None:
        on = faults.read(self.root)
        address = device_address(slot)
        device = BusDevice(plugged.uid, plugged.serial, plugged.model, address, slot, plugged.properties,
                           room=faults.NO_ROOM not in on)
        ids = f"{vendor_of(device)}:{product_of(device)}"
        self.records.log(f"pci {address}: [{ids}] type 00 class 0x{class_of(device)}", INFO)
        if not device.room:
            self._log_missing_room(address)
        self.records.save(device)
        width = _NARROW if faults.NARROW_LINK in on else _WIDTH
        self.bus.add_port(slot, lambda folder: self._offer(folder, RESCAN, port_address(slot)))
        self.bus.add_device(device, width, lambda folder: self._offer(folder, REMOVE, address))
        if self.bus.autoprobe and faults.NO_PROBE not in on and self.bus.is_wanted(device):
            self._bind(device)

    def _log_missing_room(self, address: str) -> None:
        for number, size, _flags in BARS:
            for trouble in ("no space for", "failed to assign"):
                self.records.log(f"pci {address}: BAR {number}: {trouble} [mem size 0x{size:08x} 64bit pref]")

    def _bind(self, device: BusDevice) -> None:
        if driver_of(device) != DRIVER:
            bound = device.but(driver=driver_of(device), touched=True)
            self.records.save(bound)
            self.bus.bind(bound)
            self.offer_sanitizing(bound)
            return
        if not device.room:
            self.records.log("NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:")
            self.records.log(f"NVRM: BAR1 is 0M @ 0x0 (PCI:{device.address})")
        if not device.room or device.lost or faults.NO_BIND in faults.read(self.root):
            self.records.log(f"nvidia: probe of {device.address} failed with error -1")
            return
        taken = {other.minor for other in self.records.devices()}
        minor = next(number for number in range(len(taken) + 1) if number not in taken)
        bound = device.but(driver=DRIVER, minor=minor)
        self.records.save(bound)
        driver_files.show(self.root, bound)
        self.bus.bind(bound)

    def offer_sanitizing(self, device: BusDevice) -> None:
        """Offer the file that sanitizes memory, if the device supports that."""
        able = (device.properties.get("attributes") or {}).get("sanitize", True)
        if device.driver == CXL_DRIVER and able:
            self._offer(self.bus.security(device), SANITIZE, device.address)

    def _pull(self, uid: str) -> None:
        with self.records.lock():
            device = next((d for d in self.records.devices() if d.uid == uid and not d.lost), None)
            if device is None:
                return
            if not device.driver and self._events and faults.NO_EVENT not in faults.read(self.root):
                self._take_off(device)
                return
            self.records.save(device.but(lost=True))
            self.bus.lose_link(device)
            if device.driver == DRIVER:
                self._log_loss(device.address)
        if device.driver:
            self._on_lost()

    def _log_loss(self, address: str) -> None:
        self.records.log(f"NVRM: Xid (PCI:{address.rpartition('.')[0]}): 79, pid='<unknown>', name=<unknown>, "
                         "GPU has fallen off the bus.")
        self.records.log(f"NVRM: GPU {address}: GPU has fallen off the bus.")

    def _take_off(self, device: BusDevice) -> None:
        self.bus.remove_device(device)
        self.records.delete(device.address)
        self.records.log(f"pci {device.address}: removed from the bus", INFO)

    def _in_use(self, device: BusDevice) -> bool:
        if faults.REMOVAL_HANGS in faults.read(self.root):
            return True
        return bool(device.driver) and (device.persistence or self.records.is_open(device) or self._is_open(device))

    def _free_slot(self, taken: Iterable[int]) -> int:
        # A dead device still occupies its place in the kernel's tree.
        full = {*taken, *(device.slot for device in self.records.devices())}
        return next(slot for slot in range(len(full) + 1) if slot not in full)
