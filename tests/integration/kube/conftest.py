# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scripted API server and a client of it, both stopped after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.options import ConnectionOptions
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.tests.integration.kube.api_server import FakeApi
from ansible_collections.composable.infra.tests.integration.kube.certificates import (
    Certificates,
    make_certificates,
)

ClientFactory = Callable[..., Client]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def api(certificates: Certificates) -> Iterator[FakeApi]:
    server = FakeApi(certificates)
    yield server
    server.stop()


@pytest.fixture
def connect(api: FakeApi, certificates: Certificates) -> Iterator[ClientFactory]:
    """Builds clients; keywords are those of ConnectionOptions and ``kubeconfig``, ``options`` those of Client."""
    made: list[Client] = []

    def build(options: dict[str, Any] | None = None, kubeconfig: Any = None, **settings: Any) -> Client:
        chosen: dict[str, Any] = {"host": api.url, "ca_file": str(certificates.ca)} | settings
        connection = Connection.load(kubeconfig, given=ConnectionOptions(**chosen), environ={})
        made.append(Client(connection, **(options or {})))
        return made[-1]

    yield build
    for client in made:
        client.close()


@pytest.fixture
def client(connect: ClientFactory) -> Client:
    return connect()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("token-1", encoding="ascii")
    return path
