# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_device, and the playbooks' rounds on the nodes, on nodes that are as harsh as real ones.

The nodes' hosts are this machine, so no SSH is spoken; all else is as it is over SSH.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.hardware.node import faults
from ansible_collections.composable.infra.lab.pytest_plugin import LabFactory
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.fake_fabric import FakeFabric
from ansible_collections.composable.infra.tests.e2e.support.lab_support import wait_for
from ansible_collections.composable.infra.tests.e2e.support.played import Played, play, well
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

Json = dict[str, t.Any]
FIRST = "0000:10:00.0"
RESOURCES = "/apis/cro.hpsys.ibm.ie.com/v1alpha1/composableresources"


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Lab:
    """A lab of this file's own: its nodes keep what was on their buses."""
    return lab_factory(nodes=2)


@pytest.fixture
def fabric(lab: Lab, tmp_path: Path) -> Iterator[FakeFabric]:
    """Every device shows after a rescan of its port only."""
    fake = FakeFabric(tmp_path / "fabric")
    lab.attach_hardware(fake.url, fake.ca, plugin_start=0.0, plugin_grace=0.3)
    for node in lab.nodes:
        lab.switch_fault(node, faults.NO_EVENT)
    yield fake
    lab.detach_hardware()
    fake.stop()


def on_node(lab: Lab, folder: Path, *tasks: Json) -> Played:
    """node_device on node-0, a task for each set of options; without a state it is node_device_info."""
    root = str(lab.node_folder("node-0"))
    steps = [{"composable.infra.node_device": {"root": root, "event_timeout": 0.0, "timeout": 20, **task}}
             if "state" in task else {"composable.infra.node_device_info": {"root": root, **task}} for task in tasks]
    book = [{"hosts": "localhost", "connection": "local", "gather_facts": False,
             "tasks": [{**step, "ignore_errors": True} for step in steps]}]
    return play(folder, book, {})


def results(played: Played) -> list[Json]:
    return [result for _name, result in played.tasks]


def test_module_makes_a_device_usable_and_removes_it_when_it_is_idle(lab: Lab, fabric: FakeFabric,
                                                                     tmp_path: Path) -> None:
    fabric.show(("a", "node-0"))
    up: Json = {"state": "present", "device": "GPU-a", "uid": "a"}
    folder = lab.node_folder("node-0")
    ready, again, seen = results(on_node(lab, tmp_path / "up", up, up, {"device": "GPU-a"}))
    assert (ready["changed"], again["changed"]) == (True, False)
    assert [(d["uuid"], d["idle"], d["users"]) for d in seen["devices"]] == [("GPU-a", True, [])]
    assert [s["step"] for s in ready["evidence"]["steps"]] == ["OnBus", "Bound", "Touched"]
    assert (ready["evidence"]["address"], ready["evidence"]["uuid"]) == (FIRST, "GPU-a")
    handle = folder / "proc/4711/fd/3"
    handle.parent.mkdir(parents=True)
    handle.symlink_to("/dev/nvidia0")
    away: Json = {"state": "absent", "device": "GPU-a", "uid": "a", "evidence": ready["evidence"]}
    held, seen = results(on_node(lab, tmp_path / "held", away, {}))
    assert [(d["idle"], d["users"]) for d in seen["devices"]] == [(False, ["pid 4711"])]
    assert (held["error"], held["users"], by_hand.bound(folder)) == ("OpenOnNode", ["pid 4711"], [FIRST])
    handle.unlink()
    gone, = results(on_node(lab, tmp_path / "gone", away))
    assert gone["changed"], gone
    assert (gone["evidence"]["phase"], by_hand.gpus(folder)) == ("Removed", [])
    assert "non-zero usage count" not in by_hand.kernel_log(folder)
    fabric.show()


def rounds(lab: Lab, folder: Path) -> Played:
    """Five rounds of the playbooks on both nodes, while a task runs that ends when they have ended."""
    inventory = folder / "inventory.json"
    hosts = {f"host-of-{node}": {"ansible_connection": "local", "node_name": node,
                                 "node_root": str(lab.node_folder(node))} for node in lab.nodes}
    inventory.parent.mkdir(parents=True)
    inventory.write_text(json.dumps({"all": {"children": {"composable_nodes": {"hosts": hosts}}}}), encoding="utf-8")
    ended = str(folder / "ended")
    tasks = ROOT / "playbooks/tasks"
    names = "'config', 'kubeconfig', 'node_become'"
    lookup = f"{{{{ lookup('composable.infra.playbook_variables', {names}) }}}}"
    book = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": {"given": lookup}, "tasks": [
        {"ansible.builtin.include_tasks": str(tasks / "node_hosts.yml")},
        {"ansible.builtin.wait_for": {"path": ended, "timeout": 600}, "async": 600, "poll": 0, "register": "node_job"},
        {"ansible.builtin.include_tasks": str(tasks / "node_rounds.yml")},
        {"ansible.builtin.file": {"path": ended, "state": "touch"}}]}]
    given = {"kubeconfig": str(lab.kubeconfig), "config": {"node_operations": "ssh"}, "node_become": False}
    return play(folder, book, given, "-i", str(inventory), ANSIBLE_ASYNC_DIR=str(folder / "async"))


def evidence(lab: Lab, name: str) -> Json:
    told: Json = json.loads(lab.api.get(f"{RESOURCES}/{name}")["metadata"]["annotations"][cohdi.NODE])
    return told


def test_rounds_bring_devices_up_and_release_them(lab: Lab, fabric: FakeFabric, tmp_path: Path) -> None:
    attached = {"a": "node-0", "b": "node-0", "c": "node-1"}
    for uid, node in attached.items():
        body = cohdi.resource_body(f"gpu-{uid}", "r", node, "H100", "")
        lab.api.request("POST", RESOURCES, body)
        status = {"status": {"state": "Online", "cdi_device_id": uid, "device_id": f"GPU-{uid}"}}
        lab.api.request("PATCH", f"{RESOURCES}/gpu-{uid}/status", status, "application/merge-patch+json")
    fabric.show(*attached.items())
    pods = plugin_pods(lab)
    well(rounds(lab, tmp_path / "up"))
    wait_for("both slices", lambda: [by_hand.announced(lab, n) for n in lab.nodes] == [["GPU-a", "GPU-b"], ["GPU-c"]])
    assert {evidence(lab, f"gpu-{uid}")["phase"] for uid in attached} == {"Ready"}
    assert [s["step"] for s in evidence(lab, "gpu-a")["steps"]][:4] == ["OnBus", "Bound", "Touched", "PluginRestarted"]
    assert plugin_pods(lab).isdisjoint(pods)
    asked = {"metadata": {"annotations": {cohdi.RELEASE: "2026-11-22T20:00:00.000000Z"}}}
    lab.api.request("PATCH", f"{RESOURCES}/gpu-a", asked, "application/merge-patch+json")
    well(rounds(lab, tmp_path / "down"))
    assert evidence(lab, "gpu-a")["phase"] == "Removed"
    wait_for("the other device alone", lambda: by_hand.announced(lab, "node-0") == ["GPU-b"])
    assert evidence(lab, "gpu-b")["phase"] == "Ready"


def plugin_pods(lab: Lab) -> set[str]:
    return {pod["metadata"]["uid"] for pod in lab.api.get(by_hand.PODS)["items"]}
