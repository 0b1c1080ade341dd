# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every mistake in the fabric's document is named by its field; what is left out gets a stable value."""

from __future__ import annotations

import typing as t
import uuid
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.emulator import FabricSpec, SpecError, machine_uuid, simple_spec
from ansible_collections.composable.infra.emulator.pool.fabric_spec import DEFAULT_MANAGERS, DEFAULT_TENANT
from ansible_collections.composable.infra.emulator.pool.known_models import KNOWN_MODELS

SERIAL = "GPU-11111111-2222-3333-4444-555555555555"


def document(**more: t.Any) -> dict[str, t.Any]:
    return {
        "models": [{"name": "A100"}, {"name": "cxl", "kind": "cxlmemory"}],
        "fabrics": [{"id": 1, "devices": [{"model": "A100", "count": 2}]}, {"id": 7}],
        "machines": [{"name": "node-0", "fabric": 1}, {"name": "apart"}],
        **more,
    }


def devices(*entries: dict[str, t.Any]) -> dict[str, t.Any]:
    return document(fabrics=[{"id": 1, "devices": list(entries)}])


def test_what_is_left_out_has_a_default() -> None:
    spec = FabricSpec.parse(document())
    assert (spec.tenant, spec.realm, spec.users, spec.client) == (DEFAULT_TENANT, "composable", (), None)
    assert (spec.attach, spec.detach, spec.token_lifetime, spec.per_machine) == (2.0, 1.0, 300.0, 0)
    assert spec.managers == DEFAULT_MANAGERS
    assert (spec.models["A100"].product_name, spec.models["cxl"].kind) == ("A100", "cxlmemory")


def test_an_empty_document_is_an_empty_fabric() -> None:
    spec = FabricSpec.parse({})
    assert (spec.devices, spec.machines) == ((), ())


def test_devices_have_stable_distinct_names() -> None:
    first, again = FabricSpec.parse(document()), FabricSpec.parse(document())
    assert first.devices == again.devices
    assert len({d.uid for d in first.devices} | {d.serial for d in first.devices}) == 4
    assert [(d.slot, d.fabric, d.model) for d in first.devices] == [(1, 1, "A100"), (2, 1, "A100")]
    assert all(uuid.UUID(d.uid) and uuid.UUID(d.serial.removeprefix("GPU-")) for d in first.devices)


def test_slots_count_over_all_fabrics() -> None:
    entry = {"model": "A100", "count": 2}
    spec = FabricSpec.parse(document(fabrics=[{"id": 1, "devices": [entry]}, {"id": 2, "devices": [entry, entry]}]))
    assert [(d.slot, d.fabric) for d in spec.devices] == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2), (6, 2)]


def test_devices_by_serial() -> None:
    uid = "7e63fd31-0a5c-4d1b-9a52-c0de00000009"
    spec = FabricSpec.parse(devices(
        {"model": "A100", "serials": ["s1", "s2"], "health": "Warning"},
        {"model": "A100", "serial": SERIAL, "uuid": uid, "name": "box 1"},
    ))
    assert [(d.serial, d.health) for d in spec.devices] == [("s1", "Warning"), ("s2", "Warning"), (SERIAL, "OK")]
    assert (spec.devices[2].uid, spec.devices[2].name) == (uid, "box 1")


def test_machines_have_a_uuid_made_from_their_name() -> None:
    spec = FabricSpec.parse(document())
    assert [(m.uid, m.name, m.fabric) for m in spec.machines] == [
        (machine_uuid("node-0"), "node-0", 1), (machine_uuid("apart"), "apart", None),
    ]
    assert machine_uuid("node-0") == str(uuid.uuid5(uuid.NAMESPACE_DNS, "node-0.machine.composable.infra"))


