# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the agent wants of the code that acts on a node: one protocol, so that tests need no kernel."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence, NodeTrouble
from ansible_collections.composable.infra.plugins.module_utils.node.release import VendorPlugin

Note = Callable[[Evidence], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A device to bring up. ``known``: PCI addresses and UUIDs of the node's other devices.

    ``device`` is its uid at the CDI Manager; ``uuid`` is the GPU's, empty when nobody knows it.
    """

    device: str
    uuid: str = ""
    known: frozenset[str] = frozenset()


class NotThereYet(Exception):
    """The bus shows no device that may be the wanted one."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A vendor's DRA plugin that looks at the devices when it starts, and never again.

    ``driver``: its DRA driver. ``selectors``: label sets, a pod with all labels of one of them is the plugin's.
    """

    driver: str
    selectors: tuple[Mapping[str, str], ...]

    def owns(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is the plugin's."""
        return any(selector.items() <= labels.items() for selector in self.selectors)


@dataclass(frozen=True, slots=True)
class KernelReport:
    """An Xid in the kernel log: its number, the PCI address it is about, the line."""

    xid: int
    address: str
    line: str


class Hands(t.Protocol):
    """Acts on one node. Each method raises NodeTrouble, with what was seen and what to do next."""

    def bring_up(self, wanted: Wanted, before: Evidence, note: Note) -> Evidence:
        """Find the device on the bus, bind its driver, touch it; evidence with the step Touched.

        ``before`` is what is known of it; ``note`` is told each step. It waits for no device: raises NotThereYet.
        """

    def look_for_devices(self) -> None:
        """Have the kernel look for new devices, where that is allowed."""

    def not_found(self) -> str:
        """What was done to find a device that has not come, and what to do next, in a sentence."""

    def release(self, before: Evidence, known: frozenset[str], note: Note, still_free: Callable[[], str],
                plugin: VendorPlugin | None = None) -> Evidence:
        """Prove the device idle, drain it, remove it from the bus; evidence with the phase Removed.

        ``known``: as in Wanted. A removal that was begun earlier and has not ended is not begun again (RemovalHung).
        ``still_free`` is asked between: a sentence that is not empty takes all back. A device that is not on the bus is
        removed already. Whatever is in the way, the device is usable when this raises, unless the removal hangs.
        ``plugin``: restarted in between where it alone has the device open.
        """

    def take_back(self, before: Evidence, note: Note) -> Evidence:
        """Make a device usable whose release was begun and is not wanted any more."""

    def on_bus(self, evidence: Evidence) -> bool:
        """Whether the bus shows the device that the evidence is about."""

    def was_used(self, evidence: Evidence) -> bool:
        """Whether the device was used since the boot. Without that it has no files, and no container can have it."""

    def dead_device(self) -> bool:
        """Whether the bus shows a device that answers nothing any more; a plugin does not start beside it."""

    def clear_dead(self, known: frozenset[str]) -> list[NodeTrouble]:
        """Remove dead devices that came after the agent's first start and are not ``known``; what kept others."""

    def plugin(self, evidence: Evidence) -> Plugin | None:
        """The plugin of the device's vendor; None when there is none to tell."""

    def is_own(self, evidence: Evidence) -> bool:
        """Whether the agent's own driver offers devices of this kind: it looks by itself, and no plugin is told."""

    def plugins(self) -> tuple[Plugin, ...]:
        """The plugins of all vendors that are known, but for those whose devices the agent's own driver offers."""

    def uuids(self) -> frozenset[str] | None:
        """UUIDs of all devices on the bus that have a driver; None when one of them does not say its own."""

    def places(self) -> Mapping[str, str | int]:
        """What all devices behind the named ports of the fabric share, and their BAR_ROOM; empty where no port is
        named. Raises nothing."""

    def kernel_reports(self) -> list[KernelReport]:
        """Return the Xids in the kernel log since the last call; Xid 79 only of a device that no longer answers."""

    def tell_feature_discovery(self) -> None:
        """Have Node Feature Discovery label the node now for the vendors whose devices it has, where it is installed.

        Its own look at the PCI bus comes at its next interval. Raises nothing."""
