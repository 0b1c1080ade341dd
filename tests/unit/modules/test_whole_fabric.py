# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_device in bulk, fabric_plan, and fabric_info with filters: arguments in, results out."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable
from ansible_collections.composable.infra.plugins.modules import fabric_device, fabric_info, fabric_plan
from ansible_collections.composable.infra.tests.unit.fabric.desired.fake_manager import A, B, FakeManager
from ansible_collections.composable.infra.tests.unit.modules.conftest import OPTIONS

RunModule = Callable[..., dict[str, t.Any]]


def test_bulk(run_module: RunModule, fake: FakeManager) -> None:
    items = [{"machine": "node-0", "model": A, "count": 2}, {"machine": "uid-node-1", "model": B},
             {"machine": "node-2", "model": A}]
    check = run_module(fabric_device, check=True, **OPTIONS, attachments=items)
    assert (fake.log, check["devices"]) == ([], [])
    apply = run_module(fabric_device, **OPTIONS, attachments=items)
    again = run_module(fabric_device, **OPTIONS, attachments=items)
    assert (check["changed"], apply["changed"], again["changed"]) == (True, True, False)
    assert check["diff"] == apply["diff"] == {
        "before": {"node-0": {A: 0}, "node-1": {B: 0}, "node-2": {A: 0}},
        "after": {"node-0": {A: 2}, "node-1": {B: 1}, "node-2": {A: 1}}}
    assert [(r["name"], r["model"], r["count"], r["changed"], len(r["devices"])) for r in apply["results"]] == [
        ("node-0", A, 2, True, 2), ("node-1", B, 1, True, 1), ("node-2", A, 1, True, 1)]
    assert "count" not in apply


def test_failures_in_bulk(run_module: RunModule, fake: FakeManager) -> None:
    fake.fails["uid-node-0"] = [Unavailable("node-0 does not answer")]
    found = run_module(fabric_device, **OPTIONS, attachments=[{"machine": "node-0", "model": A},
                                                              {"machine": "node-1", "model": A}])
    assert (found["failed"], found["changed"], found["error"]) == (True, True, "Unavailable")
    assert found["msg"] == "node-0 does not answer (1 of 2 attachments failed)"
    assert [(r["failed"], r.get("msg")) for r in found["results"]] == [(True, "node-0 does not answer"), (False, None)]


def test_empty_list_changes_nothing(run_module: RunModule, fake: FakeManager) -> None:
    found = run_module(fabric_device, **OPTIONS, attachments=[])
    assert (found["changed"], found["results"], found["failed"]) == (False, [], False)


@pytest.mark.parametrize(("args", "said"), [
    ({}, "one of the following is required: machine, attachments"),
    ({"machine": "node-0", "attachments": []}, "parameters are mutually exclusive: attachments|machine"),
    ({"attachments": [{"machine": "node-0"}]}, "attachments[0].model is not set. State attached"),
    ({"attachments": [{"machine": "node-0", "model": A}, {"machine": "node-0", "state": "detached"}]},
     "attachments[1].device is not set. State detached needs the uid of a device"),
    ({"attachments": [{"machine": "node-0", "model": A, "count": 0}]}, "attachments[0].count: 0 is not allowed"),
    ({"attachments": [{"model": A}]}, "missing required arguments: machine found in attachments"),
    ({"attachments": [{"machine": "node-0", "modell": A}]}, "attachments.modell"),
    ({"machine": "node-9", "model": A}, "machine: the CDI Manager knows no machine node-9. Allowed are node-0"),
    ({"machine": "node-0", "model": A, "device": "x"}, "device: 'x' is not allowed. Only state detached takes it"),
])
def test_bad_arguments(run_module: RunModule, fake: FakeManager, args: dict[str, t.Any], said: str) -> None:
    found = run_module(fabric_device, **OPTIONS, **args)
    assert found["failed"]
    assert said in found["msg"]
    assert fake.log == []


def test_plan_apply_plan(run_module: RunModule, fake: FakeManager) -> None:
    fake.put("node-1", A)
    layout = {"node-0": {A: 2}, "node-1": {}}
    planned = run_module(fabric_plan, **OPTIONS, layout=layout, state="planned", attach_seconds=4, detach_seconds=1)
    check = run_module(fabric_plan, check=True, **OPTIONS, layout=layout)
    assert fake.log == []
    apply = run_module(fabric_plan, **OPTIONS, layout=layout)
    again = run_module(fabric_plan, **OPTIONS, layout=layout)
    assert [planned["changed"], check["changed"], apply["changed"], again["changed"]] == [False, True, True, False]
    assert planned["plan"] == check["plan"] == apply["plan"]
    assert (planned["predicted_seconds"], again["plan"]) == (5.0, [])
    assert [(r["action"], r["name"], r["failed"]) for r in apply["results"]] == [
        ("detach", "node-1", False), ("attach", "node-0", False)]
    assert "results" not in check


