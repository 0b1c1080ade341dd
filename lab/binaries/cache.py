# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of binaries that labs share. A binary is complete or absent, even if several labs
write it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ansible_collections.composable.infra.lab.binaries.build_progress import interval
from ansible_collections.composable.infra.lab.names import cache_dir


class BinaryCache:
    """Binaries keyed by component and version: `ROOT/bin/<component>-<version>/<component>`."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or cache_dir()

    def path(self, component: str, version: str) -> Path:
        """Return the path of the binary, whether it exists or not."""
        return self.root / "bin" / f"{component}-{version}" / component

    def find(self, component: str, version: str) -> Path | None:
        """Return the cached binary, or None."""
        path = self.path(component, version)
        return path if path.is_file() and os.access(path, os.X_OK) else None

    def install(self, component: str, version: str, binary: Path) -> Path:
        """Move `binary` into the cache in one step. An existing copy is kept."""
        final = self.path(component, version).parent
        final.parent.mkdir(parents=True, exist_ok=True)
        with self.scratch() as folder:
            staged = folder / component
            shutil.move(binary, staged)
            staged.chmod(0o755)
            (folder / "complete").mkdir()
            staged.rename(folder / "complete" / component)
            with contextlib.suppress(OSError):
                (folder / "complete").rename(final)
        return final / component

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Make a temporary folder on the file system of the cache."""
        parent = self.root / "scratch"
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True) as name:
            yield Path(name)

    @contextlib.contextmanager
    def lock(self, name: str = "fetch", tell: Callable[[str], None] = lambda line: None) -> Iterator[bool]:
        """Hold the file lock `name`. Yield True if another process held it before, which is
        reported to `tell`."""
        self.root.mkdir(parents=True, exist_ok=True)
        with open(self.root / f"{name}.lock", "a", encoding="utf-8") as handle:
            waited = False
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                wait_for_lock(handle.fileno(), tell)
                waited = True
            yield waited


def wait_for_lock(handle: int, tell: Callable[[str], None], every: float | None = None) -> None:
    """Wait for the lock. Report that at once and every ``every`` seconds."""
    began = time.monotonic()
    holder = threading.Thread(target=fcntl.flock, args=(handle, fcntl.LOCK_EX), daemon=True)
    holder.start()
    while holder.is_alive():
        tell(f"waiting for another lab, which fetches or builds binaries: {time.monotonic() - began:.0f} s")
        holder.join(interval() if every is None else every)
