# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of modules and inventories: a task in both forms, and a fabric of 2,000 machines with 40,000
devices.

``python -m ansible_collections.composable.infra.tests.bench.modules`` prints the figures as JSON.
``seconds`` are elapsed time. ``cpu`` is the processor time of Ansible's processes, which depends
little on other work on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import typing as t
from contextlib import suppress
from pathlib import Path
from statistics import median

from ansible_collections.composable.infra.emulator import Emulator, simple_spec
from ansible_collections.composable.infra.tests.bench.process import peak_rss

Json = dict[str, t.Any]
MODEL = "NVIDIA-A100-PCIE-40GB"
BIN = Path(sys.executable).parent
COLLECTIONS = Path(__file__).absolute().parents[5]


def measured(folder: Path, *command: str) -> Json:
    """Return seconds, CPU seconds and the largest process of one of Ansible's programs."""
    env = {**{k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "COMPOSABLE_"))},
           "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS), "ANSIBLE_HOME": str(folder / "home"),
           "ANSIBLE_LOCALHOST_WARNING": "0", "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with (folder / "output").open("w", encoding="utf-8") as output, subprocess.Popen(
            [str(BIN / command[0]), *command[1:]], stdout=output, stderr=output, env=env, cwd=folder) as process:
        largest = _largest(process)
    if process.returncode:
        raise RuntimeError((folder / "output").read_text(encoding="utf-8")[-3000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(time.monotonic() - began, 2), "cpu": round(cpu, 2), "mib": round(largest)}


def _largest(process: subprocess.Popen[bytes]) -> float:
    """Return the MiB of the largest process in the program's tree until the program ends."""
    largest = 0.0
    while process.poll() is None:
        for pid in _tree(process.pid):
            with suppress(OSError):
                largest = max(largest, peak_rss(pid))
        time.sleep(0.01)
    return largest


def _tree(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    except OSError:
        return [pid]
    return [pid, *(p for child in children for p in _tree(int(child)))]


def play(folder: Path, tasks: list[Json]) -> list[str]:
    """Return a command that runs tasks on localhost."""
    book = folder / "play.json"
    book.write_text(json.dumps([{
        "name": "Bench", "hosts": "localhost", "connection": "local", "gather_facts": False,
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}, "tasks": tasks}]), encoding="utf-8")
    return ["ansible-playbook", "-i", "localhost,", str(book)]


def task_costs(folder: Path, runs: int, tasks: int = 20) -> Json:
    """Return the milliseconds of one more task, within Ansible's process and as a module."""
    spec = simple_spec(["node-0"], {MODEL: 1}, attach=0.0, detach=0.0)
    found: Json = {}
    with Emulator.run(spec, folder / "few") as emulator:
        base = emulator.fabric_config()
        for name, args in (("fabric_info", {}), ("fabric_device", {"machine": "node-0", "model": MODEL})):
            for form, more in (("in process", {}), ("module", {"environment": {"BENCH": "1"}})):
                task = {"name": "Task", f"composable.infra.{name}": {**base, **args}, **more}
                one = [measured(folder, *play(folder, [task])) for _unused in range(runs)]
                many = [measured(folder, *play(folder, [task] * (tasks + 1))) for _unused in range(runs)]
                found[f"{name}, {form}"] = {
                    f"{key}_ms": round((median(m[key] for m in many) - median(o[key] for o in one)) / tasks * 1000)
                    for key in ("seconds", "cpu")}
    return found


def large(folder: Path, machines: int, each: int, runs: int) -> Json:
    """Measure a large fabric that module and inventory read."""
    folder.mkdir()
    names = [f"node-{n}" for n in range(machines)]
    spec = simple_spec(names, {}, attach=0.0, detach=0.0)
    spec["models"] = [{"name": MODEL}]
    spec["fabrics"] = [{"id": 1, "devices": [{"model": MODEL, "count": each, "machine": name} for name in names]}]
    with Emulator.run(spec, folder / "many") as emulator:
        base = emulator.fabric_config()
        source = folder / "bench.fabric.yml"
        source.write_text(json.dumps({"plugin": "composable.infra.fabric", **base, "keyed_groups": [
            {"key": "composable_health", "prefix": "health"}]}), encoding="utf-8")
        query = {"name": "Query", "composable.infra.fabric_info": {**base, "query": "machines[?fabric==`1`].name"}}
        whole = {"name": "All", "composable.infra.fabric_info": base}
        commands = {"inventory --graph": ["ansible-inventory", "-i", str(source), "--graph"],
                    "inventory --list": ["ansible-inventory", "-i", str(source), "--list"],
                    "fabric_info with query": play(folder, [query])}
        found = {name: _middle([measured(folder, *command) for _unused in range(runs)])
                 for name, command in commands.items()}
        for form, more in (("in process", {}), ("module", {"environment": {"BENCH": "1"}})):
            command = play(folder, [{**whole, **more}])
            found[f"fabric_info, {form}"] = _middle([measured(folder, *command) for _unused in range(runs)])
    return found


def _middle(found: list[Json]) -> Json:
    return sorted(found, key=lambda f: t.cast(float, f["seconds"]))[len(found) // 2]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=["tasks", "large"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found: Json = {}
        if given.only != "large":
            found["one more task"] = task_costs(folder, given.runs)
        if given.only != "tasks":
            found["2,000 machines without devices"] = large(folder / "a", 2000, 0, given.runs)
            found["2,000 machines, 40,000 devices"] = large(folder / "b", 2000, 20, given.runs)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
