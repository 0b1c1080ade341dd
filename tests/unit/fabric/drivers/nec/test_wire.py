# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CDIM's documents: what is connected to what, in both generations, and what is endured when it is missing."""

from __future__ import annotations

import copy
import random
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.nec import procedures as steps_of
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.nec import wire
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.replies import Unreadable
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Missing, Refused
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations.batches import PendingOperation
from ansible_collections.composable.infra.tests.unit.fabric.desired.cut import cut


def entry(
    uid: str, kind: str = "GPU", *, links: list[t.Any] | None = None, nodes: t.Any = None, **device: t.Any
) -> t.Any:
    raw = {
        "deviceID": uid, "type": kind, "model": "A100", "status": {"state": "Enabled", "health": "OK"},
        "links": [{"type": k, "deviceID": d} for k, d in links or []], **device,
    }
    return {"device": raw, "detected": True, "nodeIDs": nodes or []}


def adapter(uid: str, kind: str, role: str, *links: tuple[str, str]) -> t.Any:
    return entry(uid, kind, links=list(links), attribute={"deviceSpecificInformation": {"status": role}})


HOST = adapter("host", "sourceFabricAdapter", "eesv", ("destinationFabricAdapter", "io"))
IO = adapter("io", "destinationFabricAdapter", "eeio")
NODE = {"id": "n1", "name": "one", "resources": [HOST]}


def layout(*resources: t.Any, nodes: t.Any = None) -> wire.Layout:
    listed = [NODE] if nodes is None else nodes
    return wire.layout({"count": 0, "resources": [HOST, IO, *resources]}, {"nodes": listed})


def node(found: wire.Layout) -> wire.Node:
    return found.nodes[0]


def source(found: wire.Layout) -> str | None:
    part = found.source(node(found))
    return part.uid if part else None


def test_a_node_is_connected_through_its_eesv_adapter_to_the_eeio_one() -> None:
    assert source(layout()) == "io"
    assert layout().fabric(node(layout())) == wire.ONLY_FABRIC


@pytest.mark.parametrize(
    "resources",
    [
        [adapter("host", "sourceFabricAdapter", "other", ("destinationFabricAdapter", "io")), IO],
        [adapter("host", "sourceFabricAdapter", "eesv", ("destinationFabricAdapter", "gone")), IO],
        [adapter("host", "sourceFabricAdapter", "eesv", ("eeio", "io")), IO],
        [HOST, adapter("io", "destinationFabricAdapter", "other")],
        [HOST, adapter("io", "GPU", "eeio")],
        [{**HOST, "detected": False}, IO],
    ],
)
def test_a_chain_that_is_broken_leads_nowhere(resources: list[t.Any]) -> None:
    found = wire.layout({"resources": resources}, {"nodes": [NODE]})
    assert source(found) is None
    assert found.fabric(node(found)) is None
    assert found.machines()[0].fabric is None


def test_roles_that_are_not_told_are_taken_for_right() -> None:
    host = entry("host", "sourceFabricAdapter", links=[("destinationFabricAdapter", "io")])
    found = wire.layout({"resources": [host, entry("io", "DestinationFabricAdapter")]}, {"nodes": [NODE]})
    assert source(found) == "io"


def test_without_adapters_the_cpu_is_what_devices_are_connected_to() -> None:
    cpu = entry("cpu", "CPU", deviceSwitchInfo="CXL-7")
    gpu = entry("g", links=[("CPU", "cpu")], deviceSwitchInfo="CXL-7")
    found = wire.layout({"resources": [cpu, gpu]}, {"nodes": [{"id": "n1", "resources": [cpu]}]})
    assert source(found) == "cpu"
    (machine,) = found.machines()
    assert [d.uid for d in machine.devices] == ["g"]
    assert machine.fabric == machine.devices[0].fabric == wire.number("CXL-7")


@pytest.mark.parametrize(
    "gpu",
    [
        entry("g", links=[("eeio", "io")]), entry("g", links=[("destinationFabricAdapter", "io")]),
        entry("g", links=[("DESTINATIONFABRICADAPTER", "io")]), entry("g", nodes=["n1"]),
    ],
)
def test_a_connected_device_is_its_nodes_however_that_is_told(gpu: t.Any) -> None:
    found = layout(gpu)
    assert found.owner("g") == "n1"
    assert found.free("A100", 1) == []
    (device,) = found.devices()
    assert (device.machine, device.state) == ("n1", "attached")


