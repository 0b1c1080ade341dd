# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which devices of the node's bus the driver has to offer, and under which names they stand in its pool."""

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
# Any other PCI device of the bus may be the node's own screen; whoever wants such devices names the kind.
DEFAULT_KINDS = tuple(kind for kind in KINDS if kind != GENERIC_PCI.name)
GPU, PCI, MEMORY = "gpu", "pci", "cxl-memory"
_TYPES = {CXL_MEMORY.name: MEMORY, GENERIC_PCI.name: PCI}
_OTHER = re.compile(r"[^a-z0-9]+")
_LONGEST_LABEL = 63


@dataclass(frozen=True, slots=True)
class NodeDevice:
    """A device that a container can use. ``files`` are below /dev of the node; ids are hexadecimal without 0x.

    ``kind``: name of its row in the table of vendors; ``link_width``: lanes; ``root``: the PCIe root complex;
    ``switch``: the upstream port of the switch that it is below; ``link_speed``: as sysfs says it.
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
        """Its UUID, or its PCI address where it has none."""
        return self.uuid or self.address

    @property
    def place(self) -> tuple[str, int, str, str]:
        """What is near each other comes one after the other in this order."""
        return self.root, -1 if self.numa_node is None else self.numa_node, self.switch, self.name

    @property
    def name(self) -> str:
        """Its name in the pool, a DNS label: that of a device with a UUID is the same on every node and slot."""
        plain = _OTHER.sub("-", self.identity.lower()).strip("-")
        return (plain if plain.startswith(f"{self.type}-") else f"{self.type}-{plain}")[:_LONGEST_LABEL].rstrip("-")


def offered(root: Path, kinds: Collection[str]) -> tuple[NodeDevice, ...]:
    """Devices of these kinds that have their driver and answer, by address. Raises NotProven when the bus is not
    readable. ``root``: where the node's / is seen."""
    found = (_device(root, device, kinds) for device in pci.devices(root))
    return tuple(device for device in found if device is not None)


def _device(root: Path, seen: pci.PciDevice, kinds: Collection[str]) -> NodeDevice | None:
    vendor = vendor_of(seen.vendor, seen.pci_class)
    if vendor.name not in kinds or not _is_ready(seen, vendor):
        return None
    files = _files(root, seen)
    link = pci.link(root, seen.address)
    # Last, so that nothing is told of a device that was lost meanwhile.
    if not files or pci.is_lost(root, seen.address):
        return None
    return NodeDevice(vendor.name, seen.address, seen.vendor, seen.device, files, seen.uuid or "", seen.model or "",
                      seen.minor, seen.numa_node, link.width if link else None, pci.root_complex(root, seen.address),
                      pci.switch(root, seen.address), link.speed if link else "")


def _is_ready(seen: pci.PciDevice, vendor: Vendor) -> bool:
    """Whether it has its driver; one that tells a UUID at its first use has been used."""
    return seen.driver is not None and vendor.driver in ("", seen.driver) and (not vendor.touch or bool(seen.uuid))


def _files(root: Path, seen: pci.PciDevice) -> tuple[str, ...]:
    """Nothing where it is not known by which files a device is used."""
    try:
        return tuple(pci.device_files(root, seen))
    except NotProven:
        return ()
