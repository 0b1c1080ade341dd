# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boxes, switches, links, and what a device has beside its model: given, or made up so that all hangs together."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.emulator import FabricSpec, SpecError, machine_uuid, simple_spec
from ansible_collections.composable.infra.emulator.pool.topology import Box, Link, Switch


def document(**more: t.Any) -> dict[str, t.Any]:
    return {
        "models": [{"name": "A100", "bars": ["16Mi", "64Gi"]}, {"name": "CXL", "kind": "memory", "memory": "64Gi"}],
        "fabrics": [{"id": 1, "devices": [{"model": "A100", "count": 2}]}],
        "machines": [{"name": "node-0", "fabric": 1}, {"name": "apart"}],
        **more,
    }


def devices(*entries: dict[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
    return document(fabrics=[{"id": 1, "devices": list(entries)}], **more)


def test_what_is_left_out_is_made_up_per_fabric() -> None:
    spec = FabricSpec.parse(simple_spec(["a", "b"], {"m": 2}, fabrics=2))
    assert spec.topology.boxes == (Box("box-1", "box-1", 1, 2), Box("box-2", "box-2", 2, 2))
    assert spec.topology.switches == (Switch("switch-1", "switch-1", 1, 64), Switch("switch-2", "switch-2", 2, 64))
    assert {(link.start, link.end) for link in spec.topology.links} == {
        ("box-1", "switch-1"), ("box-2", "switch-2"), ("a", "switch-1"), ("b", "switch-2"),
    }
    assert {device.box for device in spec.devices} == {"box-1", "box-2"}


def test_what_is_given_is_taken() -> None:
    spec = FabricSpec.parse(devices(
        {"model": "A100", "box": "shelf", "numa": 1, "slot": 9, "bars": ["1Gi"]}, {"model": "CXL", "box": "shelf"},
        boxes=[{"id": "shelf", "name": "Shelf A", "fabric": 1, "slots": 4}], switches=[{"id": "s", "fabric": 1}],
        links=[{"from": "node-0", "to": "s", "type": "CXL", "lanes": 8}],
    ))
    assert spec.topology.boxes == (Box("shelf", "Shelf A", 1, 4),)
    assert spec.topology.links == (Link("node-0", "s", "CXL", 8),)
    gpu, memory = spec.devices
    assert (gpu.box, gpu.numa, gpu.slot, gpu.bars, gpu.size) == ("shelf", 1, 9, ("1Gi",), None)
    assert (memory.size, memory.bars, memory.numa) == (65536, (), None)


def test_a_device_has_its_models_bars_and_size() -> None:
    spec = FabricSpec.parse(devices({"model": "A100"}, {"model": "CXL"}, {"model": "CXL", "size": 512}))
    assert [(d.bars, d.size) for d in spec.devices] == [(("16Mi", "64Gi"), None), ((), 65536), ((), 512)]


def test_a_device_may_be_attached_from_the_start() -> None:
    spec = FabricSpec.parse(devices({"model": "A100", "machine": "node-0", "count": 2}, {"model": "A100"}))
    assert [d.on for d in spec.devices] == [machine_uuid("node-0")] * 2 + [None]


def test_a_machine_may_be_another_tenants() -> None:
    tenant = "7e63fd31-0a5c-4d1b-9a52-c0de00000002"
    spec = FabricSpec.parse(document(machines=[{"name": "x", "tenant": tenant}, {"name": "y"}]))
    assert [machine.tenant for machine in spec.machines] == [tenant, None]


def test_dialects_have_settings_of_their_own() -> None:
    spec = FabricSpec.parse(document(settings={"cm": {"device_count": "all"}}))
    assert spec.settings["cm"] == {"device_count": "all"}
    assert spec.settings["fm"] == {}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (document(boxes=[{"id": "b", "fabric": 2}]), r"boxes\[0\].fabric: 2 is not the id of a fabric"),
        (document(switches=[{"fabric": 1}]), r"switches\[0\].id: it must be a text"),
        (document(boxes=[{"id": "x", "fabric": 1}], switches=[{"id": "x", "fabric": 1}]), "id 'x' appears twice"),
        (document(links=[{"from": "node-0", "to": "nowhere"}]), r"links\[0\].to: 'nowhere' is not a machine"),
        (devices({"model": "A100", "box": "none"}), "box 'none' of device device-1 is not a box of its fabric"),
        (devices({"model": "A100", "machine": "apart"}), "machine: 'apart' is not the name of a machine on fabric 1"),
        (devices({"model": "A100", "slot": 1}, {"model": "A100", "slot": 1}), "slot 1 appears twice"),
        (devices({"model": "A100", "slot": 1, "count": 2}), "uuid, name and slot are allowed for a single device only"),
        (devices({"model": "A100", "bars": ["64"]}), "bars: '64' must be a number with Ki, Mi or Gi"),
        (document(models=[{"name": "C", "kind": "memory", "memory": "much"}]),
         r"models\[0\].memory: .* You can also set size"),
        (document(machines=[{"name": "x", "tenant": "t"}]), r"machines\[0\].tenant: it must be a UUID"),
        (document(settings={"xm": {}}), "settings: 'xm' is not a known key"),
        (document(settings={"fm": {"speed": 1}}), "settings.fm: 'speed' is not a known key"),
        (document(cluster="c"), "cluster: it must be a UUID"),
        (document(managers=["fm", "fm"]), "managers: manager 'fm' appears twice"),
    ],
)
def test_a_mistake_is_named(wrong: dict[str, t.Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        FabricSpec.parse(wrong)
