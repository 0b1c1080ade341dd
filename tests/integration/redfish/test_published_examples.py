# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our client on the example services that DMTF publishes. All facts below were read from those documents by hand.

The examples have flaws that real services have too: collections that forget members or list one twice, wrong counts,
several systems with one UUID, links in one direction only.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Link, Switch
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.driver import RedfishDriver
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Missing, Refused
from ansible_collections.composable.infra.tests.integration.redfish import published
from ansible_collections.composable.infra.tests.integration.redfish.static_service import StaticService
from ansible_collections.composable.infra.tests.unit.fabric.drivers.redfish.offered import offers

COMPOSED = "37596f04-b032-48ce-9bad-7d55a61fe574"
COMPOSED_2 = "c799d9a4-f5e4-402c-a1b5-0cd9d5213891"
CXL_SYSTEM = "68d5e212-165b-4ca0-909b-c86b9cee0112"


@pytest.fixture
def fabric(request: pytest.FixtureRequest) -> Iterator[RedfishDriver]:
    """A client of the example service that the test names."""
    with StaticService(published.mockup(request.param)) as service:
        made = RedfishDriver(FabricConfig.from_dict({"manager": "sunfish", "endpoint": service.url}))
        yield made
        made.close()


def example(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fabric", [name], indirect=True, ids=[name])


def has(fabric: RedfishDriver) -> dict[str, set[str]]:
    """Devices by machine."""
    return {machine.name: {d.uid for d in machine.devices} for machine in fabric.machines()}


def by_state(fabric: RedfishDriver, state: str) -> set[str]:
    return {device.uid for device in fabric.devices() if device.state == state}


@example("public-composability")
def test_composability(fabric: RedfishDriver) -> None:
    """Two composed systems with blocks of two zones, and three stages of one expandable system that share a UUID."""
    machines = {machine.uid: machine for machine in fabric.machines()}
    assert {uid: {d.uid for d in machine.devices} for uid, machine in machines.items()} == {
        COMPOSED: {"DriveBlock3", "DriveBlock4"}, COMPOSED_2: {"DriveBlock3", "NetworkBlock8"},
        "/redfish/v1/Systems/SystemPreResourceBlock": set(), "/redfish/v1/Systems/SystemAfterResourceBlock": set(),
        "/redfish/v1/Systems/SystemAfterAddResourceAction": {"DriveBlock10"},
    }
    assert {uid: machine.fabric for uid, machine in machines.items()} == {
        COMPOSED: 1, COMPOSED_2: 2, "/redfish/v1/Systems/SystemPreResourceBlock": None,
        "/redfish/v1/Systems/SystemAfterResourceBlock": 3, "/redfish/v1/Systems/SystemAfterAddResourceAction": 3,
    }
    assert by_state(fabric, "free") == {"DriveBlock5", "DriveBlock6", "DriveBlock7", "OffloadBlock9"}
    assert set(offers(fabric.service_model()).values()) == {"AddResourceBlock"}


@example("public-composability")
def test_a_free_gpu_is_for_the_machine_of_its_zone(fabric: RedfishDriver) -> None:
    """OffloadBlock9 is in zone 2, which has ComputeBlock2 of the second system."""
    model = "Contoso Workstation VID2000"
    gpu = next(d for d in fabric.devices() if d.uid == "OffloadBlock9")
    assert (gpu.kind, gpu.model, gpu.fabric, gpu.health) == ("gpu", model, 2, "OK")
    assert fabric.free(COMPOSED_2, model) == 1
    assert fabric.free(COMPOSED, model) == 0
    assert fabric.snapshot([model]).free == {(model, 1): 0, (model, 2): 1, (model, 3): 0}
    with pytest.raises(Refused) as refused:
        fabric.attach(COMPOSED, model)
    assert refused.value.exhausted


def boxes(fabric: RedfishDriver) -> dict[str, str | None]:
    """Box by device."""
    return {device.uid: device.box for device in fabric.devices()}


@example("public-composability")
def test_boxes_are_the_chassis_that_blocks_and_drives_link_to(fabric: RedfishDriver) -> None:
    assert boxes(fabric) == {
        **{f"DriveBlock{number}": "ComposableModule3" for number in (3, 4, 5, 6)},
        "DriveBlock7": "ComposableModule4", "DriveBlock10": "ComposableModule7",
        "NetworkBlock8": "ComposableModule5", "OffloadBlock9": "ComposableModule6",
    }
    model = "Contoso Workstation VID2000"
    assert fabric.snapshot([model]).free_in_boxes == {(model, 2, "ComposableModule6"): 1}
    (machine,) = (each for each in fabric.machines() if each.uid == COMPOSED)
    assert {device.box for device in machine.devices} == {"ComposableModule3"} == {
        device.box for device in fabric.machine(COMPOSED).devices}


@example("public-cxl")
def test_boxes_are_the_chassis_of_what_endpoints_stand_for(fabric: RedfishDriver) -> None:
    """Processors and chunks link to no chassis here; they are subordinate to one."""
    pooled = {"CXL/T1": "PooledCXLType1", "CXL/T2": "PooledCXLType2", "CXL/T3": "PooledCXLType3"}
    assert boxes(fabric) == {**pooled, "CXL/T4": "PooledCXLType3", "CXL/T5": "CXLType3"}


@example("public-cxl")
def test_a_switch_and_what_its_ports_lead_to(fabric: RedfishDriver) -> None:
    """Two ports to the one system (the collection forgets U3), four to boxes; with the speeds that they say."""
    seen = fabric.snapshot([])
    pooled = [Link("box", f"PooledCXLType{number}", 1, 0, 256.0) for number in (1, 2, 3)]
    assert seen.switches == (Switch("CXL", 90817, "CXL Switch", "OK", (
        Link("box", "CXLType3", 1, 0, 256.0), *pooled, Link("machine", CXL_SYSTEM, 2, 0, 1024.0))),)
    assert set(seen.switches_of) == {f"CXL/T{number}" for number in range(1, 6)}


@example("public-compose-action")
def test_compose_action(fabric: RedfishDriver) -> None:
    """Eight systems with one and the same UUID; one block is listed twice, SASSled-2 is forgotten."""
    assert has(fabric)["Sled-1"] == {"NVMe-TargetsAppliance-1", "26021"}
    assert sum(bool(devices) for devices in has(fabric).values()) == 1
    uids = [machine.uid for machine in fabric.machines()]
    assert len(uids) == 8
    assert {"/redfish/v1/Systems/BladeServer-1", "/redfish/v1/Systems/RackServer-1"} <= set(uids)
    assert by_state(fabric, "free") == {"NVMe-TargetsAppliance-2", "NVMe-TargetsAppliance-3", "SASSled-3"}
    assert by_state(fabric, "attached") == {"NVMe-TargetsAppliance-1", "26021"}
    drive = next(d for d in fabric.devices() if d.uid == "26021")
    assert (drive.kind, drive.model, drive.serial) == ("storage", "AL14SEB030NY", "67N0A0FHFL5E")


@example("public-compose-action")
def test_compose_action_offers_both_and_the_etags_come_first(fabric: RedfishDriver) -> None:
    """The service has the Compose action, and its blades and racks AddResourceBlock too."""
    shown = fabric.service_model()
    assert shown.tree.composition is not None
    assert shown.tree.composition.compose == "/redfish/v1/CompostionService/Actions/CompositionService.Compose"
    assert set(offers(shown).values()) == {"AddResourceBlock"}


@example("public-constrained-composition")
def test_constrained_composition(fabric: RedfishDriver) -> None:
    """The same blocks, but the service composes new systems only: nothing can be moved to one that is there."""
    assert {m.uid: {d.uid for d in m.devices} for m in fabric.machines()} == {
        COMPOSED: {"DriveBlock3", "DriveBlock4"}, COMPOSED_2: {"DriveBlock3", "NetworkBlock8"},
    }
    assert by_state(fabric, "free") == {"DriveBlock5", "DriveBlock6", "DriveBlock7", "OffloadBlock9"}
    assert offers(fabric.service_model()) == {}
    assert fabric.free(COMPOSED_2, "Contoso Workstation VID2000") == 0
    with pytest.raises(Refused, match="offers no way"):
        fabric.detach(COMPOSED_2, "NetworkBlock8")


@example("public-cxl")
def test_cxl(fabric: RedfishDriver) -> None:
    """T2, T3 and T4 are connected; connection 14 and endpoint I4 are missing in their collections. T5 lies in a card
    that the system lists among its own PCIe devices. T1 is in a zone with I1 and has no connection."""
    machine = fabric.machine(CXL_SYSTEM)
    assert {d.uid: (d.kind, d.size) for d in machine.devices} == {
        "CXL/T2": ("gpu", None), "CXL/T3": ("memory", 16384), "CXL/T4": ("memory", 4096), "CXL/T5": ("memory", 16384),
    }
    assert fabric.machines() == (machine,)
    assert by_state(fabric, "free") == {"CXL/T1"}
    assert next(d for d in fabric.devices() if d.uid == "CXL/T1").kind == "fpga"
    assert offers(fabric.service_model()) == dict.fromkeys(["CXL/T1", "CXL/T2", "CXL/T3", "CXL/T4"], "Connections")


@example("public-cxl")
def test_what_is_built_in_is_not_detached(fabric: RedfishDriver) -> None:
    with pytest.raises(Refused, match="offers no way"):
        fabric.detach(CXL_SYSTEM, "CXL/T5")


@example("public-cxl")
def test_an_unknown_machine_is_missing(fabric: RedfishDriver) -> None:
    for ask in (fabric.machine, lambda uid: fabric.free(uid, "GPU"), lambda uid: fabric.attach(uid, "GPU"),
                lambda uid: fabric.detach(uid, "CXL/T2")):
        with pytest.raises(Missing):
            ask(COMPOSED)
