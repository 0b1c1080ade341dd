# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The devices of the node's bus that the driver offers, and their names in its pool."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.composable.infra.plugins.module_utils.node import pci
from ansible_collections.composable.infra.plugins.module_utils.node.probe import NotProven
from ansible_collections.composable.infra.plugins.module_utils.node.vendors import (
    CXL_MEMORY,
    GENERIC_PCI,
    VENDORS,
    Vendor,
    vendor_of,
)

KINDS = tuple(vendor.name for vendor in VENDORS)
# A generic PCI device may be the node's own screen, so users must name that kind.
DEFAULT_KINDS = tuple(kind for kind in KINDS if kind != GENERIC_PCI.name)
GPU, PCI, MEMORY = "gpu", "pci", "cxl-memory"
_TYPES = {CXL_MEMORY.name: MEMORY, GENERIC_PCI.name: PCI}
_OTHER = re.compile(r"[^a-z0-9]+")
_LONGEST_LABEL = 63


@dataclass(frozen=True, slots=True)
class NodeDevice:
    """A device that a container can use. Its ids are hexadecimal without 0x.

    ``kind``: name of its row in the table of vendors. ``files``: paths below /dev of the node.
    ``link_width``: number of lanes. ``link_speed``: as sysfs shows it. ``root``: the PCIe root
    complex. ``switch``: the upstream port of the switch above it.
    """

    kind: str
    address: str
    vendor: str
    device: str
    files: tuple[str, ...]
    uuid: str = ""
    model: str = ""
    minor: int | None = None
    numa_node: int | None = None
    link_width: int | None = None
    root: str = ""
    switch: str = ""
    link_speed: str = ""

    @property
    def type(self) -> str:
        """GPU, PCI or MEMORY."""
        return _TYPES.get(self.kind, GPU)

    @property
    def identity(self) -> str:
        """Its UUID, or its PCI address if it has none."""
        return self.uuid or self.address

    @property
    def place(self) -> tuple[str, int, str, str]:
        """A key that sorts devices that are near each other side by side."""
        return self.root, -1 if self.numa_node is None else self.numa_node, self.switch, self.name

    @property
    def name(self) -> str:
        """Its name in the pool, a DNS label. With a UUID, it is the same on every node and slot."""
        plain = _OTHER.sub("-", self.identity.lower()).strip("-")
        return (plain if plain.startswith(f"{self.type}-") else f"{self.type}-{plain}")[:_LONGEST_LABEL].rstrip("-")


def offered(root: Path, kinds: Collection[str]) -> tuple[NodeDevice, ...]:
    """Return the devices of these kinds that have their driver and answer, by address.

    ``root``: where the node's / is seen. Raises NotProven when the bus is not readable.
    """
    found = (_device(root, device, kinds) for device in pci.devices(root))
    return tuple(device for device in found if device is not None)


def _device(root: Path, seen: pci.PciDevice, kinds: Collection[str]) -> NodeDevice | None:
    vendor = vendor_of(seen.vendor, seen.pci_class)
    if vendor.name not in kinds or not _is_ready(seen, vendor):
        return None
    files = _files(root, seen)
    link = pci.link(root, seen.address)
    # Check this last, in case the device was lost meanwhile.
    if not files or pci.is_lost(root, seen.address):
        return None
    return NodeDevice(vendor.name, seen.address, seen.vendor, seen.device, files, seen.uuid or "", seen.model or "",
                      seen.minor, seen.numa_node, link.width if link else None, pci.root_complex(root, seen.address),
                      pci.switch(root, seen.address), link.speed if link else "")


def _is_ready(seen: pci.PciDevice, vendor: Vendor) -> bool:
    """Return whether the device has its driver, and its UUID if it reports one only at its first
    use.
    """
    return seen.driver is not None and vendor.driver in ("", seen.driver) and (not vendor.touch or bool(seen.uuid))


def _files(root: Path, seen: pci.PciDevice) -> tuple[str, ...]:
    """Return the device's files, none if they are not known."""
    try:
        return tuple(pci.device_files(root, seen))
    except NotProven:
        return ()
