# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole plugin with a stand-in for the kubelet, over real gRPC sockets: registered, served, watched, restarted."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
import typing as t
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ansible_collections.composable.infra.controller.agent.kubelet_plugin import plugin as module
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.plugin import (
    Agent,
    KubeletPlugin,
    PluginOptions,
)
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.wire.rpc import EARLIER_DRA
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, SLICES
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Conflict, Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.reflector import Reflector
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import LOST_ON_BUS, READY, Evidence
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host
from ansible_collections.composable.infra.tests.unit.controller.agent.kubelet_plugin.kubelet_stand_in import (
    KubeletStandIn,
)
from ansible_collections.composable.infra.tests.unit.controller.agent.kubelet_plugin.plugin_node import (
    DRIVER,
    NODE,
    PluginNode,
)
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import unreachable

SECONDS = 10.0
HEALTHY, UNHEALTHY = 1, 2


def wait_for(what: str, condition: Callable[[], t.Any]) -> t.Any:
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
        time.sleep(0.01)
    return found


class Running:
    """A plugin beside a made-up agent, which watches the slices of its node."""

    def __init__(self, node: PluginNode, kubelet: Path) -> None:
        self.node, self.kubelet = node, kubelet
        self.store, self.synced, self.other = Store({}), True, ""
        self.reports: list[tuple[str, str, str]] = []
        self.plugin: KubeletPlugin | None = None
        self._reflector = Reflector(node.api.client, SLICES, self.store, self._changed)
        self._reflector.start()
        self.start()

    def start(self) -> KubeletPlugin:
        """A plugin, as after a crash of the one before."""
        options = PluginOptions(DRIVER, kubelet=self.kubelet, cdi=self.node.cdi)
        agent = Agent(NODE, Host(self.node.root), self.store, lambda: self.node.evidences, lambda: self.synced,
                      lambda: self.node.kept, self._claims, lambda: self.other,
                      lambda: self.node.pods, lambda *report: self.reports.append(report))
        self.plugin = KubeletPlugin(self.node.api.client, options, agent)
        self.plugin.start()
        return self.plugin

    def stop(self) -> None:
        """End the plugin."""
        if self.plugin is not None:
            self.plugin.stop()

    def close(self) -> None:
        """End all."""
        self.stop()
        self._reflector.stop()

    def _claims(self, but: t.Collection[tuple[str, str]]) -> list[dict[str, t.Any]]:
        found = self.node.api.of(CLAIMS)
        return [claim for claim in found if (claim["metadata"]["namespace"], claim["metadata"]["name"]) not in but]

    def _changed(self, *_unused: object) -> None:
        if self.plugin is not None:
            self.plugin.poke()

    def shown(self) -> list[str] | None:
        """Names of the devices in the driver's only slice; None without one."""
        mine = [it for it in self.node.api.of(SLICES) if it["spec"]["driver"] == DRIVER]
        assert len(mine) <= 1
        return [device["name"] for device in mine[0]["spec"]["devices"]] if mine else None

    def shows(self, names: list[str]) -> bool:
        """Whether these are the devices in the driver's slice."""
        return self.shown() == names