def test_layout_that_cannot_be_had_is_refused_as_a_whole(run_module: RunModule, fake: FakeManager) -> None:
    layout = {"node-0": {A: 3}, "node-1": {A: 3}, "node-2": {A: 1}}
    for check in (True, False):
        found = run_module(fabric_plan, check=check, **OPTIONS, layout=layout)
        assert (found["failed"], found["changed"], len(found["plan"])) == (True, False, 3)
        assert found["msg"] == (f"layout: 6 x {A} would be attached on fabric 1, allowed are 4 (4 free, 0 given back "
                                "by the layout)")
    assert fake.log == []


def test_rest_of_a_failed_plan_is_done_by_the_next_run(run_module: RunModule, fake: FakeManager) -> None:
    fake.fails["uid-node-0"] = [Unavailable("not now")]
    layout = {"node-0": {A: 1}, "node-1": {A: 1}}
    failed, again = (run_module(fabric_plan, **OPTIONS, layout=layout) for _unused in range(2))
    assert (failed["failed"], failed["changed"], failed["msg"]) == (True, True, "not now (1 of 2 steps failed)")
    assert [(s["name"], s["count"]) for s in again["plan"]] == [("node-0", 1)]
    assert not run_module(fabric_plan, **OPTIONS, layout=layout)["plan"]


def test_layout_of_today_brings_back_today(run_module: RunModule, fake: FakeManager) -> None:
    fake.put("node-0", A, 2)
    moved = run_module(fabric_plan, **OPTIONS, layout={"node-1": {B: 1}}, unlisted="empty")
    run_module(fabric_plan, **OPTIONS, layout=moved["diff"]["before"])
    assert sorted((d.machine, d.model) for d in fake.stock.values() if d.machine) == [("uid-node-0", A)] * 2


@pytest.mark.parametrize(("args", "said"), [
    ({}, "missing required arguments: layout"), ({"layout": {"node-0": {A: -1}}}, "layout.node-0.A100 40G: -1 is not"),
    ({"layout": {"node-7": {}}}, "layout: the CDI Manager knows no machine node-7. Allowed are"),
    ({"layout": {}, "unlisted": "drop"}, "value of unlisted must be one of: keep, empty, got: drop"),
    ({"layout": {}, "attach_seconds": -4}, "attach_seconds: -4.0 is not allowed. It must be a number"),
    ({"layout": {}, "detach_seconds": "nan"}, "detach_seconds: nan is not allowed"),
])
def test_bad_layouts(run_module: RunModule, fake: FakeManager, args: dict[str, t.Any], said: str) -> None:
    found = run_module(fabric_plan, **OPTIONS, **args)
    assert found["failed"]
    assert said in found["msg"]


def test_info_parts_filters_and_query(run_module: RunModule, fake: FakeManager) -> None:
    fake.put("node-0", A, 2, health="Warning")
    fake.put("node-2", A, 1)
    found = run_module(fabric_info, **OPTIONS, gather=["links", "devices"], filters={"health": ["Warning"]})
    assert set(found) - {"invocation", "failed"} == {"links", "devices", "problems"}
    assert [d["machine"] for d in found["devices"]] == ["uid-node-0"] * 2
    asked = run_module(fabric_info, **OPTIONS, query="machines[?fabric==`2`].devices[].uid")
    assert asked["result"] == [f"2/{A}/0"]
    assert "machines" not in asked


@pytest.mark.parametrize(("args", "said"), [
    ({"gather": ["all"]}, "value of gather must be one or more of: machines, devices, free, links"),
    ({"filters": {"colour": ["red"]}}, "filters.colour"), ({"query": "a["}, "query: 'a[' is not allowed. It must be"),
    ({"query": "machines[?contains(name, `1`)]"}, "A function in it cannot use its arguments: 'in <string>"),
    ({"filters": {"health": ["Fine"]}}, "value of health must be one or more of: OK, Warning, Critical, Unknown"),
    ({"machine": "node-9"}, "machine: the CDI Manager knows no machine node-9. Allowed are node-0 (uid-node-0)"),
])
def test_bad_questions(run_module: RunModule, fake: FakeManager, args: dict[str, t.Any], said: str) -> None:
    found = run_module(fabric_info, **OPTIONS, **args)
    assert found["failed"]
    assert said in found["msg"]
