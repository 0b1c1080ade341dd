# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong between client and service: lost replies, conflicts, sessions that end, services that lack things."""

from __future__ import annotations

import random
import typing as t
from concurrent.futures import ThreadPoolExecutor

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.desired.executor import attach_missing
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    FabricError,
    Refused,
    Unauthorized,
    Uncertain,
)
from ansible_collections.composable.infra.tests.integration.redfish.conftest import (
    DIALECTS,
    EVERYTHING,
    GPU,
    MEMORY,
    NODE_0,
    NODE_1,
    Bench,
    Client,
    attached,
    effects,
    requests,
)

CHANGES = {"AddResourceBlock": ("attach", "detach"), "Connections": ("attach", "detach"),
           "Zones": ("change", "change"), "Compose": ("change", "change")}


@pytest.mark.parametrize("later", [False, True], ids=["at once", "by task"])
@pytest.mark.parametrize("name", DIALECTS)
def test_a_reply_lost_after_the_effect(name: str, later: bool, start: Bench, client: Client) -> None:
    """The client looks and finds that it happened: one device, and nothing is asked twice."""
    emulator = start({"dialects": [name], "asynchronous": later})
    fabric = client(emulator)
    emulator.set_faults({"kind": "lost_reply", "purpose": CHANGES[name][0], "nth": 1})
    device = attached_or_found(lambda: fabric.attach(NODE_0, GPU).devices[0], fabric)
    assert attached(emulator) == {device.uid: NODE_0}
    emulator.set_faults({"kind": "lost_reply", "purpose": CHANGES[name][1], "nth": 1})
    fabric.detach(NODE_0, device.uid)
    assert attached(emulator) == {}
    assert effects(emulator) == ["attached", "detached"]


def attached_or_found(attach: t.Callable[[], t.Any], fabric: t.Any) -> t.Any:
    """The device; when even looking could not tell, the one that the caller finds, as the engine does."""
    try:
        return attach()
    except Uncertain:
        return attach_missing(fabric, NODE_0, GPU, 1, attach_deadline=10.0) or fabric.machine(NODE_0).devices[0]


@pytest.mark.parametrize("name", DIALECTS)
def test_a_request_lost_before_the_effect(name: str, start: Bench, client: Client) -> None:
    """Compare-and-swap is asked again; the others are uncertain, as a second request might make a second device."""
    emulator = start({"dialects": [name]})
    fabric = client(emulator)
    emulator.set_faults({"kind": "lost_request", "purpose": CHANGES[name][0], "nth": 1})
    if name in ("AddResourceBlock", "Zones"):
        fabric.attach(NODE_0, GPU)
        assert effects(emulator) == ["attached"]
    else:
        with pytest.raises(Uncertain):
            fabric.attach(NODE_0, GPU)
        assert attached(emulator) == {}
        assert len(attach_missing(fabric, NODE_0, GPU, 1, attach_deadline=0.0)) == 1


@pytest.mark.parametrize("name", DIALECTS)
def test_a_request_that_arrives_twice(name: str, start: Bench, client: Client) -> None:
    emulator = start({"dialects": [name]})
    fabric = client(emulator)
    emulator.set_faults({"kind": "doubled", "purpose": CHANGES[name][0], "nth": 1})
    device = fabric.attach(NODE_0, GPU).devices[0]
    assert attached(emulator) == {device.uid: NODE_0}
    assert effects(emulator) == ["attached"]


@pytest.mark.parametrize("name", DIALECTS)
def test_an_operation_that_fails(name: str, start: Bench, client: Client) -> None:
    emulator = start({"dialects": [name], "asynchronous": True})
    fabric = client(emulator)
    emulator.set_faults({"kind": "operation_failed", "purpose": CHANGES[name][0], "nth": 1})
    with pytest.raises(Refused) as refused:
        fabric.attach(NODE_0, GPU)
    assert not refused.value.exhausted
    assert attached(emulator) == {}
    fabric.attach(NODE_0, GPU)
    assert len(attached(emulator)) == 1


@pytest.mark.parametrize("name", ["AddResourceBlock", "Zones"])
def test_two_processes_want_the_last_device(name: str, start: Bench, client: Client) -> None:
    """The ETags let one through; the other hears that nothing is left."""
    emulator = start({"dialects": [name]}, gpus=1, attach=0.3)
    clients = [client(emulator), client(emulator)]
    for fabric in clients:
        fabric.free(NODE_0, GPU)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda n: outcome(clients[n], (NODE_0, NODE_1)[n]), range(2)))
    assert sorted(results) in (["attached", "exhausted"], ["attached", "busy"])
    assert effects(emulator) == ["attached"]


def outcome(fabric: t.Any, machine: str) -> str:
    try:
        fabric.attach(machine, GPU)
    except Refused as error:
        return "exhausted" if error.exhausted else str(error)
    except Busy:
        return "busy"
    return "attached"


