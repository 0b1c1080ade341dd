# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The identity of this machine, and a lock so that one program at a time changes its devices.

Standard library only, Python 3.8, because the file runs on nodes.
"""

from __future__ import annotations

import fcntl
import os
import typing as t
from contextlib import contextmanager
from pathlib import Path

# The files that the kubelet reads for status.nodeInfo.systemUUID, in its order.
_UUIDS = ("sys/class/dmi/id/product_uuid", "proc/device-tree/system-id", "proc/device-tree/vm,uuid", "etc/machine-id")
_NAME = "proc/sys/kernel/hostname"
LOCK = "run/composable.infra/node_device.lock"


class OtherMachine(Exception):
    """This is not the machine of the node, or no file proves that it is. The message names both."""


class Busy(Exception):
    """Another program is changing devices of this machine, or nothing proves that none is."""


def check(root: Path, node: str, system_uuid: str) -> None:
    """Raise OtherMachine unless this machine is the one of `node`.

    `root` is the path of the machine's ``/``. `node` is the name of the node, or empty for any
    node. `system_uuid` is the systemUUID that the node reports, or empty. If both UUIDs are known,
    they decide. Otherwise the name decides.
    """
    if not (node or system_uuid):
        return
    uuid, name = _uuid(root), _read(root / _NAME) or ""
    same_uuid, same_name = uuid.lower() == system_uuid.lower(), bool(name) and _short(name) == _short(node)
    if not (same_uuid if uuid and system_uuid else same_name):
        raise OtherMachine(
            f"This machine is {name or 'without a readable name'} (system UUID {uuid or 'not readable'}), and not the "
            f"node {node or 'of another name'} (system UUID {system_uuid or 'not reported'}). Nothing was changed. "
            "Correct ansible_host and composable_node_name of the host in the inventory")


def _short(name: str) -> str:
    return name.lower().partition(".")[0]


def _uuid(root: Path) -> str:
    """Return the UUID that the kubelet would read here, or empty if its file cannot be read."""
    for path in _UUIDS:
        found = _read(root / path)
        if found is None:
            return ""
        if found:
            return found
    return ""


def _read(path: Path) -> str | None:
    """Return the text of a file, empty without the file, or None if it cannot be read."""
    try:
        return path.read_bytes().decode("ascii", "replace").strip("\0 \n")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError:
        return None


@contextmanager
def alone(root: Path) -> t.Iterator[None]:
    """Hold the machine's lock. Raise Busy if another program holds it.

    The kernel frees the lock when the program ends in any way.
    """
    path = root / LOCK
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Busy(f"{path} cannot be opened ({error.strerror}), so another task may run on this machine. "
                   "Run the task as root") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise Busy("Another task of node_device runs on this machine. Wait until it ends") from None
    try:
        yield
    finally:
        os.close(lock)
