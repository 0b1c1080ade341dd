# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_device on made-up nodes: makes devices usable, removes what is idle, and leaves what is held."""

from __future__ import annotations

import ast
import json
import shutil
import typing as t
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.plugins.module_utils.host import machine
from ansible_collections.composable.infra.plugins.module_utils.node import bus
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host, Output
from ansible_collections.composable.infra.plugins.modules import node_device
from ansible_collections.composable.infra.tests.unit.node.fake_node import PORT_B, A, B, C, Card, FakeNode

RunModule = Callable[..., dict[str, t.Any]]
TOUCH = "nvidia-smi --query-gpu=uuid,pci.bus_id --format=csv,noheader"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """A node with one GPU that is usable and one without a driver."""
    made = FakeNode(tmp_path, monkeypatch)
    made.ready(A, "GPU-a")
    made.come(Card(B, "GPU-b"))

    def run(host: Host, argv: Sequence[str], timeout: float, noted: bool) -> Output:
        return made.run(argv, timeout)

    monkeypatch.setattr(Host, "_start", run)
    return made


def run(run_module: RunModule, node: FakeNode, /, check: bool = False, **args: t.Any) -> dict[str, t.Any]:
    return run_module(node_device, check=check, root=str(node.root), timeout=0.3, event_timeout=0.05, **args)


def test_device_that_is_usable_stays_as_it_is(run_module: RunModule, node: FakeNode) -> None:
    assert run(run_module, node, state="present", device="GPU-a")["changed"] is False
    assert node.did == [TOUCH]


def test_device_is_found_by_a_rescan_once(run_module: RunModule, node: FakeNode) -> None:
    node.behind[PORT_B] = [Card(C, "GPU-c")]
    check = run(run_module, node, check=True, state="present", device=C)
    assert (check["changed"], node.did) == (True, [])
    apply, again = (run(run_module, node, state="present", device=C) for _unused in range(2))
    assert (apply["changed"], again["changed"], node.did.count(f"devices/{PORT_B}/rescan 1")) == (True, False, 1)
    assert apply["diff"] == {"before": {"devices": [A, B]}, "after": {"devices": [A, B, C]}}
    assert [d["uuid"] for d in apply["devices"]] == ["GPU-a", None, "GPU-c"]
    assert run(run_module, node, check=True, state="present", device=C)["changed"] is False


def test_device_is_named_by_its_uuid(run_module: RunModule, node: FakeNode) -> None:
    found = run(run_module, node, state="present", device="GPU-b")
    assert (found["changed"], found["evidence"]["address"]) == (True, B)


def test_evidence_is_that_of_the_annotation(run_module: RunModule, node: FakeNode) -> None:
    found = run(run_module, node, state="present", uid="cdi-7", known=["GPU-a"])
    told = found["evidence"]
    assert (told["device"], told["by"], told["phase"], told["uuid"]) == ("cdi-7", "ssh", "Preparing", "GPU-b")
    assert [s["step"] for s in told["steps"]] == ["OnBus", "Bound", "Touched"]
    again = run(run_module, node, state="present", uid="cdi-7", device="GPU-b", evidence=told)
    assert (again["changed"], again["evidence"]) == (False, told)
    away = run(run_module, node, state="absent", uid="cdi-7", evidence=told)
    assert [s["step"] for s in away["evidence"]["steps"]] == ["OnBus", "Bound", "Touched", "Idle", "Drained",
                                                              "RemovedFromBus"]
    assert away["evidence"]["phase"] == "Removed"


