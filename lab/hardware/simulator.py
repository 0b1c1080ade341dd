# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node simulator: what the fabric plugs in appears on the node's bus, and what is there is announced."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.composable.infra.lab.api import Api
from ansible_collections.composable.infra.lab.certificates import Pair
from ansible_collections.composable.infra.lab.hardware.announcer import Announcer
from ansible_collections.composable.infra.lab.hardware.fabric import FabricState, FabricWatcher, PluggedDevice
from ansible_collections.composable.infra.lab.hardware.inotify import Inotify
from ansible_collections.composable.infra.lab.hardware.options import HardwareOptions
from ansible_collections.composable.infra.lab.hardware.tree import NodeTree
from ansible_collections.composable.infra.lab.names import machine_uuid


@dataclass(frozen=True, slots=True)
class Written:
    """A program on a node wrote to a file of its bus."""

    path: Path


class Simulator:
    """All nodes of a lab. One thread changes the trees; watching and announcing have their own."""

    def __init__(self, options: HardwareOptions, log: Callable[[str], None]) -> None:
        self._options = options
        self._log = log
        nodes = options.state_dir / "nodes"
        self._trees: Mapping[str, NodeTree] = {node: NodeTree(nodes / node) for node in options.nodes}
        self._plugged: dict[str, tuple[PluggedDevice, ...]] = {}
        self._events: queue.SimpleQueue[FabricState | Written] = queue.SimpleQueue()
        pki = options.state_dir / "pki"
        api = Api(options.server, pki / "ca.crt", Pair(pki / "hardware.crt", pki / "hardware.key"))
        self._announcer = Announcer(api, self._trees, options.announce_delay, log)
        self._inotify = Inotify()

    def run(self) -> None:
        """Simulate until the process ends."""
        for node, tree in self._trees.items():
            self._inotify.watch(tree.pci)
            self._watch_devices(node)
        self._announcer.start()
        threading.Thread(target=self._follow_writes, name="writes", daemon=True).start()
        FabricWatcher(self._options.emulator_url, self._options.emulator_ca, self._events.put, self._log).start()
        while True:
            self.handle(self._events.get())

    def handle(self, event: FabricState | Written) -> None:
        """Carry one event out."""
        if isinstance(event, Written):
            self._handle_write(event.path)
            return
        for node, tree in self._trees.items():
            plugged = event.machines.get(machine_uuid(node), ())
            if plugged != self._plugged.get(node):
                # What was announced before a restart may be out of date, also where nothing is plugged in.
                stale = node not in self._plugged and not tree.fresh
                self._plugged[node] = plugged
                self._sync(node, discover=self._options.rescan == "auto", announce=stale)
        self._options.ready.touch()

    def _handle_write(self, path: Path) -> None:
        node = path.relative_to(self._options.state_dir / "nodes").parts[0]
        if path.name == "rescan" and path.parent == self._trees[node].pci:
            self._trees[node].rescan()
            self._sync(node, discover=True, rescanned=True)
        elif path.name == "remove":
            if self._trees[node].remove(path.parent.name):
                self._announcer.announce(node)
            else:
                self._log(f"{node}: {path.parent.name} is open or gone, it is not removed")

    def _sync(self, node: str, *, discover: bool, rescanned: bool = False, announce: bool = False) -> None:
        changed = self._trees[node].sync(self._plugged.get(node, ()), discover=discover, rescanned=rescanned)
        if changed or announce:
            self._watch_devices(node)
            self._announcer.announce(node)

    def _watch_devices(self, node: str) -> None:
        for folder in self._trees[node].devices.iterdir():
            self._inotify.watch(folder)

    def _follow_writes(self) -> None:
        for path in self._inotify.written():
            if path.name in ("rescan", "remove"):
                self._events.put(Written(path))
