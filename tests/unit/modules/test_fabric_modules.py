# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_info and fabric_device: what they return, change, and predict."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    FabricError,
    Refused,
    Unauthorized,
    Unavailable,
)
from ansible_collections.composable.infra.plugins.modules import fabric_device, fabric_info
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, T4
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import FakeFabric, device

OPTIONS = {"endpoint": "https://manager.example", "tenant": "00000000-0000-4000-8000-000000000001", "username": "u",
           "password": "not-told", "realm": "r", "client_id": "c", "client_secret": "not-told-either"}
RunModule = Callable[..., dict[str, t.Any]]
MACHINE = {**OPTIONS, "machine": "machine-0"}


def test_info_lists_machines_and_what_is_free(run_module: RunModule, fabric: FakeFabric) -> None:
    fabric.attached = {"d1": device("d1")}
    found = run_module(fabric_info, **OPTIONS, models=[A100, T4])
    assert not found.get("changed")
    (machine,) = found["machines"]
    assert (machine["uid"], machine["fabric"], machine["devices"][0]["serial"]) == ("machine-0", 1, "GPU-d1")
    assert found["free"] == [{"model": A100, "fabric": 1, "free": 4}, {"model": T4, "fabric": 1, "free": 4}]
    assert found["problems"] == {}


def test_info_of_one_machine(run_module: RunModule, fabric: FakeFabric) -> None:
    found = run_module(fabric_info, **MACHINE)
    assert ([m["uid"] for m in found["machines"]], found["free"]) == (["machine-0"], [])


def test_info_of_a_machine_that_is_not_there(run_module: RunModule, fabric: FakeFabric) -> None:
    found = run_module(fabric_info, **OPTIONS, machine="elsewhere")
    assert (found["failed"], found["error"]) == (True, "Missing")
    assert found["msg"] == "machine: the CDI Manager knows no machine elsewhere. Allowed are node-0 (machine-0)"


@pytest.mark.parametrize("error", [Unavailable("the CDI Manager does not answer"), Unauthorized("wrong password")])
def test_error_of_the_manager_is_one_sentence(run_module: RunModule, fabric: FakeFabric, error: FabricError) -> None:
    fabric.snapshot_error = error
    found = run_module(fabric_info, **OPTIONS)
    assert (found["failed"], found["msg"], found["error"]) == (True, str(error), type(error).__name__)


@pytest.mark.parametrize(("change", "said"), [
    ({"endpoint": "http://x"}, "endpoint: 'http://x' is not allowed"), ({"tenant": "x"}, "tenant: 'x' is not allowed"),
    ({"username": None}, "username is not set. It is required"),
    ({"manager": "xm"}, "manager: 'xm' is not allowed. Allowed are fm, cm, nec, sunfish, redfish, or namespace."),
])
def test_bad_option_is_named(run_module: RunModule, change: dict[str, t.Any], said: str) -> None:
    found = run_module(fabric_info, **{**OPTIONS, **change})
    assert found["failed"]
    assert said in found["msg"]


def test_options_come_from_the_environment_too(run_module: RunModule, fabric: FakeFabric,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OPTIONS.items():
        monkeypatch.setenv(f"COMPOSABLE_{name.upper()}", value)
    assert not run_module(fabric_info)["failed"]


def test_attach_until_there_are_enough(run_module: RunModule, fabric: FakeFabric) -> None:
    fabric.attached = {"old": device("old"), "other": device("other", T4)}
    found = run_module(fabric_device, **MACHINE, model=A100, count=2)
    assert (found["changed"], found["count"]) == (True, 2)
    assert [d["uid"] for d in found["devices"]] == ["d1"]
    assert found["diff"] == {"before": {"node-0": {A100: 1}}, "after": {"node-0": {A100: 2}}}
    assert fabric.attaches == [("machine-0", A100)]


def test_attach_twice_changes_once(run_module: RunModule, fabric: FakeFabric) -> None:
    run_module(fabric_device, **MACHINE, model=A100)
    again = run_module(fabric_device, **MACHINE, model=A100)
    assert (again["changed"], again["devices"], again["count"]) == (False, [], 1)
    assert len(fabric.attaches) == 1


def test_more_than_enough_stay(run_module: RunModule, fabric: FakeFabric) -> None:
    fabric.attached = {d: device(d) for d in ("a", "b", "c")}
    found = run_module(fabric_device, **MACHINE, model=A100, count=1)
    assert (found["changed"], found["count"], fabric.detaches) == (False, 3, [])


@pytest.mark.parametrize("have", [0, 1, 2, 3])
def test_check_mode_predicts_and_asks_nothing(run_module: RunModule, fabric: FakeFabric, have: int) -> None:
    fabric.attached = {f"x{i}": device(f"x{i}") for i in range(have)}
    predicted = run_module(fabric_device, check=True, **MACHINE, model=A100, count=2)
    assert (fabric.attaches, predicted["devices"]) == ([], [])
    done = run_module(fabric_device, **MACHINE, model=A100, count=2)
    assert {k: done[k] for k in ("changed", "count", "diff")} == {k: predicted[k] for k in ("changed", "count", "diff")}


def test_detach(run_module: RunModule, fabric: FakeFabric) -> None:
    fabric.attached = {"d1": device("d1"), "d2": device("d2")}
    found = run_module(fabric_device, **MACHINE, state="detached", device="d1")
    assert (found["changed"], [d["uid"] for d in found["devices"]]) == (True, ["d1"])
    assert [(d["state"], d["machine"]) for d in found["devices"]] == [("free", None)]
    assert found["diff"] == {"before": {"node-0": {A100: 2}}, "after": {"node-0": {A100: 1}}}
    assert fabric.detaches == [("machine-0", "d1")]


def test_detach_of_what_is_not_there_changes_nothing(run_module: RunModule, fabric: FakeFabric) -> None:
    found = run_module(fabric_device, **MACHINE, state="detached", device="d1")
    assert (found["changed"], found["devices"], fabric.detaches) == (False, [], [])


def test_detach_in_check_mode(run_module: RunModule, fabric: FakeFabric) -> None:
    fabric.attached = {"d1": device("d1")}
    found = run_module(fabric_device, check=True, **MACHINE, state="detached", device="d1")
    assert (found["changed"], fabric.detaches) == (True, [])


@pytest.mark.parametrize(("args", "said"), [
    ({}, "model is not set. State attached needs a model, or a handle"),
    ({"state": "detached"}, "device is not set. State detached needs the uid of a device"),
    ({"model": A100, "count": 0}, "count: 0 is not allowed. It must be 1 or more"),
    ({"model": A100, "count": -3}, "count: -3 is not allowed. It must be 1 or more"),
    ({"model": A100, "state": "gone"}, "value of state must be one of: attached, detached, got: gone"),
])
def test_bad_arguments(run_module: RunModule, fabric: FakeFabric, args: dict[str, t.Any], said: str) -> None:
    found = run_module(fabric_device, **MACHINE, **args)
    assert found["failed"]
    assert said in found["msg"]
    assert fabric.attaches == []


def test_refusal_is_one_sentence(run_module: RunModule, fabric: FakeFabric) -> None:
    fabric.answers = [Refused("E02XXXX: no free device", exhausted=True)]
    found = run_module(fabric_device, **MACHINE, model=A100)
    assert (found["failed"], found["msg"], found["error"]) == (True, "E02XXXX: no free device", "Refused")
