# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the device that the fabric has attached, by itself or after a rescan.

Standard library only, Python 3.8, because the file runs on nodes.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import bus, pci
from .evidence import Evidence
from .options import Options
from .vendors import may_be


@dataclass(frozen=True)
class Wanted:
    """A device that the fabric has attached.

    ``device`` is its uid at the CDI Manager. ``uuid`` is the UUID of the GPU, or empty if the
    manager does not know it. Then the new device is the right one. ``known`` are PCI addresses and
    UUIDs of devices that are certainly others: those of other ComposableResources, and those from
    before the attach. ``address`` is the place where the device must appear, if known. ``before``
    is the evidence so far.
    """

    device: str
    uuid: str = ""
    known: frozenset[str] = frozenset()
    before: Evidence | None = None
    address: str = ""


class Search:
    """Search for the wanted device.

    ``root`` is the path of the node's ``/``. ``address`` is the earlier address of the device.
    Methods raise NotProven if the bus cannot be read, and NodeTrouble if a rescan fails.
    """

    def __init__(self, root: Path, wanted: Wanted, options: Options, address: str) -> None:
        self.root, self.wanted, self.options, self.address = root, wanted, options, address
        self.others = set(wanted.known)
        self.gave_up = False

    def candidates(self) -> Iterator[pci.PciDevice]:
        """Yield devices that may be the wanted one as they appear. Rescan if none appears."""
        deadline, looked = time.monotonic() + self.options.search_patience, False
        while True:
            if self._await(min(self.options.event_patience, max(0.0, deadline - time.monotonic()))):
                found = self._next()
                while found:
                    yield found
                    found = self._next()
            elif time.monotonic() >= deadline or (looked and self.gave_up):
                return
            else:
                look(self.root, self.options)
                looked = True

    def _await(self, patience: float) -> bool:
        return bus.until(lambda: self._next() is not None, patience)

    def _next(self) -> pci.PciDevice | None:
        """Return the device with the wanted UUID or address, or else the first possible one."""
        wanted, address = self.wanted.uuid, self.address
        there = [d for d in pci.devices(self.root) if is_possible(self.root, d, wanted, self.others, self.options)]
        if self.wanted.address:
            there = [d for d in there if d.address == self.wanted.address]
        if wanted:
            there = [d for d in there if d.uuid in (None, wanted)]
        return min(there, key=lambda d: (not wanted or d.uuid != wanted, d.address != address, d.address), default=None)

    def pass_over(self, address: str, failed: bool) -> None:
        """Exclude this device.

        With ``failed`` it may be the wanted device, so rescan at most once more.
        """
        self.others.add(address)
        self.gave_up = self.gave_up or failed

    def not_found(self) -> str:
        """Return the message if no device appeared."""
        return (f"the device is not on the node's bus {self.options.search_patience:g} s after it was attached. "
                f"{looked(self.root, self.options)}. Check its cable and the fabric's port, or set rescan to bus")


def is_possible(root: Path, device: pci.PciDevice, uuid: str, known: Collection[str], options: Options) -> bool:
    """Return whether the device may have this UUID.

    It must not be in ``known``, must answer, and must be behind the fabric's ports.
    """
    return (device.address not in known and device.uuid not in known
            and may_be(uuid, device.vendor, device.pci_class)
            and pci.is_behind(root, device.address, options.ports) and not pci.is_lost(root, device.address))


def look(root: Path, options: Options) -> None:
    """Rescan for new devices as ``options.rescan`` allows. Raise NodeTrouble."""
    if options.rescan == "bus":
        bus.rescan(root, options.patience)
    elif options.rescan == "port":
        for port in options.ports or pci.ports(root):
            bus.rescan_port(root, port, options.patience)


def looked(root: Path, options: Options) -> str:
    """Return what ``look`` does, as part of a sentence."""
    if options.rescan == "bus":
        return "The whole bus was searched"
    if options.rescan == "port":
        ports = ", ".join(options.ports or pci.ports(root))
        return f"The ports {ports} were searched" if ports else "The node has no empty port to search"
    return "The option rescan is never, so the bus was not searched"
