# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role awx against a stub: what it is given, and how it is run."""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played, play, role
from ansible_collections.composable.infra.tests.integration.awx.rest_stub import TOKEN
from ansible_collections.composable.infra.tests.integration.awx.stub import Awx, serve
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

SECRETS = {"password": "correct-horse", "client_secret": "battery-staple"}
OPTIONS: Json = {
    "awx_execution_environment_image": "registry.example.com/composable/infra:1", "awx_project_wait": False,
    "awx_project_url": "https://git.example.com/composable.infra.git",
    "awx_config": {"device_info": [], "scan_interval": 5},
    "awx_fabric_inputs": {"endpoint": "https://manager.example.com", "tenant": "00000000-0000-4000-8000-000000000001",
                          "realm": "fabric", "client_id": "gpu", "username": "gpu", **SECRETS},
    "awx_cluster_kubeconfig": "apiVersion: v1\nkind: Config\n",
    "awx_notification_type": "webhook",
    "awx_notification_configuration": {"url": "https://chat.example.com", "headers": {}, "http_method": "POST"}}
Run = Callable[..., Played]


@contextmanager
def running(awx: Awx, folder: Path) -> Iterator[Run]:
    """``run("--check", awx_state="absent")``: the role against this stub."""
    server = serve(awx)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    prefix = {"CONTROLLER_OPTIONAL_API_URLPATTERN_PREFIX": "/api/controller/"} if awx.gateway else {}

    def start(*options: str, **variables: t.Any) -> Played:
        # each module of awx.awx reads all certificate authorities, also where there is no TLS: a sixth of the time
        return play(folder, role("awx", **{**OPTIONS, **variables}), {}, *options,
                    SSL_CERT_FILE="/dev/null", SSL_CERT_DIR="/dev/null", CONTROLLER_OAUTH_TOKEN=TOKEN,
                    CONTROLLER_HOST=f"http://127.0.0.1:{server.server_address[1]}", **prefix)

    try:
        yield start
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def awx() -> Awx:
    """An AWX whose project is this checkout."""
    return Awx(ROOT)


@pytest.fixture(scope="module")
def run(awx: Awx, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The role against the stub."""
    with running(awx, tmp_path_factory.mktemp("awx")) as start:
        yield start


def named(awx: Awx, kind: str) -> dict[str, Json]:
    """The stub's objects of a kind by name."""
    return {item["name"]: item for item in awx.items[kind].values()}
