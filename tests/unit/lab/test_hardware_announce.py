# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ResourceSlices of the nodes: their content, when they are written, and what happens when they cannot be."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansible_collections.composable.infra.lab.api import Api, ApiRefusal
from ansible_collections.composable.infra.lab.hardware import announcer as announcing
from ansible_collections.composable.infra.lab.hardware.announcer import Announcer
from ansible_collections.composable.infra.lab.hardware.fabric import PluggedDevice
from ansible_collections.composable.infra.lab.hardware.slices import (
    device_entries,
    node_slice,
    semantic,
    slice_name,
)
from ansible_collections.composable.infra.lab.hardware.tree import FoundDevice, NodeTree


def found(minor: int, **properties: str) -> FoundDevice:
    return FoundDevice(f"u{minor}", f"GPU-{minor}", "H100", f"0000:1{minor}:00.0", minor, 0.0, properties)


def plugged(name: str) -> PluggedDevice:
    return PluggedDevice(f"uid-{name}", f"GPU-{name}", "H100")


def test_slice_has_the_vendors_attributes() -> None:
    (entry,) = device_entries([found(3, product_name="NVIDIA H100", driver_version="580.82.07", memory="94Gi")])
    attributes = entry["attributes"]
    assert entry["name"] == "gpu-3"
    assert attributes["type"] == {"string": "gpu"}
    assert attributes["uuid"] == {"string": "GPU-3"}
    assert attributes["productName"] == {"string": "NVIDIA H100"}
    assert attributes["driverVersion"] == {"version": "580.82.7"}
    assert attributes["resource.kubernetes.io/pciBusID"] == {"string": "0000:13:00.0"}
    assert {"brand", "architecture", "cudaComputeCapability"} <= attributes.keys()
    assert entry["capacity"] == {"memory": {"value": "94Gi"}}


def test_attributes_of_the_model_win_over_the_usual_ones() -> None:
    device = FoundDevice("u", "GPU-u", "A100", "0000:10:00.0", 0, 0.0, {"attributes": {"architecture": "Ampere"}})
    (entry,) = device_entries([device])
    assert entry["attributes"]["architecture"] == {"string": "Ampere"}


def test_product_name_falls_back_to_the_model() -> None:
    (entry,) = device_entries([found(0)])
    assert entry["attributes"]["productName"] == {"string": "H100"}


def test_devices_are_ordered_by_minor() -> None:
    assert [entry["name"] for entry in device_entries([found(2), found(0)])] == ["gpu-0", "gpu-2"]


def test_pool_is_the_node() -> None:
    spec = node_slice("node-4", [], 7)["spec"]
    assert spec["driver"] == "gpu.nvidia.com"
    assert spec["nodeName"] == "node-4"
    assert spec["pool"] == {"name": "node-4", "generation": 7, "resourceSliceCount": 1}


@pytest.mark.parametrize(
    ("version", "expected"),
    [("9.0", "9.0.0"), ("580.82.07", "580.82.7"), ("1.2.3.4", "1.2.3"), ("", "0.0.0"), ("8", "8.0.0")],
)
def test_versions_are_semantic(version: str, expected: str) -> None:
    assert semantic(version) == expected


