# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workspace of gates: one copy of the sources that git knows, at the path that Ansible's tools
need.

ansible-test, ansible-lint and ansible-galaxy need `ansible_collections/<namespace>/<name>`, follow
no links, and check every file there. So they all use the same copy. Only changed files are updated
in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..setup import collections as others

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
COLLECTIONS = CACHE / "sources"
SOURCES = COLLECTIONS / "ansible_collections" / "composable" / "infra"
BIN = Path(sys.executable).parent
KEPT = (".git", ".ansible")


def sources() -> Path:
    """Update the copy to the files that git tracks and new files that are not ignored. Return its
    folder."""
    with locked(CACHE / "sources.lock"):
        SOURCES.mkdir(parents=True, exist_ok=True)
        repository()
        wanted = known_files()
        for name in sorted(copied() - wanted):
            (SOURCES / name).unlink()
        for name in sorted(wanted):
            refresh(ROOT / name, SOURCES / name)
    return SOURCES


def repository() -> None:
    """Make the copy a git repository, so that tools do not find the checkout, which ignores the
    copy."""
    if not (SOURCES / ".git").is_dir():
        subprocess.run(["git", "init", "--quiet", str(SOURCES)], check=True)
        (SOURCES / ".git" / "info").mkdir(exist_ok=True)
        (SOURCES / ".git" / "info" / "exclude").write_text(".ansible/\n", encoding="utf-8")


def known_files() -> set[str]:
    """Return tracked files and new files that are not ignored, as paths relative to the
    checkout."""
    listing = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {name for name in listing.split("\0") if name and (ROOT / name).is_file()}


def copied() -> set[str]:
    """Return the files in the copy."""
    found: set[str] = set()
    for folder, folders, files in os.walk(SOURCES):
        folders[:] = [name for name in folders if name not in KEPT]
        found.update(str((Path(folder) / name).relative_to(SOURCES)) for name in files)
    return found


def refresh(source: Path, target: Path) -> None:
    """Copy a file with its time and mode unless the copy has them. Skip a file that just
    vanished."""
    with contextlib.suppress(FileNotFoundError):
        new = source.stat()
        if target.is_file():
            old = target.stat()
            if (old.st_size, old.st_mtime_ns, old.st_mode) == (new.st_size, new.st_mtime_ns, new.st_mode):
                return
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def run(command: list[str], cwd: Path | None = None, **variables: str) -> int:
    """Run a tool of `.venv` on the copy, pass its output through, and return its exit status."""
    return subprocess.run([str(BIN / command[0]), *command[1:]], cwd=cwd or SOURCES, check=False,
                          env=environment(variables)).returncode


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of every tool: `.venv` first, the copy, collections for our roles, own
    home folder."""
    home = CACHE / "home"
    home.mkdir(parents=True, exist_ok=True)
    return {**os.environ, "HOME": str(home), "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "ANSIBLE_COLLECTIONS_PATH": f"{COLLECTIONS}{os.pathsep}{others.home()}",
            "ANSIBLE_HOME": str(CACHE / "ansible"), "ANSIBLE_NOCOLOR": "1", "NO_COLOR": "1",
            "PYTHONWARNINGS": "ignore", **variables}


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file. Another holder waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
