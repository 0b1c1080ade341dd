# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepare and Unprepare: repeated, refused, cut off at each step, and swept up."""

from __future__ import annotations

import json
import os
import shutil
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.cdi.container_edits import ContainerEdits
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.cdi.specs import SpecFolder
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.checkpoint import Checkpoint
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.device_view import DeviceView
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.errors import Refused
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    LINK_DEGRADED,
    LOST_ON_BUS,
    PREPARING,
    READY,
    RELEASING,
    TOUCHED,
    Evidence,
)
from ansible_collections.composable.infra.tests.unit.controller.agent.kubelet_plugin.plugin_node import (
    DRIVER,
    NODE,
    PluginNode,
)
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import unreachable

SPEC = f"{DRIVER}-claim_uid-c.json"


def test_claim_gets_its_device_a_spec_and_a_line_in_the_checkpoint(node: PluginNode) -> None:
    node.claim("gpu-a")
    mine = node.preparation()
    found = mine.prepare("default", "c", "uid-c")
    (device,) = found.devices
    assert (device.request, device.pool, device.device, device.uuid) == ("gpu", NODE, "gpu-a", "GPU-a")
    assert mine.cdi_id("uid-c", "gpu-a") == f"{DRIVER}/claim=uid-c-gpu-a"
    document = json.loads((node.cdi / SPEC).read_text())
    assert (document["cdiVersion"], document["kind"]) == ("0.5.0", f"{DRIVER}/claim")
    assert [it["name"] for it in document["devices"]] == ["uid-c-gpu-a"]
    assert node.prepared == [found]
    assert node.preparation().claims() == [found]


def test_prepare_and_unprepare_may_be_repeated(node: PluginNode) -> None:
    node.claim("gpu-a")
    mine = node.preparation()
    first = mine.prepare("default", "c", "uid-c")
    changed = (node.cdi / SPEC).stat().st_mtime_ns
    assert mine.prepare("default", "c", "uid-c") == first
    assert (node.cdi / SPEC).stat().st_mtime_ns == changed
    node.api.remove(CLAIMS, "c", "default")
    for _time in range(2):
        mine.unprepare("uid-c")
        assert node.specs() == []
    assert mine.claims() == []


def test_claim_stays_prepared_though_its_device_is_gone(node: PluginNode) -> None:
    node.claim("gpu-a")
    first = node.preparation().prepare("default", "c", "uid-c")
    node.plug()
    assert node.preparation().prepare("default", "c", "uid-c") == first


@pytest.mark.parametrize(("result", "words"), [
    ({"driver": "gpu.nvidia.com"}, f"the claim default/c has no device of the driver {DRIVER}"),
    ({"pool": "node-1"}, "the claim default/c has gpu-a of pool node-1. Allowed are pool node-0 and"),
    ({"device": "gpu-z"}, "the device gpu-z cannot be used on node node-0. Allowed are gpu-a")])
def test_result_of_another_driver_pool_or_device_is_refused(
    node: PluginNode, result: dict[str, str], words: str
) -> None:
    node.claim("gpu-a", **result)
    with pytest.raises(Refused, match=words):
        node.preparation().prepare("default", "c", "uid-c")
    assert node.specs() == []
    assert not node.checkpoint.exists()


def change_node(claim: dict[str, t.Any]) -> None:
    claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] = ["node-7"]


def change_uid(claim: dict[str, t.Any]) -> None:
    claim["metadata"]["uid"] = "another"


def add_parameters(claim: dict[str, t.Any]) -> None:
    opaque = {"driver": DRIVER, "parameters": {"kind": "Something"}}
    claim["status"]["allocation"]["devices"]["config"] = [{"source": "FromClaim", "opaque": opaque}]


@pytest.mark.parametrize(("change", "words"), [
    (change_node, "the claim default/c is allocated on node node-7, but this is node node-0"),
    (change_uid, "the claim default/c was deleted and created again: its uid is not uid-c"),
    (add_parameters, f"has parameters for the driver {DRIVER}, which accepts none")])
def test_claim_of_another_node_or_another_claim_is_refused(
    node: PluginNode, change: t.Callable[[dict[str, t.Any]], None], words: str
) -> None:
    claim = node.claim("gpu-a")
    change(claim)
    node.api.put(CLAIMS, claim)
    with pytest.raises(Refused, match=words):
        node.preparation().prepare("default", "c", "uid-c")


def test_results_of_other_drivers_are_theirs(node: PluginNode) -> None:
    claim = node.claim("gpu-a", request="main/small")
    results = claim["status"]["allocation"]["devices"]["results"]
    results.insert(0, {"request": "nic", "driver": "net.example.com", "pool": "p", "device": "d"})
    node.api.put(CLAIMS, claim)
    (device,) = node.preparation().prepare("default", "c", "uid-c").devices
    assert (device.device, device.request) == ("gpu-a", "main")


