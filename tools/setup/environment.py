# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkout's `.venv`: pinned packages, complete or rebuilt, confirmed in milliseconds when nothing changed."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from .machine import Missing, output_of
from .progress import Progress

REQUIREMENTS = ("runtime", "tests", "gates")
CONSTRAINTS = "constraints"


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """One set-up of a checkout at a time; a second one waits and then finds the work done."""
    cache = root / ".cache"
    cache.mkdir(exist_ok=True)
    with (cache / "setup.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def current(root: Path) -> bool:
    """Whether `.venv` was completed from these very requirement files, at this place, and its Python still runs."""
    stamp = stamp_of(root)
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != digest(root):
        return False
    return output_of([str(python_of(root)), "-c", "print('runs')"]) == "runs\n"


def build(root: Path, base: str) -> None:
    """Make `.venv` anew with the Python `base`. The stamp comes last, so a half-made one is never taken for whole.

    Raises Missing when pip cannot install the packages.
    """
    started = time.monotonic()
    print(f"set-up: making .venv with {base} (a few minutes the first time)", flush=True)
    shutil.rmtree(root / ".venv", ignore_errors=True)
    done = subprocess.run([base, "-m", "venv", str(root / ".venv")], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"{base} could not make a virtual environment: {(done.stdout + done.stderr).strip()}")
    install(root)
    stamp_of(root).write_text(digest(root), encoding="utf-8")
    print(f"set-up: .venv is ready after {time.monotonic() - started:.0f} s", flush=True)


def install(root: Path) -> None:
    """Install the pinned packages, telling the progress. Raises Missing with the end of pip's log."""
    log = root / ".cache" / "setup.log"
    progress = Progress(expected=len(pins(root)))
    with log.open("w", encoding="utf-8") as record, start_pip(root) as pip:
        for line in pip.stdout or ():
            record.write(line)
            progress.take(line)
    if pip.returncode:
        tail = "".join(log.read_text(encoding="utf-8").splitlines(keepends=True)[-12:])
        raise Missing(f"pip could not install the pinned packages; it needs a package index that it can reach. "
                      f"Its log is {log.relative_to(root)} and ends:\n{tail}")


def start_pip(root: Path) -> subprocess.Popen[str]:
    """pip at work; where it finds packages is left to its own configuration."""
    command = [str(python_of(root)), "-m", "pip", "install", "--no-input", "--progress-bar", "off",
               "--disable-pip-version-check", "--constraint", str(requirement(root, CONSTRAINTS))]
    for name in REQUIREMENTS:
        command += ["--requirement", str(requirement(root, name))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def digest(root: Path) -> str:
    """Changes with every requirement file and with the checkout's place, which scripts in `.venv` contain."""
    sha = hashlib.sha256(str(root).encode())
    for name in (*REQUIREMENTS, CONSTRAINTS):
        sha.update(requirement(root, name).read_bytes())
    return sha.hexdigest()


def pins(root: Path) -> list[str]:
    """The pinned packages, one `name==version` each."""
    lines = requirement(root, CONSTRAINTS).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if "==" in line and not line.startswith("#")]


def requirement(root: Path, name: str) -> Path:
    """`requirements/<name>.txt`."""
    return root / "requirements" / f"{name}.txt"


def stamp_of(root: Path) -> Path:
    """The file that says `.venv` was completed."""
    return root / ".venv" / "complete"


def python_of(root: Path) -> Path:
    """The environment's interpreter."""
    return root / ".venv" / "bin" / "python"
