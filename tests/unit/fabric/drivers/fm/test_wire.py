# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""FM's documents: what is read, what is tolerated, and what is too little to decide on."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.fm import wire
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared import fsas
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.replies import Unreadable


def resource(uid: str, kind: str = "gpu", model: str | None = "A100", **more: t.Any) -> dict[str, t.Any]:
    conditions = [{"column": "vendor", "operator": "eq", "value": "x"}]
    if model is not None:
        conditions.append({"column": "model", "operator": "eq", "value": model})
    return {
        "res_uuid": uid, "res_name": f"name-{uid}", "res_type": kind, "res_status": 4, "res_op_status": "00",
        "res_serial_num": f"GPU-{uid}", "res_spec": {"condition": conditions}, **more,
    }


def machines(*resources: dict[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
    entry = {"fabric_id": 1, "mach_uuid": "m1", "mach_name": "node-0", "resources": list(resources), **more}
    return {"data": {"machines": [entry]}}


def test_a_machine_lists_its_composable_devices_only() -> None:
    body = machines(resource("c", "compute"), resource("d", "memory"), resource("g"))
    machine = wire.machine(wire.entries(body)[0])
    assert (machine.uid, machine.name, machine.fabric) == ("m1", "node-0", 1)
    assert machine.devices == (
        Device("g", "A100", "gpu", 1, "m1", "attached", "OK", "GPU-g", "name-g"),
    )


@pytest.mark.parametrize("fabric", [None, "1", True, 1.5])
def test_a_fabric_id_that_is_no_whole_number_is_none(fabric: object) -> None:
    assert wire.machine(wire.entries(machines(fabric_id=fabric))[0]).fabric is None


def test_what_is_absent_does_not_matter() -> None:
    machine = wire.machine({"mach_uuid": "m1"})
    assert (machine.name, machine.fabric, machine.devices) == ("m1", None, ())
    machine = wire.machine({"mach_uuid": "m1", "resources": [{"res_uuid": "g", "res_type": "gpu"}, {}, "x", None]})
    assert machine.devices == (Device("g", "", "gpu", None, "m1", "attached", "Unknown", None, None),)


@pytest.mark.parametrize("spec", [None, [], {}, {"condition": None}, {"condition": ["x", {"column": "model"}]}])
def test_a_resource_without_a_model_has_an_empty_one(spec: object) -> None:
    found = wire.device(resource("g", res_spec=spec), "m1", 1)
    assert found is not None
    assert found.model == ""


@pytest.mark.parametrize(
    ("op_status", "health"),
    [
        ("00", "OK"), ("0", "OK"), ("0x", "OK"), ("10", "Warning"), ("20", "Critical"), ("3", "Unknown"),
        ("", "Unknown"), (None, "Unknown"), (0, "Unknown"), (20, "Critical"),
    ],
)
def test_health_is_the_first_character_of_the_operation_status(op_status: object, health: str) -> None:
    assert fsas.health(op_status) == health


@pytest.mark.parametrize("body", [None, [], "x", {}, {"data": None}, {"data": {}}, {"data": {"machines": {}}}])
def test_a_listing_without_machines_is_unreadable(body: object) -> None:
    with pytest.raises(Unreadable, match=r"data\.machines"):
        wire.entries(body)


def test_entries_that_are_no_machines_are_left_out() -> None:
    assert wire.entries({"data": {"machines": []}}) == []
    assert wire.entries({"data": {"machines": ["x", {}, {"mach_uuid": ""}, {"mach_uuid": 7}]}}) == []


def test_the_attached_device_is_the_first_resource() -> None:
    device, op_status = wire.attached(machines(resource("new"), resource("old")), "m1", "A100", "gpu")
    assert (device.uid, device.fabric, device.machine, op_status) == ("new", 1, "m1", "00")


def test_an_attached_device_that_does_not_tell_its_model_is_accepted() -> None:
    assert wire.attached(machines(resource("new", model=None)), "m1", "A100", "gpu")[0].uid == "new"


@pytest.mark.parametrize(
    ("body", "lacks"),
    [
        ({"data": {"machines": []}}, "names no machine"),
        (machines(), "names no new device"),
        (machines({"res_type": "gpu"}), "names no new device"),
        (machines(resource("c", "compute"), resource("new")), "first device is compute"),
        (machines(resource("other", model="H100"), resource("new")), "first device is gpu H100"),
        ({}, "data.machines"),
    ],
)
def test_a_reply_that_does_not_name_the_new_device_is_unreadable(body: t.Any, lacks: str) -> None:
    with pytest.raises(Unreadable, match=lacks):
        wire.attached(body, "m1", "A100", "gpu")


@pytest.mark.parametrize("op_status", [None, "", 0])
def test_an_empty_operation_status_does_not_crash(op_status: object) -> None:
    device, raw = wire.attached(machines(resource("new", res_op_status=op_status)), "m1", "A100", "gpu")
    assert (device.health, raw) == ("Unknown", "")


def test_the_number_of_available_devices() -> None:
    assert wire.available({"fabric_id": 1, "reserved_res_num_per_fabric": 200}) == 200
    assert wire.available({"reserved_res_num_per_fabric": 0}) == 0


@pytest.mark.parametrize("number", [None, "3", -1, True, 1.5])
def test_no_number_of_available_devices_is_unreadable(number: object) -> None:
    with pytest.raises(Unreadable, match="reserved_res_num_per_fabric"):
        wire.available({"reserved_res_num_per_fabric": number})


def test_the_attach_body_is_the_documented_one() -> None:
    assert wire.attach_body("t", "m", "A100", "gpu") == {
        "tenants": {
            "tenant_uuid": "t",
            "machines": [
                {
                    "mach_uuid": "m",
                    "resources": [
                        {
                            "res_specs": [
                                {
                                    "res_type": "gpu",
                                    "res_spec": {
                                        "condition": [{"column": "model", "operator": "eq", "value": "A100"}]
                                    },
                                    "res_num": 1,
                                }
                            ]
                        }
                    ],
                }
            ],
        }
    }


def test_the_detach_body_is_the_documented_one() -> None:
    leaf = {"res_type": "gpu", "res_uuid": "d", "res_num": 1}
    assert wire.detach_body("t", "m", "d", "gpu") == {
        "tenants": {"tenant_uuid": "t", "machines": [{"mach_uuid": "m", "resources": [{"res_specs": [leaf]}]}]}
    }


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("machine not found", "machine not found"),
        ('{"field": "mach_uuid", "reason": {"text": "no UUID"}}', "field: mach_uuid, reason: text: no UUID"),
        ('["a", "b"]', "a, b"),
        ('"quoted"', '"quoted"'),
        ("42", "42"),
        ({"field": "x"}, "field: x"),
        ("", "no message"),
        (None, "no message"),
    ],
)
def test_an_error_message_is_a_text_or_json_text(message: object, words: str) -> None:
    said = fsas.read_error({"status": 400, "detail": {"code": "E020001", "message": message, "data": {}}})
    assert said is not None
    assert (said.code, said.message) == ("E020001", words)


@pytest.mark.parametrize("body", [None, [], "x", {}, {"detail": "x"}, {"detail": {}}, {"error": "machine not found"}])
def test_another_form_of_error_is_not_fms(body: object) -> None:
    assert fsas.read_error(body) is None
