# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A testbed, its provider behind real gRPC with TLS, and Cluster Autoscaler's stand-in that asks it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from ansible_collections.composable.infra.controller.autoscaler.providers import table
from ansible_collections.composable.infra.controller.autoscaler.server import Certificates, Server
from ansible_collections.composable.infra.controller.autoscaler.service import ProviderService
from ansible_collections.composable.infra.lab.autoscaling.processes import Certificates as Issued
from ansible_collections.composable.infra.lab.autoscaling.stand_in import AutoscalerStandIn, Times
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.machines import Machines
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.testbed import Testbed, WorldView


class Clock:
    """Seconds that only tests let pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="session")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Issued:
    """Certificates for both sides."""
    return Issued(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def testbed() -> Iterator[Testbed]:
    """Two nodes, four devices."""
    made = Testbed()
    yield made
    made.close()


@pytest.fixture
def machines(testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Who adds and removes nodes where the configuration says ``static``; ``regroup`` has the group grow to five."""
    made = Machines(testbed)
    monkeypatch.setitem(table.PROVIDERS, "static", lambda *_unused: made.provider())
    return made


@pytest.fixture
def clock() -> Clock:
    """The stand-in's."""
    return Clock()


def channel(issued: Issued, port: int, certificate: Path, key: Path) -> grpc.Channel:
    """A channel with this client certificate."""
    credentials = grpc.ssl_channel_credentials(issued.ca.read_bytes(), key.read_bytes(), certificate.read_bytes())
    found: grpc.Channel = grpc.secure_channel(f"localhost:{port}", credentials)
    return found


@pytest.fixture
def asking(testbed: Testbed, issued: Issued, clock: Clock) -> Iterator[Callable[..., AutoscalerStandIn]]:
    """Opens a stand-in that asks the provider which the testbed has at that moment."""
    certificates = Certificates(str(issued.server.certificate), str(issued.server.key), str(issued.ca))
    ends = contextlib.ExitStack()

    def start(**times: float) -> AutoscalerStandIn:
        server = Server("127.0.0.1:0", ProviderService(testbed.provider, testbed.measurements), certificates)
        server.start()
        ends.callback(server.stop)
        opened = channel(issued, server.port, issued.client.certificate, issued.client.key)
        ends.callback(opened.close)
        return AutoscalerStandIn(opened, WorldView(testbed), Times(**times), clock)

    with ends:
        yield start
