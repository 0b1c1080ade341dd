# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record the changes of real nodes to this machine before they are made, so that any process can
undo them.

    /run/composable-infra/real-nodes/machine.json   kernel settings and folders, as they were before the first lab
    /run/composable-infra/real-nodes/labs/N.json    one lab: its folder, numbers of its nodes, processes that keep it

A lab is dead when all its processes have ended. The next lab command removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.processes import pids
from ansible_collections.composable.infra.lab.real_nodes import addresses, cgroups, sysctls
from ansible_collections.composable.infra.lab.real_nodes.namespace import MOUNT_POINTS
from ansible_collections.composable.infra.lab.real_nodes.node import RealNode

ROOT = Path("/run/composable-infra/real-nodes")
_NUMBERS = range(1, 255)


@dataclass(frozen=True, slots=True)
class Entry:
    """One lab.

    `keepers` are (PID, start time) of processes. The lab lives while one of them does.
    """

    state_dir: str
    nodes: tuple[tuple[str, int], ...]
    keepers: tuple[tuple[int, str], ...]

    @property
    def alive(self) -> bool:
        """Return whether the lab's nodes run or are being started."""
        return any(pids.is_same(pid, started) for pid, started in self.keepers)

    def real_nodes(self) -> list[RealNode]:
        """Return the lab's nodes."""
        return [RealNode(name, number, Path(self.state_dir)) for name, number in self.nodes]


class Ledger:
    """The machine's list of labs with real nodes. Changes need root."""

    def __init__(self, root: Path = ROOT, mount_points: Sequence[str] = MOUNT_POINTS) -> None:
        self._mount_points = mount_points
        self._labs = root / "labs"
        self._machine = root / "machine.json"
        self._lock = root / "lock"

    def open(self, state_dir: Path, names: Sequence[str]) -> list[RealNode]:
        """Return nodes with unused numbers, after making their addresses and control groups."""
        with self._locked():
            self._sweep()
            if not self._machine.exists():
                self._note_machine()
            entry = Entry(str(state_dir), tuple(zip(names, self._free(len(names)), strict=True)), (_myself(),))
            self._write(entry)
            for node in entry.real_nodes():
                addresses.add(node.address)
                cgroups.create(node.cgroup)
        return entry.real_nodes()

    def keep(self, state_dir: Path, keepers: Sequence[tuple[int, str]]) -> None:
        """Record which processes are the lab's nodes, as (PID, start time)."""
        with self._locked():
            entry = self._entries()[str(state_dir)]
            self._write(Entry(entry.state_dir, entry.nodes, tuple(keepers)))

    def labs(self) -> list[Path]:
        """Return the folders of all recorded labs, including dead ones."""
        return [Path(state_dir) for state_dir in self._entries()]

    def nodes(self, state_dir: Path) -> list[RealNode]:
        """Return the real nodes of the lab in `state_dir`."""
        entry = self._entries().get(str(state_dir))
        return entry.real_nodes() if entry else []

    def keepers(self, state_dir: Path) -> Sequence[tuple[int, str]]:
        """Return the processes that keep the lab in `state_dir`, as (PID, start time)."""
        entry = self._entries().get(str(state_dir))
        return entry.keepers if entry else ()

    def close(self, state_dir: Path) -> None:
        """Undo the changes of the lab in `state_dir`. Kill its nodes if they still run."""
        if not self._usable():
            return
        with self._locked():
            if entry := self._entries().get(str(state_dir)):
                self._clear(entry)
            self._sweep()

    def sweep(self) -> None:
        """Undo the changes of dead labs."""
        if self._usable():
            with self._locked():
                self._sweep()

    def _usable(self) -> bool:
        return self._labs.exists() and os.access(self._labs, os.W_OK)

    def _sweep(self) -> None:
        for entry in self._entries().values():
            if not entry.alive:
                self._clear(entry)
        if self._machine.exists() and not self._entries():
            machine = json.loads(self._machine.read_text("utf-8"))
            sysctls.restore(machine["sysctls"])
            _remove_folders(machine["folders"])
            self._machine.unlink()

    def _clear(self, entry: Entry) -> None:
        for node in entry.real_nodes():
            cgroups.remove(node.cgroup)
            addresses.remove(node.address)
        self._file(entry).unlink()

    def _note_machine(self) -> None:
        made = [folder for target in self._mount_points for folder in _absent(Path(target))]
        document = {"sysctls": sysctls.read(), "folders": [str(folder) for folder in dict.fromkeys(made)]}
        self._machine.write_text(json.dumps(document), encoding="utf-8")
        for target in self._mount_points:
            Path(target).mkdir(parents=True, exist_ok=True)

    def _free(self, count: int) -> list[int]:
        used = {number for entry in self._entries().values() for _name, number in entry.nodes}
        present = addresses.present()
        free = [n for n in _NUMBERS if n not in used and RealNode("", n, Path()).address not in present]
        if len(free) < count:
            raise LabError(f"real_nodes={count} is not allowed: only {len(free)} more fit on this machine")
        return free[:count]

    def _entries(self) -> dict[str, Entry]:
        found = {}
        for path in sorted(self._labs.glob("*.json")):
            raw = json.loads(path.read_text("utf-8"))
            nodes = tuple((name, number) for name, number in raw["nodes"])
            found[raw["state_dir"]] = Entry(raw["state_dir"], nodes, tuple((p, s) for p, s in raw["keepers"]))
        return found

    def _file(self, entry: Entry) -> Path:
        return self._labs / f"{entry.nodes[0][1]}.json"

    def _write(self, entry: Entry) -> None:
        temporary = self._file(entry).with_suffix(".new")
        temporary.write_text(json.dumps(asdict(entry)), encoding="utf-8")
        temporary.replace(self._file(entry))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._labs.mkdir(parents=True, exist_ok=True)
        with self._lock.open("a", encoding="ascii") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def _myself() -> tuple[int, str]:
    return os.getpid(), pids.start_time(os.getpid()) or ""


def _absent(folder: Path) -> list[Path]:
    """Return `folder` and its parents that do not exist, the outermost first."""
    return [path for path in (*reversed(folder.parents), folder) if not path.exists()]


def _remove_folders(folders: Sequence[str]) -> None:
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
