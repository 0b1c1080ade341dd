# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node operations on a real node, by the code of module_utils/node.

The same code travels to nodes over SSH.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from ansible_collections.composable.infra.plugins.module_utils.node import bring_up as up
from ansible_collections.composable.infra.plugins.module_utils.node import kernel_log, pci
from ansible_collections.composable.infra.plugins.module_utils.node import release as down
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    NOT_ON_BUS,
    NOT_PROVEN,
    PREPARING,
    Evidence,
    NodeTrouble,
)
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host
from ansible_collections.composable.infra.plugins.module_utils.node.options import Options
from ansible_collections.composable.infra.plugins.module_utils.node.probe import NotProven
from ansible_collections.composable.infra.plugins.module_utils.node.search import Wanted, is_possible, look
from ansible_collections.composable.infra.plugins.module_utils.node.vendors import (
    CXL_MEMORY,
    VENDORS,
    Vendor,
    vendor_of,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.bar_room import BAR_ROOM

from .host_files import DevicesBefore
from .node_operations import KernelReport, Note, NotThereYet, Plugin

log = logging.getLogger("composable.infra")
FEATURES = "etc/kubernetes/node-feature-discovery/features.d"
FEATURE_FILE = "composable.infra"
# Seconds for which frequent checks, which change nothing, reuse a reading of the bus.
LOOK_SECONDS = 1.0
# Seconds to wait for a candidate. It is there already, or it is not the wanted device.
CANDIDATE_SECONDS = 0.2
_PLUGINS = tuple(Plugin(v.dra_driver, v.plugin_selectors) for v in VENDORS if v.plugin_selectors)


@dataclass(slots=True)
class _Seen:
    """The last reading of the bus, and the addresses of all devices that were ever seen."""

    devices: list[pci.PciDevice] = field(default_factory=list)
    at: float = 0.0
    addresses: set[str] = field(default_factory=set)


class HostOperations:
    """The node operations of a real node. Thread-safe, but one thread at a time brings devices up.

    ``own_kinds``: rows of the table of vendors. While ``is_driver`` returns True, the agent's own
    DRA driver offers their devices.
    """

    def __init__(self, host: Host, options: Options, own_kinds: Collection[str] = (),
                 is_driver: Callable[[], bool] = lambda: True) -> None:
        self._own_kinds, self._is_driver = frozenset(own_kinds), is_driver
        self._root, self._options, self._host = (root := host.root), options, host
        self._seen, self._log = _Seen(), kernel_log.KernelLog(root)
        self._vendors: dict[str, Vendor] = {}
        self._before = DevicesBefore(root, lambda: [d.address for d in self._devices(0.0)])

    def take_stock(self) -> None:
        """Record which devices the bus shows before the first search for fabric devices.

        Raises NodeTrouble.
        """
        self._before.addresses()

    def bring_up(self, wanted: Wanted, note: Note) -> Evidence:
        """See the protocol.

        Without a UUID, the device is one that the agent's first start did not find.
        """
        before = wanted.before or Evidence(PREPARING, wanted.device)
        if not wanted.uuid:
            wanted = replace(wanted, known=wanted.known | (self._before.addresses() - {before.address}))
        if not self._candidates(wanted):
            raise NotThereYet
        options = replace(self._options, event_patience=CANDIDATE_SECONDS, search_patience=CANDIDATE_SECONDS,
                          rescan="never")
        try:
            return up.bring_up(self._host, wanted, options, note)
        except NodeTrouble as trouble:
            if trouble.reason != NOT_ON_BUS:
                raise
            note(before)
            raise NotThereYet from None
        finally:
            self._seen.at = 0.0

    def _candidates(self, wanted: Wanted) -> list[str]:
        """Return the addresses of devices that are, or may be, the wanted device."""
        uuid = wanted.uuid
        there = [d for d in self._devices(0.0) if is_possible(self._root, d, uuid, wanted.known, self._options)]
        return [d.address for d in there if not uuid or d.uuid == uuid or (d.uuid is None and _may_tell(d))]

    def look_for_devices(self) -> None:
        """Rescan the fabric's ports, or the whole bus if the options say so."""
        try:
            look(self._root, self._options)
        except NotProven as error:
            raise NodeTrouble(NOT_PROVEN, str(error)) from None

    def not_found(self) -> str:
        """See the protocol."""
        looked = {"bus": "The agent rescanned the whole bus",
                  "never": "The agent did not rescan, because --rescan is never"}
        ports = ", ".join(self._options.ports) or "all without a device"
        said = looked.get(self._options.rescan, f"The agent rescanned the ports ({ports})")
        seconds = self._options.search_patience
        return (f"the device is not on the node's bus {seconds:g} s after it was attached. {said}. Check the device's "
                "cable and the fabric's port. You can also name the fabric's ports in --ports, or set --rescan to bus")

    def release(self, before: Evidence, known: frozenset[str], note: Note, still_free: Callable[[], str],
                plugin: down.VendorPlugin | None = None) -> Evidence:
        """See the protocol."""
        try:
            return down.release(self._host, before, self._options, note, still_free, known, plugin)
        finally:
            self._seen.at = 0.0

    def take_back(self, before: Evidence, note: Note) -> Evidence:
        """See the protocol."""
        return down.take_back(self._host, before, self._options, note)

    def on_bus(self, evidence: Evidence) -> bool:
        """See the protocol. A device that no longer answers is not there."""
        return any(not pci.is_lost(self._root, d.address) for d in self._matching(evidence))

    def was_used(self, evidence: Evidence) -> bool:
        """See the protocol."""
        return any(up.was_used(self._root, device) for device in self._matching(evidence))

    def _matching(self, evidence: Evidence) -> list[pci.PciDevice]:
        """Return the devices with the UUID of the evidence, or at its address without another UUID.

        Raises NodeTrouble.
        """
        return [d for d in self._devices(LOOK_SECONDS)
                if d.uuid == evidence.uuid or (d.address == evidence.address and not (d.uuid and evidence.uuid))]

    def dead_device(self) -> bool:
        """See the protocol.

        If the bus cannot be read, return False. Code that acts on the bus reports that.
        """
        try:
            return any(pci.is_lost(self._root, d.address) for d in self._devices(LOOK_SECONDS))
        except NodeTrouble:
            return False

    def clear_dead(self, known: frozenset[str]) -> list[NodeTrouble]:
        """See the protocol. A dead device of the node itself stays for an administrator."""
        kept: list[NodeTrouble] = []
        for device in self._devices(0.0):
            if not pci.is_lost(self._root, device.address) or {device.address, device.uuid} & known:
                continue
            if device.address in self._before.addresses():
                continue
            dead = Evidence(PREPARING, "", uuid=device.uuid or "", address=device.address)
            try:
                self.release(dead, known, lambda _evidence: None, lambda: "")
                log.info("Removed %s from the bus. The device was lost and belongs to no ComposableResource",
                         device.address)
            except NodeTrouble as trouble:
                kept.append(trouble)
        return kept

    def plugin(self, evidence: Evidence) -> Plugin | None:
        """See the protocol."""
        vendor = self._vendor(evidence)
        return next((plugin for plugin in self.plugins() if vendor and plugin.driver == vendor.dra_driver), None)

    def is_own(self, evidence: Evidence) -> bool:
        """See the protocol."""
        vendor = self._vendor(evidence)
        return vendor is not None and vendor.name in self._own_kinds and self._is_driver()

    def plugins(self) -> tuple[Plugin, ...]:
        """See the protocol."""
        own = {vendor.dra_driver for vendor in VENDORS if vendor.name in self._own_kinds and self._is_driver()}
        return tuple(plugin for plugin in _PLUGINS if plugin.driver not in own)

    def _vendor(self, evidence: Evidence) -> Vendor | None:
        """Return the vendor's row of a device, None if the bus has never shown the device."""
        key = evidence.uuid or evidence.address
        if key not in self._vendors:
            found = next((d for d in self._devices(LOOK_SECONDS)
                          if d.address == evidence.address or (d.uuid and d.uuid == evidence.uuid)), None)
            if found is None:
                return None
            self._vendors[key] = vendor_of(found.vendor, found.pci_class)
        return self._vendors[key]

    def uuids(self) -> frozenset[str] | None:
        """See the protocol. Return None also if the bus cannot be read."""
        try:
            there = [d for d in self._devices(0.0) if vendor_of(d.vendor, d.pci_class).touch]
        except NodeTrouble:
            return None
        if any(d.uuid is None for d in there):
            return None
        return frozenset(d.uuid for d in there if d.uuid)

    def places(self) -> Mapping[str, str | int]:
        """See the protocol."""
        room = pci.memory_windows(self._root, self._options.ports)
        return {**pci.shared_places(self._root, self._options.ports), **({BAR_ROOM: room} if room else {})}

    def kernel_reports(self) -> list[KernelReport]:
        """See the protocol."""
        lines = self._log.new_lines()
        addresses = sorted(self._seen.addresses) if lines else []
        return [KernelReport(fault.xid, address, fault.line) for address in addresses
                for fault in kernel_log.faults(lines, address)
                if fault.kind == kernel_log.XID and self._is_believed(fault, address)]

    def _is_believed(self, fault: kernel_log.Fault, address: str) -> bool:
        """Return whether the bus agrees with the report.

        A device that fell off the bus no longer answers.
        """
        return fault.xid != kernel_log.LOST_XID or pci.is_lost(self._root, address)

    def tell_feature_discovery(self) -> None:
        """Write the labels of the vendors of the bus's devices into a file that nfd-worker watches.

        Source: nfd-worker reads only its source `local` when a file changes, the PCI bus at its
        next interval. It reads no file with a name that begins with a dot.
        """
        folder = self._root / FEATURES
        if not folder.is_dir():
            return
        try:
            vendors = {d.vendor for d in self._devices(0.0) if vendor_of(d.vendor, d.pci_class).dra_driver}
            new = folder / f".{FEATURE_FILE}"
            new.write_text("".join(f"pci-{vendor}.present=true\n" for vendor in sorted(vendors)), encoding="ascii")
            new.replace(folder / FEATURE_FILE)
        except NodeTrouble as error:
            log.warning("cannot write the labels for Node Feature Discovery: %s", error)
        except OSError as error:
            log.warning("cannot write the labels for Node Feature Discovery: %s: %s", folder, error.strerror)

    def _devices(self, age: float) -> list[pci.PciDevice]:
        """Return the devices of the bus, read at most ``age`` seconds ago.

        Raises NodeTrouble(NotProven).
        """
        if time.monotonic() - self._seen.at > age or not self._seen.at:
            try:
                self._seen.devices = pci.devices(self._root)
            except NotProven as error:
                raise NodeTrouble(NOT_PROVEN, f"{error}. Make the bus of the node readable") from None
            self._seen.at = time.monotonic()
            self._seen.addresses |= {d.address for d in self._seen.devices}
        return self._seen.devices


def _may_tell(device: pci.PciDevice) -> bool:
    """Return whether the device reports its UUID, or serial number, when it is bound and touched.
    """
    vendor = vendor_of(device.vendor, device.pci_class)
    return (bool(vendor.touch) or vendor is CXL_MEMORY) and device.driver in (None, vendor.driver)
