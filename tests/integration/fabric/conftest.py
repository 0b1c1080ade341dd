# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An emulator and a client of it; everything started is stopped."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator, certificates, machine_uuid, simple_spec
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.tests.integration.fabric.scripted import Script, ScriptedManager

MODEL = "NVIDIA-A100-PCIE-40GB"
OTHER = "NVIDIA-L40S"
NODE_0, NODE_1 = machine_uuid("node-0"), machine_uuid("node-1")

Client = Callable[..., FabricManager]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of whoever runs the tests must not matter."""
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[Emulator]:
    spec = simple_spec(["node-0", "node-1", "node-2"], {MODEL: 4, OTHER: 1}, attach=0.0, detach=0.0)
    spec["machines"].append({"name": "apart"})
    with Emulator.run(spec, tmp_path / "emulator") as running:
        yield running


@pytest.fixture
def client(emulator: Emulator) -> Iterator[Client]:
    """Makes clients of the emulator; options replace those that fit."""
    made: list[FabricManager] = []

    def make(**options: t.Any) -> FabricManager:
        made.append(connect(FabricConfig.from_dict(emulator.fabric_config(**options))))
        return made[-1]

    yield make
    for fabric in made:
        fabric.close()


@pytest.fixture
def fabric(client: Client) -> FabricManager:
    return client()


@pytest.fixture(scope="session")
def server_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``ca.pem``, ``server.pem`` and ``server.key`` of a scripted manager."""
    folder = tmp_path_factory.mktemp("scripted")
    certificates.make(folder, [])
    return folder


@pytest.fixture
def scripted(server_files: Path) -> Iterator[Callable[..., ScriptedManager]]:
    """Starts managers that answer as told."""
    running: list[ScriptedManager] = []

    def start(script: Script, host: str = "127.0.0.1", client_ca: Path | None = None) -> ScriptedManager:
        running.append(ScriptedManager(server_files, script, host, client_ca))
        return running[-1]

    yield start
    for manager in running:
        manager.close()


def attached(emulator: Emulator) -> dict[str, str]:
    """Machine by device, of all devices that are attached."""
    return {d["uid"]: d["machine"] for d in emulator.state()["devices"] if d["state"] == "attached"}


def await_state(emulator: Emulator, state: str, count: int = 1) -> dict[str, t.Any]:
    """The pool as soon as ``count`` devices are in ``state``; fails after 10 s without a change."""
    found = emulator.state()
    while sum(d["state"] == state for d in found["devices"]) != count:
        generation = found["generation"]
        found = emulator.state(after=generation, timeout=10)
        assert found["generation"] != generation, f"nothing changed while waiting for {count} x {state}"
    return found


def manager_calls(emulator: Emulator) -> list[dict[str, t.Any]]:
    """The log without logins."""
    return [entry for entry in emulator.log() if "/id_manager/" not in entry["path"]]


def logins(emulator: Emulator) -> int:
    """How many logins the log has."""
    return sum("/id_manager/" in entry["path"] for entry in emulator.log())
