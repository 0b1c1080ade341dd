# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Director's edit locks: other clients' are waited for, ours never stay, and changes are done once."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.emulator import Emulator, machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, FabricManager, Task
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    FabricError,
    Missing,
    Refused,
    Uncertain,
    Withdrawn,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations import polling

Client = Callable[..., FabricManager]
Other = Callable[..., t.Any]
EDIT, CANCEL, RELATE, REPROGRAM = "/fabric/edit$", "/fabric/edit/cancel$", "/relate/", "/fabric/reprogram$"
# Edits of another client, and how errors name them: the machine of our attach, another one, and the pool of the group.
EDITS = {
    "same": ("fabric/edit", "fabric/edit/cancel", "machine", 0, "Machine 0x0001"),
    "another": ("fabric/edit", "fabric/edit/cancel", "machine", 1, "Machine 0x0002"),
    "pool": ("pool/edit", "pool/cancel", "group", 0, "Group 0x0001"),
}


class Foreign:
    """An edit of another client."""

    def __init__(self, other: Other, which: str) -> None:
        begin, self._end, listed, index, self.name = EDITS[which]
        self._other, self._body = other, other("GET", listed)["data"][index]
        assert other("POST", begin, self._body)["errors"] is None

    def end(self) -> None:
        """End it. It fails if another client has cancelled it."""
        assert self._other("POST", self._end, self._body)["errors"] is None


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, at most 10 s."""
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def on_node(emulator: Emulator, name: str = "node-0") -> set[str]:
    """Return the names of the devices that a machine really has."""
    return {f"gpu{each['slot']}" for each in emulator.state()["devices"] if each["machine"] == machine_uuid(name)}


def asked(emulator: Emulator, path: str) -> int:
    """Return how many requests had a path."""
    return sum(each["path"].endswith(path) for each in emulator.log())


@pytest.fixture(autouse=True)
def nothing_stays_edited(emulator: Emulator, other: Other) -> t.Iterator[None]:
    """Check that after each test other clients can edit."""
    yield
    emulator.set_faults()
    assert other("GET", "state/1")["data"] == []


@pytest.mark.parametrize("which", EDITS)
def test_an_edit_of_another_client_is_waited_for(
    emulator: Emulator, client: Client, other: Other, which: str
) -> None:
    foreign, fabric, came = Foreign(other, which), client(attach_timeout=20.0), list[Task]()
    attach = threading.Thread(target=lambda: came.append(fabric.attach("node-0", "A100", 2)))
    attach.start()
    until(lambda: asked(emulator, "/fabric/edit") > 4)
    assert on_node(emulator) == set()
    foreign.end()
    attach.join()
    assert len(came[0].devices) == len(on_node(emulator)) == 2


@pytest.mark.parametrize("which", EDITS)
def test_the_error_names_an_edit_that_does_not_end(
    emulator: Emulator, client: Client, other: Other, which: str
) -> None:
    foreign = Foreign(other, which)
    with pytest.raises(Busy, match=rf"{foreign.name} is already being edited.*Another client has edited for \d+ s"):
        client(attach_timeout=0.3).attach("node-0", "A100")
    assert on_node(emulator) == set()
    foreign.end()


@pytest.mark.parametrize("which", ["same", "another"])
def test_an_edit_that_lasts_longer_than_allowed_is_cancelled(
    emulator: Emulator, client: Client, other: Other, which: str
) -> None:
    Foreign(other, which)
    fabric = client(driver_options={"group": "composable", "cancel_edits_after": 0.4})
    fabric.attach("node-0", "A100")
    assert len(on_node(emulator)) == 1
    assert asked(emulator, "/fabric/edit/cancel") == 1


def test_an_edit_of_a_pool_is_never_cancelled(client: Client, other: Other) -> None:
    foreign = Foreign(other, "pool")
    with pytest.raises(Busy, match="Group 0x0001 is already being edited"):
        client(attach_timeout=0.3, driver_options={"group": "composable", "cancel_edits_after": 0.1}).attach(
            "node-0", "A100")
    foreign.end()


def test_an_edit_of_another_client_is_not_taken_for_ours(
    emulator: Emulator, client: Client, other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply to our edit gets lost, so the edit of the same machine could be ours."""
    monkeypatch.setattr(polling, "NOTICE_SECONDS", 5.0)
    foreign, fabric, came = Foreign(other, "same"), client(attach_timeout=20.0), list[Task]()
    emulator.set_faults({"kind": "lost_reply", "path": EDIT, "nth": [1]})
    attach = threading.Thread(target=lambda: came.append(fabric.attach("node-0", "A100")))
    attach.start()
    until(lambda: asked(emulator, "/fabric/edit") > 4)
    foreign.end()
    attach.join()
    assert {device.name for device in came[0].devices} == on_node(emulator)


@pytest.mark.parametrize("fault", [
    {"kind": "lost_reply"}, {"kind": "lost_request"}, {"kind": "reset", "after": True}, {"kind": "not_json"},
    {"kind": "status", "status": 500, "after": True, "html": True}, {"kind": "status", "status": 500},
], ids=lambda fault: "-".join(map(str, fault.values())))
@pytest.mark.parametrize("path", [EDIT, RELATE, REPROGRAM])
def test_a_request_that_gets_lost_leaves_no_edit(
    emulator: Emulator, client: Client, path: str, fault: dict[str, t.Any]
) -> None:
    emulator.set_faults({**fault, "path": path, "nth": [1]})
    fabric = client()
    came = fabric.attach("node-0", "A100", 2).devices
    assert {device.name for device in came} == on_node(emulator)
    emulator.set_faults({**fault, "path": path, "nth": [1]})
    for device in came:
        fabric.detach("node-0", device.uid)
    assert on_node(emulator) == set()


