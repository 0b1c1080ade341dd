# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From resources to machines and units: who has what, who could have it, on which fabric."""

from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish import reader as reader_module
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.model.build import (
    number,
    service_model,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.model.service_model import (
    ServiceModel,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.model.unit_allocator import (
    candidates,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.reader import Reader
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.redfish.service import Service
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    FabricError,
    Missing,
    Unauthorized,
    Unavailable,
)
from ansible_collections.composable.infra.tests.unit.fabric.drivers.redfish.fake_service import (
    BLOCKS,
    FABRIC,
    PARTS,
    ROOT,
    SYSTEMS,
    UUIDS,
    ZONES,
    FakeService,
    block,
    collection,
    composable,
    connection,
    endpoint,
    group,
    grouped,
    machine_block,
    ref,
    refs,
    root,
    switched,
    system,
)
from ansible_collections.composable.infra.tests.unit.fabric.drivers.redfish.offered import offers

M0, M1 = UUIDS["m0"], UUIDS["m1"]
SHARED = {"1": ["i0", "i1", "t0", "t1"]}


def seen(documents: dict[str, t.Any]) -> ServiceModel:
    return service_model(Reader(Service(FakeService(documents).as_session())).tree())


def states(shown: ServiceModel) -> dict[str, str]:
    return {unit.uid: unit.state() for unit in shown.units.values()}


@pytest.mark.parametrize(("state", "more", "wanted"), [
    ("Unused", {}, "free"), ("Composed", {"on": ["m0"]}, "attached"),
    ("ComposedAndAvailable", {"on": ["m0"]}, "attached"),
    ("Composing", {}, "attaching"), ("Composing", {"on": ["m0"]}, "attaching"), ("Failed", {}, "unavailable"),
    ("Unavailable", {}, "unavailable"), ("Composed", {}, "unavailable"), ("Composed", {"on": ["hidden"]}, "attached"),
    ("Unused", {"Status": {"State": "Absent"}}, "unavailable"),
    ("Unused", {"CompositionStatus": {"CompositionState": "Unused", "Reserved": True}}, "unavailable"),
    ("Unused", {"CompositionStatus": {}}, "free"),
])
def test_states_of_a_block(state: str, more: dict[str, t.Any], wanted: str) -> None:
    shown = seen(composable([block("a", state, **more)]))
    assert states(shown) == {"a": wanted}
    free = [unit.uid for unit in candidates(shown, shown.hosts[M0], "A100", "gpu")]
    assert free == (["a"] if wanted == "free" else [])


def test_a_link_in_one_direction_is_enough() -> None:
    by_block = composable([block("a", "Composed", on=["m0"])])
    by_system = composable([block("a", "Composed")], [system("m0", ["m0", "a"]), system("m1", ["m1"])])
    for documents in (by_block, by_system):
        machines = {machine.uid: [d.uid for d in machine.devices] for machine in seen(documents).machines()}
        assert machines == {M0: ["a"], M1: []}


def test_a_block_that_two_machines_share() -> None:
    shown = seen(composable([block("a", "ComposedAndAvailable", on=["m0", "m1"])]))
    assert [[d.machine for d in machine.devices] for machine in shown.machines()] == [[M0], [M1]]
    assert len(shown.units) == 1


def test_a_uuid_that_several_machines_show_names_none() -> None:
    twins = [system("m0", ["m0"]), system("m1", ["m1"], UUID=M0), system("m2", [])]
    assert set(seen(composable([], twins)).hosts) == {f"{SYSTEMS}/m0", f"{SYSTEMS}/m1", UUIDS["m2"]}


def test_a_machine_without_a_uuid_goes_by_its_path() -> None:
    assert set(seen(composable([], [system("m0", [], UUID=None)])).hosts) == {f"{SYSTEMS}/m0"}


def test_blocks_with_one_id_go_by_their_paths() -> None:
    twins = [block("a"), block("b", Id="a")]
    documents = composable(twins)
    documents[BLOCKS] = collection(BLOCKS, ["a", "b"])
    assert set(seen(documents).units) == {f"{BLOCKS}/a", f"{BLOCKS}/b"}


def test_zones_bound_who_can_have_what() -> None:
    documents = composable([block("a"), block("b", zone="2")], [system("m0", ["m0"]), system("m1", ["m1"])])
    documents[ZONES] = collection(ZONES, ["1", "2"])
    documents[f"{ZONES}/1"] = {"Id": "1", "Links": {"ResourceBlocks": refs([f"{BLOCKS}/m0", f"{BLOCKS}/a"])}}
    documents[f"{ZONES}/2"] = {"Id": "2", "Links": {"ResourceBlocks": refs([f"{BLOCKS}/m1"])}}
    documents[f"{BLOCKS}/m1"] = machine_block("m1", "2")
    shown = seen(documents)
    found = {uid: [u.uid for u in candidates(shown, host, "A100", None)] for uid, host in shown.hosts.items()}
    assert found == {M0: ["a"], M1: ["b"]}
    assert {uid: host.fabric for uid, host in shown.hosts.items()} == {M0: 1, M1: 2}
    assert {unit.uid: shown.device(unit).fabric for unit in shown.units.values()} == {"a": 1, "b": 2}


def test_without_zones_everything_fits() -> None:
    documents = composable([block("a")])
    del documents[ZONES]
    shown = seen(documents)
    assert [u.uid for u in candidates(shown, shown.hosts[M1], "A100", None)] == ["a"]
    assert shown.hosts[M0].fabric == 1


def test_a_machine_that_no_block_stands_for_is_bound_by_no_zone() -> None:
    shown = seen(composable([block("a")], [system("m0", []), system("m1", [], actions=False)]))
    assert [u.uid for u in candidates(shown, shown.hosts[M0], "A100", None)] == ["a"]


def test_fabrics_are_numbered_by_their_ids() -> None:
    assert number("7", "/x") == 7
    made_up = number("Zone-A", f"{ZONES}/Zone-A")
    assert made_up >= 10_000
    assert made_up == number("Zone-A", f"{ZONES}/Zone-A") != number("Zone-B", f"{ZONES}/Zone-B")
    assert number(None, "/x") >= 10_000


def test_a_connection_gives_a_target_to_a_machine() -> None:
    shown = seen(switched([connection("c", ["i0"], ["t0"])], SHARED, ["t0", "t1"]))
    assert {unit.uid: unit.hosts for unit in shown.units.values()} == {"1/t0": (M0,), "1/t1": ()}
    assert offers(shown) == {"1/t0": "Connections", "1/t1": "Connections"}
    assert shown.hosts[M0].fabric == 1


def test_a_connection_of_endpoint_groups_gives_a_target_to_a_machine() -> None:
    documents = switched([grouped("c", "hosts", "gpus")], SHARED, ["t0", "t1"])
    shown = seen({**documents, **group("hosts", ["i0"]), **group("gpus", ["t0"])})
    assert {unit.uid: unit.hosts for unit in shown.units.values()} == {"1/t0": (M0,), "1/t1": ()}
    assert states(shown) == {"1/t0": "attached", "1/t1": "free"}


@pytest.mark.parametrize("answer", [None, Unavailable("500"), {"@odata.id": f"{FABRIC}/EndpointGroups/gpus"},
                                    {**group("gpus", ["t0"])[f"{FABRIC}/EndpointGroups/gpus"],
                                     "Endpoints@odata.nextLink": f"{FABRIC}/EndpointGroups/gpus?$skip=1"}])
def test_while_an_endpoint_group_cannot_be_resolved_the_targets_of_its_fabric_are_held(answer: t.Any) -> None:
    if isinstance(answer, Unavailable):
        answer.status = 500
    documents = switched([grouped("c", "hosts", "gpus")], SHARED, ["t0", "t1"])
    shown = seen({**documents, **group("hosts", ["i0"]), f"{FABRIC}/EndpointGroups/gpus": answer})
    assert states(shown) == {"1/t0": "attached", "1/t1": "attached"}
    assert [unit.hosts for unit in shown.units.values()] == [(), ()]
    assert [*candidates(shown, shown.hosts[M0], "A100", None)] == []


def test_a_machine_of_somebody_else_has_a_target_too() -> None:
    documents = switched([connection("c", ["i9"], ["t0"])], SHARED, ["t0"])
    documents[f"{FABRIC}/Endpoints/i9"] = endpoint("i9", f"{SYSTEMS}/hidden", "Initiator")
    shown = seen(documents)
    assert states(shown) == {"1/t0": "attached"}
    assert shown.device(shown.units["1/t0"]).machine is None


def test_what_collections_forgot_is_found_by_links() -> None:
    documents = switched([], SHARED, ["t0"])
    documents[f"{FABRIC}/Connections/c"] = connection("c", ["i9"], ["t0"])
    documents[f"{FABRIC}/Endpoints/i9"] = endpoint("i9", f"{SYSTEMS}/m1/Processors/1", "Initiator")
    documents[f"{FABRIC}/Endpoints/t0"] = endpoint(
        "t0", f"{PARTS}/t0", "Target", Connections=refs([f"{FABRIC}/Connections/c"]))
    assert seen(documents).units["1/t0"].hosts == (M1,)


def test_zones_say_who_may_be_connected() -> None:
    shown = seen(switched([], {"1": ["i0", "t0"], "2": ["i1", "t1"]}, ["t0", "t1"]))
    found = {uid: [u.uid for u in candidates(shown, host, "A100", None)] for uid, host in shown.hosts.items()}
    assert found == {M0: ["1/t0"], M1: ["1/t1"]}


def test_where_there_are_no_connections_a_zone_is_the_attachment() -> None:
    shown = seen(switched(None, {"0": ["i0", "t0"], "1": ["i1"], "store": ["t1"]}, ["t0", "t1"]))
    assert {unit.uid: unit.hosts for unit in shown.units.values()} == {"1/t0": (M0,), "1/t1": ()}
    assert set(offers(shown).values()) == {"Zones"}


def test_a_zone_that_machines_share_is_nobodys() -> None:
    shown = seen(switched(None, SHARED, ["t0"]))
    assert shown.units["1/t0"].hosts == (M0, M1)
    assert offers(shown) == {}


def test_a_device_in_a_machines_own_slot_is_that_machines() -> None:
    documents = switched([], SHARED, ["t0"])
    documents[f"{SYSTEMS}/m1"]["PCIeDevices"] = refs([f"{ROOT}/Chassis/box"])
    assert seen(documents).units["1/t0"].hosts == (M1,)


def test_a_block_and_an_endpoint_of_one_thing_are_one_unit() -> None:
    documents = {**switched([connection("c", ["i0"], ["t0"])], SHARED, ["t0", "t1"]),
                 **composable([block("t0", "Composed", on=["m0"]), block("t1")])}
    documents[ROOT] = root()
    shown = seen(documents)
    assert states(shown) == {"t0": "attached", "t1": "free"}
    assert set(offers(shown).values()) == {"AddResourceBlock"}
    assert shown.units["t1"].fabric_uri == FABRIC


def pointing(name: str, **entities: str) -> t.Any:
    """A target endpoint that stands for several things, by EntityType."""
    found = endpoint(name, f"{PARTS}/{name}", "Target")
    found["ConnectedEntities"] = [{"EntityType": kind, "EntityRole": "Target", "EntityLink": {"@odata.id": path}}
                                  for kind, path in entities.items()]
    return found


@pytest.mark.parametrize(("one", "other", "units"), [
    ({"Processor": f"{PARTS}/t0", "PCIeDevice": "/d/1"}, {"Processor": f"{PARTS}/t1", "PCIeDevice": "/d/1"}, 2),
    ({"MemoryChunk": "/c/3", "CXLDevice": "/d/1"}, {"MemoryChunk": "/c/4", "CXLDevice": "/d/1"}, 2),
    ({"Processor": f"{PARTS}/t0", "PCIeDevice": "/d/1"}, {"PCIeDevice": "/d/1"}, 1),
    ({"Processor": f"{PARTS}/t0", "PCIeDevice": "/d/1"}, {"Processor": f"{PARTS}/t0", "PCIeDevice": "/d/2"}, 1),
])
def test_endpoints_are_one_thing_if_their_most_telling_links_agree(
    one: dict[str, str], other: dict[str, str], units: int
) -> None:
    documents = switched([connection("c", ["i0"], ["t1"])], SHARED, ["t0", "t1"])
    documents |= {found["@odata.id"]: found for found in (pointing("t0", **one), pointing("t1", **other))}
    shown = seen(documents)
    assert len(shown.units) == units
    assert [machine.uid for machine in shown.machines() for _device in machine.devices] == [M0]


def test_a_block_of_cpus_without_a_type_is_the_machines_own() -> None:
    documents = composable([block("a"), block("cpus", "Composed", on=["m0"], ResourceBlockType=[])])
    documents[f"{PARTS}/cpus"] = {**documents[f"{PARTS}/cpus"], "ProcessorType": "CPU"}
    shown = seen(documents)
    assert set(shown.units) == {"a"}
    assert [machine.devices for machine in shown.machines()] == [(), ()]


def test_a_target_of_nvme_over_fabrics_is_storage() -> None:
    target = {**pointing("t0", NetworkController="/n/1"), "EndpointProtocol": "NVMeOverFabrics"}
    documents = switched([], SHARED, ["t0"])
    documents |= {target["@odata.id"]: target, "/n/1": {"@odata.id": "/n/1", "Id": "1", "Name": "controller",
                  "@odata.type": "#NetworkDeviceFunction.v1_9_0.NetworkDeviceFunction"}}
    assert [unit.traits.kind for unit in seen(documents).units.values()] == ["storage"]


def inside(box: str) -> t.Any:
    return {"Chassis": refs([f"{ROOT}/Chassis/{box}"])}


def test_a_box_is_told_by_a_block_or_by_what_an_endpoint_stands_for() -> None:
    told = block("t0")
    told["Links"] |= inside("box-a")
    documents = {**switched([], SHARED, ["t0", "t1", "t2"]), **composable([told, block("t1"), block("t2")])}
    documents[ROOT] = root()
    documents[f"{PARTS}/t1"]["Links"] = inside("box-b")
    shown = seen(documents)
    assert {uid: shown.device(unit).box for uid, unit in shown.units.items()} == {
        "t0": "box-a", "t1": "box-b", "t2": "box"}


def test_the_box_of_a_fabrics_target() -> None:
    documents = switched([], SHARED, ["t0"])
    documents[f"{PARTS}/t0"]["Links"] = inside("box-a")
    shown = seen(documents)
    assert shown.device(shown.units["1/t0"]).box == "box-a"


def test_the_compose_action_is_the_last_resort() -> None:
    documents = composable([block("a"), block("b", "Composed", on=["m0"])],
                           [system("m0", ["m0", "b"], actions=False), system("m1", ["m1"], actions=False)])
    assert offers(seen(documents)) == {}
    service = documents[f"{ROOT}/CompositionService"]
    service["Actions"] = {"#CompositionService.Compose": {"target": f"{ROOT}/compose"}}
    assert offers(seen(documents)) == {"a": "Compose", "b": "Compose"}


def test_health_is_the_worst_of_block_and_part() -> None:
    documents = composable([block("a"), block("b", Status={"Health": "Warning"}), block("c", "Failed")])
    documents[f"{PARTS}/a"]["Status"] = {"Health": "Critical"}
    shown = seen(documents)
    assert {u.uid: u.health for u in shown.units.values()} == {"a": "Critical", "b": "Warning", "c": "Critical"}
    assert "a" not in {u.uid for u in candidates(shown, shown.hosts[M0], "A100", "gpu")}


def test_a_service_with_nothing_to_compose() -> None:
    documents = {ROOT: {"Systems": ref(SYSTEMS)}, SYSTEMS: collection(SYSTEMS, ["m0"]),
                 f"{SYSTEMS}/m0": {"@odata.id": f"{SYSTEMS}/m0", "UUID": M0}}
    shown = seen(documents)
    assert [(m.uid, m.name, m.fabric, m.devices) for m in shown.machines()] == [(M0, M0, None, ())]
    assert shown.units == {}


def test_a_model_never_fails_on_what_is_left_out(rng: random.Random) -> None:
    """Documents with random properties taken away or spoilt: some devices are lost, but nothing breaks."""
    for _round in range(60):
        documents: dict[str, t.Any] = {
            **switched([connection("c", ["i0"], ["t0"])], SHARED, ["t0", "t1"]),
            **composable([block("t0", "Composed", on=["m0"]), block("t1"), block("x")]), ROOT: root()}
        for _spoilt in range(6):
            body = documents[rng.choice([path for path in documents if path != ROOT])]
            key = rng.choice(list(body))
            if rng.random() < 0.5:
                del body[key]
            else:
                body[key] = rng.choice([None, 7, "x", [], {}, [{}], {"@odata.id": 7}])
            if not body:
                break
        try:
            shown = seen({path: body for path, body in documents.items() if body})
        except Unavailable:  # a collection without the members that it counts
            continue
        for machine in shown.machines():
            assert all(device.machine == machine.uid for device in machine.devices)
        offers(shown)


def test_a_box_of_devices_shows_its_blocks_in_the_service_root() -> None:
    documents = composable([block("a"), block("b")])
    documents[ROOT] = {"@odata.id": ROOT, "ResourceBlocks": ref(BLOCKS), "Chassis": ref(f"{ROOT}/Chassis")}
    documents[BLOCKS] = collection(BLOCKS, ["a", "b"])
    shown = seen(documents)
    assert states(shown) == {"a": "free", "b": "free"}
    assert shown.machines() == ()
    assert {shown.device(unit).model for unit in shown.units.values()} == {"A100"}


def test_a_service_that_composes_nothing_says_what_it_lacks() -> None:
    with pytest.raises(Missing, match="has none of Systems, CompositionService, ResourceBlocks and Fabrics"):
        seen({ROOT: {"@odata.id": ROOT, "Chassis": ref(f"{ROOT}/Chassis")}})


def broken(status: int) -> FabricError:
    """What one resource is answered with; the service works."""
    error = Unauthorized("403: no right") if status == 403 else Unavailable(f"{status}: internal error")
    error.status = status
    return error


def again(fake: FakeService, reader: Reader, **documents: t.Any) -> ServiceModel:
    """What is seen once these documents are other, by path."""
    fake.documents |= documents
    return service_model(reader.tree())


@pytest.mark.parametrize("status", [403, 500])
@pytest.mark.parametrize("path", [f"{PARTS}/a", f"{BLOCKS}/a"])
def test_a_block_that_cannot_be_read_is_unavailable_and_the_others_go_on(path: str, status: int) -> None:
    documents = composable([block("a"), block("b"), block("c", "Composed", on=["m0"])])
    shown = seen({**documents, path: broken(status)})
    assert states(shown) == {"a": "unavailable", "b": "free", "c": "attached"}
    assert str(status) in shown.units["a"].problem
    assert [unit.uid for unit in candidates(shown, shown.hosts[M0], "A100", None)] == ["b"]


@pytest.mark.parametrize("path", [f"{PARTS}/a", f"{BLOCKS}/a"])
def test_a_block_that_cannot_be_read_stays_where_it_was(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "PART_SECONDS", -1.0)
    fake = FakeService(composable([block("a", "Composed", on=["m0"]), block("b")]))
    reader = Reader(Service(fake.as_session()))
    before = service_model(reader.tree()).machine(M0)
    shown = again(fake, reader, **{path: broken(500)})
    assert shown.machine(M0) == before
    assert states(shown) == {"a": "attached", "b": "free"}
    assert "500" in shown.units["a"].problem


def test_a_machine_whose_block_cannot_be_read_is_not_read_by_itself() -> None:
    fake = FakeService(composable([block("a", "Composed", on=["m0"]), block("b", "Composed", on=["m1"])]))
    reader = Reader(Service(fake.as_session()))
    reader.tree()
    shown = again(fake, reader, **{f"{BLOCKS}/a": broken(500)})
    with pytest.raises(Unavailable, match="500"):
        reader.around(shown, shown.hosts[M0])
    assert reader.around(shown, shown.hosts[M1]) is not None


@pytest.mark.parametrize("path", [f"{FABRIC}/Endpoints/t1", f"{FABRIC}/Connections/c", f"{FABRIC}/Zones/1"])
def test_a_fabric_where_an_endpoint_connection_or_zone_cannot_be_read_is_barred(path: str) -> None:
    fake = FakeService(switched([connection("c", ["i0"], ["t0"])], SHARED, ["t0", "t1", "t2"]))
    reader = Reader(Service(fake.as_session()))
    assert states(service_model(reader.tree())) == {"1/t0": "attached", "1/t1": "free", "1/t2": "free"}
    shown = again(fake, reader, **{path: broken(403)})
    assert states(shown) == dict.fromkeys(("1/t0", "1/t1", "1/t2"), "attached")
    assert shown.units["1/t0"].hosts == (M0,)
    assert "403" in shown.tree.fabrics[0].problem
    assert [*candidates(shown, shown.hosts[M0], "A100", None)] == []


def test_a_service_that_does_not_answer_is_not_read_in_part() -> None:
    with pytest.raises(Unavailable):
        seen({**composable([block("a")]), f"{BLOCKS}/a": Unavailable("the connection was refused")})


def test_a_part_of_a_target_that_cannot_be_read_bars_only_the_target() -> None:
    shown = seen({**switched([], SHARED, ["t0", "t1"]), f"{PARTS}/t0": broken(500)})
    assert states(shown) == {"1/t0": "unavailable", "1/t1": "free"}
