# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the device that the fabric has attached: it comes by itself, or the kernel is told to look for it.

Standard library only, Python 3.8: it travels to nodes.
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

    ``device`` is its uid at the CDI Manager. ``uuid`` is the GPU's where the manager knows it, else empty: then the
    device is the one that is new. ``known`` are PCI addresses and UUIDs of devices that are certainly others: those of
    other ComposableResources, and those that were there before the attach. ``address``, where it is known, is where the
    device must come. ``before``: what was done so far.
    """

    device: str
    uuid: str = ""
    known: frozenset[str] = frozenset()
    before: Evidence | None = None
    address: str = ""


class Search:
    """Devices that may be the wanted one. ``root`` is where the node's ``/`` is seen, ``address`` where it was before.

    Raises NotProven when the bus cannot be read, and NodeTrouble when the kernel does not look.
    """

    def __init__(self, root: Path, wanted: Wanted, options: Options, address: str) -> None:
        self.root, self.wanted, self.options, self.address = root, wanted, options, address
        self.others = set(wanted.known)
        self.gave_up = False

    def candidates(self) -> Iterator[pci.PciDevice]:
        """Devices that may be the wanted one, as they come; the kernel is told to look when none comes by itself."""
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
        """The wanted device by its UUID, or by the address that it had; else the first that may be it."""
        wanted, address = self.wanted.uuid, self.address
        there = [d for d in pci.devices(self.root) if is_possible(self.root, d, wanted, self.others, self.options)]
        if self.wanted.address:
            there = [d for d in there if d.address == self.wanted.address]
        if wanted:
            there = [d for d in there if d.uuid in (None, wanted)]
        return min(there, key=lambda d: (not wanted or d.uuid != wanted, d.address != address, d.address), default=None)

    def pass_over(self, address: str, failed: bool) -> None:
        """This device is another, or with ``failed`` perhaps: then nothing more is waited for than one look."""
        self.others.add(address)
        self.gave_up = self.gave_up or failed

    def not_found(self) -> str:
        """What to say when no device came."""
        return (f"the device is not on the node's bus {self.options.search_patience:g} s after it was attached; "
                f"{looked(self.root, self.options)}; check its cable and the fabric's port, or set rescan to bus")


def is_possible(root: Path, device: pci.PciDevice, uuid: str, known: Collection[str], options: Options) -> bool:
    """Whether the device may be the one with this UUID: none of ``known``, alive, behind the fabric's ports."""
    return (device.address not in known and device.uuid not in known
            and may_be(uuid, device.vendor, device.pci_class)
            and pci.is_behind(root, device.address, options.ports) and not pci.is_lost(root, device.address))


def look(root: Path, options: Options) -> None:
    """Have the kernel look for new devices, as far as that is allowed. Raises NodeTrouble when it does not."""
    if options.rescan == "bus":
        bus.rescan(root, options.patience)
    elif options.rescan == "port":
        for port in options.ports or pci.ports(root):
            bus.rescan_port(root, port, options.patience)


def looked(root: Path, options: Options) -> str:
    """What ``look`` does, as part of a sentence."""
    if options.rescan == "bus":
        return "the whole bus was looked at again"
    if options.rescan == "port":
        ports = ", ".join(options.ports or pci.ports(root))
        return f"the ports {ports} were looked at again" if ports else "it shows no empty port to look at again"
    return "rescan is never, so nothing looked for it"
