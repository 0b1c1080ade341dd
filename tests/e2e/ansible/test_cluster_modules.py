# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that write to the cluster or look at a node, on a real API server: check, apply, apply, check."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, H100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.cluster_state import stored_versions
from ansible_collections.composable.infra.tests.e2e.support.modules import Json, run_tasks
from ansible_collections.composable.infra.tests.e2e.support.support import (
    PATIENCE,
    allocated,
    delete_all,
    pools,
    wait_for,
)

STAGE: dict[str, t.Any] = {"devices": {A100: 4, H100: 2}, "hold": 600.0}
CHECK: Json = {"check_mode": True, "diff": True}
SAME = ("changed", "diff")


def four(task: Json) -> list[Json]:
    """Check, apply, apply, check."""
    return [{**task, **CHECK}, {**task, "diff": True}, {**task, "diff": True}, {**task, **CHECK}]


def twice(stage: Stage, task: Json) -> tuple[Json, Json]:
    """Run all four; check mode writes nothing and says what apply does, the second run changes nothing.

    Returns the results of check mode and of apply.
    """
    before = stored_versions(stage)
    check, = run_tasks(stage, [{**task, **CHECK}])
    assert not check.get("failed"), check["msg"]
    assert stored_versions(stage) == before
    apply, again, last = run_tasks(stage, four(task)[1:])
    assert not [r["msg"] for r in (apply, again, last) if r.get("failed")]
    assert [r["changed"] for r in (check, apply, again, last)] == [True, True, False, False]
    assert [check[key] for key in SAME] == [apply[key] for key in SAME]
    assert [again[key] for key in SAME] == [last[key] for key in SAME]
    assert again["diff"]["before"] == again["diff"]["after"]
    return check, apply


def test_pools(stage: Stage) -> None:
    def task(state: str, *names: str) -> Json:
        return {"composable.infra.device_pool": {"state": state, "pools": list(names)}}

    def info(*names: str) -> Json:
        return {"composable.infra.device_pool_info": {"pools": list(names)}}

    check, apply = twice(stage, task("published"))
    assert check["pools"] == apply["pools"]
    assert sorted(pools(stage).values()) == [2, 4]
    name = next(p["name"] for p in apply["pools"] if p["model"] == H100)
    check, apply = twice(stage, task("withdrawn", name))
    assert check["pools"] == apply["pools"]
    assert list(pools(stage).values()) == [4]
    shown, = run_tasks(stage, [info()])
    assert {p["name"]: (len(p["devices"]), p["published"]) for p in shown["pools"]}[name] == (0, False)
    refused, = run_tasks(stage, [info("nobodys-pool")])
    assert "pools: 'nobodys-pool' is not a pool of this fabric. Allowed are" in refused["msg"]
    run_tasks(stage, [task("published")])


def test_request(stage: Stage) -> None:
    """As an administrator: the controllers' own account may change nothing but the size."""
    admin: Json = {"kubeconfig": str(stage.lab.kubeconfig)}

    def task(**args: t.Any) -> Json:
        return {"composable.infra.composability_request": {**admin, "name": "by-hand", **args}}

    wanted = {"node": "node-0", "model": A100, "size": 0}
    check, apply = twice(stage, task(**wanted))
    assert check["request"]["spec"] == apply["request"]["spec"]
    assert apply["request"]["spec"]["resource"]["allocation_policy"] == "samenode"
    notes = {"labels": {"team": "training"}, "annotations": {"example.com/ticket": "42"}}
    check, apply = twice(stage, task(**wanted, **notes, force_detach=True))
    assert check["diff"]["after"]["labels"] == apply["request"]["metadata"]["labels"] == {"team": "training"}
    twice(stage, task(**wanted, labels={"team": None}, annotations={"example.com/ticket": "43"}))
    for bad, said in (({"size": 1, "model": ""}, "model"), ({"size": 1, "model": A100, "kind": "tape"}, "kind")):
        checked, applied = run_tasks(stage, [{**task(**bad), **CHECK}, task(**bad)])
        assert checked["failed"]
        assert checked["msg"] == applied["msg"]
        assert said in checked["msg"]
    run_tasks(stage, [task(**{**wanted, "name": "other", "node": "node-1", "labels": {"team": "inference"}})])
    found = run_tasks(stage, [{"composable.infra.composability_request_info": args, **CHECK} for args in (
        {}, {"node": "node-1"}, {"label_selectors": ["team=inference"]}, {"label_selectors": ["team=training"]})])
    assert [[r["metadata"]["name"] for r in f["requests"]] for f in found] == [
        ["by-hand", "other"], ["other"], ["other"], []]


