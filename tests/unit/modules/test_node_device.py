# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_device on made-up nodes: finds, proves idle, removes what is idle, and leaves what is held."""

from __future__ import annotations

import ast
import shutil
import typing as t
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import pci
from ansible_collections.composable.infra.plugins.modules import node_device
from ansible_collections.composable.infra.tests.unit.node.test_pci import A, B, plug
from ansible_collections.composable.infra.tests.unit.node.test_probe import gpu, process

RunModule = Callable[..., dict[str, t.Any]]
NEW = "0000:12:00.0"


class Kernel:
    """Does what is written to it: a rescan shows ``waiting``, a removal takes the device away."""

    def __init__(self, root: Path) -> None:
        self.root, self.written = root, list[str]()
        self.waiting: list[str] = []

    def write(self, path: Path, patience: float) -> None:
        self.written.append(str(path.relative_to(self.root / "sys/bus/pci")))
        if path.name == "rescan":
            for uuid in self.waiting:
                plug(self.root, NEW, driver="nvidia")
                gpu(self.root, NEW, uuid, 7)
        else:
            shutil.rmtree(path.parent)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """A node with one GPU that the NVIDIA driver has and one without a driver."""
    plug(tmp_path, A, driver="nvidia")
    plug(tmp_path, B)
    gpu(tmp_path, A, "GPU-a", 3)
    process(tmp_path, 1, "init")
    made = Kernel(tmp_path)
    monkeypatch.setattr(pci, "_write", made.write)
    return made


def run(run_module: RunModule, kernel: Kernel, check: bool = False, **args: t.Any) -> dict[str, t.Any]:
    return run_module(node_device, check=check, root=str(kernel.root), timeout=0.2, **args)


def test_list(run_module: RunModule, kernel: Kernel) -> None:
    found = run(run_module, kernel)
    assert (found["changed"], [d["address"] for d in found["devices"]]) == (False, [A, B])
    assert found["devices"][0] == {"address": A, "vendor": "10de", "device": "20f1", "pci_class": "030200", "minor": 3,
                                   "driver": "nvidia", "numa_node": None, "uuid": "GPU-a", "model": "NVIDIA A100"}


def test_device_that_is_there_needs_no_rescan(run_module: RunModule, kernel: Kernel) -> None:
    assert run(run_module, kernel, state="present", device="GPU-a")["changed"] is False
    assert kernel.written == []


def test_device_is_found_by_a_rescan_once(run_module: RunModule, kernel: Kernel) -> None:
    kernel.waiting = ["GPU-n"]
    check = run(run_module, kernel, check=True, state="present", device="GPU-n")
    assert (check["changed"], kernel.written) == (True, [])
    apply, again = (run(run_module, kernel, state="present", device="GPU-n") for _unused in range(2))
    assert (apply["changed"], again["changed"], kernel.written) == (True, False, ["rescan"])
    assert apply["diff"] == {"before": {"devices": [A, B]}, "after": {"devices": [A, B, NEW]}}
    assert run(run_module, kernel, check=True, state="present", device="GPU-n")["changed"] is False


def test_device_that_does_not_come_is_a_failure(run_module: RunModule, kernel: Kernel) -> None:
    found = run(run_module, kernel, state="present", device="GPU-n")
    assert (found["failed"], found["error"]) == (True, "UnknownDevice")
    assert found["msg"].startswith("device: 'GPU-n' is not on this node; allowed are 0000:10:00.0 (GPU-a)")


def test_rescan_without_a_device(run_module: RunModule, kernel: Kernel) -> None:
    assert run(run_module, kernel, state="present")["changed"] is False
    assert kernel.written == ["rescan"]


def test_idle_is_proven(run_module: RunModule, kernel: Kernel) -> None:
    found = run(run_module, kernel, state="idle", device="GPU-a")
    assert (found["failed"], found["changed"], found["users"]) == (False, False, [])


def test_held_device_is_not_idle_and_stays(run_module: RunModule, kernel: Kernel) -> None:
    process(kernel.root, 42, "python", "/dev/nvidia3")
    for state in ("idle", "absent"):
        for check in (True, False):
            found = run(run_module, kernel, check=check, state=state, device="GPU-a")
            assert (found["failed"], found["error"], found["users"]) == (True, "Held", ["pid 42 (python)"])
            assert found["msg"] == f"device {A} is held by pid 42 (python); end them first, or set force"
    assert kernel.written == []


def test_idle_device_is_removed_once(run_module: RunModule, kernel: Kernel) -> None:
    check = run(run_module, kernel, check=True, state="absent", device="GPU-a")
    assert (kernel.written, check["changed"]) == ([], True)
    apply = run(run_module, kernel, state="absent", device=A)
    assert kernel.written == [f"devices/{A}/remove"]
    assert [check[k] for k in ("changed", "devices", "diff")] == [apply[k] for k in ("changed", "devices", "diff")]
    again = run(run_module, kernel, state="absent", device=A)
    assert (again["changed"], len(kernel.written)) == (False, 1)


def test_force_removes_what_is_held(run_module: RunModule, kernel: Kernel) -> None:
    process(kernel.root, 42, "python", "/dev/nvidia3")
    found = run(run_module, kernel, state="absent", device="GPU-a", force=True)
    assert (found["changed"], found["users"]) == (True, ["pid 42 (python)"])


def test_what_cannot_be_proven_idle_stays_unless_forced(run_module: RunModule, kernel: Kernel) -> None:
    shutil.rmtree(kernel.root / "proc/1")
    for state in ("idle", "absent"):
        found = run(run_module, kernel, state=state, device="GPU-a")
        assert (found["failed"], found["error"]) == (True, "NotProven")
        assert "process 1 is missing" in found["msg"]
    assert kernel.written == []
    forced = run(run_module, kernel, state="absent", device="GPU-a", force=True)
    assert (forced["changed"], "users" in forced) == (True, False)


@pytest.mark.parametrize("state", ["idle", "absent"])
def test_device_must_be_named(run_module: RunModule, kernel: Kernel, state: str) -> None:
    found = run(run_module, kernel, state=state)
    assert found["msg"] == f"state is {state} but all of the following are missing: device"


def test_unknown_device_cannot_be_idle(run_module: RunModule, kernel: Kernel) -> None:
    assert run(run_module, kernel, state="idle", device="GPU-z")["error"] == "UnknownDevice"


def test_nothing_but_the_standard_library_and_ansible_travels() -> None:
    """The module and all that it imports of this collection, to the last file."""
    root = Path(node_device.__file__).parents[2]
    files, todo = set[Path](), [Path(node_device.__file__)]
    while todo:
        path = todo.pop()
        files.add(path)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.level or "composable" in (node.module or "")):
                names = [node.module or "", *(f"{node.module}.{a.name}" for a in node.names)]
                tails = [n.rpartition("module_utils.")[2].rpartition("node.")[2] for n in names]
                todo += [p for tail in tails if (p := root / "plugins/module_utils/node" / f"{tail}.py").is_file()
                         and p not in files]
    assert {p.name for p in files} == {"node_device.py", "pci.py", "probe.py"}
