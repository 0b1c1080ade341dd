# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle for runc: the node's files below an overlay, and the devices of a Container Device Interface spec.

A container runtime applies such a spec; here it is applied as the specification says it, without one.
Source: SPEC.md of the Container Device Interface, config.md of the OCI runtime specification.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import typing as t
from collections.abc import Iterator, Sequence
from pathlib import Path

from ansible_collections.composable.infra.tests.hardware.node import COMPUTE

Json = dict[str, t.Any]
_PROGRAM = "/run/compute.py"
_ENVIRONMENT = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin",)
_FILE_SYSTEMS = (
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
    {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "nodev", "mode=1777"]},
    {"destination": "/run", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
    {"destination": "/sys", "type": "none", "source": "/sys", "options": ["rbind", "ro"]})


def configuration(root: str, argv: Sequence[str], edits: Sequence[Json]) -> Json:
    """Return the config.json of a container.

    ``root``: folder of its root file system. ``argv``: what it runs. ``edits``: ``containerEdits`` of a Container
    Device Interface spec, applied in their order. Raises OSError for a device file that the node does not have.
    """
    nodes = [_device(node) for edit in edits for node in edit.get("deviceNodes") or ()]
    mounts = [_mount(mount) for edit in edits for mount in edit.get("mounts") or ()]
    hooks: dict[str, list[Json]] = {}
    for hook in (hook for edit in edits for hook in edit.get("hooks") or ()):
        hooks.setdefault(hook["hookName"], []).append({k: v for k, v in hook.items() if k != "hookName"})
    allowed = [{"allow": True, "type": node["type"], "major": node["major"], "minor": node["minor"], "access": "rwm"}
               for node in nodes]
    return {
        "ociVersion": "1.0.2",
        "root": {"path": root},
        "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "args": list(argv),
                    "env": [*_ENVIRONMENT, *(entry for edit in edits for entry in edit.get("env") or ())]},
        "mounts": [*_FILE_SYSTEMS, *_own_files(), *mounts],
        "hooks": hooks,
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")], "devices": nodes,
                  "resources": {"devices": [{"allow": False, "access": "rwm"}, *allowed]}}}


def _device(node: Json) -> Json:
    """The node as the specification of the runtime has it; numbers that are missing are those of the node's file."""
    found = os.stat(node.get("hostPath") or node["path"])
    major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
    return {"path": node["path"], "type": node.get("type", "c"), "major": node.get("major", major),
            "minor": node.get("minor", minor), "fileMode": 0o666, "uid": 0, "gid": 0}


def _mount(mount: Json) -> Json:
    options = mount.get("options") or ["rbind", "ro"]
    return {"destination": mount["containerPath"], "source": mount["hostPath"], "options": options,
            "type": mount.get("type") or "bind"}


def _own_files() -> list[Json]:
    """The program, and this Python, which may lie on another file system than the node's root."""
    return [{"destination": to, "source": of, "type": "bind", "options": ["rbind", "ro"]}
            for of, to in ((str(COMPUTE), _PROGRAM), (sys.base_prefix, sys.base_prefix)) if of != "/usr"]


@contextlib.contextmanager
def bundle(edits: Sequence[Json], argv: Sequence[str] = ()) -> Iterator[list[str]]:
    """Make a bundle that runs compute.py, or ``argv``, and return the command that runs it.

    What hooks write goes to memory, above the node's own files. Raises OSError, and CalledProcessError when no overlay
    can be mounted.
    """
    command = argv or (os.path.realpath(sys.executable), "-I", _PROGRAM)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as mounted:
        folder = Path(name)
        _mounted(mounted, folder, "-t", "tmpfs", "tmpfs")
        upper, work, root = (folder / part for part in ("upper", "work", "root"))
        for part in (upper, work, root):
            part.mkdir()
        _mounted(mounted, root, "-t", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", "overlay")
        (folder / "config.json").write_text(json.dumps(configuration(str(root), command, edits)), encoding="utf-8")
        yield ["runc", "--root", str(folder / "state"), "run", "--bundle", name, f"make-hardware-{os.getpid()}"]


def _mounted(stack: contextlib.ExitStack, folder: Path, *arguments: str) -> None:
    subprocess.run(["mount", *arguments, str(folder)], check=True, timeout=30)
    stack.callback(subprocess.run, ["umount", str(folder)], check=True, timeout=30)