def test_condition(stage: Stage) -> None:
    """A run of scale first: it labels the nodes that the pools are open to."""
    run_tasks(stage, [{"composable.infra.scale": {"timeout": 60}}])
    line = Timeline(stage)
    try:
        stage.pod("train", A100)
        assert line.wait(lambda: allocated(line, "train"), PATIENCE)
        task = {"composable.infra.claim_condition": {"namespace": "default", "name": "train",
                                                     "condition": "FabricDeviceFailed", "text": "by hand"}}
        wrong = {"composable.infra.claim_condition": {"namespace": "default", "name": "train", "condition": "Done"}}
        before = stored_versions(stage)
        check, refused = run_tasks(stage, [{**task, **CHECK}, wrong])
        assert stored_versions(stage)["resourceclaims"] == before["resourceclaims"]
        assert "condition: 'Done' is not allowed. Allowed are FabricDeviceFailed" in refused["msg"]
        apply, = run_tasks(stage, [task])
        assert [check[key] for key in (*SAME, "devices")] == [apply[key] for key in (*SAME, "devices")]
        assert [d["conditions"] for d in apply["devices"]] == [{"FabricDeviceFailed": "True"}]
    finally:
        line.stop()
        delete_all(stage)


def test_node_and_inventories(stage: Stage) -> None:
    """A device comes by hand, is seen on the node and by both inventories, and goes back."""
    root = str(stage.lab.node_folder("node-0"))
    fabric: Json = {**stage.emulator.fabric_config(), "machine": machine_uuid("node-0")}
    attach, = run_tasks(stage, [{"composable.infra.fabric_device": {**fabric, "model": A100}}])
    uuid = attach["devices"][0]["serial"]
    found, = run_tasks(stage, [{"composable.infra.node_device": {"root": root, "state": "present", "device": uuid}}])
    assert [d["uuid"] for d in found["devices"]] == [uuid]
    by_hand.restart_plugin(stage.lab, "node-0")
    wait_for("the node shows it", lambda: "has_idle_gpu" in graph(stage, "cluster"))
    groups = graph(stage, "cluster")
    assert groups["has_idle_gpu"] == groups["has_devices"] == ["node-0"]
    assert graph(stage, "fabric")["has_devices"] == ["node-0"]
    run_tasks(stage, [{"composable.infra.node_device": {"root": root, "state": "absent", "device": uuid}},
                      {"composable.infra.fabric_device": {**fabric, "state": "detached",
                                                          "device": attach["devices"][0]["uid"]}}])
    assert "Xid" not in by_hand.kernel_log(stage.lab.node_folder("node-0"))


def graph(stage: Stage, plugin: str) -> dict[str, list[str]]:
    """Hosts by group of one of the inventories."""
    path = stage.folder / f"lab.{plugin}.yml"
    options = {"plugin": f"composable.infra.{plugin}", **stage.emulator.fabric_config()}
    if plugin == "cluster":
        options["kubeconfig"] = str(stage.lab.kubeconfig)
    path.write_text(json.dumps(options), encoding="utf-8")
    command = [str(Path(sys.executable).parent / "ansible-inventory"), "-i", str(path), "--list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True,
                          env=front_doors.environment(stage), timeout=60)
    return {name: group.get("hosts", []) for name, group in json.loads(done.stdout).items() if name != "_meta"}


@pytest.mark.parametrize("state", ["published", "withdrawn"])
def test_pools_beside_a_controller(stage: Stage, open_process: OpenProcess, state: str) -> None:
    run_tasks(stage, [{"composable.infra.device_pool": {"state": "published"}}])
    controller = open_process(front_doors.controller, stage)
    controller.wait_for("leading as", PATIENCE)
    found, = run_tasks(stage, [{"composable.infra.device_pool": {"state": state}}])
    if state == "published":
        assert (found["changed"], found.get("failed", False)) == (False, False)
    else:
        assert str(controller.pid) in found["msg"]
        assert "which would publish them again. Stop it first" in found["msg"]
