# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices moved by each of the four dialects, at once and by tasks, against the emulated service over TLS."""

from __future__ import annotations

import json
import typing as t
from concurrent.futures import ThreadPoolExecutor

import pytest

from ansible_collections.composable.infra.emulator import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Missing, Refused
from ansible_collections.composable.infra.tests.integration.redfish.conftest import (
    DIALECTS,
    EVERYTHING,
    GPU,
    MEMORY,
    MIB,
    NODE_0,
    NODE_1,
    Bench,
    Client,
    attached,
    effects,
    requests,
)
from ansible_collections.composable.infra.tests.unit.fabric.drivers.redfish.offered import offers

# The request that each dialect attaches by.
PATHS = {
    "AddResourceBlock": "/Actions/ComputerSystem.AddResourceBlock", "Connections": "/Connections",
    "Zones": f"/Zones/{NODE_0}", "Compose": "/Actions/CompositionService.Compose",
}
SORTS = [(name, later) for name in DIALECTS for later in (False, True)]


@pytest.mark.parametrize(("name", "later"), SORTS)
def test_attach_and_detach(name: str, later: bool, start: Bench, client: Client) -> None:
    emulator = start({"dialects": [name], "asynchronous": later})
    fabric = client(emulator)
    assert set(offers(fabric.service_model()).values()) == {name}
    handles: list[str] = []
    task = fabric.attach(NODE_0, GPU, started=handles.extend)
    device = task.devices[0]
    assert attached(emulator) == {device.uid: NODE_0}
    assert (device.machine, device.state, device.model, device.kind) == (NODE_0, "attached", GPU, "gpu")
    assert fabric.machine(NODE_0).devices == (device,)
    asked = [entry for entry in emulator.log() if entry["method"] != "GET" and "Session" not in entry["path"]]
    assert [entry["path"].endswith(PATHS[name]) for entry in asked] == [True]
    assert (len(handles), task.handles) == ((1, (handles[0],)) if later else (0, ()))
    assert fabric.detach(NODE_0, device.uid).devices[0].uid == device.uid
    assert attached(emulator) == {}
    assert fabric.machine(NODE_0).devices == ()


@pytest.mark.parametrize("name", DIALECTS)
def test_memory_is_a_device_like_any_other(name: str, start: Bench, client: Client) -> None:
    emulator = start({"dialects": [name]})
    fabric = client(emulator)
    device = fabric.attach(NODE_1, MEMORY, kind="memory").devices[0]
    assert (device.kind, device.size, device.model) == ("memory", MIB, MEMORY)
    assert device.serial is not None
    assert device.serial.startswith("CXL-")
    assert fabric.free(NODE_1, MEMORY) == 1
    assert fabric.machine(NODE_1).devices[0].size == MIB
    with pytest.raises(Refused) as refused:
        fabric.attach(NODE_1, MEMORY, kind="gpu")
    assert refused.value.exhausted


@pytest.mark.parametrize(("name", "later"), SORTS)
def test_n_at_once(name: str, later: bool, start: Bench, client: Client) -> None:
    """Six threads want one device each, for two machines, of six: everybody gets one, no device is given twice."""
    emulator = start({"dialects": [name], "asynchronous": later}, gpus=6, attach=0.2)
    fabric = client(emulator)
    with ThreadPoolExecutor(6) as pool:
        tasks = list(pool.map(lambda n: fabric.attach((NODE_0, NODE_1)[n % 2], GPU), range(6)))
    got = [task.devices[0].uid for task in tasks]
    assert len(set(got)) == 6
    assert attached(emulator) == {uid: (NODE_0, NODE_1)[n % 2] for n, uid in enumerate(got)}
    assert effects(emulator) == ["attached"] * 6


@pytest.mark.parametrize("name", ["Zones", "Compose"])
def test_what_replaces_a_list_is_merged(name: str, start: Bench, client: Client) -> None:
    """Five attaches to one machine, while the first one is under way, go as one request."""
    emulator = start({"dialects": [name]}, gpus=6, attach=0.5)
    fabric = client(emulator)
    fabric.attach(NODE_0, GPU, 6)
    changes = requests(emulator, "change")
    assert 1 <= len(changes) <= 3
    assert len(attached(emulator)) == 6


@pytest.mark.parametrize("name", DIALECTS)
def test_several_detached_at_once(name: str, start: Bench, client: Client) -> None:
    emulator = start({"dialects": [name]}, detach=0.2)
    fabric = client(emulator)
    uids = [device.uid for device in fabric.attach(NODE_0, GPU, 4).devices]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda uid: fabric.detach(NODE_0, uid), uids[:3]))
    assert attached(emulator) == {uids[3]: NODE_0}


def test_the_etags_come_first(start: Bench, client: Client) -> None:
    emulator = start({"dialects": EVERYTHING})
    fabric = client(emulator)
    assert set(offers(fabric.service_model()).values()) == {"AddResourceBlock"}
    fabric.attach(NODE_0, GPU)
    assert [entry["path"].rpartition(".")[2] for entry in requests(emulator, "attach")] == ["AddResourceBlock"]


def test_only_some_of_several(start: Bench, client: Client) -> None:
    emulator = start(gpus=2)
    fabric = client(emulator)
    with pytest.raises(Refused) as refused:
        fabric.attach(NODE_0, GPU, 3)
    assert refused.value.exhausted
    assert {device.uid for device in refused.value.devices} == set(attached(emulator))
    assert len(refused.value.devices) == 2


