# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin's stand-in: it looks when its pod starts and never again, its slice outlives it for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from ansible_collections.composable.infra.lab.api import Api, ApiRefusal
from ansible_collections.composable.infra.lab.hardware.node import faults
from ansible_collections.composable.infra.lab.hardware.plugin import plugins as module
from ansible_collections.composable.infra.lab.hardware.plugin.plugins import Plugins
from ansible_collections.composable.infra.lab.hardware.plugin.slice_store import SliceStore
from ansible_collections.composable.infra.lab.hardware.slices import slice_name
from ansible_collections.composable.infra.tests.unit.lab.hardware.conftest import Bench

NODE = "node-0"


class FakeApi:
    """ResourceSlices as the API server keeps them, with refusals on demand. It stands for the API server only here."""

    def __init__(self) -> None:
        self.slices: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        self.refuse: list[int] = []
        self.changed = threading.Condition()

    def get(self, path: str) -> Any:
        with self.changed:
            return self._found(path)

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        with self.changed:
            if self.refuse:
                raise ApiRefusal(self.refuse.pop(), "refused")
            if body is None:
                self._found(path)
                del self.slices[path.rsplit("/", 1)[-1]]
            else:
                self._put(method, body)
            self.writes.append(method)
            self.changed.notify_all()

    def _found(self, path: str) -> dict[str, Any]:
        name = path.rsplit("/", 1)[-1]
        if name not in self.slices:
            raise ApiRefusal(404, "not found")
        return self.slices[name]

    def _put(self, method: str, body: dict[str, Any]) -> None:
        name, meta = body["metadata"]["name"], body["metadata"]
        if (method == "POST") == (name in self.slices):
            raise ApiRefusal(409 if method == "POST" else 404, "conflict")
        if method == "PUT" and meta["resourceVersion"] != self.slices[name]["metadata"]["resourceVersion"]:
            raise ApiRefusal(409, "changed meanwhile")
        self.slices[name] = {**body, "metadata": {**meta, "resourceVersion": str(len(self.writes) + 1)}}

    @property
    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = self.slices[slice_name(NODE)]["spec"]
        return found

    def uuids(self) -> list[str] | None:
        if slice_name(NODE) not in self.slices:
            return None
        return [device["attributes"]["uuid"]["string"] for device in self.spec["devices"]]

    def wait(self, check: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(check, 10)


class Setting:
    """A node, an API server and a running plugin stand-in."""

    def __init__(self, bench: Bench, start: float = 0.0, grace: float = 0.05) -> None:
        self.bench, self.api, self.lines = bench, FakeApi(), list[str]()
        self.started = threading.Event()
        self.plugins = self.make(start, grace)

    def make(self, start: float = 0.0, grace: float = 0.05) -> Plugins:
        """A stand-in that begins to run."""
        made = Plugins(SliceStore(cast(Api, self.api)), {NODE: self.bench.kernel.records}, start, grace,
                       self.started.set, self.lines.append)
        made.start()
        return made

    def touched(self, *names: str) -> None:
        """These devices are plugged in, and those that have a driver were used."""
        self.bench.plug(*names)
        for device in self.bench.devices().values():
            if device.driver and not device.lost:
                self.bench.kernel.records.save(device.but(touched=True))

    def restart(self, uid: str) -> None:
        """Another pod runs on the node, and has started."""
        self.started.clear()
        again = self.make()
        self.plugins = again
        again.pod(NODE, uid)
        assert self.started.wait(10)


@pytest.fixture
def setting(bench: Bench) -> Setting:
    return Setting(bench)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is tried again later than at once."""
    for name in ("_RETRY_SECONDS", "_FIRST_BACKOFF", "_LAST_BACKOFF"):
        monkeypatch.setattr(module, name, 0.01)


def test_device_that_comes_later_is_announced_by_the_next_pod_only(setting: Setting) -> None:
    setting.touched("a")
    setting.plugins.pod(NODE, "pod-1")
    setting.api.wait(lambda: setting.api.uuids() == ["GPU-a"])
    setting.touched("a", "b")
    setting.plugins.pod(NODE, "pod-1")
    setting.plugins.lose("node-0")
    setting.api.wait(lambda: "taints" in setting.api.spec["devices"][0])
    assert setting.api.uuids() == ["GPU-a"]
    setting.plugins.pod(NODE, "pod-2")
    setting.api.wait(lambda: setting.api.uuids() == ["GPU-a", "GPU-b"])
    assert "taints" not in setting.api.spec["devices"][0]
    assert setting.api.writes == ["POST", "PUT", "PUT"]
    assert setting.api.spec["pool"]["generation"] == 3


@pytest.mark.parametrize("why", ["no driver", "draining"])
def test_device_that_the_library_does_not_show_is_not_announced(setting: Setting, why: str) -> None:
    setting.touched("a", "b")
    records, device = setting.bench.kernel.records, setting.bench.devices()["a"]
    if why == "no driver":
        setting.bench.kernel.unbind(device.address)
    else:
        records.save(device.but(draining=True))
    setting.plugins.pod(NODE, "pod-1")
    setting.api.wait(lambda: setting.api.uuids() == ["GPU-b"])


def test_device_that_nobody_has_used_is_announced_and_noted_as_empty(setting: Setting) -> None:
    """The vendor's library starts it. No container could have it, since it has no file."""
    setting.touched("a")
    setting.bench.plug("a", "b")
    setting.plugins.pod(NODE, "pod-1")
    setting.api.wait(lambda: setting.api.uuids() == ["GPU-a", "GPU-b"])
    assert setting.started.wait(10)
    assert setting.bench.kernel.records.read_note("plugin") == {"pod": "pod-1", "empty": ["GPU-b"]}
    setting.touched("a", "b")
    setting.restart("pod-2")
    assert setting.bench.kernel.records.read_note("plugin") == {"pod": "pod-2", "empty": []}


def test_plugin_on_a_node_without_devices_starts_and_writes_nothing(setting: Setting) -> None:
    setting.plugins.pod(NODE, "pod-1")
    assert setting.started.wait(10)
    assert setting.api.writes == []


def test_withdrawn_device_leaves_an_empty_slice(setting: Setting) -> None:
    setting.touched("a")
    setting.plugins.pod(NODE, "pod-1")
    setting.api.wait(lambda: setting.api.uuids() == ["GPU-a"])
    setting.bench.kernel.remove("0000:10:00.0")
    setting.plugins.pod(NODE, "pod-2")
    setting.api.wait(lambda: setting.api.uuids() == [])


def test_slice_outlives_its_pod_for_a_while(setting: Setting) -> None:
    setting.touched("a")
    setting.plugins.pod(NODE, "pod-1")
    setting.api.wait(lambda: setting.api.uuids() == ["GPU-a"])
    setting.plugins.pod(NODE, None)
    setting.api.wait(lambda: setting.api.uuids() is None)
    assert setting.api.writes == ["POST", "DELETE"]


def test_slice_of_a_pod_that_is_soon_replaced_stays(bench: Bench) -> None:
    setting = Setting(bench, start=0.2, grace=0.1)
    setting.touched("a")
    setting.plugins.pod(NODE, "pod-1")
    setting.api.wait(lambda: setting.api.uuids() == ["GPU-a"])
    setting.plugins.pod(NODE, None)
    setting.plugins.pod(NODE, "pod-2")
    setting.touched("a", "b")
    setting.api.wait(lambda: setting.api.uuids() == ["GPU-a", "GPU-b"])
    assert setting.api.writes == ["POST", "PUT"]


def test_restarted_simulator_does_not_look_again_for_the_same_pod(setting: Setting) -> None:
    setting.touched("a")
    setting.plugins.pod(NODE, "pod-1")
    setting.api.wait(lambda: setting.api.uuids() == ["GPU-a"])
    setting.touched("a", "b")
    setting.restart("pod-1")
    assert setting.api.uuids() == ["GPU-a"]
    setting.restart("pod-2")
    assert setting.api.uuids() == ["GPU-a", "GPU-b"]


@pytest.mark.usefixtures("quick")
def test_plugin_does_not_start_while_a_lost_device_is_on_the_bus(setting: Setting) -> None:
    setting.touched("a", "b")
    setting.bench.plug("b")
    setting.plugins.pod(NODE, "pod-1")
    while not setting.lines:
        assert not setting.started.wait(0.01)
    assert "0000:10:00.0 is lost" in setting.lines[0]
    assert setting.api.writes == []
    setting.bench.kernel.remove("0000:10:00.0")
    setting.api.wait(lambda: setting.api.uuids() == ["GPU-b"])


@pytest.mark.usefixtures("quick")
def test_plugin_that_fails_starts_when_the_fault_is_off(setting: Setting) -> None:
    setting.bench.fault(faults.PLUGIN_FAILS)
    setting.touched("a")
    setting.plugins.pod(NODE, "pod-1")
    while not setting.lines:
        assert not setting.started.wait(0.01)
    setting.bench.fault(faults.PLUGIN_FAILS, on=False)
    setting.api.wait(lambda: setting.api.uuids() == ["GPU-a"])


@pytest.mark.usefixtures("quick")
def test_plugin_that_needs_a_gpu_starts_when_one_has_come(setting: Setting) -> None:
    setting.bench.fault(faults.PLUGIN_NEEDS_GPU)
    setting.plugins.pod(NODE, "pod-1")
    while not setting.lines:
        assert not setting.started.wait(0.01)
    assert "the driver is not loaded" in setting.lines[0]
    setting.touched("a")
    setting.api.wait(lambda: setting.api.uuids() == ["GPU-a"])


@pytest.mark.usefixtures("quick")
def test_refused_write_is_repeated(setting: Setting) -> None:
    setting.api.refuse = [500, 409]
    setting.touched("a")
    setting.plugins.pod(NODE, "pod-1")
    setting.api.wait(lambda: setting.api.uuids() == ["GPU-a"])
    assert len(setting.lines) == 2


def test_pod_of_another_node_is_nobodys(setting: Setting) -> None:
    setting.plugins.pod("node-9", "pod-9")
    assert not setting.started.is_set()