def test_a_device_in_a_nodes_own_list_is_the_nodes() -> None:
    listed = {**NODE, "resources": [HOST, {"device": {"deviceID": "g", "type": "GPU"}}]}
    assert layout(entry("g"), nodes=[listed]).owner("g") == "n1"


@pytest.mark.parametrize(
    "gpu",
    [
        entry("g", status={"state": "Disabled", "health": "OK"}),
        entry("g", status={"state": "Enabled", "health": "Warning"}), entry("g", status=None),
        {**entry("g"), "detected": False}, {**entry("g"), "annotation": {"available": False}},
        entry("g", "memory"), entry("g", model="H100"), entry("g", links=[("eeio", "unknown")]),
        entry("g", deviceSwitchInfo="other"),
    ],
)
def test_what_cannot_be_attached_is_not_free(gpu: t.Any) -> None:
    assert layout(gpu).free("A100", 1) == []


def test_free_devices_come_in_a_fixed_order_whatever_their_spelling() -> None:
    found = layout(entry("b", model="a100"), entry("c", "gpu"), entry("a"))
    assert [part.uid for part in found.free("A100", 1)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("state", "health", "shown"),
    [
        ("Enabled", "OK", "OK"), ("enabled", "warning", "Warning"), ("Enabled", "Critical", "Critical"),
        ("Enabled", "", "Unknown"), ("Disabled", "OK", "Unknown"), ("", "OK", "Unknown"),
    ],
)
def test_health(state: str, health: str, shown: str) -> None:
    assert layout(entry("g", status={"state": state, "health": health})).devices()[0].health == shown


def test_only_a_uuid_is_what_a_node_sees_of_a_device() -> None:
    found = layout(entry("a", serialNumber="GPU-1234"), entry("b", serialNumber="1320021"), entry("c"))
    assert {d.uid: d.serial for d in found.devices()} == {"a": "GPU-1234", "b": None, "c": None}


def test_a_fabrics_number_is_its_own_or_made_from_the_name_and_always_the_same() -> None:
    assert (wire.number(""), wire.number("3")) == (1, 3)
    assert wire.number("CXL-a") == wire.number("CXL-a") != wire.number("CXL-b")


def test_one_resource_comes_bare_or_wrapped() -> None:
    assert wire.one(entry("g")) == wire.one({"resource": entry("g")})
    with pytest.raises(Unreadable):
        wire.one({"device": {}})


def test_an_error_is_told_with_its_details() -> None:
    said = wire.read_error({"code": "E1", "message": "no", "details": "disk full"})
    assert said
    assert (said.code, said.message) == ("E1", "no: disk full")
    others: list[t.Any] = [None, [], {}, {"code": "E1"}, {"detail": {"code": "x"}}]
    for foreign in others:
        assert wire.read_error(foreign) is None


@pytest.mark.parametrize("broken", [None, [], {}, {"resources": None}])
def test_lists_must_be_there(broken: t.Any) -> None:
    with pytest.raises(Unreadable):
        wire.layout(broken, {"nodes": []})
    with pytest.raises(Unreadable):
        wire.layout({"resources": []}, broken)


@pytest.mark.parametrize("key", ["count", "totalCount"])
def test_part_of_a_list_is_no_list(key: str) -> None:
    """A device that is missing on a page is not gone."""
    with pytest.raises(Unreadable, match="it lists 2 of 3 resources"):
        wire.layout({"resources": [HOST, IO], key: 3}, {"nodes": [NODE]})
    with pytest.raises(Unreadable, match="it lists 1 of 21 nodes"):
        wire.layout({"resources": [HOST, IO], key: 2}, {"nodes": [NODE], key: 21})