def test_a_conflict_makes_the_client_choose_another(start: Bench, client: Client) -> None:
    """What the client saw as free was taken meanwhile by somebody else: 428, and it takes the next."""
    emulator = start(gpus=2)
    ours, theirs = client(emulator), client(emulator)
    ours.free(NODE_0, GPU)
    theirs.attach(NODE_1, GPU, token="the same token")
    device = ours.attach(NODE_0, GPU, token="the same token").devices[0]
    assert attached(emulator)[device.uid] == NODE_0
    assert len(attached(emulator)) == 2


def test_a_service_that_wants_the_systems_etag_too(start: Bench, client: Client) -> None:
    emulator = start({"dialects": ["AddResourceBlock"], "strict_etags": True})
    client(emulator).attach(NODE_0, GPU)
    assert [entry["status"] for entry in requests(emulator, "attach")] == [428, 204]


def test_a_zone_without_an_etag_is_refused(start: Bench, client: Client) -> None:
    """Another client's endpoint could be lost: the whole list would be replaced."""
    emulator = start({"dialects": ["Zones"], "etags": False})
    with pytest.raises(Refused, match="has no ETag"):
        client(emulator).attach(NODE_0, GPU)
    assert effects(emulator) == []


@pytest.mark.parametrize("name", [name for name in DIALECTS if name != "Zones"])
def test_a_service_without_etags(name: str, start: Bench, client: Client) -> None:
    emulator = start({"dialects": [name], "etags": False})
    fabric = client(emulator)
    device = fabric.attach(NODE_0, GPU).devices[0]
    fabric.detach(NODE_0, device.uid)
    assert effects(emulator) == ["attached", "detached"]


def test_a_session_that_was_revoked_is_opened_anew(start: Bench, client: Client) -> None:
    emulator = start()
    fabric = client(emulator)
    fabric.machines()
    emulator.set_tokens(revoke=True)
    fabric.attach(NODE_0, GPU)
    assert len(requests(emulator, "login")) == 2
    assert len(attached(emulator)) == 1


def test_a_session_that_expired_is_opened_anew(start: Bench, client: Client) -> None:
    emulator = start()
    fabric = client(emulator)
    fabric.machines()
    emulator.set_tokens(lifetime=1e-6)
    with pytest.raises(Unauthorized):
        fabric.machines()
    emulator.set_tokens(lifetime=300.0)
    assert len(fabric.machines()) == 3
    assert len(requests(emulator, "login")) >= 2


def test_the_session_is_closed(start: Bench, client: Client) -> None:
    emulator = start()
    fabric = client(emulator)
    fabric.machines()
    fabric.close()
    assert [entry["status"] for entry in emulator.log() if entry["method"] == "DELETE"] == [204]


def test_basic_authentication(start: Bench, client: Client) -> None:
    emulator = start()
    assert len(client(emulator, auth="basic").machines()) == 3
    assert requests(emulator, "login") == []
    with pytest.raises(Unauthorized):
        client(emulator, auth="basic", password="not-the-password").machines()
    with pytest.raises(Unauthorized):
        client(emulator, password="not-the-password").machines()


@pytest.mark.parametrize("settings", [{"page": 1}, {"page": 2, "expand": False}, {"page": 3, "dialects": EVERYTHING}])
def test_pages(settings: dict[str, t.Any], start: Bench, client: Client) -> None:
    emulator = start(settings, gpus=5)
    fabric = client(emulator)
    assert len(fabric.devices()) == 7
    assert len(fabric.machines()) == 3
    assert fabric.snapshot([GPU, MEMORY]).free == {(GPU, 1): 5, (MEMORY, 1): 2}


def test_a_thousand_devices(start: Bench, client: Client) -> None:
    """Expanded they come in a handful of requests; one machine is read without them."""
    emulator = start({"dialects": EVERYTHING}, gpus=1000)
    fabric = client(emulator)
    assert len(fabric.devices()) == 1002
    assert len(requests(emulator, "read")) < 30
    before = len(requests(emulator, "read"))
    device = fabric.attach(NODE_0, GPU).devices[0]
    assert [found.uid for found in fabric.machine(NODE_0).devices] == [device.uid]
    assert len(requests(emulator, "read")) - before < 30


def test_random_faults(start: Bench, client: Client, rng: random.Random) -> None:
    """Whatever is lost, doubled or refused: afterwards the machine has what it should, and nobody else has anything."""
    for name in DIALECTS:
        emulator = start({"dialects": [name], "asynchronous": rng.random() < 0.5})
        fabric = client(emulator)
        emulator.set_faults(
            *({"kind": kind, "method": method, "probability": 0.2} for kind in ("lost_reply", "lost_request", "doubled")
              for method in ("POST", "PATCH", "DELETE")), seed=rng.randrange(2**32))
        wanted = rng.randrange(1, 4)
        for _attempt in range(20):
            try:
                attach_missing(fabric, NODE_0, GPU, wanted, attach_deadline=0.3)
                break
            except FabricError:
                continue
        emulator.set_faults()
        assert sorted(attached(emulator).values()) == [NODE_0] * wanted, name
        assert {device.uid for device in fabric.machine(NODE_0).devices} == set(attached(emulator))
