# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happened to a request without a reply: certain, or uncertain, never guessed."""

from __future__ import annotations

import json
import socket
import ssl
import urllib.parse
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.fm.wire import attach_body
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    FabricError,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.tests.integration.fabric.conftest import (
    MODEL,
    NODE_0,
    Client,
    attached,
    await_state,
)
from ansible_collections.composable.infra.tests.integration.fabric.scripted import (
    Answer,
    Asked,
    Script,
    ScriptedManager,
    free_port,
    login,
)

Scripted = Callable[..., ScriptedManager]
LISTING = {"data": {"machines": [{"mach_uuid": "m", "fabric_id": 1, "resources": []}]}}


def connected(manager: ScriptedManager, **options: float) -> FabricManager:
    return connect(FabricConfig.from_dict(manager.options(**options)))


def telling(answer: Callable[[Asked], Answer]) -> Script:
    """A script whose logins succeed."""
    return lambda asked: login(asked) if asked.is_login else answer(asked)


def test_an_emulator_killed_during_an_attach_leaves_it_uncertain(fabric: FabricManager, emulator: Emulator) -> None:
    emulator.set_timing(attach=30)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(fabric.attach, NODE_0, MODEL)
        await_state(emulator, "attaching")
        emulator.kill()
        with pytest.raises(Uncertain, match=f"attach a {MODEL} to machine {NODE_0}.*may have taken effect"):
            asking.result()


def test_an_emulator_that_comes_back_has_finished_what_it_began(fabric: FabricManager, emulator: Emulator) -> None:
    fabric.attach(NODE_0, MODEL)
    emulator.set_timing(attach=2)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(fabric.attach, NODE_0, MODEL)
        await_state(emulator, "attaching")
        url = emulator.url
        emulator.kill()
        with pytest.raises(Uncertain):
            asking.result()
    with pytest.raises(Unavailable, match="connection was refused"):
        fabric.machine(NODE_0)
    emulator.restart()
    assert emulator.url == url
    await_state(emulator, "attached", 2)
    assert {d.uid for d in fabric.machine(NODE_0).devices} == set(attached(emulator))


def test_nothing_listens(client: Client) -> None:
    fabric = client(endpoint=f"https://127.0.0.1:{free_port()}")
    for work in (fabric.machines, lambda: fabric.attach(NODE_0, MODEL)):
        with pytest.raises(Unavailable, match=r"https://127.0.0.1:[0-9]+: the connection was refused"):
            work()


def test_an_unknown_host_is_named(client: Client) -> None:
    with pytest.raises(Unavailable, match=r"host name no-such-host.invalid cannot be resolved: check endpoint"):
        client(endpoint="https://no-such-host.invalid").attach(NODE_0, MODEL)


