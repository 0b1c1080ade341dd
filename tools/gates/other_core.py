# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Another ansible-core than the one of `.venv`, in an environment of its own that is kept and shared by checkouts.

The first Python that this core can be installed for is taken: ours, else one of PYTHONS that is on PATH.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from .workspace import locked

PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")


class NoSuchCore(Exception):
    """The core cannot be installed here; the message says why."""


def programs(home: Path, core: str) -> Path:
    """The folder of the programs of ansible-core `core`, such as 2.16, below `home`. Raises NoSuchCore."""
    folder = home / core
    with locked(home / f"{core}.lock"):
        if not (folder / "bin" / "ansible-test").exists():
            _make(folder, core)
    return folder / "bin"


def python_version(programs: Path) -> str:
    """The Python version of an environment, as ansible-test names it."""
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([str(programs / "python"), "-c", ask], capture_output=True, text=True,
                          check=True).stdout.strip()


def _make(folder: Path, core: str) -> None:
    said = ""
    for python in (sys.executable, *filter(None, map(shutil.which, PYTHONS))):
        shutil.rmtree(folder, ignore_errors=True)
        new = subprocess.run([python, "-m", "venv", str(folder)], capture_output=True, text=True, check=False)
        if new.returncode == 0:
            new = subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet",
                                  f"ansible-core=={core}.*"], capture_output=True, text=True, check=False)
        if new.returncode == 0:
            return
        said = new.stderr.strip() or said
    shutil.rmtree(folder, ignore_errors=True)
    raise NoSuchCore(f"ansible-core {core} cannot be installed for any of {', '.join(PYTHONS)}: {said[-300:]}")
