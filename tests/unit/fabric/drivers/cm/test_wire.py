# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one document of CM says about devices, and whether its counter can be relied on."""

from __future__ import annotations

import copy
import random
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Size
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.cm.wire import (
    MachineDocument,
    Spec,
    document,
    groups,
    increase_body,
    members,
    remove_body,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.replies import Unreadable
from ansible_collections.composable.infra.tests.unit.fabric.desired.cut import cut


def raw_device(uid: str, status: str = "ADD_COMPLETE", **detail: t.Any) -> dict[str, t.Any]:
    told = {"res_uuid": uid, "fabric_id": 3, "res_op_status": "00", "res_name": "gpu-1", **detail}
    return {"device_id": f"GPU-{uid}", "status": status, "status_reason": "", "detail": told}


def raw_spec(*devices: dict[str, t.Any], count: t.Any = None, **more: t.Any) -> dict[str, t.Any]:
    conditions = [{"column": c, "operator": "eq", "value": v} for c, v in (("vendor", "x"), ("model", "A"))]
    return {
        "spec_uuid": "s", "type": "gpu", "selector": {"version": "v1", "expression": {"conditions": conditions}},
        "min_resspec_count": 1, "max_resspec_count": None, "device_count": len(devices) if count is None else count,
        "devices": list(devices), **more,
    }


def body(*specs: dict[str, t.Any], **machine: t.Any) -> dict[str, t.Any]:
    told = {"uuid": "m", "name": "node", "status": "ACTIVE", "resspecs": list(specs), **machine}
    return {"data": {"tenant_uuid": "t", "cluster": {"cluster_uuid": "c", "machine": told}}}


def spec_of(*devices: dict[str, t.Any], count: t.Any = None) -> Spec:
    return document(body(raw_spec(*devices, count=count))).specs[0]


def test_a_machines_devices_carry_the_managers_uid_and_what_the_node_sees() -> None:
    found = document(body(raw_spec(raw_device("a"), raw_device("b", res_op_status="10"))))
    first, second = found.devices()
    assert (first.uid, first.serial, first.model, first.kind) == ("a", "GPU-a", "A", "gpu")
    assert (first.fabric, first.machine, first.health, first.name) == (3, "m", "OK", "gpu-1")
    assert second.health == "Warning"
    assert (found.uid, found.name, found.fabric()) == ("m", "node", 3)
    assert found.specs[0].size == Size(1, None)
    assert found.spec("gpu", "A") is found.specs[0]
    assert found.spec("memory", "A") is None
    assert found.holder("b") is found.specs[0]
    assert found.holder("x") is None


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("ADD_COMPLETE", "attached"), ("add_complete", "attached"), ("REMOVE_FAILED", "attached"),
        ("REMOVING", "detaching"), ("REMOVE_IN_PROGRESS", "detaching"), ("DELETING", "detaching"),
        ("ADD_FAILED", None), ("ADDING", None), ("SOMETHING_NEW", None), ("", None),
    ],
)
def test_a_device_is_there_from_its_arrival_until_it_is_gone(status: str, state: str | None) -> None:
    found = document(body(raw_spec(raw_device("a", status)))).devices()
    assert [d.state for d in found] == ([] if state is None else [state])


def test_at_rest_the_counter_is_relied_on_however_it_counts() -> None:
    devices = [raw_device("a"), raw_device("b", "ADD_FAILED"), raw_device("c", "REMOVE_FAILED")]
    for count in range(5):
        assert spec_of(*devices, count=count).sure


