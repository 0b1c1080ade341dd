# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state folder of a lab: made for one lab at a time, found again later, removed only if it is a
lab's."""

from __future__ import annotations

import fcntl
import json
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.processes.supervisor import Processes

_FILE = "lab.json"


@dataclass(frozen=True, slots=True)
class Description:
    """Record of a running lab. `server` and `scheduler` are URLs."""

    name: str
    kubernetes: str
    nodes: int
    server: str
    scheduler: str
    foreground: bool
    real_nodes: int = 0

    def write(self, state_dir: Path) -> None:
        """Write the record to the lab's folder."""
        (state_dir / _FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, state_dir: Path) -> Description:
        """Return the record. Raise LabError if the folder has no lab."""
        try:
            return cls(**json.loads((state_dir / _FILE).read_text(encoding="utf-8")))
        except FileNotFoundError as error:
            raise LabError(f"{state_dir} holds no lab: start a lab with 'lab up'") from error
        except (ValueError, TypeError) as error:
            raise LabError(f"{state_dir / _FILE} does not describe a lab") from error


def fresh_folder(wanted: Path | None) -> Path:
    """Return an empty folder for a new lab, after removing a dead lab. Raise LabError if it is not
    free."""
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="composable-infra-lab-"))
    path = wanted.absolute()
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        _clear_remains(path)
        path.mkdir(parents=True)
    return path


def lock_folder(path: Path) -> IO[str]:
    """Prevent other labs from starting in `path` until the handle is closed. Raise LabError if one
    is."""
    handle = (path / "lock").open("w", encoding="utf-8")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        handle.close()
        raise LabError(f"another lab is starting in {path}") from error
    return handle


def remove_folder(path: Path) -> None:
    """Remove a lab's folder. Leave any other folder alone."""
    if (path / _FILE).exists() or (path / "lock").exists():
        shutil.rmtree(path, ignore_errors=True)


def _clear_remains(path: Path) -> None:
    if not (path / _FILE).exists() and not (path / "lock").exists():
        raise LabError(f"{path} is not empty and holds no lab: name an empty or new folder")
    alive = [record.name for record in Processes(path).records() if record.alive]
    if alive:
        raise LabError(f"a lab is already up in {path} ({', '.join(alive)}): use it, or stop it with 'lab down'")
    lock_folder(path).close()
    shutil.rmtree(path)
