# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node simulator: which nodes it touches when the fabric changes, when it restarts, and when a node writes."""

from __future__ import annotations

import queue
import threading
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.hardware import simulator as simulating
from ansible_collections.composable.infra.lab.hardware.fabric import FabricState, FabricWatcher, PluggedDevice
from ansible_collections.composable.infra.lab.hardware.options import HardwareOptions
from ansible_collections.composable.infra.lab.hardware.simulator import Simulator, Written
from ansible_collections.composable.infra.lab.names import machine_uuid


def plugged(name: str) -> PluggedDevice:
    return PluggedDevice(f"uid-{name}", f"GPU-{name}", "H100")


class FakeAnnouncer:
    def __init__(self) -> None:
        self.nodes: list[str] = []

    def announce(self, node: str) -> None:
        self.nodes.append(node)


def simulator(folder: Path, monkeypatch: pytest.MonkeyPatch, rescan: str = "auto") -> tuple[Simulator, list[str]]:
    monkeypatch.setattr(simulating, "Api", lambda *arguments: None)
    fake = FakeAnnouncer()
    monkeypatch.setattr(simulating, "Announcer", lambda *arguments: fake)
    options = HardwareOptions(folder, "https://s", "https://e", None, ("node-0", "node-1"), 0.0, rescan)
    return Simulator(options, lambda line: None), fake.nodes


def state(generation: int, **nodes: list[str]) -> FabricState:
    machines = {machine_uuid(name.replace("_", "-")): tuple(map(plugged, names)) for name, names in nodes.items()}
    return FabricState(generation, machines)


def test_only_touched_nodes_are_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated, announced = simulator(tmp_path, monkeypatch)
    simulated.handle(state(1))
    simulated.handle(state(2, node_1=["a"]))
    simulated.handle(state(3, node_1=["a"]))
    simulated.handle(state(4, node_0=["b"], node_1=["a"]))
    assert announced == ["node-1", "node-0"]
    assert (tmp_path / "hardware.ready").exists()


def test_after_a_restart_every_known_node_is_announced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated, _announced = simulator(tmp_path, monkeypatch)
    simulated.handle(state(1, node_0=["a"]))
    again, announced = simulator(tmp_path, monkeypatch)
    again.handle(state(1, node_0=["a"]))
    again.handle(state(2, node_0=["a"]))
    assert announced == ["node-0", "node-1"]


def test_manual_node_finds_devices_by_rescan_and_loses_them_by_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated, announced = simulator(tmp_path, monkeypatch, rescan="manual")
    simulated.handle(state(1, node_0=["a"]))
    pci = tmp_path / "nodes" / "node-0" / "sys" / "bus" / "pci"
    assert list((pci / "devices").iterdir()) == []
    simulated.handle(Written(pci / "rescan"))
    (folder,) = (pci / "devices").iterdir()
    simulated.handle(Written(folder / "remove"))
    assert list((pci / "devices").iterdir()) == []
    simulated.handle(Written(folder / "remove"))
    assert announced == ["node-0", "node-0"]


def test_watcher_reports_new_states_and_asks_afresh_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    states: queue.SimpleQueue[FabricState] = queue.SimpleQueue()
    lines: list[str] = []
    asked: list[int | None] = []
    replies: list[FabricState | Exception] = [
        state(5), state(5), ValueError("HTTP status 502"), ValueError("HTTP status 502"), state(1), state(2)
    ]  # fmt: skip
    watcher = FabricWatcher("https://e/", None, states.put, lines.append)
    blocked = threading.Event()

    def poll(generation: int | None) -> FabricState:
        asked.append(generation)
        if not replies:
            blocked.wait()
        reply = replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    monkeypatch.setattr(watcher, "_poll", poll)
    watcher.start()
    assert [states.get(timeout=10).generation for _number in range(3)] == [5, 1, 2]
    assert asked[:6] == [None, 5, 5, None, None, 1]
    assert len(lines) == 2
    assert "cannot be read" in lines[0]
    assert "again" in lines[1]
