# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every module, run by Ansible: the second run changes nothing, check mode predicts the first and writes nothing."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, H100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.cluster_state import created, stored_versions, writes
from ansible_collections.composable.infra.tests.e2e.support.modules import Json, run_tasks
from ansible_collections.composable.infra.tests.e2e.support.support import (
    PATIENCE,
    allocated,
    await_served,
    changes_asked,
    delete_all,
    mark,
    pools,
)

STAGE: dict[str, t.Any] = {"devices": {A100: 4, H100: 2}, "hold": 600.0, "audit": True,
                           "spare_machines": ("spare-0",)}
WAITING = {"train": (A100, 2), "infer": (H100, 1)}
CHECK: Json = {"check_mode": True, "diff": True}
SCALE: Json = {"composable.infra.scale": {"timeout": 120}}


def fabric(stage: Stage, **more: t.Any) -> Json:
    """Options of the modules that speak to the CDI Manager only."""
    return {**stage.emulator.fabric_config(), **more}


def reading(**more: t.Any) -> Json:
    return {"composable.infra.claim_info": {"namespace": "default", **more}}


def info(stage: Stage, **more: t.Any) -> Json:
    return {"composable.infra.fabric_info": fabric(stage, **more)}


def device(stage: Stage, machine: str = "node-0", **more: t.Any) -> Json:
    return {"composable.infra.fabric_device": fabric(stage, machine=machine_uuid(machine), **more)}


READ = reading()


def changed(results: list[Json]) -> list[bool]:
    assert not [r["msg"] for r in results if r.get("failed")]
    return [r["changed"] for r in results]


def planned(result: Json, kind: str, *fields: str) -> list[tuple[t.Any, ...]]:
    return sorted(tuple(a[f] for f in fields) for a in result["actions"] if a["action"] == kind)


def test_fabric_info_shows_machines_and_free_devices(stage: Stage) -> None:
    results = run_tasks(stage, [info(stage, models=[A100, H100, "NOBODY-MAKES-THIS"]),
                                info(stage, models=[A100, H100, "NOBODY-MAKES-THIS"]),
                                info(stage, machine=machine_uuid("node-1"))])
    assert changed(results) == [False] * 3
    assert results[0]["machines"] == results[1]["machines"]
    assert [m["name"] for m in results[0]["machines"]] == ["node-0", "node-1", "spare-0"]
    assert {(f["model"], f["free"]) for f in results[0]["free"]} == {(A100, 4), (H100, 2), ("NOBODY-MAKES-THIS", 0)}
    assert [m["uid"] for m in results[2]["machines"]] == [machine_uuid("node-1")]


def test_fabric_device_attaches_and_detaches_once(stage: Stage) -> None:
    """On a machine that is no node: nothing has to be removed there before."""
    since = mark(stage)
    away: Json = {"machine": "spare-0", "device": "{{ result_1.devices[0].uid }}", "state": "detached"}
    here: Json = {"machine": "spare-0", "model": H100, "count": 2}
    results = run_tasks(stage, [
        {**device(stage, **here), **CHECK}, {**device(stage, **here), "diff": True}, device(stage, **here),
        {**device(stage, **away), **CHECK}, {**device(stage, **away), "diff": True}, device(stage, **away),
        device(stage, "spare-0", state="detached", device="{{ result_1.devices[1].uid }}")])
    assert changed(results) == [True, True, False, True, True, False, True]
    diff = {"before": {"spare-0": {H100: 0}}, "after": {"spare-0": {H100: 2}}}
    assert results[0]["diff"] == results[1]["diff"] == diff
    assert results[3]["diff"] == results[4]["diff"]
    assert results[1]["count"] == results[2]["count"] == 2
    asked = changes_asked(stage, since)
    assert [(e["method"], e["status"]) for e in asked] == [("PATCH", 200)] * 2 + [("DELETE", 200)] * 2


def test_check_mode_of_fabric_device_asks_for_nothing(stage: Stage) -> None:
    since = mark(stage)
    result, = run_tasks(stage, [device(stage, model=A100)], "--check", "--diff")
    assert (result["changed"], result["devices"]) == (True, [])
    assert changes_asked(stage, since) == []
    assert {e["method"] for e in stage.emulator.log(since) if e["machine"]} == {"GET"}


def test_scale_publishes_once(stage: Stage) -> None:
    before = stored_versions(stage)
    check, = run_tasks(stage, [{**SCALE, **CHECK}])
    assert stored_versions(stage) == before
    apply, again = run_tasks(stage, [SCALE, SCALE])
    assert changed([check, apply, again]) == [True, True, False]
    assert check["actions"] == apply["actions"]
    assert sum(len(devices) for (devices,) in planned(check, "WritePool", "devices")) == 6
    assert sorted(pools(stage).values()) == [2, 4]
    assert (again["actions"], again["history"], again["led_by"], again["settled"]) == ([], [], [], True)


