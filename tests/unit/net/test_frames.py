# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many functions of ours lie between a call and the socket: each costs time, and a reader has to go through it."""

from __future__ import annotations

import sys

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import Request
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.session import Session
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.net.dial import Dialer
from ansible_collections.composable.infra.plugins.module_utils.net.http1 import HttpConnection
from ansible_collections.composable.infra.tests.unit.net.http1_support import (
    Wire,
)


class Watching(Wire):
    """Notes who stands between the test and the socket, the caller first."""

    def __init__(self) -> None:
        super().__init__([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"])
        self.callers: list[str] = []

    def sendall(self, data: bytes, /) -> None:
        frame = sys._getframe(1)
        while "/module_utils/" in frame.f_code.co_filename and frame.f_back is not None:
            self.callers.insert(0, frame.f_code.co_qualname)
            frame = frame.f_back


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Watching:
    made = Watching()
    monkeypatch.setattr(Dialer, "dial", lambda _self, _timeout: HttpConnection(made))
    return made


def test_a_drivers_call(wire: Watching) -> None:
    config = FabricConfig.from_dict({"manager": "nec", "endpoint": "http://127.0.0.1"})
    assert Session(config, lambda _body: None).call(Request("GET", "/", "look")).body == {}
    assert wire.callers == ["Session.call", "Endpoint.send", "HttpClient.request", "HttpConnection.ask"]


def test_a_verb_of_the_kubernetes_client(wire: Watching) -> None:
    assert Client(Connection("http://127.0.0.1")).get(NODES, "n0") == {}
    assert wire.callers == [
        "Client.get", "Client.raw", "Transport.request", "HttpClient.request", "HttpConnection.ask",
    ]
