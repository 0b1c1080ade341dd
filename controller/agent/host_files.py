# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that an agent keeps on its node until the next boot.

They are a lock, and the devices from before the agent.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

log = logging.getLogger("composable.infra")
FOLDER = "run/composable.infra"
RETRY_SECONDS = 1.0


@contextlib.contextmanager
def only_agent(root: Path, stop: threading.Event) -> Iterator[bool]:
    """Wait until no other agent works on the node, not even one of another DaemonSet.

    Yield False if ``stop`` came first. The kernel frees the lock with the process, however it ends.
    Raises OSError when the file cannot be made.
    """
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _locked(descriptor, folder, stop)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, folder: Path, stop: threading.Event) -> bool:
    said = False
    while not stop.is_set():
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if not said:
                log.warning("another agent works on this node (lock %s). Waiting until it ends", folder / "agent.lock")
            said = True
            stop.wait(RETRY_SECONDS)
    return False


class DevicesBefore:
    """PCI addresses of the devices that were on the bus when the first agent since the boot began.

    They are not new devices of the fabric. ``look``: returns the addresses that the bus shows now.
    Version 1 of the file is a list of addresses. A newer agent writes an object with its
    ``version``. This agent leaves such a file as it is, and counts all devices that are there now.
    """

    def __init__(self, root: Path, look: Callable[[], list[str]]) -> None:
        self._file, self._look = root / FOLDER / "devices-before.json", look
        self._known: frozenset[str] | None = None

    def addresses(self) -> frozenset[str]:
        """Return the addresses. The first call of the first agent writes them."""
        if self._known is None:
            self._known = self._read() if self._file.exists() else self._write()
        return self._known

    def _read(self) -> frozenset[str]:
        try:
            found = json.loads(self._file.read_text(encoding="utf-8"))
            if isinstance(found, dict):
                log.warning("%s has version %r, which this agent does not know. It does not count the devices that are "
                            "on the bus now as new devices of the fabric", self._file, found.get("version"))
                return frozenset(self._look())
            return frozenset(map(str, found))
        except (OSError, ValueError, TypeError):
            return self._write()

    def _write(self) -> frozenset[str]:
        found = self._look()
        self._file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(sorted(found)), encoding="utf-8")
        fresh.replace(self._file)
        return frozenset(found)