@pytest.fixture(scope="module")
def waiting(stage: Stage) -> t.Iterator[None]:
    """Two pods whose claims the scheduler has allocated from pools."""
    run_tasks(stage, [SCALE])
    line = Timeline(stage)
    for name, (model, count) in WAITING.items():
        stage.pod(name, model, count)
    assert line.wait(lambda: allocated(line, *WAITING), PATIENCE)
    line.stop()
    yield
    delete_all(stage)


@dataclass(frozen=True)
class Checked:
    """A run of check mode with what the API server and the emulator noticed of it."""

    before: dict[str, Json]
    after: dict[str, Json]
    written: list[Json]
    asked: list[Json]
    results: list[Json]


@pytest.fixture(scope="module")
def checked(stage: Stage, waiting: None) -> Checked:
    """Every module in check mode while claims wait."""
    before, since, written = stored_versions(stage), mark(stage), len(writes(stage))
    results = run_tasks(stage, [SCALE, READ, info(stage, models=[A100]), device(stage, model=A100)],
                        "--check", "--diff")
    return Checked(before, stored_versions(stage), writes(stage)[written:], changes_asked(stage, since), results)


def test_check_mode_writes_nothing(checked: Checked) -> None:
    assert checked.after == checked.before
    assert [(e["verb"], e["requestURI"]) for e in checked.written] == []
    assert checked.asked == []


def test_check_mode_says_what_would_be_done(checked: Checked) -> None:
    scale, read, _info, _device = checked.results
    assert changed(checked.results) == [True, False, False, True]
    assert planned(scale, "SetSize", "model", "size") == [(A100, 2), (H100, 1)]
    assert len(planned(scale, "CreateResource", "model")) == 3
    assert sorted(scale["diff"]["after"].values()) == [1, 2]
    said = {c["claim"]: c["waits_for"] for c in read["claims"]}
    assert said["default/train"].startswith(f"2 x {A100} on node ")
    assert said["default/infer"].startswith(f"1 x {H100} on node ")
    assert {v["claim"]: v["waits_for"] for v in scale["verdicts"]} == said


def test_apply_carries_out_the_plan_of_check_mode_once(stage: Stage, checked: Checked, timeline: Timeline) -> None:
    plan, since, written = checked.results[0], mark(stage), len(writes(stage))
    in_vain, _begun, apply, again, told, waited = run_tasks(stage, [
        reading(wait=True, wait_timeout=0), {**reading(wait=True, wait_timeout=100), "async": 120, "poll": 0},
        SCALE, SCALE, READ, {"ansible.builtin.async_status": {"jid": "{{ result_1.ansible_job_id }}"},
                             "until": "result_5.finished | int == 1", "retries": 120, "delay": 1}])
    await_served(stage, timeline, *WAITING)
    assert in_vain["msg"].startswith(f"after 0 s default/infer waits for 1 x {H100} on node ")
    assert [(c["claim"], c["waits_for"]) for c in waited["claims"]] == [("default/infer", ""), ("default/train", "")]
    assert changed([apply, again, told]) == [True, False, False]
    assert (apply["actions"], apply["diff"]) == (plan["actions"], plan["diff"])
    assert (apply["settled"], apply["verdicts"]) == (True, [])
    done = writes(stage)[written:]
    requests = [r["spec"]["resource"] for r in created(done, "composabilityrequests")]
    assert sorted((r["target_node"], r["model"], r["size"]) for r in requests) == planned(
        plan, "SetSize", "node", "model", "size")
    resources = [r["spec"] for r in created(done, "composableresources")]
    assert sorted((r["target_node"], r["model"]) for r in resources) == planned(
        plan, "CreateResource", "node", "model")
    machines = [machine for (machine,) in planned(plan, "CreateResource", "machine")]
    assert sorted(e["machine"] for e in changes_asked(stage, since)) == machines
    assert {h["reason"] for h in apply["history"]} >= {"Attaching", "Attached", "FabricDeviceReschedule"}
    assert {c["waits_for"] for c in told["claims"]} == {""}


def test_scale_beside_a_controller_changes_nothing_and_says_who_leads(
    stage: Stage, waiting: None, open_process: OpenProcess
) -> None:
    controller = open_process(front_doors.controller, stage)
    since = mark(stage)
    result, = run_tasks(stage, [SCALE])
    assert (result["changed"], result["history"]) == (False, [])
    assert [str(controller.pid) in who for who in result["led_by"]] == [True]
    assert changes_asked(stage, since) == []