@pytest.fixture
def kubelet_folder() -> Iterator[Path]:
    """A folder with a short name: the path of a Unix socket has at most 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="k"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def running(node: PluginNode, kubelet_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    made = Running(node, kubelet_folder)
    yield made
    made.close()


@pytest.fixture
def kubelet(running: Running) -> Iterator[KubeletStandIn]:
    with KubeletStandIn(running.kubelet) as made:
        wait_for("the socket", (running.kubelet / "plugins_registry" / f"{DRIVER}-reg.sock").is_socket)
        made.register(DRIVER)
        yield made


def test_nothing_is_published_before_the_kubelet_has_registered_the_plugin(running: Running) -> None:
    wait_for("the socket", (running.kubelet / "plugins_registry" / f"{DRIVER}-reg.sock").is_socket)
    assert running.shown() is None
    with KubeletStandIn(running.kubelet) as kubelet:
        kubelet.register(DRIVER)
        wait_for("the slice", lambda: running.shown() == ["gpu-a"])
        assert kubelet.info.endpoint == str(running.kubelet / "plugins" / DRIVER / "dra.sock")
    (found,) = running.node.api.of(SLICES)
    assert found["spec"]["pool"] == {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    assert found["metadata"]["ownerReferences"][0]["uid"] == "node-uid"


def test_kubelet_is_not_served_before_the_agent_knows_its_node(node: PluginNode, kubelet_folder: Path) -> None:
    running = Running(node, kubelet_folder)
    try:
        running.stop()
        running.synced = False
        plugin = running.start()
        plugin.poke()
        assert not list(kubelet_folder.rglob("*.sock"))
        running.synced = True
        plugin.poke()
        wait_for("the sockets", lambda: len(list(kubelet_folder.rglob("*.sock"))) == 2)
    finally:
        running.close()


def test_device_that_comes_or_goes_is_published_though_nobody_told(running: Running, kubelet: KubeletStandIn) -> None:
    wait_for("the slice", lambda: running.shown() == ["gpu-a"])
    running.node.plug("a", "b")
    wait_for("both", lambda: running.shown() == ["gpu-a", "gpu-b"])
    running.node.plug("b")
    wait_for("the second", lambda: running.shown() == ["gpu-b"])
    (found,) = running.node.api.of(SLICES)
    assert found["spec"]["pool"]["generation"] == 3


def test_a_device_that_has_left_is_in_no_slice_when_its_withdrawal_returns(
    running: Running, kubelet: KubeletStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but the withdrawal has the plugin look; the device comes back at once for one claim, and stays hidden."""
    wait_for("the slice", lambda: running.shown() == ["gpu-a"])
    monkeypatch.setattr(module, "LOOK_SECONDS", 60.0)
    plugin = t.cast(KubeletPlugin, running.plugin)
    plugin.withdraw()  # a wait that began before is over
    running.node.plug()
    plugin.withdraw()
    assert running.shown() == []
    running.node.plug("a")
    running.node.kept = {"pool/h100-0": None}
    plugin.withdraw()
    assert running.shown() == []


def test_a_withdrawal_waits_neither_for_a_kubelet_nor_for_a_plugin_that_ends(running: Running) -> None:
    running.synced = False
    plugin = t.cast(KubeletPlugin, running.plugin)
    plugin.withdraw()
    running.stop()
    plugin._registered.set()
    plugin.withdraw()


def test_slices_that_a_starting_kubelet_deletes_come_back(running: Running, kubelet: KubeletStandIn) -> None:
    for _time in range(3):
        wait_for("the slice", lambda: running.shown() == ["gpu-a"])
        (found,) = running.node.api.of(SLICES)
        running.node.api.remove(SLICES, found["metadata"]["name"])
        with KubeletStandIn(running.kubelet) as again:
            again.register(DRIVER)
            wait_for("the slice again", lambda: running.shown() == ["gpu-a"])


def test_sockets_that_somebody_removed_come_back(running: Running, kubelet: KubeletStandIn) -> None:
    wait_for("the slice", lambda: running.shown() == ["gpu-a"])
    shutil.rmtree(running.kubelet / "plugins_registry")
    wait_for("the socket", (running.kubelet / "plugins_registry" / f"{DRIVER}-reg.sock").is_socket)
    with KubeletStandIn(running.kubelet) as again:
        again.register(DRIVER)
        running.node.claim("gpu-a")
        assert again.prepare("uid-c", "c").error == ""


def test_kubelet_gets_devices_by_the_names_of_their_specs(running: Running, kubelet: KubeletStandIn) -> None:
    running.node.claim("gpu-a", shareID="some-share")
    for _time in range(2):
        (device,) = kubelet.prepare("uid-c", "c").devices
        assert (device.pool_name, device.device_name, list(device.request_names)) == (NODE, "gpu-a", ["gpu"])
        assert list(device.cdi_device_ids) == [f"{DRIVER}/claim=uid-c-gpu-a-some-share"]
        assert device.share_id == "some-share"
    for _time in range(2):
        assert kubelet.unprepare("uid-c", "c").error == ""
    assert running.node.specs() == []