def test_documents_with_anything_cut_out_are_read_or_refused_never_misread(rng: random.Random) -> None:
    gpus = [entry("free"), entry("taken", links=[("eeio", "io")], nodes=["n1"])]
    whole = {"resources": [HOST, IO, *gpus]}
    for _unused in range(120):
        broken = copy.deepcopy(whole)
        cut(broken, rng)
        try:
            found = wire.layout(broken, {"nodes": [NODE]})
        except Unreadable:
            continue
        assert {d.uid for d in found.devices()} <= {"free", "taken"}
        assert {m.uid for m in found.machines()} == {"n1"}


def pending(**want: t.Any) -> PendingOperation[steps_of.WantedDevice]:
    return PendingOperation(steps_of.WantedDevice(machine="n1", **want))


def test_no_device_is_planned_twice_and_what_failed_lately_comes_last() -> None:
    operations = [pending(model="A100") for _unused in range(3)]
    steps = steps_of.plan(layout(entry("a"), entry("b")), operations, {"a": 5.0})
    assert [step.part.uid for step in steps] == ["b", "a"]
    assert isinstance(operations[2].error, Refused)
    assert operations[2].error.exhausted


def test_what_needs_no_step_is_done_and_what_cannot_be_is_told() -> None:
    elsewhere, unknown = pending(device="a"), PendingOperation(steps_of.WantedDevice("n9", model="A100"))
    assert steps_of.plan(layout(entry("a")), [elsewhere, unknown], {}) == []
    assert elsewhere.finished.is_set()
    assert elsewhere.error is None
    assert isinstance(unknown.error, Missing)


def test_a_device_of_the_node_whose_connection_is_not_told_is_taken_off_what_the_node_has() -> None:
    (step,) = steps_of.plan(layout(entry("g", nodes=["n1"])), [pending(device="g")], {})
    assert (step.operation, step.source.uid) == ("disconnect", "io")
    lost = pending(device="g")
    bare = wire.layout({"resources": [entry("g", nodes=["n1"])]}, {"nodes": [{"id": "n1"}]})
    assert steps_of.plan(bare, [lost], {}) == []
    assert isinstance(lost.error, Refused)


def test_progress_is_going_until_it_has_ended_and_was_rolled_back() -> None:
    going = [{"status": "IN_PROGRESS"}, {"status": "CANCELING"}, {"status": ""}, {},
             {"status": "canceled", "rollbackStatus": "IN_PROGRESS"}]
    ended = [{"status": "COMPLETED"}, {"status": "FAILED"}, {"status": "SUSPENDED"}, {"status": "NEW_ONE"},
             {"status": "CANCELED"}, {"status": "CANCELED", "rollbackStatus": "SUSPENDED"}]
    assert all(steps_of.progress(reply).going for reply in going)
    assert not any(steps_of.progress(reply).going for reply in ended)
    assert steps_of.progress({"applyID": "ONE", "status": "COMPLETED"}, "one").status == "COMPLETED"
    with pytest.raises(Unreadable, match="it is about layout apply two, not one"):
        steps_of.progress({"applyID": "two", "status": "COMPLETED"}, "one")
    told = steps_of.progress({"status": "FAILED", "applyResult": [{"operationID": 2, "status": "failed"}, None]})
    assert told.results == {2: "FAILED"}
    unreadable: list[t.Any] = [None, [], {"status": 3}]
    for broken in unreadable:
        with pytest.raises(Unreadable):
            steps_of.progress(broken)


def test_an_apply_is_found_by_all_that_it_does_in_either_spelling_while_it_goes_on() -> None:
    steps = steps_of.plan(layout(entry("a")), [pending(model="A100")], {})
    ours = {"operation": "connect", "targetDeviceID": "a"}
    going = {
        "other": [{**ours, "operation": "disconnect"}], "more": [ours, {**ours, "targetDeviceID": "b"}],
        "it": [{"operation": "connect", "destinationDeviceID": "a"}],
    }
    listed = [{"applyID": uid, "status": "IN_PROGRESS", "procedures": p} for uid, p in going.items()]
    listed.insert(0, {"applyID": "old", "status": "COMPLETED", "procedures": [ours]})
    assert steps_of.found_apply({"applyResults": listed}, steps) == "it"
    empty: list[t.Any] = [None, {}, {"applyResults": []}, {"applyResults": [None]}]
    for nothing in empty:
        assert steps_of.found_apply(nothing, steps) is None
