# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The protocol of the code that acts on a node, so that tests need no kernel."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence, NodeTrouble
from ansible_collections.composable.infra.plugins.module_utils.node.release import VendorPlugin
from ansible_collections.composable.infra.plugins.module_utils.node.search import Wanted

Note = Callable[[Evidence], None]


class NotThereYet(Exception):
    """The bus shows no device that may be the wanted device."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A vendor's DRA plugin that detects devices only when it starts.

    ``driver``: its DRA driver. ``selectors``: sets of labels. A pod with all labels of one set
    belongs to the plugin.
    """

    driver: str
    selectors: tuple[Mapping[str, str], ...]

    def owns(self, labels: Mapping[str, str]) -> bool:
        """Return whether a pod with these labels belongs to the plugin."""
        return any(selector.items() <= labels.items() for selector in self.selectors)


@dataclass(frozen=True, slots=True)
class KernelReport:
    """An Xid in the kernel log, with its number, the PCI address of the device, and the line."""

    xid: int
    address: str
    line: str


class NodeOperations(t.Protocol):
    """Act on one node. Each method may raise NodeTrouble with what was seen and what to do next."""

    def bring_up(self, wanted: Wanted, note: Note) -> Evidence:
        """Find the device on the bus, bind its driver and touch it.

        Return evidence with the step Touched. ``note`` is called after each step. Raises
        NotThereYet instead of waiting for a device.
        """

    def look_for_devices(self) -> None:
        """Make the kernel search for new devices, if the options allow it."""

    def not_found(self) -> str:
        """Return in a sentence how the node searched for a missing device, and what to do next."""

    def release(self, before: Evidence, known: frozenset[str], note: Note, still_free: Callable[[], str],
                plugin: VendorPlugin | None = None) -> Evidence:
        """Prove the device idle, drain it and remove it from the bus.

        Return evidence with the phase Removed. ``known``: as in ``Wanted``. ``note`` is called
        after each step. ``still_free`` is called between the steps. If it returns a sentence, the
        release is taken back. ``plugin``: restarted if only the plugin has the device open.

        A device that is not on the bus counts as removed. A removal that hangs is not started again
        (RemovalHung). If this raises, the device is usable, unless its removal hangs.
        """

    def take_back(self, before: Evidence, note: Note) -> Evidence:
        """Make a device usable again if its release has begun and is no longer wanted."""

    def on_bus(self, evidence: Evidence) -> bool:
        """Return whether the bus shows the device of the evidence."""

    def was_used(self, evidence: Evidence) -> bool:
        """Return whether the device was used since the boot.

        Before its first use it has no files for a container.
        """

    def dead_device(self) -> bool:
        """Return whether the bus shows a device that no longer answers.

        A plugin does not start beside it.
        """

    def clear_dead(self, known: frozenset[str]) -> list[NodeTrouble]:
        """Remove dead devices that came after the agent's first start and are not ``known``.

        Return the problems that prevented removals.
        """

    def plugin(self, evidence: Evidence) -> Plugin | None:
        """Return the plugin of the device's vendor, None if there is none to restart."""

    def is_own(self, evidence: Evidence) -> bool:
        """Return whether the agent's own driver offers such devices.

        Then no vendor's plugin is restarted for it.
        """

    def plugins(self) -> tuple[Plugin, ...]:
        """Return the plugins of all known vendors, except where the agent's driver offers the
        devices.
        """

    def uuids(self) -> frozenset[str] | None:
        """Return the UUIDs of all devices on the bus with a driver, None if one of the UUIDs is
        unknown.
        """

    def places(self) -> Mapping[str, str | int]:
        """Return what all devices behind the named ports of the fabric share, and their BAR_ROOM.

        Empty if no port is named. Raises nothing.
        """

    def kernel_reports(self) -> list[KernelReport]:
        """Return the Xids in the kernel log since the last call.

        Xid 79 counts only if the device no longer answers.
        """

    def tell_feature_discovery(self) -> None:
        """Make Node Feature Discovery, if installed, label the node now for the vendors of its
        devices.

        It reads the PCI bus only at its next interval. Raises nothing.
        """