class FakeApi:
    """ResourceSlices as the API server keeps them, with refusals on demand."""

    def __init__(self) -> None:
        self.slices: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        self.refuse: list[int] = []
        self.changed = threading.Condition()
        self.version = 0

    def get(self, path: str) -> Any:
        name = path.rsplit("/", 1)[-1]
        if name not in self.slices:
            raise ApiRefusal(404, "not found")
        return self.slices[name]

    def request(self, method: str, path: str, body: dict[str, Any]) -> Any:
        with self.changed:
            if self.refuse:
                raise ApiRefusal(self.refuse.pop(), "refused")
            name = body["metadata"]["name"]
            if (method == "POST") == (name in self.slices):
                raise ApiRefusal(409 if method == "POST" else 404, "conflict")
            self.version += 1
            self.writes.append(method)
            metadata = {**body["metadata"], "resourceVersion": str(self.version)}
            self.slices[name] = {**body, "metadata": metadata}
            self.changed.notify_all()
            return self.slices[name]

    def uuids(self, node: str) -> list[str] | None:
        if slice_name(node) not in self.slices:
            return None
        return [entry["attributes"]["uuid"]["string"] for entry in self.slices[slice_name(node)]["spec"]["devices"]]

    def wait_uuids(self, node: str, wanted: list[str]) -> None:
        self.wait(lambda: self.uuids(node) == wanted)

    def generation(self, node: str) -> int:
        return int(self.slices[slice_name(node)]["spec"]["pool"]["generation"])

    def wait(self, check: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(check, 10)


class Bench:
    """One node, a fake API server and a running announcer."""

    def __init__(self, folder: Path, delay: float = 0.0) -> None:
        self.api = FakeApi()
        self.tree = NodeTree(folder / "node-0")
        self.lines: list[str] = []
        self.announcer = Announcer(cast(Api, self.api), {"node-0": self.tree}, delay, self.lines.append)
        self.announcer.start()

    def plug(self, *names: str) -> None:
        self.tree.sync([plugged(name) for name in names], discover=True)
        self.announcer.announce("node-0")


def test_slice_is_created_changed_and_emptied_with_rising_generation(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for step, names in enumerate((["a"], ["a", "b"], []), start=1):
        bench.plug(*names)
        wanted = [f"GPU-{name}" for name in names]
        bench.api.wait_uuids("node-0", wanted)
        assert bench.api.generation("node-0") == step
    assert bench.api.writes == ["POST", "PUT", "PUT"]


def test_node_without_devices_gets_no_slice_and_no_change_no_write(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.announcer._publish("node-0")
    assert bench.api.writes == []
    bench.tree.sync([plugged("a")], discover=True)
    bench.announcer._publish("node-0")
    bench.announcer._publish("node-0")
    assert bench.api.writes == ["POST"]


def test_delay_counts_from_the_appearance_of_each_device(tmp_path: Path) -> None:
    bench = Bench(tmp_path, delay=0.15)
    bench.plug("a")
    appeared = bench.tree.found()[0].appeared
    bench.api.wait(lambda: bench.api.uuids("node-0") == ["GPU-a"])
    assert time.time() >= appeared + 0.15
    assert bench.api.writes == ["POST"]


def test_each_device_is_looked_at_once_when_it_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, delay=0.1)
    looks, publish = list[str](), bench.announcer._publish

    def look(node: str) -> None:
        looks.append(node)
        publish(node)

    monkeypatch.setattr(bench.announcer, "_publish", look)
    for count in range(1, 9):
        bench.plug(*"abcdefgh"[:count])
    bench.api.wait(lambda: len(bench.api.uuids("node-0") or []) == 8)
    assert len(looks) <= 8 + 8, "one for each time it was told, one for each device"


def test_device_is_announced_though_the_clock_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The appointment comes by another clock, when this one says that the device is not due yet."""
    bench, looks = Bench(tmp_path, delay=0.1), list[float]()

    def clock() -> float:
        looks.append(time.time())
        return looks[-1] - (0.05 if len(looks) > 1 else 0.0)

    monkeypatch.setattr(announcing, "time", SimpleNamespace(time=clock))
    bench.plug("a")
    bench.api.wait_uuids("node-0", ["GPU-a"])
    assert len(looks) == 3, "when it was plugged in, too early, and when it was due"


def test_refused_write_is_repeated_until_it_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "_RETRY_SECONDS", 0.01)
    bench = Bench(tmp_path)
    bench.api.refuse = [500, 409]
    bench.plug("a")
    bench.api.wait(lambda: bench.api.uuids("node-0") == ["GPU-a"])
    assert len(bench.lines) == 2
    assert "trying again" in bench.lines[0]


def test_slice_that_somebody_deleted_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "_RETRY_SECONDS", 0.01)
    bench = Bench(tmp_path)
    bench.plug("a")
    bench.api.wait(lambda: bench.api.uuids("node-0") == ["GPU-a"])
    bench.api.slices.clear()
    bench.plug("a", "b")
    bench.api.wait(lambda: bench.api.uuids("node-0") == ["GPU-a", "GPU-b"])


def test_restarted_announcer_goes_on_from_the_slice_that_is_there(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.plug("a")
    bench.api.wait(lambda: bench.api.uuids("node-0") == ["GPU-a"])
    later = Announcer(cast(Api, bench.api), {"node-0": bench.tree}, 0.0, bench.lines.append)
    later._publish("node-0")
    assert bench.api.writes == ["POST"]
    bench.tree.sync([], discover=True)
    later._publish("node-0")
    assert bench.api.generation("node-0") == 2
