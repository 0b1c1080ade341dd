# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules and inventories run by Ansible's own programs against an emulated manager, without a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator, simple_spec
from ansible_collections.composable.infra.tests.e2e.support import played

Json = dict[str, t.Any]
A100, L40S = "NVIDIA-A100-PCIE-40GB", "NVIDIA-L40S"
# Programs of another ansible-core; `make integration CORE=2.16` sets it.
BIN = Path(os.environ.get("ANSIBLE_PROGRAMS", "") or Path(sys.executable).parent)
LONGEST = 180
MARK = "RESULTS:"


@dataclass(frozen=True)
class Played:
    """What ansible-playbook left: the result of each task, and everything that it printed."""

    results: list[Json]
    output: str


Play = Callable[..., Played]


def environment(folder: Path) -> dict[str, str]:
    """Nothing of whoever runs the tests but where programs are."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "COMPOSABLE_", "K8S_AUTH_", "KUBE"))}
    collections = Path(__file__).resolve().parents[3] / ".venv" / "collections"
    return {**kept, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "ANSIBLE_HOME": str(folder / "home"),
            "ANSIBLE_COLLECTIONS_PATH": str(collections), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_LOCALHOST_WARNING": "0",
            # Ansible writes there by $HOME and reads by the user's entry in passwd, which need not agree.
            "ANSIBLE_ASYNC_DIR": str(folder / "async"), "ANSIBLE_INVENTORY_UNPARSED_WARNING": "0"}


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """One of Ansible's programs."""
    return subprocess.run([str(BIN / command[0]), *command[1:]], capture_output=True, text=True, check=False,
                          env={**environment(folder), **variables}, timeout=LONGEST, cwd=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all files of a test module go."""
    return tmp_path_factory.mktemp("ansible")


@pytest.fixture(scope="module")
def emulator(folder: Path) -> Iterator[Emulator]:
    """Three machines on two fabrics, and one on none."""
    spec = simple_spec(["node-0", "node-1", "node-2"], {A100: 4, L40S: 2}, fabrics=2, attach=0.0, detach=0.0)
    spec["machines"].append({"name": "apart"})
    with Emulator.run(spec, folder / "emulator") as running:
        yield running


@pytest.fixture(scope="module")
def play(folder: Path) -> Play:
    """Run tasks on localhost with ansible-playbook; a task that fails does not end the run."""
    number = iter(range(1, 1000))

    def play(tasks: list[Json], *options: str, **variables: str) -> Played:
        n = next(number)
        book, target = folder / f"play-{n}.json", folder / f"results-{n}.json"
        book.write_text(json.dumps(_playbook(tasks, target)), encoding="utf-8")
        done = run(folder, "ansible-playbook", "-i", "localhost,", str(book), *options, **variables)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return Played(json.loads(target.read_text(encoding="utf-8")), done.stdout + done.stderr)

    return play


def _playbook(tasks: list[Json], target: Path) -> list[Json]:
    steps = [{"name": f"Task {i}", "register": f"result_{i}", "ignore_errors": True, **task}
             for i, task in enumerate(tasks)]
    names = ", ".join(f"result_{i}" for i in range(len(tasks)))
    keep = {"name": "Keep the results", "check_mode": False, "diff": False, "no_log": True, "ansible.builtin.copy": {
        "dest": str(target), "mode": "0600", "content": "{{ [" + names + "] | to_json }}"}}
    other_core = bool(os.environ.get("ANSIBLE_PROGRAMS"))
    python = "{{ ansible_playbook_python }}" if other_core else played.INTERPRETER
    return [{"name": "Tasks of a test", "hosts": "localhost", "connection": "local", "gather_facts": False,
             "vars": {"ansible_python_interpreter": python}, "tasks": [*steps, keep]}]


def changes(emulator: Emulator, since: int) -> list[Json]:
    """Requests above a number that asked for a change, logins aside."""
    return [e for e in emulator.log(since) if e["method"] != "GET" and "/id_manager/" not in e["path"]]


def mark(emulator: Emulator) -> int:
    """The number of the latest request."""
    entries = emulator.log()
    return int(entries[-1]["n"]) if entries else 0
