# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All simulated nodes of a lab. Events of the fabric and writes of programs go to the right node's
kernel.

One thread changes the nodes. Other threads watch the fabric, files and pods, and write slices.
"""

from __future__ import annotations

import queue
import resource
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ansible_collections.composable.infra.lab.hardware.fabric import FabricState, FabricWatcher
from ansible_collections.composable.infra.lab.hardware.inotify import Inotify
from ansible_collections.composable.infra.lab.hardware.node.bus import REMOVE, RESCAN, SANITIZE
from ansible_collections.composable.infra.lab.hardware.node.commands import give_commands, write_commands
from ansible_collections.composable.infra.lab.hardware.node.containers import is_open_in
from ansible_collections.composable.infra.lab.hardware.node.control_files import Asked, ControlFiles
from ansible_collections.composable.infra.lab.hardware.node.kernel import NodeKernel
from ansible_collections.composable.infra.lab.hardware.options import HardwareOptions
from ansible_collections.composable.infra.lab.names import machine_uuid

# Seconds until a removal that hangs is tried again.
_HUNG_SECONDS = 0.1
_WRITTEN = frozenset({"bind", "unbind", "drivers_probe"})


@dataclass(frozen=True, slots=True)
class Written:
    """A program on a node wrote to a file that is no pipe."""

    path: Path


Event = FabricState | Asked | Written


@dataclass(slots=True)
class _Node:
    """A node and its waiting requests."""

    kernel: NodeKernel
    waiting: list[Asked] = field(default_factory=list)


class SimulatedNodes:
    """The nodes.

    `on_lost` is called with a node that lost a device, `on_look` after each poll of the fabric.
    """

    def __init__(self, options: HardwareOptions, on_lost: Callable[[str], None], on_look: Callable[[], None],
                 log: Callable[[str], None]) -> None:
        self._options, self._on_look, self._log = options, on_look, log
        self._folder = options.state_dir / "nodes"
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        _open_many_files()
        self._inotify = Inotify()
        self._files = ControlFiles(self._inotify)
        commands = options.state_dir / "node-commands"
        write_commands(commands)
        self._nodes: Mapping[str, _Node] = {name: self._make(name, on_lost) for name in options.every_node}
        for name in options.every_node:
            give_commands(self._folder / name, commands)

    @property
    def kernels(self) -> Mapping[str, NodeKernel]:
        """Return the kernel of each node."""
        return {name: node.kernel for name, node in self._nodes.items()}

    def run(self) -> None:
        """Simulate until the process ends."""
        threading.Thread(target=self._follow_files, name="files", daemon=True).start()
        FabricWatcher(self._options.emulator_url, self._options.emulator_ca, self._events.put, self._log).start()
        while True:
            self.step()

    def step(self) -> None:
        """Handle the next event. While a removal hangs or memory is sanitized, also retry these."""
        hangs = any(node.waiting or node.kernel.sanitizing for node in self._nodes.values())
        try:
            self.handle(self._events.get(timeout=_HUNG_SECONDS if hangs else None))
        except queue.Empty:
            self.retry()

    def handle(self, event: Event) -> None:
        """Handle one event."""
        if isinstance(event, FabricState):
            for name, node in self._nodes.items():
                node.kernel.plug(event.machines.get(machine_uuid(name), ()))
            self._on_look()
        elif isinstance(event, Asked):
            self._ask(self._nodes[event.node], event)
        else:
            self._write(event.path)

    def retry(self) -> None:
        """Retry operations that hang, and then those that waited for them."""
        for node in self._nodes.values():
            node.kernel.end_sanitizing()
            waiting, node.waiting = node.waiting, []
            for asked in sorted(waiting, key=lambda a: a.address != node.kernel.hung):
                self._ask(node, asked)
            node.kernel.notice()

    def _make(self, name: str, on_lost: Callable[[str], None]) -> _Node:
        def offer(folder: Path, verb: str, address: str) -> None:
            self._files.offer(folder / verb, Asked(name, verb, address))

        cgroup = self._options.real_nodes.get(name)
        kernel = NodeKernel(self._folder / name, self._options.slots, self._options.rescan == "auto", offer,
                            partial(on_lost, name), partial(is_open_in, cgroup))
        # Programs on the node know the machine by this name.
        hostname = self._folder / name / "proc/sys/kernel/hostname"
        hostname.parent.mkdir(parents=True, exist_ok=True)
        hostname.write_text(f"{name}\n", encoding="ascii")
        offer(kernel.bus.pci, RESCAN, "")
        for address, folder in kernel.bus.ports():
            offer(folder, RESCAN, address)
        for device in kernel.records.devices():
            offer(kernel.bus.devices / device.address, REMOVE, device.address)
            kernel.offer_sanitizing(device)
        self._inotify.watch(kernel.bus.pci)
        self._inotify.watch(kernel.bus.driver)
        return _Node(kernel)

    def _ask(self, node: _Node, asked: Asked) -> None:
        kernel = node.kernel
        if asked.verb == SANITIZE:
            self._sanitize(kernel, asked)
            return
        done = kernel.remove(asked.address) if asked.verb == REMOVE else kernel.rescan(asked.address)
        if not done:
            node.waiting.append(asked)
            return
        path = kernel.bus.devices / asked.address / RESCAN if asked.address else kernel.bus.pci / RESCAN
        self._files.answer(asked, path if asked.verb == RESCAN else None)

    def _sanitize(self, kernel: NodeKernel, asked: Asked) -> None:
        device = kernel.records.device(asked.address)
        path = kernel.bus.security(device) / SANITIZE if device else None
        if path and not kernel.sanitize(asked.address):
            self._files.refuse(asked, path)
        else:
            self._files.answer(asked, path)

    def _write(self, path: Path) -> None:
        kernel = self._nodes[path.relative_to(self._folder).parts[0]].kernel
        address = path.read_text(encoding="utf-8").strip()
        act = {"bind": kernel.bind, "unbind": kernel.unbind, "drivers_probe": kernel.probe}[path.name]
        act(address)

    def _follow_files(self) -> None:
        for number, path in self._inotify.events():
            asked = self._files.asked(number)
            if asked is not None:
                self._events.put(asked)
            elif path.name in _WRITTEN:
                self._events.put(Written(path))


def _open_many_files() -> None:
    """Raise the limit of open files, because each control file is one."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
