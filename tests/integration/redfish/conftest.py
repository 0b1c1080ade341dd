# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An emulated Redfish service of the wanted sort and clients of it; everything started is stopped."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator, machine_uuid, simple_spec
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.driver import RedfishDriver

GPU = "NVIDIA-L40S"
MEMORY = "CXL-DRAM-64GiB"
MIB = 65536
NODE_0, NODE_1 = machine_uuid("node-0"), machine_uuid("node-1")
DIALECTS = ("AddResourceBlock", "Connections", "Zones", "Compose")
EVERYTHING = ["AddResourceBlock", "Connections", "Compose"]

Bench = Callable[..., Emulator]
Client = Callable[..., RedfishDriver]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of whoever runs the tests must not matter."""
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def document(managers: list[str], gpus: int = 4, memory: int = 2, **more: t.Any) -> dict[str, t.Any]:
    """A fabric of two machines with GPUs and CXL memory; its operations take no time unless told."""
    timing = {"attach": 0.0, "detach": 0.0} | {key: more.pop(key) for key in ("attach", "detach") if key in more}
    spec = simple_spec(["node-0", "node-1"], {GPU: gpus}, managers=managers, **timing, **more)
    spec["models"].append({"name": MEMORY, "kind": "memory", "size": MIB})
    serials = [f"CXL-{n:04}" for n in range(memory)]
    spec["fabrics"][0]["devices"].append({"model": MEMORY, "serials": serials})
    spec["machines"].append({"name": "apart"})
    return spec


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Bench]:
    """Starts an emulated service with the settings given; ``gpus``, ``memory``, ``attach``, … go to the fabric."""
    running: list[Emulator] = []

    def run(settings: dict[str, t.Any] | None = None, manager: str = "redfish", **more: t.Any) -> Emulator:
        spec = document([manager], settings={manager: settings or {}}, **more)
        running.append(Emulator.run(spec, tmp_path / f"emulator-{len(running)}"))
        return running[-1]

    yield run
    for emulator in running:
        emulator.stop()


@pytest.fixture
def client() -> Iterator[Client]:
    """Makes clients of an emulator; options replace those that fit."""
    made: list[RedfishDriver] = []

    def make(emulator: Emulator, **options: t.Any) -> RedfishDriver:
        made.append(RedfishDriver(FabricConfig.from_dict(emulator.fabric_config(**options))))
        return made[-1]

    yield make
    for fabric in made:
        fabric.close()


def attached(emulator: Emulator) -> dict[str, str]:
    """Machine by device, of all devices that are attached."""
    return {d["uid"]: d["machine"] for d in emulator.state()["devices"] if d["state"] == "attached"}


def effects(emulator: Emulator) -> list[str]:
    """Words of what happened to devices."""
    return [entry["effect"].split()[0] for entry in emulator.effects()]


def requests(emulator: Emulator, purpose: str) -> list[dict[str, t.Any]]:
    """Requests of one purpose, in the log's order."""
    return [entry for entry in emulator.log() if entry["purpose"] == purpose]