@pytest.mark.parametrize("path", [EDIT, RELATE])
def test_a_director_that_never_replies_leaves_no_edit(
    emulator: Emulator, client: Client, other: Other, path: str
) -> None:
    emulator.set_faults({"kind": "lost_reply", "path": path})
    with pytest.raises(FabricError) as caught:
        client(attach_timeout=0.5).attach("node-0", "A100")
    assert not isinstance(caught.value, Uncertain), "nothing was done, and that is known"
    until(lambda: other("GET", "state/1")["data"] == [])
    assert on_node(emulator) == set()


@pytest.mark.parametrize("fault", [
    {"kind": "lost_request"}, {"kind": "status", "status": 429}, {"kind": "status", "status": 503},
], ids=lambda fault: "-".join(map(str, fault.values())))
def test_an_edit_is_cancelled_when_the_director_is_back(
    emulator: Emulator, client: Client, other: Other, fault: dict[str, t.Any]
) -> None:
    emulator.set_faults({"kind": "lost_reply", "path": RELATE}, {**fault, "path": CANCEL})
    with pytest.raises(FabricError, match="machine node-0 may still be in edit mode, so no client of the Liqid"):
        client().attach("node-0", "A100")
    assert other("GET", "state/1")["data"] != []
    emulator.set_faults()
    until(lambda: other("GET", "state/1")["data"] == [])
    assert on_node(emulator) == set()


def test_an_edit_that_another_client_cancelled_is_done_again(emulator: Emulator, client: Client, other: Other) -> None:
    emulator.set_faults({"kind": "latency", "path": REPROGRAM, "seconds": 0.5, "nth": [1]})
    fabric, came = client(attach_timeout=10.0), list[Task]()
    attach = threading.Thread(target=lambda: came.append(fabric.attach("node-0", "A100")))
    attach.start()
    until(lambda: asked(emulator, "/fabric/reprogram") == 1)
    other("POST", "fabric/edit/cancel", other("GET", "machine")["data"][0])
    foreign = Foreign(other, "another")
    until(lambda: asked(emulator, "/fabric/edit") > 4)
    assert on_node(emulator) == set()
    foreign.end()
    attach.join()
    assert {device.name for device in came[0].devices} == on_node(emulator)


@pytest.mark.parametrize("asks", range(1, 6))
def test_a_withdrawn_attach_leaves_no_edit(emulator: Emulator, client: Client, asks: int) -> None:
    """The proof is asked before planning, and before edit, relate, relate and reprogram."""
    left = asks

    def proof() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Withdrawn("no longer wanted")

    fabric = client()
    with pytest.raises(Withdrawn):
        fabric.attach("node-0", "A100", 2, proof=proof)
    assert on_node(emulator) == set()


def test_a_device_that_fails_does_not_take_others_with_it(emulator: Emulator, client: Client) -> None:
    emulator.set_faults({"kind": "operation_failed", "purpose": "attach", "nth": [1], "devices": 2})
    fabric = client()
    assert {device.name for device in fabric.attach("node-0", "A100", 3).devices} == on_node(emulator)


def test_after_a_refused_reprogram_each_device_has_its_own(emulator: Emulator, client: Client) -> None:
    """The Director does not say which device it refuses. A device that it always refuses must not keep out others."""
    emulator.set_faults({"kind": "status", "status": 422, "path": REPROGRAM, "nth": [1, 2]})
    with pytest.raises(Refused) as caught:
        client().attach("node-0", "A100", 2)
    assert {device.name for device in caught.value.devices} == on_node(emulator) == {"gpu2"}


def test_after_a_failure_another_device_is_chosen(emulator: Emulator, client: Client) -> None:
    emulator.set_faults({"kind": "operation_failed", "purpose": "attach", "nth": [1]})
    fabric = client()
    with pytest.raises(Refused):
        fabric.attach("node-0", "A100")
    assert [device.name for device in fabric.attach("node-0", "A100").devices] == ["gpu2"]


def test_a_slow_change_whose_reply_is_lost_is_waited_for(emulator: Emulator, client: Client) -> None:
    emulator.set_timing(attach=2.0)
    emulator.set_faults({"kind": "restart", "path": REPROGRAM, "nth": [1]})
    came = client(attach_timeout=20.0).attach("node-0", "A100").devices
    assert {device.name for device in came} == on_node(emulator)


def test_a_change_that_was_accepted_is_found_by_its_handle(emulator: Emulator, client: Client) -> None:
    emulator.set_timing(attach=0.3)
    first, heard = client(), list[str]()
    came = first.attach("node-0", "A100", 2, started=heard.extend).devices
    assert first.capabilities.asynchronous == (len(heard) == 2)
    found: tuple[Device, ...] = client().resume(tuple(heard)).devices
    assert not heard or found == came
    first.detach("node-0", came[0].uid)
    if heard:
        with pytest.raises(Missing, match="another client has moved it since"):
            client().resume(tuple(heard))


@pytest.mark.parametrize("handle", ["x", "[]", '{"task": 7, "machine": "a", "device": "b", "attaches": true}'])
def test_a_text_that_is_no_handle_is_missing(client: Client, handle: str) -> None:
    with pytest.raises(Missing, match="it is not a handle of the driver for Liqid"):
        client().resume((handle,))
