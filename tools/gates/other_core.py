# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install another ansible-core than that of `.venv`, in a separate environment that checkouts
share.

Use the first Python that this core supports: ours, else one of PYTHONS on PATH. A caller may name
the Python and further packages. The core NEWEST is the newest in the package index for that Python.

`python -m tools.gates.other_core 2.16` installs it if it is absent, and prints the folder of its
programs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from .workspace import locked

CONSTRAINTS = Path(__file__).resolve().parents[2] / "requirements" / "constraints.txt"
# packages for filters of playbooks, beside ansible-core
BESIDE = ("jmespath",)
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
NEWEST = "newest"


class NoSuchCore(Exception):
    """The core cannot be installed here. The message says why."""


def programs(home: Path, core: str, python: str = "", packages: Collection[str] = (), *,
             alone: bool = False) -> Path:
    """Return the folder of the programs of ansible-core `core`, such as 2.16, below `home`. Raise
    NoSuchCore.

    `python` is the name of a Python program on PATH. `packages` are installed too, and BESIDE
    unless `alone` is set.
    """
    folder = home / (f"{core}-{python}" if python else core)
    wanted, kept = "\n".join(packages), folder / "packages.txt"
    with locked(home / f"{folder.name}.lock"):
        made = (folder / "bin" / "ansible-test").exists()
        if not made or wanted != (kept.read_text(encoding="utf-8") if kept.exists() else ""):
            _make(folder, core, [found] if (found := shutil.which(python)) else _pythons(),
                  [*packages, *([] if alone else beside())])
            kept.write_text(wanted, encoding="utf-8")
    return folder / "bin"


def python_version(programs: Path) -> str:
    """Return the Python version of an environment, as ansible-test names it."""
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([str(programs / "python"), "-c", ask], capture_output=True, text=True,
                          check=True).stdout.strip()


def beside() -> list[str]:
    """Return the packages to install beside ansible-core, in the versions of `.venv`."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.partition("==")[0] in BESIDE]


def main(core: str) -> int:
    """Print the folder of the programs of ansible-core `core`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        print(programs(cache / "composable-infra" / "ansible-core", core))
    except NoSuchCore as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def chosen(python: str) -> dict[str, str]:
    """Return variables with which a Python of pyenv runs. Its programs refuse while another version
    is active."""
    return {**os.environ, "PYENV_VERSION": python.removeprefix("python")}


def _pythons() -> list[str]:
    return [sys.executable, *filter(None, map(shutil.which, PYTHONS))]


def _make(folder: Path, core: str, pythons: Collection[str], packages: Collection[str]) -> None:
    said, version = "", "" if core == NEWEST else f"=={core}.*"
    for python in pythons:
        shutil.rmtree(folder, ignore_errors=True)
        new = subprocess.run([python, "-m", "venv", str(folder)], capture_output=True, text=True, check=False,
                             env=os.environ if python == sys.executable else chosen(Path(python).name))
        if new.returncode == 0:
            # Most of it is never imported here, so let Python compile modules on import.
            new = subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile",
                                  f"ansible-core{version}", *packages], capture_output=True, text=True,
                                 check=False)
        if new.returncode == 0:
            return
        said = new.stderr.strip() or said
    shutil.rmtree(folder, ignore_errors=True)
    raise NoSuchCore(f"ansible-core {core} cannot be installed for any of {', '.join(pythons)}: {said[-300:]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
