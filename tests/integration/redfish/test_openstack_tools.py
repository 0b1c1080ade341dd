# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenStack's Redfish tools: their library reads our emulator, and our client reads their emulator."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
import typing as t
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import sushy
from sushy import auth
from sushy.resources.compositionservice import constants, resourceblock

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.driver import RedfishDriver
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Missing, Refused
from ansible_collections.composable.infra.tests.integration.redfish.conftest import (
    EVERYTHING,
    GPU,
    NODE_0,
    NODE_1,
    Bench,
    Client,
)

START_SECONDS = 60


@pytest.fixture
def sushy_of() -> Iterator[t.Callable[[Emulator], t.Any]]:
    """Connects sushy to an emulator by a session, which ends with the test."""
    with contextlib.ExitStack() as open_sessions:
        def connect(emulator: Emulator) -> t.Any:
            told = emulator.credentials
            login = open_sessions.enter_context(auth.SessionAuth(told["username"], told["password"]))
            return sushy.Sushy(f"{emulator.url}/redfish/v1", auth=login, verify=emulator.ca_path)

        yield connect


def blocks_of(service: t.Any) -> dict[str, t.Any]:
    """sushy's own ``resource_blocks`` gives its collection a function in place of the path."""
    found = resourceblock.ResourceBlockCollection(
        service._conn, service.json["ResourceBlocks"]["@odata.id"], redfish_version=service.redfish_version,
        registries=service.registries, root=service.root)
    return {block.identity: block for block in found.get_members()}


def test_sushy_reads_machines_and_chassis(start: Bench, sushy_of: t.Callable[[Emulator], t.Any]) -> None:
    root = sushy_of(start({"dialects": EVERYTHING}))
    systems = {system.uuid: system for system in root.get_system_collection().get_members()}
    assert {NODE_0, NODE_1} <= set(systems)
    assert systems[NODE_0].name == "node-0"
    assert systems[NODE_0].power_state == sushy.PowerState.ON
    assert [chassis.identity for chassis in root.get_chassis_collection().get_members()] == ["box-1"]


def test_sushy_reads_composition(start: Bench, client: Client, sushy_of: t.Callable[[Emulator], t.Any]) -> None:
    emulator = start({"dialects": EVERYTHING})
    device = client(emulator).attach(NODE_0, GPU).devices[0]
    service = sushy_of(emulator).get_composition_service()
    assert service.service_enabled
    blocks = blocks_of(service)
    assert len(blocks) == 3 + 6
    states = {uid: block.composition_status.composition_state for uid, block in blocks.items()}
    assert states.pop(device.uid) == constants.CompositionState.COMPOSED
    assert list(states.values()).count(constants.CompositionState.UNUSED) == 5


def test_sushy_reads_fabrics(start: Bench, sushy_of: t.Callable[[Emulator], t.Any]) -> None:
    fabric = sushy_of(start({"dialects": EVERYTHING})).get_fabric_collection().get_members()[0]
    assert fabric.identity == "1"
    endpoints = {endpoint.identity: endpoint for endpoint in fabric.endpoints.get_members()}
    assert len(endpoints) == 2 + 6
    assert endpoints[NODE_0].connected_entities[0].entity_role == sushy.EntityRole.INITIATOR


def test_sushy_changes_nothing_and_logs_out(start: Bench) -> None:
    emulator = start({"dialects": EVERYTHING})
    told = emulator.credentials
    with auth.SessionAuth(told["username"], told["password"]) as login:
        root = sushy.Sushy(f"{emulator.url}/redfish/v1", auth=login, verify=emulator.ca_path)
        blocks_of(root.get_composition_service())
    changing = [(entry["method"], entry["status"]) for entry in emulator.log() if entry["method"] != "GET"]
    assert changing == [("POST", 201), ("DELETE", 204)]
    assert emulator.effects() == []


@pytest.fixture(scope="module")
def their_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """sushy-tools' emulator with its fake driver: three machines and nothing to compose."""
    folder = tmp_path_factory.mktemp("sushy-tools")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = folder / "settings.conf"
    settings.write_text(
        f"SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\nSUSHY_EMULATOR_LISTEN_PORT = {port}\n"
        f"SUSHY_EMULATOR_STATE_DIR = {str(folder)!r}\nSUSHY_EMULATOR_FAKE_DRIVER = True\n", encoding="utf-8"
    )
    command = [str(Path(sys.executable).with_name("sushy-emulator")), "--fake", "--config", str(settings)]
    log = (folder / "log").open("wb")
    process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env={**os.environ, "HOME": str(folder)})
    try:
        await_answer(process, f"http://127.0.0.1:{port}/redfish/v1/", folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)
        log.close()


def await_answer(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        try:
            with opener.open(url, timeout=5) as reply:
                reply.read()
                return
        except (urllib.error.URLError, ConnectionError):
            select.select([], [], [], 0.1)
    raise AssertionError(f"no answer from {url}: {log.read_text(encoding='utf-8')}")


def test_our_client_reads_their_emulator(their_emulator: str) -> None:
    fabric = RedfishDriver(FabricConfig.from_dict({"manager": "sunfish", "endpoint": their_emulator}))
    machines = fabric.machines()
    assert machines, "the fake driver shows machines"
    assert all(machine.devices == () and machine.fabric is None for machine in machines)
    assert fabric.devices() == ()
    assert fabric.machine(machines[0].uid) == machines[0]
    assert fabric.free(machines[0].uid, GPU) == 0
    with pytest.raises(Refused) as refused:
        fabric.attach(machines[0].uid, GPU)
    assert refused.value.exhausted
    with pytest.raises(Missing):
        fabric.machine(NODE_0)
    fabric.close()