@pytest.mark.parametrize(
    ("wrong", "field", "says"),
    [
        ([], "the fabric", "must be a mapping"),
        (document(tennant="x"), "the fabric", "'tennant' is not a known key. Allowed are tenant"),
        (document(tenant="x"), "the fabric.tenant", "must be a UUID, not 'x'"),
        (document(tenant=7), "the fabric.tenant", "must be a text"),
        (document(realm=""), "the fabric.realm", "must be a text"),
        (document(timing={"attach": -1}), "the fabric.timing.attach", "at least 0, not -1"),
        (document(timing={"attach": "2"}), "the fabric.timing.attach", "must be a number"),
        (document(timing={"detach": True}), "the fabric.timing.detach", "must be a number"),
        (document(timing={"detach": float("nan")}), "the fabric.timing.detach", "must be a number"),
        (document(timing=[1]), "the fabric.timing", "must be a mapping with attach, detach"),
        (document(token_lifetime=0), "the fabric.token_lifetime", "at least 0.001"),
        (document(concurrency={"per_machine": 1.5}), "the fabric.concurrency.per_machine", "whole number"),
        (document(managers=["xm"]), "managers", "'xm' is not known. Allowed are fm"),
        (document(managers="fm"), "the fabric.managers", "list of texts"),
        (document(client={"id": "x"}), "the fabric.client.secret", "must be a text"),
        (document(users=[{"username": "x"}]), "the fabric.users[0].password", "must be a text"),
        (document(models=[{"name": "A"}, {"name": "A"}]), "models", "name 'A' appears twice"),
        (document(models={"name": "A"}), "the fabric.models", "must be a list"),
        (document(models=[{"name": "A", "vendor_id": "10d"}]), "the fabric.models[0].vendor_id", "four hexadecimal"),
        (document(models=[{"name": "A", "device_id": 2330}]), "the fabric.models[0].device_id", "in quotes"),
        (document(models=[{"name": "A", "attributes": {"a": 1}}]), "the fabric.models[0].attributes", "texts"),
        (document(fabrics=[{"id": 1}, {"id": 1}]), "fabrics", "id 1 appears twice"),
        (document(fabrics=[{"devices": []}]), "the fabric.fabrics[0].id", "whole number"),
        (devices({"model": "H100"}), "the fabric.fabrics[0].devices[0].model",
         "'H100' is not in models. Allowed are A100"),
        (devices({"model": "A100", "health": "bad"}), "the fabric.fabrics[0].devices[0].health", "Allowed are OK"),
        (devices({"model": "A100", "count": -1}), "the fabric.fabrics[0].devices[0].count", "whole number from 0"),
        (devices({"model": "A100", "count": 1, "serial": "x"}), "the fabric.fabrics[0].devices[0]", "one of count"),
        (devices({"model": "A100", "count": 2, "name": "x"}), "the fabric.fabrics[0].devices[0]", "single device"),
        (devices({"model": "A100", "serials": ["a", "a"]}), "devices", "serial 'a' appears twice"),
        (devices({"model": "A100", "uuid": "x"}), "the fabric.fabrics[0].devices[0].uuid", "must be a UUID"),
        (document(machines=[{"name": "a", "fabric": 3}]), "the fabric.machines[0].fabric", "3 is not the id"),
        (document(machines=[{"fabric": 1}]), "the fabric.machines[0].name", "must be a text"),
        (document(machines=[{"name": "a"}, {"name": "a"}]), "machines", "appears twice"),
        (document(machines=[{"name": "a", "uuid": "x"}]), "the fabric.machines[0].uuid", "must be a UUID"),
    ],
)
def test_a_mistake_is_named(wrong: t.Any, field: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        FabricSpec.parse(wrong)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")
    assert says in str(caught.value)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "fabric.yml"
    path.write_text(yaml.safe_dump(document()), encoding="utf-8")
    assert FabricSpec.load(path) == FabricSpec.parse(document())


@pytest.mark.parametrize(("text", "says"), [("a: [", "it is not YAML"), ("\x00", "it is not YAML"), ("- a", "mapping")])
def test_a_file_that_is_no_document(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "fabric.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match=says) as caught:
        FabricSpec.load(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_absent_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"absent\.yml: No such file"):
        FabricSpec.load(tmp_path / "absent.yml")


def test_a_lab_document_deals_nodes_out_over_the_fabrics() -> None:
    spec = FabricSpec.parse(
        simple_spec(["a", "b", "c"], {"NVIDIA-L40S": 2, "own": 1}, fabrics=2, attach=0.5, detach=0.25, token_lifetime=9)
    )
    assert [(m.name, m.fabric) for m in spec.machines] == [("a", 1), ("b", 2), ("c", 1)]
    assert [(d.model, d.fabric) for d in spec.devices] == [
        ("NVIDIA-L40S", 1), ("NVIDIA-L40S", 1), ("own", 1), ("NVIDIA-L40S", 2), ("NVIDIA-L40S", 2), ("own", 2),
    ]
    assert (spec.attach, spec.detach, spec.token_lifetime) == (0.5, 0.25, 9)
    assert spec.models["NVIDIA-L40S"].memory == "48Gi"
    assert spec.models["own"].product_name == "own"


@pytest.mark.parametrize("name", KNOWN_MODELS)
def test_known_models_are_valid(name: str) -> None:
    model = FabricSpec.parse(simple_spec([], {name: 0})).models[name]
    assert model.product_name.replace(" ", "-").endswith(name.split("-")[-1])
    assert {"architecture", "driver"} & set(model.attributes), "a GPU, or a device with another driver"
