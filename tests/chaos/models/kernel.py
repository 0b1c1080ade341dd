# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel log of a node, read by the shipped code, with messages that a tenant's program can
forge.

A healthy device answers on the bus, whatever the log says.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from ansible_collections.composable.infra.controller.agent.host_operations import HostOperations
from ansible_collections.composable.infra.plugins.module_utils.node import kernel_log

# A program that crashes chooses its name and the name of its file. A container with /dev/kmsg
# chooses the whole message, but not its facility.
FORGED = {
    "program": "4,{n},{n}000,-;NVRM: Xid (PCI:[42]: segfault at 0 ip 00 error 4 in NVRM: Xid (PCI:{pci}): 79[4+1]\n",
    "kmsg": "12,{n},{n}000,-;NVRM: Xid (PCI:{pci}): 79, pid=42, GPU has fallen off the bus.\n"}


class KernelLog(kernel_log.KernelLog):
    """The shipped kernel log over text in memory."""

    def __init__(self) -> None:
        self._rest, self._fd, self._written, self._count = b"", 0, b"", 0

    def forge(self, how: str, pci: str) -> None:
        """Write as a tenant's program that the device at this address is lost. ``how``: a key of
        FORGED.
        """
        self._count += 1
        self._written += FORGED[how].format(n=self._count, pci=pci.partition(".")[0]).encode()

    def _read(self) -> bytes:
        part, self._written = self._written, b""
        return part


class Kernel:
    """The kernel of a node for its node operations. Its bus shows only devices that answer."""

    def __init__(self) -> None:
        self.log, self._seen = KernelLog(), SimpleNamespace(addresses=set[str]())
        self._operations = object.__new__(HostOperations)
        vars(self._operations).update(_log=self.log, _seen=self._seen, _root=Path("/nowhere"))

    def lost(self, addresses: set[str]) -> set[str]:
        """Return the addresses with a device that new messages report as lost, as far as the agent
        believes them.
        """
        self._seen.addresses = addresses
        reports = self._operations.kernel_reports()
        return {report.address for report in reports if report.xid == kernel_log.LOST_XID}