def test_a_task_tells_its_handle_before_it_is_done(start: Bench, client: Client) -> None:
    emulator = start({"asynchronous": True}, attach=1.0)
    states: list[str] = []

    def hear(_handles: tuple[str, ...]) -> None:
        states.extend(d["state"] for d in emulator.state()["devices"] if d["state"] != "free")

    client(emulator).attach(NODE_0, GPU, started=hear)
    assert states == ["attaching"]


def test_resume_after_a_restart_of_the_client(start: Bench, client: Client) -> None:
    """The first process is gone after the service accepted; the second waits for the operation and finds the device."""
    emulator = start({"asynchronous": True}, attach=1.0)
    handles: list[str] = []

    class Gone(Exception):
        pass

    def die(accepted: tuple[str, ...]) -> None:
        handles.extend(accepted)
        raise Gone

    with pytest.raises(Gone):
        client(emulator).attach(NODE_0, GPU, started=die)
    later = client(emulator)
    assert later.machine(NODE_0).devices == ()
    assert later.resume(tuple(handles)).done
    assert [device.uid for device in later.machine(NODE_0).devices] == list(attached(emulator))
    assert len(attached(emulator)) == 1


def test_resume_after_a_restart_of_the_service(start: Bench, client: Client) -> None:
    emulator = start({"asynchronous": True}, attach=1.0)
    fabric = client(emulator)
    handles: list[str] = []

    def crash(accepted: tuple[str, ...]) -> None:
        handles.extend(accepted)
        emulator.kill()
        emulator.restart()

    task = fabric.attach(NODE_0, GPU, started=crash)
    assert attached(emulator) == {task.devices[0].uid: NODE_0}
    assert fabric.resume(tuple(handles)).done
    with pytest.raises(Missing):
        fabric.resume(("/redfish/v1/TaskService/TaskMonitors/4711",))


def test_task_of_another_operation_is_not_believed(start: Bench, client: Client) -> None:
    """The service has begun to count its tasks anew, so that an old number is that of a task that is done."""
    emulator = start({"asynchronous": True, "keeps_tasks": False})
    fabric = client(emulator)
    task = fabric.attach(NODE_0, GPU)
    assert fabric.resume(task.handles).devices == task.devices
    fabric.detach(NODE_0, task.devices[0].uid)
    emulator.kill()
    emulator.restart()
    other = client(emulator).attach(NODE_1, GPU)
    assert monitor(other.handles[0]) == monitor(task.handles[0])
    with pytest.raises(Missing, match=f"device {task.devices[0].uid} is not on machine {NODE_0}"):
        client(emulator).resume(task.handles)


def monitor(handle: str) -> str:
    """The path of the task monitor that a handle names."""
    return str(json.loads(handle)["task"])


def test_handle_of_an_older_release_is_waited_for(start: Bench, client: Client) -> None:
    fabric = client(start({"asynchronous": True}))
    task = fabric.attach(NODE_0, GPU)
    assert fabric.resume((monitor(task.handles[0]),)).devices == ()


def test_what_is_done_needs_no_doing(start: Bench, client: Client) -> None:
    emulator = start()
    fabric = client(emulator)
    uid = fabric.attach(NODE_0, GPU).devices[0].uid
    before = len(requests(emulator, "detach"))
    assert fabric.detach(NODE_1, uid).done
    assert fabric.detach(NODE_0, "no-such-device").done
    assert len(requests(emulator, "detach")) == before
    assert attached(emulator) == {uid: NODE_0}


def test_unknown_machines_and_models(start: Bench, client: Client) -> None:
    fabric = client(start())
    nobody = machine_uuid("nobody")
    asks: list[t.Callable[[], object]] = [
        lambda: fabric.machine(nobody), lambda: fabric.free(nobody, GPU), lambda: fabric.attach(nobody, GPU),
        lambda: fabric.detach(nobody, "x"),
    ]
    for ask in asks:
        with pytest.raises(Missing, match=nobody):
            ask()
    with pytest.raises(Refused) as refused:
        fabric.attach(NODE_0, "no such model")
    assert refused.value.exhausted


def test_a_machine_on_no_fabric_gets_nothing(start: Bench, client: Client) -> None:
    fabric = client(start())
    apart = machine_uuid("apart")
    assert fabric.machine(apart).fabric is None
    with pytest.raises(Refused, match="offers none of AddResourceBlock"):
        fabric.attach(apart, GPU)


def test_a_sick_device_is_not_chosen(start: Bench, client: Client) -> None:
    emulator = start(gpus=2)
    fabric = client(emulator)
    uids = [device.uid for device in fabric.devices() if device.model == GPU]
    emulator.set_health(uids[0], "Critical")
    assert {device.uid: device.health for device in fabric.devices() if device.model == GPU} == {
        uids[0]: "Critical", uids[1]: "OK"}
    assert fabric.free(NODE_0, GPU) == 1
    assert fabric.attach(NODE_0, GPU).devices[0].uid == uids[1]


def test_a_device_that_vanished_is_not_shown(start: Bench, client: Client) -> None:
    emulator = start(gpus=2)
    fabric = client(emulator)
    uid = fabric.attach(NODE_0, GPU).devices[0].uid
    emulator.set_present(uid, False)
    assert fabric.machine(NODE_0).devices == ()
    assert uid not in {device.uid for device in fabric.devices()}
