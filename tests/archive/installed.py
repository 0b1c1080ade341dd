# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built archive as a user has it: an environment of one ansible-core and one Python, and a home of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import typing as t
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import yaml

from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tools.gates import other_core
from ansible_collections.composable.infra.tools.setup import collections as others

OLDEST = str(yaml.safe_load((ROOT / "meta/runtime.yml").read_text(encoding="utf-8"))["requires_ansible"])[2:6]
# the pairs of ansible-core and Python; the first of each core is for every run
QUICK = (other_core.NEWEST, "python3.13")
REST = ((OLDEST, "python3.11"), (OLDEST, "python3.12"), (other_core.NEWEST, "python3.12"))
HERE = ".ansible/collections/ansible_collections"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
SECONDS = 300.0


@dataclass(frozen=True)
class User:
    """A user of one environment. `programs` and `home` are folders."""

    programs: Path
    home: Path

    def environment(self, **more: str) -> dict[str, str]:
        """Return the variables of a new shell, with nothing of the project."""
        path = os.pathsep.join([str(self.programs), os.defpath.lstrip(":"), "/usr/local/bin", *kubectl()])
        kept = {name: os.environ[name] for name in ("JAVA_HOME", "TMPDIR") if name in os.environ}
        return {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", **kept, **more}

    def run(self, command: str, folder: Path, **more: str) -> str:
        """Run commands in a folder, as bash does. Return their output, or fail with it."""
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=folder, check=False, text=True,
                              env=self.environment(**more), stdin=subprocess.DEVNULL, timeout=SECONDS,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}"
        return done.stdout

    def run_until(self, text: str, command: str, folder: Path, **more: str) -> None:
        """Run a program that does not end by itself, and stop it as Ctrl-C does when it has printed a text."""
        log = folder / "output.log"
        with log.open("wb") as output, subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=self.environment(**more),
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True) as process:
            try:
                until(lambda: text in printed(log) or process.poll() is not None)
                assert text in printed(log), f"{command}\n{printed(log)[-6000:]}"
            finally:
                stop(process)


def new_user(home: Path, core: str, python: str, packages: t.Collection[str] | None = None) -> User:
    """Return a user whose home has the collections that ours needs, but not ours. Raises NoSuchCore.

    `packages`: Python packages beside ansible-core, and no others. None means all that the collection can use.
    """
    if packages is None:
        lines = (ROOT / "requirements/runtime.txt").read_text(encoding="utf-8").splitlines()
        every = [line for line in lines if line and not line.startswith(("#", "ansible-core"))]
        folder = other_core.programs(CACHE / "composable-infra" / "ansible-core", core, python, every)
    else:
        folder = other_core.programs(CACHE / "composable-infra" / "-".join(["ansible-core", *packages]), core, python,
                                     packages, alone=True)
    for name in others.NAMES:
        target = home / HERE / name.replace(".", "/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(others.place(others.home(), name))
    return User(folder, home)


def version_of(collection: Path) -> str:
    """Return the version of an unpacked collection."""
    manifest = json.loads((collection / "MANIFEST.json").read_text(encoding="utf-8"))
    return str(manifest["collection_info"]["version"])


def kubectl() -> list[str]:
    """Return the folder of kubectl."""
    found = shutil.which("kubectl")
    return [str(Path(found).parent)] if found else []


def printed(log: Path) -> str:
    """Return what a program has printed so far."""
    return log.read_text(encoding="utf-8", errors="replace")


def until(happened: t.Callable[[], bool]) -> None:
    """Wait until something has happened, or for SECONDS."""
    deadline = time.monotonic() + SECONDS
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.1)


def stop(process: subprocess.Popen[t.Any]) -> None:
    """Interrupt a process and what it has started, and kill what does not end."""
    for number, seconds in ((signal.SIGINT, 20.0), (signal.SIGKILL, 5.0)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
