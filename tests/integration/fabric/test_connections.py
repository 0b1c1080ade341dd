# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections are kept and shared, never outlive their server, and go through a proxy when there is one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unavailable
from ansible_collections.composable.infra.plugins.module_utils.net import pool
from ansible_collections.composable.infra.tests.integration.fabric.conftest import (
    MODEL,
    NODE_0,
    NODE_1,
    Client,
    attached,
    logins,
)
from ansible_collections.composable.infra.tests.integration.fabric.scripted import ConnectProxy, free_port


def peers(emulator: Emulator) -> set[int]:
    """Client ports in the log: one per connection."""
    return {entry["peer"] for entry in emulator.log()}


def test_calls_one_after_the_other_share_one_connection(fabric: FabricManager, emulator: Emulator) -> None:
    for _unused in range(10):
        fabric.machines()
        fabric.detach(NODE_0, fabric.attach(NODE_0, MODEL).devices[0].uid)
    assert len(emulator.log()) == 1 + 40
    assert len(peers(emulator)) == 1


def test_there_are_no_more_connections_than_calls_at_once(fabric: FabricManager, emulator: Emulator) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _unused: fabric.attach(NODE_0, MODEL), range(4)))
        list(pool.map(lambda _unused: fabric.machines(), range(60)))
    assert len(peers(emulator)) <= 4


def test_a_connection_that_was_idle_for_long_is_opened_anew(
    fabric: FabricManager, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric.machines()
    monkeypatch.setattr(pool, "LONGEST_IDLE", 0.0)
    fabric.machines()
    assert len(peers(emulator)) == 2


def test_a_connection_of_a_server_that_was_restarted_is_not_used_for_a_change(
    fabric: FabricManager, emulator: Emulator
) -> None:
    fabric.machines()
    emulator.kill()
    emulator.restart()
    assert fabric.attach(NODE_0, MODEL).done
    assert list(attached(emulator).values()) == [NODE_0]


def test_tokens_outlive_a_restart(fabric: FabricManager, emulator: Emulator) -> None:
    fabric.machines()
    emulator.restart()
    fabric.machines()
    assert logins(emulator) == 1


def test_a_closed_client_opens_connections_again_when_used(fabric: FabricManager) -> None:
    fabric.machines()
    fabric.close()
    assert fabric.machines()


@pytest.fixture
def proxy() -> Iterator[ConnectProxy]:
    running = ConnectProxy()
    yield running
    running.close()


def test_a_proxy_is_used_and_told_its_password(
    client: Client, emulator: Emulator, proxy: ConnectProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://us%65r:pa%20ss@{proxy.address}")
    # A name in the emulator's certificate that is not known as loopback.
    where = f"{socket.gethostname().lower()}:{urlsplit(emulator.url).port}"
    fabric = client(endpoint=f"https://{where}")
    fabric.attach(NODE_0, MODEL)
    fabric.machines()
    assert proxy.tunnels == [(where, "Basic dXNlcjpwYSBzcw==")]
    fabric.close()


def test_no_proxy_is_obeyed(client: Client, proxy: ConnectProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.address}")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,.invalid")
    with pytest.raises(Unavailable, match=r"host name fm.invalid cannot be resolved"):
        client(endpoint="https://fm.invalid").machines()
    assert proxy.tunnels == []


def test_loopback_needs_no_proxy(client: Client, proxy: ConnectProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.address}")
    assert client().machines()
    assert proxy.tunnels == []


def test_a_proxy_that_is_away_is_named_and_nothing_was_sent(
    client: Client, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://user:hidden@127.0.0.1:{free_port()}")
    with pytest.raises(Unavailable, match="HTTPS_PROXY") as caught:
        client(endpoint="https://fm.test").attach(NODE_1, MODEL)
    assert "hidden" not in str(caught.value)
    assert emulator.log() == []