def test_device_that_comes_after_its_release_was_asked_for_is_removed(
    run_module: RunModule, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the fabric would pull it from its driver."""
    monkeypatch.setattr(bus, "await_device", lambda root, uuid, patience: node.ready(C, uuid))
    away = run(run_module, node, state="absent", uid="cdi-7", device="GPU-c", known=["GPU-a", B])
    assert away["evidence"]["phase"] == "Removed"
    assert not node.entry(C).exists()


def test_evidence_that_is_none_is_refused(run_module: RunModule, node: FakeNode) -> None:
    found = run(run_module, node, state="present", uid="cdi-7", evidence={"phase": "Ready"})
    assert found["msg"] == """evidence: {"phase": "Ready"} is not usable: must be what the module has returned"""


def test_port_must_be_an_address(run_module: RunModule, node: FakeNode) -> None:
    found = run(run_module, node, state="present", ports=["../../x"])
    assert found["msg"] == "ports: '../../x' is not usable: must be a PCI address such as 0000:00:01.0"
    assert node.did == []


def test_device_that_does_not_come_is_a_failure(run_module: RunModule, node: FakeNode) -> None:
    found = run(run_module, node, state="present", device=C, uid="cdi-7")
    assert (found["failed"], found["error"]) == (True, "NotOnBus")
    assert found["evidence"]["trouble"]["reason"] == "NotOnBus"
    assert found["evidence"]["trouble"]["message"] == found["msg"]


def test_rescan_without_a_device(run_module: RunModule, node: FakeNode) -> None:
    assert run(run_module, node, check=True, state="present")["changed"] is True
    assert run(run_module, node, state="present", rescan="bus")["changed"] is False
    assert node.did == ["rescan 1"]


@pytest.mark.parametrize("check", [True, False], ids=["check", "apply"])
def test_held_device_stays(run_module: RunModule, node: FakeNode, check: bool) -> None:
    node.hold(0)
    found = run(run_module, node, check=check, state="absent", device="GPU-a")
    assert (found["failed"], found["error"], found["users"]) == (True, "OpenOnNode", ["pid 42 (python)"])
    assert found["msg"] == f"{A} is open on the node by pid 42 (python). End these processes, or wait until they end"
    assert node.entry(A).exists()


def test_idle_device_is_removed_once(run_module: RunModule, node: FakeNode) -> None:
    check = run(run_module, node, check=True, state="absent", device="GPU-a")
    assert (node.did, check["changed"]) == ([], True)
    apply = run(run_module, node, state="absent", device=A)
    assert [check[k] for k in ("changed", "devices", "diff")] == [apply[k] for k in ("changed", "devices", "diff")]
    assert apply["evidence"]["phase"] == "Removed"
    done = len(node.did)
    again = run(run_module, node, state="absent", device=A)
    assert (again["changed"], len(node.did)) == (False, done)
    assert run(run_module, node, check=True, state="absent", device=A)["changed"] is False


def test_what_cannot_be_proven_idle_stays_unless_forced(run_module: RunModule, node: FakeNode) -> None:
    shutil.rmtree(node.root / "proc/1")
    found = run(run_module, node, state="absent", device="GPU-a")
    assert (found["failed"], found["error"]) == (True, "NotProven")
    assert "process 1 is missing" in found["msg"]
    assert node.entry(A).exists()
    assert run(run_module, node, check=True, state="absent", device="GPU-a", force=True)["changed"] is True
    assert run(run_module, node, state="absent", device="GPU-a", force=True)["changed"] is True


def test_device_must_be_named(run_module: RunModule, node: FakeNode) -> None:
    assert run(run_module, node, state="absent")["msg"] == (
        "state is absent but any of the following are missing: device, uid")


def test_nothing_is_asked_by_a_state(run_module: RunModule, node: FakeNode) -> None:
    for state in ("listed", "idle"):
        assert "value of state must be one of: present, absent" in run(run_module, node, state=state)["msg"]


def test_sample_of_the_documentation_can_be_read() -> None:
    sample = yaml.safe_load(node_device.RETURN)["evidence"]["sample"]
    assert Evidence.parse(json.dumps(sample))


def travelling() -> list[Path]:
    """The module and all that it imports of this collection, to the last file."""
    root = Path(node_device.__file__).parents[2]
    files, todo = set[Path](), [Path(node_device.__file__)]
    while todo:
        path = todo.pop()
        files.add(path)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.level or "composable" in (node.module or "")):
                names = [node.module or "", *(f"{node.module}.{a.name}" for a in node.names),
                         *(a.name for a in node.names if node.level)]
                tails = [n.rpartition("module_utils.")[2].rpartition("node.")[2] for n in names]
                todo += [p for tail in tails if (p := root / "plugins/module_utils/node" / f"{tail}.py").is_file()
                         and p not in files]
    return sorted(files)


def test_nothing_but_the_standard_library_and_ansible_travels() -> None:
    room = Path(node_device.__file__).parents[1] / "module_utils/node"
    assert set(travelling()) == {Path(node_device.__file__), *room.glob("*.py")}


def be_machine(node: FakeNode, name: str, uuid: str = "") -> None:
    """Give the machine a host name, and a system UUID unless it is empty."""
    for path, text in (("proc/sys/kernel/hostname", name), ("sys/class/dmi/id/product_uuid", uuid)):
        if text:
            (node.root / path).parent.mkdir(parents=True, exist_ok=True)
            (node.root / path).write_text(f"{text}\n", encoding="ascii")


@pytest.mark.parametrize(("name", "uuid", "wanted"), [
    ("worker-1", "", {"node": "worker-1", "system_uuid": "4C4C"}), ("worker-1.example.com", "", {"node": "worker-1"}),
    ("renamed", "4c4c", {"node": "worker-1", "system_uuid": "4C4C"}), ("db-7", "4c4c", {})])
def test_machine_of_the_node_is_worked_on(
    run_module: RunModule, node: FakeNode, name: str, uuid: str, wanted: dict[str, t.Any]
) -> None:
    be_machine(node, name, uuid)
    assert run(run_module, node, state="absent", device="GPU-a", **wanted)["changed"] is True


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("state", ["present", "absent"])
@pytest.mark.parametrize(("name", "uuid"), [("worker-1", "5d5d"), ("db-7", ""), ("", "")])
def test_other_machine_is_refused_before_anything_is_touched(
    run_module: RunModule, node: FakeNode, name: str, uuid: str, state: str, check: bool
) -> None:
    be_machine(node, name, uuid)
    found = run(run_module, node, check=check, state=state, device="GPU-b", uid="cdi-b", force=True, node="worker-1",
                system_uuid="4c4c")
    assert (found["failed"], found["error"], node.did) == (True, "OtherMachine", [])
    assert "evidence" not in found
    assert all(text in found["msg"] for text in ("worker-1", "4c4c", name, uuid))


def test_system_uuid_that_cannot_be_read_proves_nothing(run_module: RunModule, node: FakeNode) -> None:
    """The file after it is not read in its place, and the name decides."""
    (node.root / "sys/class/dmi/id/product_uuid").mkdir(parents=True)
    (node.root / "etc").mkdir()
    (node.root / "etc/machine-id").write_text("4c4c\n", encoding="ascii")
    be_machine(node, "db-7")
    wanted: dict[str, t.Any] = {"node": "worker-1", "system_uuid": "4c4c"}
    assert run(run_module, node, state="absent", device="GPU-a", **wanted)["error"] == "OtherMachine"


def test_one_task_at_a_time_works_on_a_machine(run_module: RunModule, node: FakeNode) -> None:
    with machine.alone(node.root):
        found = run(run_module, node, state="absent", device="GPU-a")
        assert run(run_module, node, check=True, state="absent", device="GPU-a")["changed"] is True
    assert (found["failed"], found["error"], node.did) == (True, "Busy", [])
    assert "evidence" not in found
    assert run(run_module, node, state="absent", device="GPU-a")["changed"] is True


def test_lock_that_cannot_be_opened_is_not_had(run_module: RunModule, node: FakeNode) -> None:
    (node.root / "run").write_text("a file", encoding="ascii")
    found = run(run_module, node, state="absent", device="GPU-a")
    assert (found["error"], node.did) == ("Busy", [])
    assert "Run the task as root" in found["msg"]
