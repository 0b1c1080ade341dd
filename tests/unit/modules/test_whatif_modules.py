# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_capture and fabric_whatif: what they take, write and return, and what they refuse."""

from __future__ import annotations

import json
import stat
import typing as t
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils import cluster_module
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.modules import fabric_capture, fabric_whatif
from ansible_collections.composable.infra.tests.unit.modules.whatif_modules_support import (
    CONFIG,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench

RunModule = Callable[..., dict[str, t.Any]]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A cluster with one held pod that asks for more devices than are free."""
    made = Bench()
    made.put(gated_pods.node(), {"apiVersion": "v1", "kind": "Namespace", "metadata": gated_pods.opted_in("default")},
             {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": objects.meta(DRIVER), "spec": {
                 "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}})
    gated_pods.ask(made, count=6)
    monkeypatch.setattr(cluster_module, "cluster", lambda params: made.api.client)
    monkeypatch.setattr(f"{EngineConfig.__module__}.connect", lambda _config: made.fabric)
    return made


def test_capture_and_answer(run_module: RunModule, bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "capture.json"
    found = run_module(fabric_capture, config=CONFIG, path=str(path))
    assert (found["changed"], found["version"], found["machines"], found["problems"]) == (True, 1, 1, [])
    assert found["objects"] == {
        "nodes": 1, "pods": 1, "namespaces": 1, "resourceclaims": 1, "resourceslices": 0, "deviceclasses": 1,
        "composabilityrequests": 0, "composableresources": 0}
    assert any(said.startswith("Secrets, ConfigMaps") for said in found["left_out"])
    assert found["arrivals"] == {"known": 1, "with_lifetime": 0, "served": 0, "notes": []}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "not-told" not in path.read_text(encoding="utf-8")
    assert bench.api.writes() == []

    change = {"change": "add_devices", "model": A100, "fabric": 1, "count": 2}
    told = [run_module(fabric_whatif, capture=str(path), changes=[change]) for _again in range(2)]
    assert told[0] == told[1]
    answer = told[0]
    assert (answer["changed"], answer["taken"], answer["differs"]) == (False, found["taken"], ["default/train"])
    assert answer["before"]["claims"][0]["state"] == "released"
    assert answer["after"]["claims"][0] == {"claim": "default/train", "state": "placed", "node": "node-0",
                                            "says": "node node-0 has room and 6 x A100 40G (6 to be attached)"}
    assert answer["after"]["attaches"] == [{"node": "node-0", "model": A100, "count": 6}]
    assert answer["table"][0].split() == ["BEFORE", "AFTER"]


def test_a_second_capture_replaces_the_first(run_module: RunModule, bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "capture.json"
    for _unused in range(2):
        assert run_module(fabric_capture, config=CONFIG, path=str(path))["changed"]
        bench.drop(*bench.state.pods.list())
    assert json.loads(path.read_text(encoding="utf-8"))["objects"]["pods"] == []


def test_the_day_before_is_replayed(run_module: RunModule, bench: Bench, tmp_path: Path) -> None:
    """Its claim came five minutes before the capture, which may be in the hour before: so it is moved."""
    path = tmp_path / "capture.json"
    run_module(fabric_capture, config=CONFIG, path=str(path))
    document = json.loads(path.read_text(encoding="utf-8"))

    def came_before(seconds: float) -> None:
        document["past"]["came"][0][0] = document["taken"] - seconds
        path.write_text(json.dumps(document), encoding="utf-8")

    load = {"captured": True, "model": A100, "lifetime": 60.0}
    came_before(0.0)
    refused = run_module(fabric_whatif, capture=str(path), simulate={"load": [load]})
    assert refused["msg"].startswith(
        "simulate.load[0].captured: True is not usable: the capture has no arrivals of the day before it")
    came_before(7200.0)
    told = run_module(fabric_whatif, capture=str(path), simulate={"hours": 24.0, "seeds": 1, "load": [load]})
    assert told["simulated"]["before"]["figures"]["came"]["median"] == 2.0  # who waits already is the other one


def test_check_mode_writes_no_file(run_module: RunModule, bench: Bench, tmp_path: Path) -> None:
    found = run_module(fabric_capture, check=True, config=CONFIG, path=str(tmp_path / "capture.json"))
    assert (found["changed"], found["objects"]["pods"]) == (True, 1)
    assert list(tmp_path.iterdir()) == []
    assert bench.api.writes() == []


def test_no_change_is_a_question_too(run_module: RunModule, bench: Bench, tmp_path: Path) -> None:
    path = str(tmp_path / "capture.json")
    run_module(fabric_capture, config=CONFIG, path=path)
    found = run_module(fabric_whatif, check=True, capture=path)
    assert found["before"] == found["after"]
    assert found["differs"] == []


def test_errors_of_a_capture_are_one_sentence(run_module: RunModule, bench: Bench, tmp_path: Path) -> None:
    bench.fabric.snapshot_error = Unavailable("the CDI Manager does not answer")
    found = run_module(fabric_capture, config=CONFIG, path=str(tmp_path / "capture.json"))
    assert (found["failed"], found["msg"], found["error"]) == (True, "the CDI Manager does not answer", "Unavailable")
    found = run_module(fabric_capture, config={}, path="/x")
    assert found["msg"].startswith("config: device_info: None is not usable")
    assert run_module(fabric_capture, config=CONFIG)["msg"] == "missing required arguments: path"


@pytest.mark.parametrize(("changes", "said"), [
    ([{"change": "explode"}], "value of change must be one of: add_devices, lose_devices, drain_node, lose_node, "
                              "add_pods, settings, got: explode found in changes"),
    ([{"model": A100}], "missing required arguments: change found in changes"),
    ([{"change": "drain_node", "node": "node-7"}], "changes[0].node: 'node-7' is not usable: must be one of node-0"),
    ([{"change": "add_devices", "model": A100, "count": -1}], "changes[0].count: -1 is not usable: must be a whole"),
    ([{"change": "drain_node", "colour": "red"}], "Unsupported parameters for (basic.py) module: changes.colour"),
])
def test_bad_questions(run_module: RunModule, bench: Bench, tmp_path: Path, changes: list[dict[str, t.Any]],
                       said: str) -> None:
    path = str(tmp_path / "capture.json")
    run_module(fabric_capture, config=CONFIG, path=path)
    found = run_module(fabric_whatif, capture=path, changes=changes)
    assert found["failed"]
    assert said.replace("(basic.py) ", "") in found["msg"].replace("(basic.py) ", "")


def test_a_file_that_is_no_capture(run_module: RunModule, tmp_path: Path) -> None:
    found = run_module(fabric_whatif, capture=str(tmp_path / "none"))
    assert found["msg"] == f"{tmp_path}/none: cannot be read: No such file or directory"
    assert found["error"] == "BadCapture"


def test_a_replay(run_module: RunModule, bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "capture.json"
    run_module(fabric_capture, config=CONFIG, path=str(path))
    load = [{"model": A100, "per_hour": 12, "lifetime": 300}]
    found = run_module(fabric_whatif, capture=str(path), simulate={"hours": 1, "seeds": 2, "load": load})
    figures = found["simulated"]["before"]["figures"]
    assert figures == found["simulated"]["after"]["figures"]
    assert figures["ran"]["low"] > 0
    assert found["simulated"]["before"]["durations"]["attach"] == "5 to 15 s, assumed"
    said = run_module(fabric_whatif, capture=str(path), simulate={"load": [{"model": "V100"}]})["msg"]
    assert "simulate.load[0].model: 'V100' is not usable" in said
