# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin's view of each device, from the bus, the agent's evidence, and the slices of other
drivers.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import slices
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.device_users import identities
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.node import pci
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    DRIVER_FAILED,
    DRIVER_NOT_BOUND,
    LOST_ON_BUS,
    NO_ROOM_FOR_BARS,
    NOT_ON_BUS,
    PREPARING,
    RELEASING,
    REMOVAL_HUNG,
    REMOVED,
    TOUCHED,
    Evidence,
)
from ansible_collections.composable.infra.plugins.module_utils.node.probe import NotProven

from .devices import NodeDevice, offered
from .errors import Refused

Kept: t.TypeAlias = Mapping[str, Evidence | None]
# Problems of the device itself. Other problems are about a release that is not possible.
_ILL = (LOST_ON_BUS, REMOVAL_HUNG, NOT_ON_BUS, NO_ROOM_FOR_BARS, DRIVER_FAILED, DRIVER_NOT_BOUND)


class DeviceView:
    """The view of the node's devices.

    ``root``: where the node's / is seen. ``evidences``: returns the agent's evidence of its
    devices. ``node_slices``: returns all ResourceSlices of the node. ``kept``: returns by pool
    device (``<pool>/<device>``) the evidence of the node's device that stands for it, None if that
    device has not come.
    """

    def __init__(self, driver: str, root: Path, kinds: Collection[str], evidences: Callable[[], Iterable[Evidence]],
                 node_slices: Callable[[], Iterable[Json]], kept: Callable[[], Kept] = dict) -> None:
        self._driver, self._root, self._kinds = driver, root, frozenset(kinds)
        self._evidences, self._slices, self._kept = evidences, node_slices, kept

    def look(self) -> tuple[NodeDevice, ...]:
        """Return the devices of the bus that a container can use.

        Raises Refused if the bus is not readable.
        """
        try:
            return offered(self._root, self._kinds)
        except NotProven as error:
            raise Refused(f"cannot read the bus of the node: {error}") from None

    def reason_against(self, device: NodeDevice) -> str:
        """Return why no new container may get the device now, empty if it may."""
        evidence = self._evidence(device)
        if evidence and evidence.phase in (RELEASING, REMOVED):
            return "it is being released"
        return _unready(evidence)

    def reason_to_hide(self, device: NodeDevice, shown: Collection[str]) -> str:
        """Return why no slice may show the device, empty if it may.

        A device that is being released stays in its slice, so that the agent can find its claims.
        ``shown``: names of the devices that are shown now. While a pool device has not come, any
        other unknown device may be it.
        """
        if name := self.pool_device(device):
            return f"a claim has it as pool device {name}"
        evidence = self._evidence(device)
        if evidence is None and device.name not in shown and None in self._kept().values():
            return "it may be the pool device for which a claim waits"
        return _unready(evidence)

    def pool_device(self, device: NodeDevice) -> str:
        """Return as which pool device a claim has the device, empty for none."""
        return next((name for name, e in self._kept().items() if e and _is_of(e, device.address, device.uuid)), "")

    def find(self, pool_device: str, there: Iterable[NodeDevice]) -> NodeDevice | None:
        """Return which of these devices stands for a pool device, None for none."""
        evidence = self._kept().get(pool_device)
        return next((d for d in there if evidence and _is_of(evidence, d.address, d.uuid)), None)

    def shown_by(self, device: NodeDevice) -> str:
        """Return the other driver that shows the device in a ResourceSlice of this node, empty for
        none.
        """
        for item in self._slices():
            if slices.driver(item) != self._driver and {device.uuid, device.address} & set(identities(item)):
                return slices.driver(item)
        return ""

    def illness(self, address: str, uuid: str) -> str:
        """Return in a sentence why a device is unhealthy, empty if it is healthy."""
        if pci.is_lost(self._root, address):
            return f"the device {address} no longer answers"
        if not (self._root / "sys/bus/pci/devices" / address).exists():
            return f"the device {address} is not on the bus"
        found = next((e for e in self._evidences() if _is_of(e, address, uuid)), None)
        return _illness(found) if found else ""

    def _evidence(self, device: NodeDevice) -> Evidence | None:
        return next((e for e in self._evidences() if _is_of(e, device.address, device.uuid)), None)


def _is_of(evidence: Evidence, address: str, uuid: str) -> bool:
    """Compare by UUID if both have one, because another device may be at the address now."""
    return evidence.uuid == uuid if evidence.uuid and uuid else evidence.address == address


def _unready(evidence: Evidence | None) -> str:
    if evidence is None:
        return ""
    if evidence.phase == PREPARING and not evidence.has(TOUCHED):
        return "the node agent is still preparing it"
    return _illness(evidence)


def _illness(evidence: Evidence) -> str:
    trouble = evidence.trouble
    return f"{trouble.reason}: {trouble.message}" if trouble and trouble.reason in _ILL else ""
