# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An emulated Liqid Director, clients of the driver, and another client that speaks for itself."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import typing as t
from collections.abc import Callable, Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.desired import executor
from ansible_collections.composable.infra.plugins.module_utils.fabric.http import session
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations import polling

NAME = "composable.liqid.liqid"
# Nothing here waits for hardware, so nothing needs to wait long.
PAUSES = (
    (executor, "LOOK_SECONDS", 0.03), (session, "BACKOFF", replace(session.BACKOFF, first=0.005)),
    (polling, "LOOKS", replace(polling.LOOKS, first=0.005, longest=0.05)), (polling, "NOTICE_SECONDS", 0.3),
)
FABRIC: dict[str, t.Any] = {
    "timing": {"attach": 0, "detach": 0}, "managers": [NAME],
    "models": [{"name": "A100"}, {"name": "L40S"}, {"name": "H100"}, {"name": "CXL", "kind": "memory", "size": 65536}],
    "fabrics": [{"id": 1, "devices": [
        {"model": "A100", "count": 8}, {"model": "L40S", "count": 2}, {"model": "H100", "health": "Critical"},
        {"model": "CXL", "count": 2}, {"model": "A100", "machine": "node-1"}, {"model": "A100", "machine": "theirs"},
    ]}],
    "machines": [
        {"name": "node-0", "fabric": 1}, {"name": "node-1", "fabric": 1},
        {"name": "theirs", "fabric": 1, "tenant": "7e63fd31-0a5c-4d1b-9a52-c0de00000002"},
    ],
}
# The sources do not tell in which of two ways a Director does this.
VARIANTS = {"older": {}, "newer": {"asynchronous": True, "errors_ok": True}}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules are the same, only sooner."""
    for module, name, value in PAUSES:
        monkeypatch.setattr(module, name, value)


@pytest.fixture(scope="module", params=VARIANTS)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """Run the emulated Director."""
    document = {**FABRIC, "settings": {NAME: VARIANTS[request.param]}}
    with Emulator.run(document, tmp_path_factory.mktemp("emulator")) as found:
        yield found


@pytest.fixture
def emulator(running: Emulator) -> Emulator:
    """Return the emulated Director with all devices where they were at first, and without faults."""
    running.set_timing(0, 0)
    running.reset(log=True)
    return running


@pytest.fixture
def client(emulator: Emulator) -> Iterator[Callable[..., FabricManager]]:
    """Return what makes a client of the driver. All are closed at the end."""
    made: list[FabricManager] = []

    def make(**options: t.Any) -> FabricManager:
        given = emulator.fabric_config(**{"read_timeout": 5.0, "attach_timeout": 2.0, **options})
        made.append(connect(FabricConfig.from_dict(given)))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def other(emulator: Emulator) -> Callable[..., t.Any]:
    """Return another client of the Director: it sends a request, and returns ``response`` of the reply."""
    login = emulator.credentials

    def ask(method: str, path: str, body: t.Any = None) -> t.Any:
        where = urlsplit(emulator.url)
        context = ssl.create_default_context(cafile=emulator.ca_path)
        basic = base64.b64encode(f"{login['username']}:{login['password']}".encode()).decode()
        connection = http.client.HTTPSConnection(where.hostname or "", where.port, context=context, timeout=10)
        try:
            connection.request(method, f"/liqid/api/v2/{path}", json.dumps(body), {"Authorization": f"Basic {basic}"})
            return json.loads(connection.getresponse().read())["response"]
        finally:
            connection.close()

    return ask
