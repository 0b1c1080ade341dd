# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a control group for each real node in every hierarchy, and remove it with its processes."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from ansible_collections.composable.infra.lab.errors import LabError

ROOT = Path("/sys/fs/cgroup")
# Group of the node's own programs, beside the kubelet's `kubepods`.
PROGRAMS = "programs"
CONTROLLERS = frozenset({"cpu", "cpuset", "memory", "pids"})
_INHERITED = ("cpuset.cpus", "cpuset.mems")


def hierarchies(root: Path = ROOT) -> list[Path]:
    """Return every mounted hierarchy: one for each controller (v1), beside or instead of one for
    all (v2)."""
    if (root / "cgroup.procs").exists():
        return [root]
    return sorted(folder for folder in root.glob("*") if (folder / "cgroup.procs").exists() and not folder.is_symlink())


def controllers(root: Path = ROOT) -> set[str]:
    """Return the controllers of the hierarchies. v1 has them as folder names, v2 lists them in a
    file."""
    found: set[str] = set()
    for hierarchy in hierarchies(root):
        listed = hierarchy / "cgroup.controllers"
        found |= set(listed.read_text("ascii").split() if listed.exists() else hierarchy.name.split(","))
    return found


def create(name: str, root: Path = ROOT) -> None:
    """Make the group `name` for a node and its programs in every hierarchy."""
    for hierarchy in hierarchies(root):
        (hierarchy / name).mkdir(exist_ok=True)
        if hierarchy == root:
            _hand_down(hierarchy, hierarchy / name)
        for folder in (hierarchy / name, hierarchy / name / PROGRAMS):
            folder.mkdir(exist_ok=True)
            for file in _INHERITED:
                if (folder / file).exists() and not (folder / "cgroup.subtree_control").exists():
                    (folder / file).write_text((folder.parent / file).read_text("ascii"), encoding="ascii")


def joins(name: str, root: Path = ROOT) -> list[str]:
    """Return the files to which a process writes its PID to join the programs of the node
    `name`."""
    return [str(hierarchy / name / PROGRAMS / "cgroup.procs") for hierarchy in hierarchies(root)]


def remove(name: str, seconds: float = 20.0, root: Path = ROOT) -> None:
    """Kill all processes in the group `name` and remove it. Raise LabError if it still exists after
    `seconds`."""
    deadline = time.monotonic() + seconds
    while left := [folder for hierarchy in hierarchies(root) if (folder := hierarchy / name).exists()]:
        for folder in left:
            _kill(folder)
            _remove_tree(folder)
        if time.monotonic() > deadline:
            raise LabError(f"the control group {left[0]} cannot be removed: processes in it do not end")
        time.sleep(0.02)


def members(folders: Iterable[Path]) -> set[int]:
    """Return the PIDs of all processes in these groups and groups below them."""
    found: set[int] = set()
    for folder in folders:
        for path, _folders, _files in os.walk(folder):
            try:
                found |= {int(pid) for pid in (Path(path) / "cgroup.procs").read_text("ascii").split()}
            except OSError:
                continue
    return found


def _hand_down(*folders: Path) -> None:
    """Enable the controllers that the kubelet needs in groups below. Version 2 enables none by
    default."""
    for folder in folders:
        for controller in sorted(CONTROLLERS):
            with contextlib.suppress(OSError):
                (folder / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")


def _kill(folder: Path) -> None:
    # All processes in a group with this name belong to a lab. PID 0 is a process outside this
    # namespace.
    for pid in members([folder]) - {0}:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _remove_tree(folder: Path) -> None:
    for path, _folders, _files in os.walk(folder, topdown=False):
        try:
            os.rmdir(path)
        except OSError:
            continue