def test_older_kubelet_is_served(running: Running) -> None:
    running.node.claim("gpu-a")
    with KubeletStandIn(running.kubelet, dra=EARLIER_DRA) as kubelet:
        wait_for("the socket", (running.kubelet / "plugins_registry" / f"{DRIVER}-reg.sock").is_socket)
        kubelet.register(DRIVER)
        (device,) = kubelet.prepare("uid-c", "c").devices
        assert list(device.cdi_device_ids) == [f"{DRIVER}/claim=uid-c-gpu-a"]
        assert kubelet.unprepare("uid-c", "c").error == ""


def test_claim_that_cannot_be_prepared_has_its_own_error(running: Running, kubelet: KubeletStandIn) -> None:
    running.node.claim("gpu-z")
    answer = kubelet.prepare("uid-c", "c")
    assert answer.error == "the device gpu-z cannot be used on node node-0. Allowed are gpu-a"
    assert not answer.devices
    assert "not found" in kubelet.prepare("uid-nobody", "nobody").error
    running.node.api.fail("get", CLAIMS, ValueError("something unforeseen"), times=1)
    assert kubelet.prepare("uid-c", "c").error == "ValueError: something unforeseen"


def test_plugin_that_was_killed_goes_on_where_it_was(running: Running, kubelet: KubeletStandIn) -> None:
    running.node.claim("gpu-a")
    assert kubelet.prepare("uid-c", "c").devices
    dead = running.plugin
    # Its sockets stay where they are, as after kill -9; nobody listens there.
    running.stop()
    for path in (running.kubelet / "plugins" / DRIVER / "dra.sock",
                 running.kubelet / "plugins_registry" / f"{DRIVER}-reg.sock"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
    assert running.start() is not dead
    with KubeletStandIn(running.kubelet) as again:
        again.register(DRIVER)
        assert running.plugin is not None
        assert running.plugin.status()["prepared"] == {"default/c": ["gpu-a"]}
        assert again.unprepare("uid-c", "c").error == ""
    assert running.node.specs() == []


@pytest.mark.parametrize("service", ["v1alpha1.DRAResourceHealth", "v1.DRAResourceHealth"])
def test_kubelet_is_told_of_a_device_that_falls_ill_and_gets_well(running: Running, service: str) -> None:
    with KubeletStandIn(running.kubelet, service) as kubelet:
        wait_for("the socket", (running.kubelet / "plugins_registry" / f"{DRIVER}-reg.sock").is_socket)
        kubelet.register(DRIVER)
        wait_for("health", lambda: kubelet.health and kubelet.health[-1] == {"gpu-a": (HEALTHY, "")})
        ill = Evidence(READY, "uid-a", uuid="GPU-a").with_trouble(LOST_ON_BUS, "it fell off the bus", 1.0)
        running.node.evidences.append(ill)
        said = {"gpu-a": (UNHEALTHY, "LostOnBus: it fell off the bus")}
        wait_for("illness", lambda: kubelet.health[-1] == said)
        running.node.evidences.clear()
        wait_for("health again", lambda: kubelet.health[-1] == {"gpu-a": (HEALTHY, "")})


def test_device_of_a_claim_that_is_gone_from_the_bus_is_ill(running: Running, kubelet: KubeletStandIn) -> None:
    running.node.claim("gpu-a")
    assert kubelet.prepare("uid-c", "c").devices
    running.node.plug()
    # Pulled from under its driver, it stays on the bus and is dead; then the kernel removes it.
    dead = (UNHEALTHY, "the device 0000:10:00.0 no longer answers")
    wait_for("illness", lambda: kubelet.health and kubelet.health[-1] == {"gpu-a": dead})
    assert running.node.kernel.remove("0000:10:00.0")
    gone = (UNHEALTHY, "the device 0000:10:00.0 is not on the bus")
    wait_for("its end", lambda: kubelet.health[-1] == {"gpu-a": gone})


def test_device_of_a_tenant_who_deleted_claim_and_pod_is_withheld_and_reported(
    running: Running, kubelet: KubeletStandIn
) -> None:
    """The container runs on. The plugin notices at the pod's deletion, not a minute later."""
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "uid-p"}, "spec": {
        "resourceClaims": [{"name": "g", "resourceClaimName": "c"}]}, "status": {"phase": "Running"}}
    running.node.pods.append(pod)
    running.node.claim("gpu-a")
    assert kubelet.prepare("uid-c", "c").devices
    cgroup = "/kubepods/pod6d0ba3f8-7f31-4f4c-a3ce-0a6c0c2a1d01/1"
    process = running.node.process(4242, "train", "/dev/nvidia0", cgroup=cgroup)
    wait_for("the slice", lambda: running.shown() == ["gpu-a"])
    running.node.api.remove(CLAIMS, "c", "default")
    running.node.pods.clear()
    wait_for("the slice without it", lambda: running.shown() == [])
    plugin = t.cast(KubeletPlugin, running.plugin)
    (problem,) = wait_for("the problem", plugin.problems)
    assert problem == (
        "the claim default/c has ended, but the kubelet has not unprepared it. No other claim gets its devices, "
        "because the device 0000:10:00.0 is held open by "
        f"pid 4242 (train) in cgroup {cgroup} of a pod that the API server does not have")
    assert running.reports == [("GPU-a", "0000:10:00.0", problem)]
    assert plugin.holder("GPU-a", "0000:10:00.0")
    shutil.rmtree(process)
    assert kubelet.unprepare("uid-c", "c").error == ""
    plugin.poke()
    wait_for("the slice with it", lambda: running.shown() == ["gpu-a"])
    wait_for("no problem", lambda: not plugin.problems())
    assert plugin.holder("GPU-a", "0000:10:00.0") == ""