def evidence(phase: str, *steps: str) -> Evidence:
    found = Evidence(phase, "uid-a", uuid="GPU-a", address="0000:10:00.0")
    for step in steps:
        found = found.with_step(step, 1.0)
    return found


@pytest.mark.parametrize(("seen", "words"), [
    (evidence(RELEASING, TOUCHED), "it is being released"), (evidence(PREPARING), "the node agent is still preparing "
                                                                                  "it"),
    (evidence(READY, TOUCHED).with_trouble(LOST_ON_BUS, "it fell off", 1.0), "LostOnBus: it fell off")])
def test_device_that_leaves_comes_or_is_ill_is_refused(node: PluginNode, seen: Evidence, words: str) -> None:
    node.claim("gpu-a")
    node.evidences.append(seen)
    with pytest.raises(Refused, match=f"the device gpu-a cannot be used: {words}"):
        node.preparation().prepare("default", "c", "uid-c")
    node.evidences[:] = [evidence(READY, TOUCHED).with_trouble(LINK_DEGRADED, "few lanes", 1.0)]
    assert node.preparation().prepare("default", "c", "uid-c").devices


def test_device_of_a_claim_that_lives_is_not_for_another(node: PluginNode) -> None:
    mine = node.preparation()
    for name in ("c", "d"):
        node.claim("gpu-a", name=name)
    mine.prepare("default", "c", "uid-c")
    with pytest.raises(Refused, match="the device gpu-a is still prepared for the claim default/c"):
        mine.prepare("default", "d", "uid-d")
    node.api.fail("get", CLAIMS, unreachable(), name="c")
    with pytest.raises(Refused, match="still prepared"):
        mine.prepare("default", "d", "uid-d")
    node.api.heal()
    node.claim(name="c")
    holder = node.process(42, "train", "/dev/nvidia0", cgroup="/elsewhere")
    with pytest.raises(Refused, match=r"still prepared for the claim default/c\. That claim has ended, but"):
        mine.prepare("default", "d", "uid-d")
    shutil.rmtree(holder)
    mine.prepare("default", "d", "uid-d")
    assert node.specs() == [f"{DRIVER}-claim_uid-d.json"]


def test_administrator_looks_on_and_a_shared_device_has_several_claims(node: PluginNode) -> None:
    mine = node.preparation()
    node.claim("gpu-a")
    mine.prepare("default", "c", "uid-c")
    node.claim("gpu-a", name="admin", adminAccess=True)
    assert mine.prepare("default", "admin", "uid-admin").devices[0].admin
    mine.unprepare("uid-c")
    for name in ("s", "t"):
        node.claim("gpu-a", name=name, shareID=f"share-{name}")
        assert mine.prepare("default", name, f"uid-{name}").devices[0].share_id == f"share-{name}"


class Killed(BaseException):
    """Stands for kill -9: nothing of the plugin runs after it."""


@pytest.mark.parametrize("step", ["look", "edits", "checkpoint", "spec"])
@pytest.mark.parametrize("after", [False, True])
def test_prepare_that_is_cut_off_at_any_step_is_done_by_the_next(
    node: PluginNode, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    target, name = {"look": (DeviceView, "look"), "edits": (ContainerEdits, "of"),
                    "checkpoint": (Checkpoint, "put"), "spec": (SpecFolder, "write")}[step]
    works = getattr(target, name)

    def killed(*arguments: t.Any) -> None:
        if after:
            works(*arguments)
        raise Killed

    node.claim("gpu-a")
    with monkeypatch.context() as patch:
        patch.setattr(target, name, killed)
        with pytest.raises(Killed):
            node.preparation().prepare("default", "c", "uid-c")
    again = node.preparation()
    again.sweep()
    assert again.prepare("default", "c", "uid-c").devices[0].device == "gpu-a"
    assert node.specs() == [SPEC]
    again.unprepare("uid-c")
    assert (node.specs(), again.claims()) == ([], [])


@pytest.mark.parametrize("after", [False, True])
def test_unprepare_that_is_cut_off_is_done_by_the_next(node: PluginNode, monkeypatch: pytest.MonkeyPatch,
                                                       after: bool) -> None:
    node.claim("gpu-a")
    mine = node.preparation()
    mine.prepare("default", "c", "uid-c")
    works = Checkpoint.drop

    def killed(*arguments: t.Any) -> None:
        if after:
            works(*arguments)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "drop", killed)
        with pytest.raises(Killed):
            mine.unprepare("uid-c")
    node.preparation().unprepare("uid-c")
    assert (node.specs(), node.preparation().claims()) == ([], [])


