# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs modules as users do: ansible-playbook with some tasks, the results read from a file."""

from __future__ import annotations

import itertools
import json
import sys
import typing as t
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.tests.e2e.support.support import OPENED

Json = dict[str, t.Any]
_NUMBERS = itertools.count(1)
CONFIGURED = ("claim_info", "device_pool", "device_pool_info", "fabric_capture", "fabric_defragment", "scale")
ON_CLUSTER = ("claim_condition", "composability_request", "composability_request_info")


@dataclass(frozen=True)
class Played:
    """What a run of ansible-playbook left: its results in the order of the tasks, and what it printed."""

    results: list[Json]
    output: str


def play(stage: Stage, tasks: list[Json], *options: str) -> Played:
    """Run tasks on localhost; a task that fails does not end the run. Each task is {module: arguments, ...}."""
    number = next(_NUMBERS)
    book, target = stage.folder / f"tasks-{number}.json", stage.folder / f"results-{number}.json"
    steps = [{"name": f"Task {i}", "register": f"result_{i}", "ignore_errors": True, **_complete(stage, task)}
             for i, task in enumerate(tasks)]
    names = ", ".join(f"result_{i}" for i in range(len(tasks)))
    dump = {"name": "Keep the results", "check_mode": False, "diff": False, "no_log": True, "ansible.builtin.copy": {
        "dest": str(target), "mode": "0600",
        "content": "{{ [" + names + "] | to_json }}"}}
    document = [{"name": "Tasks of a test", "hosts": "localhost", "connection": "local", "gather_facts": False,
                 "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}, "tasks": [*steps, dump]}]
    book.write_text(json.dumps(document), encoding="utf-8")
    return Played(*_run(stage, number, book, target, options))


def _run(stage: Stage, number: int, book: Path, target: Path, options: tuple[str, ...]) -> tuple[list[Json], str]:
    command = [str(Path(sys.executable).parent / "ansible-playbook"), str(book), *options]
    process = OPENED.add(front_doors.Process(f"tasks-{number}", command, stage, ANSIBLE_PIPELINING="true"))
    code = process.process.wait(300)
    output = process.text()
    assert code == 0, output[-3000:]
    OPENED.stop(process)
    return json.loads(target.read_text(encoding="utf-8")), output


def _complete(stage: Stage, task: Json) -> Json:
    """Fill in where the cluster and the configuration are, unless the task says so itself."""
    done = dict(task)
    for name in CONFIGURED:
        key = f"composable.infra.{name}"
        if key in done:
            given = {"kubeconfig": str(stage.kubeconfig), **done[key]}
            if "config" not in given:
                given.setdefault("config_path", str(stage.config_path))
            done[key] = given
    for name in ON_CLUSTER:
        key = f"composable.infra.{name}"
        if key in done:
            done[key] = {"kubeconfig": str(stage.kubeconfig), **done[key]}
    return done


def run_tasks(stage: Stage, tasks: list[Json], *options: str) -> list[Json]:
    """The results of ``play``."""
    return play(stage, tasks, *options).results