def test_a_server_without_tls(client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def serve() -> None:
            for _unused in range(3):
                peer, _unused = plain.accept()
                with peer:
                    peer.recv(1000)
                    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        with ThreadPoolExecutor(1) as pool:
            serving = pool.submit(serve)
            with pytest.raises(Unavailable, match="does not speak TLS on this port: check endpoint"):
                client(endpoint=f"https://127.0.0.1:{plain.getsockname()[1]}").attach(NODE_0, MODEL)
            serving.result()


def test_a_server_that_never_answers_the_handshake_got_no_request(client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        fabric = client(endpoint=f"https://127.0.0.1:{mute.getsockname()[1]}", connect_timeout=0.2)
        with pytest.raises(Unavailable, match=r"no connection within 0.2 s \(connect_timeout\)"):
            fabric.attach(NODE_0, MODEL)


@pytest.mark.parametrize(
    "answer", [Answer(drop=True), Answer(body=LISTING, cut=5), Answer(body=b'{"data"'), Answer(500)]
)
def test_a_change_without_a_usable_reply_is_uncertain_and_sent_once(scripted: Scripted, answer: Answer) -> None:
    manager = scripted(telling(lambda _unused: answer))
    with pytest.raises(Uncertain, match="cannot attach a A100 to machine m"):
        connected(manager).attach("m", "A100")
    assert [asked.method for asked in manager.calls] == ["PATCH"]


def test_a_change_whose_reply_takes_too_long_is_uncertain(scripted: Scripted) -> None:
    manager = scripted(telling(lambda _unused: Answer(hold=True)))
    with pytest.raises(Uncertain, match=r"no complete reply within 0.2 s. It may have taken effect"):
        connected(manager, attach_timeout=0.2).attach("m", "A100")
    assert len(manager.calls) == 1


def test_a_read_whose_reply_takes_too_long_is_unavailable_and_not_repeated(scripted: Scripted) -> None:
    manager = scripted(telling(lambda _unused: Answer(hold=True)))
    with pytest.raises(Unavailable, match=r"no complete reply within 0.2 s$"):
        connected(manager, read_timeout=0.2).machine("m")
    assert len(manager.calls) == 1


@pytest.mark.parametrize("answer", [Answer(drop=True), Answer(body=LISTING, cut=5), Answer(500), Answer(503)])
def test_a_read_is_repeated(scripted: Scripted, answer: Answer) -> None:
    manager = scripted(telling(lambda asked: answer if asked.number < 3 else Answer(body=LISTING)))
    assert connected(manager).machine("m").uid == "m"
    assert len(manager.calls) == 3


def test_repeating_has_an_end(scripted: Scripted) -> None:
    manager = scripted(telling(lambda _unused: Answer(drop=True)))
    with pytest.raises(Unavailable, match="the connection broke before the reply was complete"):
        connected(manager).machine("m")
    assert len(manager.calls) == 3


@pytest.mark.parametrize("status", [429, 503])
def test_a_change_that_was_put_off_is_repeated_when_the_manager_said(scripted: Scripted, status: int) -> None:
    condition = [{"column": "model", "operator": "eq", "value": "A100"}]
    new = {"res_uuid": "d", "res_type": "gpu", "res_op_status": "00", "res_spec": {"condition": condition}}
    done = {"data": {"machines": [{"mach_uuid": "m", "resources": [new]}]}}
    later = Answer(status, headers={"Retry-After": "0"})
    manager = scripted(telling(lambda asked: later if asked.number == 1 else Answer(body=done)))
    assert connected(manager).attach("m", "A100").devices[0].uid == "d"
    assert len(manager.calls) == 2


def test_a_long_wait_is_left_to_the_caller(scripted: Scripted) -> None:
    manager = scripted(telling(lambda _unused: Answer(429, headers={"Retry-After": "60"})))
    with pytest.raises(Busy) as caught:
        connected(manager).attach("m", "A100")
    assert caught.value.retry_after == 60
    assert len(manager.calls) == 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer(body=b"<html>Welcome", headers={"Content-Type": "text/html"}),
        Answer(body=b""),
        Answer(body={"machines": []}),
        Answer(302, headers={"Location": "/login"}),
        Answer(404, b"<html>nginx", headers={"Content-Type": "text/html"}),
    ],
)
def test_something_that_is_no_manager_is_unavailable_and_the_endpoint_doubted(
    scripted: Scripted, answer: Answer
) -> None:
    with pytest.raises(Unavailable, match="Check endpoint"):
        connected(scripted(telling(lambda _unused: answer))).machine("m")


def test_a_proxys_404_does_not_pass_for_a_detached_device(scripted: Scripted) -> None:
    manager = scripted(telling(lambda _unused: Answer(404, b"not found")))
    with pytest.raises(FabricError) as caught:
        connected(manager).detach("m", "d")
    assert caught.value.__class__ is Unavailable


def test_an_attach_goes_on_though_the_client_closed_the_connection(emulator: Emulator) -> None:
    emulator.set_timing(attach=0.5)
    told = emulator.credentials
    host, port = emulator.url.removeprefix("https://").split(":")
    context = ssl.create_default_context(cafile=emulator.ca_path)
    body = json.dumps(attach_body(told["tenant"], NODE_0, MODEL, "gpu"))
    with socket.create_connection((host, int(port))) as raw, context.wrap_socket(raw, server_hostname=host) as tls:
        tls.sendall(
            f"PATCH /fabric_manager/api/v1/machines/{NODE_0}/update?tenant_uuid={told['tenant']} HTTP/1.1\r\n"
            f"Host: {host}\r\nAuthorization: Bearer {bearer(emulator)}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        await_state(emulator, "attaching")
    found = await_state(emulator, "attached")
    assert [d["machine"] for d in found["devices"] if d["state"] == "attached"] == [NODE_0]
    entry = emulator.log()[-1]
    assert entry["effect"] == f"attached {entry['device']} to {NODE_0}"


def bearer(emulator: Emulator) -> str:
    """A token, fetched without the client under test."""
    told = {**emulator.credentials, "grant_type": "password"}
    url = f"{emulator.url}/id_manager/realms/{told['realm']}/protocol/openid-connect/token"
    context = ssl.create_default_context(cafile=emulator.ca_path)
    with urllib.request.urlopen(url, urllib.parse.urlencode(told).encode(), context=context, timeout=10) as reply:
        return str(json.load(reply)["access_token"])