def test_status_of_the_claim_says_what_it_has(running: Running, kubelet: KubeletStandIn) -> None:
    running.node.claim("gpu-a")
    running.node.api.fail("apply", CLAIMS, Conflict(409, "Conflict", "it has changed"), times=1)
    assert kubelet.prepare("uid-c", "c").devices

    def devices() -> list[dict[str, t.Any]]:
        return list(running.node.api.one(CLAIMS, "c", "default")["status"].get("devices", []))

    (entry,) = wait_for("the status", devices)
    assert (entry["driver"], entry["pool"], entry["device"]) == (DRIVER, NODE, "gpu-a")
    assert entry["data"] == {"pciBusID": "0000:10:00.0", "uuid": "GPU-a", "libraries": False}
    (condition,) = entry["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "True")
    assert condition["message"] == "prepared with device files only, without libraries"


def test_status_that_may_not_be_written_is_given_up_and_the_claim_is_prepared(
    running: Running, kubelet: KubeletStandIn
) -> None:
    wait_for("the slice", lambda: running.shown() == ["gpu-a"])
    running.node.claim("gpu-a")
    running.node.api.fail("apply", CLAIMS, Forbidden(403, "Forbidden", "no"))
    assert kubelet.prepare("uid-c", "c").devices
    wait_for("a try", lambda: running.node.api.writes(CLAIMS))
    running.node.plug("a", "b")
    wait_for("another look", lambda: running.shown() == ["gpu-a", "gpu-b"])
    assert len(running.node.api.writes(CLAIMS)) == 1


def test_status_that_stands_there_is_not_written_again(running: Running, kubelet: KubeletStandIn) -> None:
    wait_for("the slice", lambda: running.shown() == ["gpu-a"])
    running.node.claim("gpu-a")
    for names in (["a", "b"], ["a", "b", "c"]):
        assert kubelet.prepare("uid-c", "c").devices
        running.node.plug(*names)
        wait_for("another look", partial(running.shows, [f"gpu-{name}" for name in names]))
    assert len(running.node.api.writes(CLAIMS)) == 1


def other_slice(device: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"metadata": {"name": "theirs"}, "spec": {"driver": "gpu.nvidia.com", "nodeName": NODE,
                                                     "pool": {"name": NODE, "generation": 1}, "devices": [device]}}


def test_device_that_another_driver_shows_is_left_to_it(running: Running, kubelet: KubeletStandIn) -> None:
    wait_for("the slice", lambda: running.shown() == ["gpu-a"])
    running.node.api.put(SLICES, other_slice({"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-a"}}}))
    wait_for("left out", lambda: running.shown() == [])
    assert running.plugin is not None
    assert running.plugin.status()["left_out"] == {"gpu-a": "gpu.nvidia.com"}
    running.node.api.remove(SLICES, "theirs")
    wait_for("ours again", lambda: running.shown() == ["gpu-a"])


