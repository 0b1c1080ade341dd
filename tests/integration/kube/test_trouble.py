# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request is repeated when that is safe, and a failure says whether the server may have acted."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.transport import Limits
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import (
    ApiError,
    TooManyRequests,
    Unavailable,
    Unreachable,
)
from ansible_collections.composable.infra.tests.integration.kube.api_server import (
    FakeApi,
    Hangup,
    Reply,
    Stream,
    status,
)
from ansible_collections.composable.infra.tests.integration.kube.conftest import ClientFactory

NODE, ALL = "/api/v1/nodes/n0", "/api/v1/nodes"
DONE = {"metadata": {"name": "n0"}}
Call = Callable[[Client], object]


def get(client: Client) -> object:
    return client.get(NODES, "n0")


def create(client: Client) -> object:
    return client.create(NODES, DONE)


def later(code: int, seconds: str = "0") -> Reply:
    made = status(code)
    return Reply(made.body, code, {"Retry-After": seconds})


@pytest.mark.parametrize(("call", "route"), [(get, f"GET {NODE}"), (create, f"POST {ALL}")])
@pytest.mark.parametrize("code", [429, 500, 503])
def test_the_server_asks_for_patience(api: FakeApi, client: Client, call: Call, route: str, code: int) -> None:
    api.on(route, later(code), later(code), DONE)
    assert call(client) == DONE
    assert len(api.sent(route)) == 3


def test_a_crd_that_is_being_stored_is_waited_for(api: FakeApi, client: Client) -> None:
    body = {"kind": "Status", "code": 429, "message": "storage is (re)initializing"}
    api.on(f"POST {ALL}", Reply(body, 429, {"Retry-After": "0"}), DONE)
    assert create(client) == DONE


def test_patience_ends(api: FakeApi, connect: ClientFactory) -> None:
    api.on(f"GET {NODE}", later(429, "7"))
    client = connect({"limits": Limits(patience=0.0)})
    with pytest.raises(TooManyRequests) as raised:
        get(client)
    assert raised.value.retry_after == 7.0
    assert len(api.requests) == 1


def test_closing_the_client_ends_its_patience(api: FakeApi, client: Client) -> None:
    api.on(f"GET {NODE}", later(429, "30"))
    failures: list[ApiError] = []

    def ask() -> None:
        try:
            get(client)
        except ApiError as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    api.wait_for(f"GET {NODE}")
    client.close()
    thread.join(20)
    assert not thread.is_alive()
    assert [type(failure) for failure in failures] == [TooManyRequests]
    with pytest.raises(Unreachable, match="client is closed"):
        get(client)


def test_an_unavailable_server_is_read_again_but_not_written(api: FakeApi, client: Client) -> None:
    api.on(f"GET {NODE}", status(503), DONE)
    api.on(f"POST {ALL}", status(503))
    assert get(client) == DONE
    with pytest.raises(Unavailable):
        create(client)
    assert len(api.sent(f"POST {ALL}")) == 1


def test_a_read_is_repeated_when_the_connection_is_lost(api: FakeApi, client: Client) -> None:
    api.on(f"GET {NODE}", Hangup(), DONE)
    assert get(client) == DONE


def test_a_write_is_not_repeated_when_the_reply_is_lost(api: FakeApi, client: Client) -> None:
    api.on(f"POST {ALL}", Hangup())
    with pytest.raises(Unreachable, match="Connection aborted") as raised:
        create(client)
    assert raised.value.sent
    assert len(api.requests) == 1


def test_a_cut_reply_of_a_write_is_uncertain(api: FakeApi, client: Client) -> None:
    api.on(f"POST {ALL}", Reply(DONE, length=9999))
    with pytest.raises(Unreachable) as raised:
        create(client)
    assert raised.value.sent
    assert len(api.requests) == 1


def test_a_silent_server_is_given_up(api: FakeApi, connect: ClientFactory) -> None:
    api.on(f"POST {ALL}", Stream())
    client = connect({"limits": Limits(read=0.2)})
    with pytest.raises(Unreachable, match="no complete answer within the read timeout") as raised:
        create(client)
    assert raised.value.sent


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_refused_connection_was_surely_not_sent(connect: ClientFactory, closed_port: int) -> None:
    client = connect(host=f"https://127.0.0.1:{closed_port}")
    with pytest.raises(Unreachable, match=rf"no answer from https://127.0.0.1:{closed_port}: .*refused") as raised:
        create(client)
    assert not raised.value.sent


def test_an_unknown_host_is_named(connect: ClientFactory) -> None:
    with pytest.raises(Unreachable, match=r"no answer from https://api.invalid") as raised:
        create(connect(host="https://api.invalid", proxy=None))
    assert not raised.value.sent


def test_an_idle_connection_that_the_server_closed_costs_nothing(api: FakeApi, client: Client) -> None:
    api.on(f"POST {ALL}", Reply(DONE, headers={"Connection": "close"}))
    for _unused in range(3):
        assert create(client) == DONE
    assert len(api.requests) == 3