def test_sweep_takes_back_what_is_over_and_proven_idle_and_nothing_else(node: PluginNode) -> None:
    node.plug("a", "b")
    mine = node.preparation()
    node.cdi.mkdir()
    for other in (f"{DRIVER}-claim_dead.json", f"{DRIVER}-claim_dead.json.new", "nvidia.com-gpu.yaml"):
        (node.cdi / other).write_text("{}")
    for name, device in (("c", "gpu-a"), ("d", "gpu-b")):
        node.claim(device, name=name)
        mine.prepare("default", name, f"uid-{name}")
    node.api.remove(CLAIMS, "d", "default")
    holder = node.process(42, "train", "/dev/nvidia1", cgroup="/elsewhere")
    mine.sweep()
    assert node.specs() == [SPEC, f"{DRIVER}-claim_uid-d.json", "nvidia.com-gpu.yaml"]
    shutil.rmtree(holder)
    mine.sweep()
    assert node.specs() == [SPEC, "nvidia.com-gpu.yaml"]
    assert [claim.name for claim in mine.claims()] == ["c"]
    node.api.fail("get", CLAIMS, unreachable())
    mine.sweep()
    assert SPEC in node.specs()


@pytest.mark.parametrize("text", [None, "{", '{"version": 9, "claims": []}'], ids=["gone", "damaged", "another's"])
def test_checkpoint_that_was_lost_is_made_from_specs_and_claims(node: PluginNode, text: str | None) -> None:
    """A container of the claim runs on, and may be started again with its spec."""
    node.claim("gpu-a")
    before = node.preparation()
    before.prepare("default", "c", "uid-c")
    node.checkpoint.unlink()
    if text is not None:
        node.checkpoint.write_text(text)
    after = node.preparation()
    assert after.holder("GPU-a", "") == "the kubelet has not unprepared the claim default/c on this node"
    after.sweep()
    assert node.specs() == [SPEC]
    assert [replace(it, libraries=True) for claim in after.claims() for it in claim.devices] == [
        replace(it, libraries=True) for claim in before.claims() for it in claim.devices]
    node.claim("gpu-a", name="d")
    with pytest.raises(Refused, match="the device gpu-a is still prepared for the claim default/c"):
        after.prepare("default", "d", "uid-d")
    after.unprepare("uid-c")
    assert after.prepare("default", "d", "uid-d").devices[0].device == "gpu-a"


def test_lost_claim_that_has_moved_to_another_node_keeps_no_other_from_its_device(node: PluginNode) -> None:
    """The kubelet has not unprepared it here, and its spec tells which device it had."""
    node.plug("a", "b")
    node.claim("gpu-a")
    node.preparation().prepare("default", "c", "uid-c")
    node.checkpoint.unlink()
    moved = node.claim("gpu-x", pool="node-1")
    moved["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] = ["node-1"]
    node.api.put(CLAIMS, moved)
    node.claim("gpu-b", name="d")
    after = node.preparation()
    assert after.prepare("default", "d", "uid-d").devices[0].device == "gpu-b"
    assert after.holder("GPU-a", "") == "the kubelet has not unprepared the claim default/c on this node"
    after.unprepare("uid-c")
    assert after.holder("GPU-a", "") == ""


def test_device_of_a_lost_claim_that_is_gone_is_kept_while_a_process_has_it(node: PluginNode) -> None:
    node.claim("gpu-a")
    node.preparation().prepare("default", "c", "uid-c")
    node.checkpoint.unlink()
    node.api.remove(CLAIMS, "c", "default")
    holder = node.process(42, "train", "/dev/nvidia0", cgroup="/elsewhere")
    after = node.preparation()
    after.sweep()
    assert [reason for _claim, reason in after.withheld()] == [
        "the device 0000:10:00.0 is held open by pid 42 (train) in cgroup /elsewhere"]
    assert after.holder("GPU-a", "")
    shutil.rmtree(holder)
    after.sweep()
    assert (node.specs(), after.holder("GPU-a", "")) == ([], "")


def test_nothing_is_given_away_while_a_lost_checkpoint_cannot_be_made_again(node: PluginNode) -> None:
    node.claim("gpu-a")
    node.preparation().prepare("default", "c", "uid-c")
    node.checkpoint.unlink()
    after = node.preparation()
    node.api.fail("list", CLAIMS, unreachable())
    assert "does not know which claims" in after.holder("GPU-b", "0000:11:00.0")
    with pytest.raises(ApiError):
        after.prepare("default", "c", "uid-c")
    assert node.specs() == [SPEC]
    node.api.heal()
    node.plug()
    with pytest.raises(Refused, match=r"names the device gpu-a, which this node does not have. Drain the node"):
        after.sweep()
    node.plug("a")
    after.sweep()
    assert [claim.name for claim in after.claims()] == ["c"]


def test_claim_is_unprepared_on_a_full_disk(node: PluginNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node.claim("gpu-a")
    mine = node.preparation()
    mine.prepare("default", "c", "uid-c")

    def refuse(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    mine.unprepare("uid-c")
    assert (node.specs(), mine.claims(), mine.holder("GPU-a", "")) == ([], [], "")