def test_device_that_a_vendors_claim_still_has_is_not_offered_when_its_slice_is_gone(
        running: Running, kubelet: KubeletStandIn) -> None:
    wait_for("the slice", lambda: running.shown() == ["gpu-a"])
    running.node.api.put(SLICES, other_slice({"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-a"}}}))
    wait_for("left out", lambda: running.shown() == [])
    running.node.claim("gpu-0", name="theirs", driver="gpu.nvidia.com")
    running.node.api.remove(SLICES, "theirs")
    wait_for("the store knows", lambda: all(item["spec"]["driver"] == DRIVER for item in running.store.list()))
    running.node.plug("a", "b")
    assert running.plugin is not None
    plugin = running.plugin
    wait_for("neither is told from theirs",
             lambda: plugin.status()["left_out"] == {"gpu-a": "gpu.nvidia.com", "gpu-b": "gpu.nvidia.com"})
    assert running.shown() == []
    running.node.api.remove(CLAIMS, "theirs", "default")
    wait_for("both are ours", lambda: running.shown() == ["gpu-a", "gpu-b"])


def test_devices_of_a_node_that_has_another_driver_are_left_to_it(running: Running, kubelet: KubeletStandIn) -> None:
    running.node.plug("a", "b")
    wait_for("the slice", lambda: running.shown() == ["gpu-a", "gpu-b"])
    running.node.claim("gpu-a")
    assert kubelet.prepare("uid-c", "c").devices
    running.other = "gpu.nvidia.com"
    wait_for("what a claim has stays", lambda: running.shown() == ["gpu-a"])
    assert running.plugin is not None
    assert running.plugin.status()["left_out"] == {"gpu-b": "gpu.nvidia.com"}
    kubelet.unprepare("uid-c", "c")
    wait_for("nothing is left", lambda: running.shown() == [])
    running.other = ""
    wait_for("both are ours", lambda: running.shown() == ["gpu-a", "gpu-b"])


def test_device_that_a_claim_has_stays_shown(running: Running, kubelet: KubeletStandIn) -> None:
    wait_for("the slice", lambda: running.shown() == ["gpu-a"])
    running.node.claim("gpu-a")
    assert kubelet.prepare("uid-c", "c").devices
    address = {"string": "0000:10:00.0"}
    theirs = other_slice({"name": "gpu-0", "attributes": {"resource.kubernetes.io/pciBusID": address}})
    running.node.api.put(SLICES, theirs)
    running.node.plug("a", "b")
    wait_for("both", lambda: running.shown() == ["gpu-a", "gpu-b"])


def test_api_server_that_does_not_answer_is_a_problem_while_it_lasts(running: Running, kubelet: KubeletStandIn) -> None:
    wait_for("the slice", lambda: running.shown() == ["gpu-a"])
    assert running.plugin is not None
    plugin = running.plugin
    running.node.api.fail("replace", SLICES, unreachable())
    running.node.plug("a", "b")
    wait_for("a problem", plugin.problems)
    assert plugin.problems() == ["the API server does not answer"]
    running.node.api.heal()
    wait_for("both", lambda: running.shown() == ["gpu-a", "gpu-b"])
    wait_for("no problem", lambda: not plugin.problems())


def test_stopped_plugin_leaves_no_socket_and_keeps_its_claims(running: Running, kubelet: KubeletStandIn) -> None:
    running.node.claim("gpu-a")
    assert kubelet.prepare("uid-c", "c").devices
    running.stop()
    assert not list(running.kubelet.rglob("*.sock"))
    assert running.node.specs() == [f"{DRIVER}-claim_uid-c.json"]
