# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof before a detach: no claim holds the device, and nobody has it open on the node."""

from __future__ import annotations

from pathlib import Path

from ..node.probe import NotProven, holders
from ..scaling.actions import Detach
from .claimcheck import ClaimCheck
from .world import World
from .writer import Writer


class IdleProof:
    """``node_root``: a path with ``{node}`` in it under which a node's ``/proc`` and ``/sys`` can be read."""

    def __init__(self, world: World, writer: Writer, check: ClaimCheck, node_root: str) -> None:
        self.world, self.writer, self.check, self.node_root = world, writer, check, node_root

    def in_use(self, action: Detach) -> str:
        """Why the device must stay, empty when it is proven idle."""
        raw = self.world.resources.get(action.resource) or {}
        serial = (raw.get("status") or {}).get("device_id", "")
        if action.force:
            return ""
        if not serial:
            return "its serial number is not known, so nobody can look for it on the node"
        if key := self.world.local_device(action.node, serial):
            self.writer.taints.place(action.resource, key, serial)
        if user := self.check.user(action.node, serial):
            return f"claim {user} uses the device"
        return self._open(action.node, serial)

    def _open(self, node: str, serial: str) -> str:
        if not self.node_root:
            return ("node_root is not configured, so nobody can tell whether the device is open on the node; "
                    "configure it or set force_detach")
        try:
            found = holders(Path(self.node_root.format(node=node)), serial)
        except NotProven as error:
            return f"cannot prove it idle on node {node}: {error}"
        return f"open on node {node} by {', '.join(found)}" if found else ""
