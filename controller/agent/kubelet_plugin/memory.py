# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give CXL memory to a claim only if it holds no data of another tenant.

Another claim, node or cluster may have used the memory before. So the kernel sanitizes it before
each claim gets it. Only this process remembers which memory is sanitized. After a restart it is
sanitized once more.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from ansible_collections.composable.infra.plugins.module_utils.node import sanitize
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import SANITIZING, NodeTrouble

from .devices import NodeDevice
from .errors import Refused

ALL_NAMESPACES = "*"
# The kubelet waits 45 s for an answer. Meanwhile other claims of the node wait.
BRIEF_SECONDS = 2.0
WRITE_SECONDS = 10.0
_Key = tuple[str, int]


class MemoryGuard:
    """Sanitize memory before a claim gets it. Call it from one thread at a time.

    ``root``: where the node's / is seen. ``unsanitized``: namespaces, or ALL_NAMESPACES. Their
    claims get memory even if the kernel offers no way to sanitize it.
    """

    def __init__(self, root: Path, unsanitized: Collection[str] = ()) -> None:
        self._root, self._unsanitized = root, frozenset(unsanitized)
        self._begun: set[_Key] = set()
        self._clean: set[_Key] = set()

    def clean(self, devices: Iterable[NodeDevice], namespace: str) -> None:
        """Return when the memory of these devices is sanitized.

        The caller ensures that it is not in use.

        ``namespace``: of the claim that gets the devices. Raises Refused, also while the kernel
        sanitizes. Then call it again.
        """
        wanted = [d for d in devices if sanitize.offered(self._root, d.address) or not self._is_allowed(namespace)]
        if reasons := [reason for device in wanted if (reason := self._reason_against(device))]:
            raise Refused("; ".join(reasons))
        self._clean -= {self._key(device) for device in wanted}

    def _is_allowed(self, namespace: str) -> bool:
        return not self._unsanitized.isdisjoint({namespace, ALL_NAMESPACES})

    def _reason_against(self, device: NodeDevice) -> str:
        """Return why the device is not clean, empty if it is."""
        key = self._key(device)
        if key in self._clean:
            return ""
        try:
            self._go_on(device, key)
        except NodeTrouble as trouble:
            if trouble.reason == SANITIZING:
                self._begun.add(key)
                return f"the memory of the device {device.name} is being sanitized, which may take hours"
            return f"the device {device.name} cannot be used: {trouble.message}"
        self._begun.discard(key)
        self._clean.add(key)
        return ""

    def _go_on(self, device: NodeDevice, key: _Key) -> None:
        """Start to sanitize the device, or wait for a start of this process. Raises NodeTrouble.

        Only an end that follows a start in this process counts.
        """
        if not sanitize.offered(self._root, device.address):
            raise NodeTrouble("", sanitize.not_offered(device.address))
        sanitize.await_end(self._root, device.address, BRIEF_SECONDS)
        if key not in self._begun:
            sanitize.start(self._root, device.address, WRITE_SECONDS)
            sanitize.await_end(self._root, device.address, BRIEF_SECONDS)

    def _key(self, device: NodeDevice) -> _Key:
        """Return a key of the device's sysfs folder, which is new after each attach.

        Raises OSError when the device is gone.
        """
        return device.address, os.stat(self._root / "sys/bus/pci/devices" / device.address).st_ino