@pytest.mark.parametrize(
    ("statuses", "count", "sure"),
    [
        (["ADD_COMPLETE", "ADDING"], 2, True),
        (["ADD_COMPLETE", "ADDING"], 1, False),
        (["ADDING"], 0, False),
        (["ADDING"], 1, True),
        (["ADD_COMPLETE", "ADD_FAILED", "ADDING"], 1, False),
        (["ADD_COMPLETE", "ADD_FAILED", "ADDING"], 2, False),
        (["ADD_COMPLETE", "ADD_FAILED", "ADDING"], 3, True),
        (["ADD_COMPLETE", "ADDING", "ADDING"], 2, False),
        (["ADD_COMPLETE", "REMOVING"], 2, False),
        (["ADD_COMPLETE", "REMOVING"], 1, False),
    ],
)
def test_while_cm_is_at_work_it_is_only_where_proven(statuses: list[str], count: int, sure: bool) -> None:
    devices = [raw_device(f"d{n}", status) for n, status in enumerate(statuses)]
    assert spec_of(*devices, count=count).sure is sure


def test_devices_without_a_name_could_be_anybodys() -> None:
    nameless = {"device_id": "", "status": "ADDING", "detail": None}
    found = spec_of(raw_device("a"), nameless, count=2)
    assert not found.sure
    assert found.entries[1].uid == ""


def test_bodies_name_the_whole_number_and_the_devices() -> None:
    found = spec_of(raw_device("a"), raw_device("b"), raw_device("c"))
    assert increase_body(found, 2) == {"increase_resource_count": {"spec_uuid": "s", "device_count": 5}}
    assert remove_body(found, ["c", "a"]) == {
        "remove_resources": {"spec_uuid": "s", "device_count": 1, "devices": ["GPU-c", "GPU-a"]},
    }


@pytest.mark.parametrize(("count", "left"), [(3, 2), (2, 2)])
def test_a_device_that_failed_to_come_is_taken_off_the_count_only_where_it_is_in_it(count: int, left: int) -> None:
    found = spec_of(raw_device("a"), raw_device("b", "ADD_FAILED"), raw_device("c"), count=count)
    assert found.without(["b"]) == left
    assert found.without(["a"]) == count - 1


@pytest.mark.parametrize(
    "broken",
    [
        None, [], {}, {"data": None}, {"data": {"cluster": {"machine": []}}}, body(uuid=""), body(uuid=None),
        body(resspecs=None), body(raw_spec(count="2")), body(raw_spec(count=True)), body(raw_spec(spec_uuid="")),
    ],
)
def test_what_a_decision_hangs_on_must_be_there(broken: t.Any) -> None:
    with pytest.raises(Unreadable):
        document(broken)


def test_what_is_merely_missing_is_endured() -> None:
    bare = {"spec_uuid": "s", "type": "gpu", "device_count": 0}
    odd = [bare, None, {**bare, "selector": {"expression": {"conditions": [None]}}}]
    found = document(body(resspecs=odd, name=None))
    assert [(s.model, s.entries) for s in found.specs] == [("", ()), ("", ())]
    assert (found.name, found.fabric(), found.devices()) == ("m", None, ())


def test_a_document_with_anything_cut_out_is_read_or_refused_never_misread(rng: random.Random) -> None:
    whole = body(raw_spec(raw_device("a"), raw_device("b", "ADDING")), raw_spec(raw_device("c")))
    for _unused in range(120):
        broken = copy.deepcopy(whole)
        cut(broken, rng)
        try:
            found = document(broken)
        except Unreadable:
            continue
        assert isinstance(found, MachineDocument)
        assert {d.uid for d in found.devices()} <= {"a", "c"}
        assert all(d.uid and d.serial for d in found.devices())


@pytest.mark.parametrize("devices", [7, "a", {"a": 1}])
def test_devices_that_are_no_list_are_refused(devices: object) -> None:
    with pytest.raises(Unreadable):
        document(body({**raw_spec(raw_device("a")), "devices": devices}))


def test_node_groups() -> None:
    assert groups({"nodegroups": [{"uuid": "g", "name": "n"}, {"name": "x"}, None]}) == ("g",)
    assert members({"uuid": "g", "mach_ids": ["m", "", 3]}) == ("m",)
    for read in (groups, members):
        with pytest.raises(Unreadable):
            read({"other": []})
