# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The main work over real TLS: what is there, attach, detach, many at once, nothing left."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator, machine_uuid, simple_spec
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Missing, Refused
from ansible_collections.composable.infra.tests.integration.fabric.conftest import (
    MODEL,
    NODE_0,
    NODE_1,
    OTHER,
    Client,
    attached,
    manager_calls,
)


def test_machines_are_listed_with_their_fabric_and_without_what_is_built_in(fabric: FabricManager) -> None:
    machines = {machine.name: machine for machine in fabric.machines()}
    assert set(machines) == {"node-0", "node-1", "node-2", "apart"}
    assert machines["node-0"].uid == NODE_0
    assert (machines["node-0"].fabric, machines["apart"].fabric) == (1, None)
    assert all(machine.devices == () for machine in machines.values())
    assert fabric.machine(NODE_0) == machines["node-0"]


def test_a_device_goes_to_the_machine_and_back(fabric: FabricManager, emulator: Emulator) -> None:
    (device,) = fabric.attach(NODE_0, MODEL).devices
    assert (device.model, device.kind, device.fabric, device.machine) == (MODEL, "gpu", 1, NODE_0)
    assert (device.state, device.health) == ("attached", "OK")
    assert str(device.serial).startswith("GPU-")
    assert fabric.machine(NODE_0).devices == (device,)
    assert attached(emulator) == {device.uid: NODE_0}
    assert (fabric.free(NODE_0, MODEL), fabric.free(NODE_1, MODEL)) == (3, 3)
    assert fabric.detach(NODE_0, device.uid).done
    assert attached(emulator) == {}
    assert fabric.free(NODE_0, MODEL) == 4


def test_the_new_device_is_told_from_those_that_were_there(fabric: FabricManager) -> None:
    found = [fabric.attach(NODE_0, MODEL).devices[0].uid for _unused in range(3)]
    assert len(set(found)) == 3
    assert {d.uid for d in fabric.machine(NODE_0).devices} == set(found)


def test_detaching_twice_is_done_and_sends_one_delete(fabric: FabricManager, emulator: Emulator) -> None:
    (device,) = fabric.attach(NODE_0, MODEL).devices
    assert fabric.detach(NODE_0, device.uid).done
    assert fabric.detach(NODE_0, device.uid).done
    assert [entry["method"] for entry in manager_calls(emulator)].count("DELETE") == 1


def test_several_devices_by_one_call(fabric: FabricManager) -> None:
    task = fabric.attach(NODE_0, MODEL, 4)
    assert task.done
    assert len({device.uid for device in task.devices}) == 4
    assert fabric.free(NODE_0, MODEL) == 0


def test_what_a_partly_filled_request_did_attach_is_named(fabric: FabricManager, emulator: Emulator) -> None:
    with pytest.raises(Refused) as caught:
        fabric.attach(NODE_0, MODEL, 6)
    assert caught.value.exhausted
    assert {device.uid for device in caught.value.devices} == set(attached(emulator))
    assert len(caught.value.devices) == 4
    assert [type(error) for error in caught.value.errors] == [Refused, Refused]


def test_a_model_that_has_run_out_is_refused_and_works_when_one_is_returned(fabric: FabricManager) -> None:
    (device,) = fabric.attach(NODE_0, OTHER).devices
    with pytest.raises(Refused, match=f"{OTHER} to machine {NODE_1}.*insufficient resources") as caught:
        fabric.attach(NODE_1, OTHER)
    assert caught.value.exhausted
    assert caught.value.code == "E020404"
    fabric.detach(NODE_0, device.uid)
    assert fabric.attach(NODE_1, OTHER).devices[0].uid == device.uid


def test_an_unknown_model_is_exhausted(fabric: FabricManager) -> None:
    assert fabric.free(NODE_0, "no-such-model") == 0
    with pytest.raises(Refused, match="no-such-model") as caught:
        fabric.attach(NODE_0, "no-such-model")
    assert caught.value.exhausted


def test_nothing_can_be_attached_to_a_machine_without_a_fabric(fabric: FabricManager) -> None:
    with pytest.raises(Refused) as caught:
        fabric.attach(machine_uuid("apart"), MODEL)
    assert caught.value.exhausted


def test_an_unknown_machine_is_missing_by_every_call(fabric: FabricManager) -> None:
    unknown = machine_uuid("nobody")
    for work in (
        lambda: fabric.machine(unknown),
        lambda: fabric.free(unknown, MODEL),
        lambda: fabric.attach(unknown, MODEL),
        lambda: fabric.detach(unknown, "device"),
    ):
        with pytest.raises(Missing, match=f"{unknown}.*machine not found") as caught:
            work()
        assert caught.value.code == "E020402"


def test_an_unknown_tenant_is_named(client: Client) -> None:
    tenant = "00000000-0000-4000-8000-000000000000"
    other = client(tenant=tenant)
    for work in (other.machines, lambda: other.attach(NODE_0, MODEL), lambda: other.snapshot([MODEL])):
        with pytest.raises(Missing, match=f"tenant {tenant} not found") as caught:
            work()
        assert caught.value.code == "E020401"


@pytest.mark.parametrize(("health", "refused"), [("Warning", False), ("Critical", True), ("Unknown", True)])
def test_a_sick_device_is_attached_and_must_be_returned(
    fabric: FabricManager, emulator: Emulator, health: str, refused: bool
) -> None:
    uid = next(d["uid"] for d in emulator.state()["devices"] if d["model"] == OTHER)
    emulator.set_health(uid, health)
    if not refused:
        assert fabric.attach(NODE_0, OTHER).devices[0].health == health
        return
    with pytest.raises(Refused, match=f"{uid}.*{health}") as caught:
        fabric.attach(NODE_0, OTHER)
    assert caught.value.device is not None
    assert attached(emulator) == {uid: NODE_0}
    fabric.detach(NODE_0, caught.value.device.uid)
    assert attached(emulator) == {}


def test_a_snapshot_shows_machines_and_what_is_free_on_each_fabric(tmp_path: Path) -> None:
    spec = simple_spec(["a", "b", "c"], {MODEL: 3, OTHER: 2}, fabrics=2, attach=0, detach=0)
    spec["machines"].append({"name": "apart"})
    with Emulator.run(spec, tmp_path) as emulator:
        fabric = connect(FabricConfig.from_dict(emulator.fabric_config()))
        fabric.attach(machine_uuid("b"), OTHER)
        found = fabric.snapshot([MODEL, OTHER, "unknown"])
        assert found.free == {
            (MODEL, 1): 3, (MODEL, 2): 3, (OTHER, 1): 2, (OTHER, 2): 1, ("unknown", 1): 0, ("unknown", 2): 0,
        }
        assert found.problems == {}
        assert {m.name: len(m.devices) for m in found.machines.values()} == {"a": 0, "b": 1, "c": 0, "apart": 0}
        fabric.close()


def test_200_attaches_at_once_all_succeed_with_a_device_each(tmp_path: Path) -> None:
    nodes = [f"node-{number}" for number in range(20)]
    with Emulator.run(simple_spec(nodes, {MODEL: 200}, attach=0.2), tmp_path) as emulator:
        fabric = connect(FabricConfig.from_dict(emulator.fabric_config()))
        machines = [machine_uuid(node) for node in nodes]
        with ThreadPoolExecutor(200) as pool:
            tasks = list(pool.map(lambda number: fabric.attach(machines[number % 20], MODEL), range(200)))
        assert len({task.devices[0].uid for task in tasks}) == 200
        assert sorted(attached(emulator).values()) == sorted(machines * 10)
        assert fabric.free(machines[0], MODEL) == 0
        fabric.close()
