# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkout's `.venv` with pinned packages: complete or rebuilt, and confirmed in
milliseconds."""

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
    """Allow one set-up of a checkout at a time. A second one waits and then finds the work done."""
    cache = root / ".cache"
    cache.mkdir(exist_ok=True)
    with (cache / "setup.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def current(root: Path) -> bool:
    """Return whether `.venv` was completed from these requirement files at this place, and its
    Python runs."""
    stamp = stamp_of(root)
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != digest(root):
        return False
    return output_of([str(python_of(root)), "-c", "print('runs')"]) == "runs\n"


def build(root: Path, base: str) -> None:
    """Make `.venv` again with the Python `base`. Raise Missing if pip cannot install the packages.

    The stamp is written last, so that an incomplete environment does not count.
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
    """Install the pinned packages and report progress. Raise Missing with the end of pip's log."""
    log = root / ".cache" / "setup.log"
    progress = Progress(expected=len(pins(root)))
    with log.open("w", encoding="utf-8") as record, start_pip(root) as pip:
        for line in pip.stdout or ():
            record.write(line)
            progress.take(line)
    if pip.returncode:
        tail = "".join(log.read_text(encoding="utf-8").splitlines(keepends=True)[-12:])
        raise Missing(f"pip could not install the pinned packages. It needs a package index that it can reach. "
                      f"Its log {log.relative_to(root)} ends with:\n{tail}")


def start_pip(root: Path) -> subprocess.Popen[str]:
    """Start pip. Its own configuration selects the package index."""
    command = [str(python_of(root)), "-m", "pip", "install", "--no-input", "--progress-bar", "off",
               "--disable-pip-version-check", "--constraint", str(requirement(root, CONSTRAINTS))]
    for name in REQUIREMENTS:
        command += ["--requirement", str(requirement(root, name))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def digest(root: Path) -> str:
    """Return a hash of the requirement files and the checkout's path, which scripts in `.venv`
    contain."""
    sha = hashlib.sha256(str(root).encode())
    for name in (*REQUIREMENTS, CONSTRAINTS):
        sha.update(requirement(root, name).read_bytes())
    return sha.hexdigest()


def pins(root: Path) -> list[str]:
    """Return the pinned packages, one `name==version` each."""
    lines = requirement(root, CONSTRAINTS).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if "==" in line and not line.startswith("#")]


def requirement(root: Path, name: str) -> Path:
    """Return the path `requirements/<name>.txt`."""
    return root / "requirements" / f"{name}.txt"


def stamp_of(root: Path) -> Path:
    """Return the path of the file that says `.venv` was completed."""
    return root / ".venv" / "complete"


def python_of(root: Path) -> Path:
    """Return the environment's interpreter."""
    return root / ".venv" / "bin" / "python"
