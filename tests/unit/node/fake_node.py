# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A made-up node: files below a folder, a kernel that answers what is written, and the commands of a node.

It is a stand-in. As on a node, a device gets its files when its driver has it and somebody used it first, a removal of
a device that is held never ends, and a drained device lets nobody new in. The kernel sanitizes CXL memory only while
the driver `cxl_mem` has it and no decoder is committed (Linux, drivers/cxl/core/mbox.c, `cxl_mem_sanitize`).
"""

from __future__ import annotations

import shutil
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import bus
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    COMMAND_FAILED,
    Evidence,
    NodeTrouble,
)
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host, Output
from ansible_collections.composable.infra.plugins.module_utils.node.options import Options
from ansible_collections.composable.infra.tests.unit.node.made.kernel_files import device_file, gpu, plug, process

A, B, C = "0000:10:00.0", "0000:11:00.0", "0000:12:00.0"
PORT_A, PORT_B = "0000:01:00.0", "0000:02:00.0"
ROOM = "0x00000000fa000000 0x00000000faffffff 0x0000000000040200"
NO_ROOM = "0x0000000000000000 0x0000000fffffffff 0x000000000014220c"


@dataclass
class Card:
    """A device in a slot: its files in sysfs, and what is the matter with it."""

    address: str
    uuid: str
    files: dict[str, str] = field(default_factory=dict)
    pci_class: str = "0x030200"
    broken: str = ""


class FakeNode:
    """A node below ``root`` with two empty ports and the NVIDIA driver loaded."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.host = root, Host(root, self.run)
        self.behind: dict[str, list[Card]] = {PORT_A: [], PORT_B: []}
        self.cards: dict[str, Card] = {}
        self.did: list[str] = []
        self.drained: set[str] = set()
        self.persistent: set[str] = set()
        self.active: dict[str, int] = {}
        self.answers: dict[str, Output] = {}
        self.committed: set[str] = set()
        self.sanitize_lasts = False
        self.before: t.Callable[[str], None] = lambda what: None
        for port in self.behind:
            plug(root, port, pci_class="0x060400", rescan="")
        for path in ("sys/bus/pci/rescan", "sys/bus/pci/drivers_probe", "dev/kmsg"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()
        for driver in ("nvidia", "cxl_pci", "vfio-pci"):
            (root / "sys/bus/pci/drivers" / driver).mkdir(parents=True)
        for module in ("nvidia", "nvidia_uvm"):
            (root / "sys/module" / module).mkdir(parents=True)
        process(root, 1, "init")
        monkeypatch.setattr(bus, "write", self.write)

    def come(self, card: Card, driver: str | None = None) -> Card:
        """The card shows on the bus, as after a hot-plug event."""
        self.cards[card.address] = card
        plug(self.root, card.address, card.pci_class, **{"resource": ROOM, "driver_override": "", **card.files})
        if driver:
            self.bind(card.address, driver)
        return card

    def ready(self, address: str, uuid: str) -> Evidence:
        """A card that was brought up; its evidence."""
        self.come(Card(address, uuid), "nvidia")
        self.run(["nvidia-smi"], 1)
        self.did.clear()
        found = Evidence("Ready", f"cdi-{uuid}", "agent", uuid, address)
        for step in ("OnBus", "Bound", "Touched"):
            found = found.with_step(step, 1.0)
        return found

    def memory(self, address: str, *security: str) -> Evidence:
        """CXL memory that was brought up, with these files in its folder `security`; its evidence."""
        self.come(Card(address, "", {"vendor": "0x1c2c"}, "0x050210"), "cxl_pci")
        folder = self.entry(address) / "mem0"
        folder.mkdir()
        (folder / "dev").write_text(f"{device_file(self.root, '/dev/cxl/mem0')}\n", encoding="utf-8")
        (folder / "serial").write_text("0x1a2b\n", encoding="utf-8")
        if security:
            (folder / "security").mkdir()
            self.security(address, "disabled")
        for name in security:
            (folder / "security" / name).touch()
        return Evidence("Ready", "cdi-m", "agent", "0x1a2b", address).with_step("Touched", 1.0)

    def security(self, address: str, state: str) -> None:
        """The kernel shows this state of the memory's security: `sanitize` while it sanitizes the memory."""
        (self.entry(address) / "mem0/security/state").write_text(f"{state}\n", encoding="utf-8")

    def hold(self, minor: int, pid: int = 42, name: str = "python") -> None:
        """A process opens the device."""
        process(self.root, pid, name, f"/dev/nvidia{minor}")

    def let_go(self, pid: int = 42) -> None:
        """The process closes all."""
        for link in (self.root / f"proc/{pid}/fd").iterdir():
            link.unlink()

    def log(self, line: str) -> None:
        """The kernel says so."""
        with (self.root / "dev/kmsg").open("a", encoding="utf-8") as log:
            log.write(f"4,815,162342,-;{line}\n")

    def entry(self, address: str) -> Path:
        """The device's folder in sysfs."""
        return self.root / "sys/bus/pci/devices" / address

    def minor(self, address: str) -> int:
        """The number of the device's file."""
        return sorted(self.cards).index(address)

    def write(self, path: Path, text: str, patience: float, begun: t.Callable[[int], None]) -> None:
        """The kernel's part; the effect is there when it returns."""
        what = f"{path.relative_to(self.root / 'sys/bus/pci')} {text}"
        self.did.append(what)
        self.before(what)
        if path.name == "rescan":
            for port in [path.parent.name] if path.parent.name in self.behind else list(self.behind):
                for card in self.behind[port]:
                    self.come(card)
                self.behind[port] = []
        elif path.name == "drivers_probe":
            self.bind(text, (self.entry(text) / "driver_override").read_text(encoding="utf-8").strip() or "vfio-pci")
        elif path.name == "driver_override":
            path.write_text(text, encoding="utf-8")
        elif path.name == "unbind":
            (self.entry(text) / "driver").unlink()
        elif path.name == "remove":
            self.remove(path.parent.name)
        elif path.parent.name == "security":
            self.sanitize(path)

    def sanitize(self, path: Path) -> None:
        """Begin to sanitize memory, in the background; an erasure is done at once."""
        address = path.parents[2].name
        state = (path.parent / "state").read_text(encoding="utf-8").strip()
        if "mem0" in self.drained or address in self.committed or state == "sanitize":
            raise bus.NotDone(f"{path} cannot be written: OSError: [Errno 16] Device or resource busy")
        if state != "disabled":
            raise bus.NotDone(f"{path} cannot be written: OSError: [Errno 22] Invalid argument")
        if path.name == "sanitize" and self.sanitize_lasts:
            self.security(address, "sanitize")

    def bind(self, address: str, driver: str) -> None:
        """The driver takes the device, unless the card is broken so."""
        if self.cards[address].broken != "bind":
            (self.entry(address) / "driver").symlink_to(f"../../drivers/{driver}")

    def remove(self, address: str) -> None:
        """A removal that never ends while somebody holds the device, else it is gone."""
        if self.is_held(address):
            self.log(f"NVRM: Attempting to remove device {address} with non-zero usage count!")
            raise bus.Hangs(f"{self.entry(address)}/remove: the kernel has not answered")
        for folder in (self.entry(address), self.root / "proc/driver/nvidia/gpus" / address):
            shutil.rmtree(folder, ignore_errors=True)
        self.drained.discard(address)
        del self.cards[address]

    def is_held(self, address: str) -> bool:
        """Whether a process or the persistence mode has the device."""
        links = (self.root / "proc").glob("[0-9]*/fd/*")
        return address in self.persistent or any(
            str(link.readlink()) == f"/dev/nvidia{self.minor(address)}" for link in links)

    def run(self, argv: Sequence[str], timeout: float) -> Output:
        """The node's commands."""
        what = " ".join(argv)
        self.did.append(what)
        self.before(what)
        if what in self.answers:
            return self.answers[what]
        known = {"nvidia-smi": self._smi, "systemctl": self._systemctl, "modprobe": self._modprobe, "cxl": self._cxl}
        if argv[0] not in known:
            raise NodeTrouble(COMMAND_FAILED, f"the node cannot run {argv[0]}: No such file or directory")
        return known[argv[0]](list(argv[1:]))

    def _smi(self, words: list[str]) -> Output:
        if "drain" in words:
            return self._drain(words)
        if "-pm" in words:
            address = words[1]
            was, on = address in self.persistent, words[3] == "1"
            (self.persistent.add if on else self.persistent.discard)(address)
            state = "Enabled" if on else "Disabled"
            already = f"Persistence mode is already {state} for GPU 0000{address}."
            return Output(0, already if was == on else f"{state} persistence mode for GPU 0000{address}.", "")
        return self._touch()

    def _touch(self) -> Output:
        lines = []
        for card in self.cards.values():
            if not (self.entry(card.address) / "driver").is_symlink() or card.address in self.drained:
                continue
            if card.broken == "touch":
                self.log(f"NVRM: GPU {card.address}: RmInitAdapter failed! (0x26:0x56:1474)")
                continue
            if not (self.root / "proc/driver/nvidia/gpus" / card.address).exists():
                gpu(self.root, card.address, card.uuid, self.minor(card.address))
            device_file(self.root, f"/dev/nvidia{self.minor(card.address)}")
            lines.append(f"{card.uuid}, 0000{card.address.upper()}")
        return Output(0 if lines else 6, "\n".join(lines) or "No devices were found", "")

    def _drain(self, words: list[str]) -> Output:
        address, rest = words[2], words[3:]
        if rest == ["-q"]:
            state = "draining" if address in self.drained else "not draining"
            return Output(0, f"The current drain state of GPU 0000{address} is: {state}.\n", "")
        if rest == ["-r"]:
            if self.is_held(address):
                return Output(19, "", f"Failed to remove GPU 0000{address}: In use by another client")
            self.remove(address)
            return Output(0, "", "")
        (self.drained.add if rest == ["-m", "1"] else self.drained.discard)(address)
        return Output(0, f"Successfully set GPU 0000{address} drain state", "")

    def _cxl(self, words: list[str]) -> Output:
        """As cxl-cli has it: memory that decodes addresses is not disabled."""
        verb, name = words
        if verb == "disable-memdev" and self.committed:
            return Output(1, "", f"cxl memdev: action_disable: {name} is part of an active region")
        (self.drained.add if verb == "disable-memdev" else self.drained.discard)(name)
        return Output(0, "", f"cxl memdev: cmd_{verb.replace('-', '_')}: 1 mem")

    def _systemctl(self, words: list[str]) -> Output:
        unit = words[-1]
        if words[0] == "is-active":
            return Output(0 if unit in self.active else 3, "", "")
        if words[0] == "stop":
            self.let_go(self.active[unit])
        return Output(0, "", "")

    def _modprobe(self, words: list[str]) -> Output:
        for module in words[1:] if words[0].startswith("-") else words:
            folder = self.root / "sys/module" / module
            folder.rmdir() if words[0] == "-r" else folder.mkdir(exist_ok=True)
        return Output(0, "", "")


class Notes:
    """The evidence that was noted, in its order."""

    def __init__(self) -> None:
        self.all: list[Evidence] = []

    def __call__(self, evidence: Evidence) -> None:
        self.all.append(evidence)

    @property
    def last(self) -> Evidence:
        """What was noted last."""
        return self.all[-1]


def steps(evidence: Evidence) -> list[str]:
    """The names of the steps."""
    return [s.step for s in evidence.steps]


QUICK = Options(event_patience=0.05, search_patience=0.3, patience=0.3, clock=lambda: 2.0)
