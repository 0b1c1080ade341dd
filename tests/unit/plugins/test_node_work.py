# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What playbooks do on nodes: which step of which device comes next, and what is written after it."""

from __future__ import annotations

import json
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.plugin_utils.node_work import (
    node_work,
    plugin_pods,
    plugin_restarted,
)

Json = dict[str, t.Any]
NOW = 5.0
HOSTS = {"node-0": "host-0", "node-1": "host-1"}
TOUCHED = Evidence("Preparing", "cdi-a", "ssh", "GPU-a", "0000:10:00.0").with_step("Touched", 1.0)
READY = TOUCHED.with_step("PluginRestarted", 2.0).with_phase("Ready")
ASKED = "2026-11-22T20:00:00.000000Z"
REMOVED = replace(READY.with_phase("Releasing").with_step("RemovedFromBus", 3.0).with_phase("Removed"), release=ASKED)


def resource(name: str = "a", node: str = "node-0", done: Evidence | None = None, uuid: str = "GPU-a",
             release: bool = False, deleted: bool = False, force: bool = False, device: str | None = None) -> Json:
    made = cohdi.resource_body(name, "r", node, "A100", "", force=force)
    made["status"] = {"cdi_device_id": f"cdi-{name}" if device is None else device, "device_id": uuid}
    notes = made["metadata"]["annotations"]
    if done:
        notes[cohdi.NODE] = done.to_json()
    if release:
        notes[cohdi.RELEASE] = ASKED
    if deleted:
        made["metadata"]["deletionTimestamp"] = "2026-11-22T20:00:00Z"
    return made


def slice_of(node: str, *uuids: str) -> Json:
    return {"spec": {"nodeName": node, "driver": "gpu.nvidia.com", "pool": {"name": node},
                     "devices": [{"name": f"gpu-{n}", "attributes": {"uuid": {"string": u}}}
                                 for n, u in enumerate(uuids)]}}


def claim(device: str) -> Json:
    results = [{"driver": "gpu.nvidia.com", "pool": "node-0", "device": device, "request": "r"}]
    return {"metadata": {"name": "train", "namespace": "ai"},
            "status": {"allocation": {"devices": {"results": results}}}}


def todo(*resources: Json, slices: t.Sequence[Json] = (), claims: t.Sequence[Json] = ()) -> dict[str, list[t.Any]]:
    """What there is to do, by kind; only the names of devices."""
    work = node_work(resources, HOSTS, slices, claims, NOW)
    return {kind: [i["name"] if isinstance(i, dict) else i for i in items] for kind, items in work.items() if items}


def test_device_that_the_manager_has_attached_is_brought_up() -> None:
    work = node_work([resource()], HOSTS, [], [], NOW)
    assert work["bring_up"] == [{"name": "a", "node": "node-0", "host": "host-0", "uid": "cdi-a", "device": "GPU-a",
                                 "known": [], "evidence": None, "force": False}]


@pytest.mark.parametrize("left_out", [resource(device=""), resource(node="elsewhere"), resource(deleted=True),
                                      resource(done=READY)], ids=["not attached", "no host", "deleted", "ready"])
def test_what_needs_nothing_now(left_out: Json) -> None:
    assert todo(left_out) == {}


def test_what_another_operator_has_made_is_left_alone() -> None:
    foreign = resource()
    del foreign["metadata"]["labels"][cohdi.TARGET_NODE]
    assert todo(foreign) == {}


def test_devices_of_others_are_known() -> None:
    others = [resource("b", uuid="GPU-b"), resource("c", uuid="", done=Evidence(
        "Preparing", "cdi-c", address="0000:11:00.0")), resource("d", node="node-1", uuid="GPU-d")]
    work = node_work([resource(uuid=""), *others], HOSTS, [slice_of("node-0", "GPU-x")], [], NOW)
    assert work["bring_up"][0]["known"] == ["0000:11:00.0", "GPU-b", "GPU-x"]


def test_one_device_of_a_node_at_a_time() -> None:
    assert todo(resource("a"), resource("b", uuid="GPU-b"), resource("c", "node-1")) == {"bring_up": ["a", "c"]}


def test_plugin_is_restarted_once_for_all_that_are_up() -> None:
    up = [resource("a", done=TOUCHED), resource("b", done=Evidence.parse(
        TOUCHED.to_json().replace("cdi-a", "cdi-b").replace("GPU-a", "GPU-b")), uuid="GPU-b")]
    assert todo(*up) == {"restart": ["node-0"]}
    assert todo(*up, resource("c", uuid="GPU-c")) == {"bring_up": ["c"]}
    written = plugin_restarted(up, ["node-0"], NOW)
    assert [(w["name"], w["evidence"]["phase"], w["evidence"]["steps"][-1]["step"]) for w in written] == [
        ("a", "Ready", "PluginRestarted"), ("b", "Ready", "PluginRestarted")]
    assert plugin_restarted(up, ["node-1"], NOW) == []


def test_plugin_that_shows_a_device_may_have_looked_before_its_first_use() -> None:
    """It announces what is bound, and could give no container a device that had no file when it looked."""
    assert todo(resource(done=TOUCHED), slices=[slice_of("node-0", "GPU-a")]) == {"restart": ["node-0"]}


def test_announcement_is_written_once() -> None:
    shown = [slice_of("node-0", "GPU-a")]
    assert todo(resource(done=READY), slices=shown) == {"write": ["a"]}
    assert todo(resource(done=READY.with_step("Announced", 3.0)), slices=shown) == {}


def test_release_that_is_asked_for() -> None:
    work = node_work([resource(done=READY, release=True, deleted=True)], HOSTS, [slice_of("node-0", "GPU-a")],
                     [claim("gpu-7")], NOW)
    assert [i["name"] for i in work["release"]] == ["a"]
    assert Evidence.parse(json.dumps(work["release"][0]["evidence"])) == replace(READY, release=ASKED)


def test_device_that_was_removed_for_an_earlier_ask_is_asked_for_anew() -> None:
    """It was taken back meanwhile, maybe by a round whose evidence was not written."""
    earlier = replace(REMOVED, release="2026-11-22T19:00:00.000000Z")
    assert todo(resource(done=earlier, release=True, deleted=True)) == {"release": ["a"]}
    assert todo(resource(done=REMOVED, release=True, deleted=True)) == {"restart": ["node-0"]}


def test_device_that_was_removed_and_is_a_claims_after_all_is_brought_up_again() -> None:
    assert todo(resource(done=REMOVED, deleted=True)) == {"bring_up": ["a"]}


def test_release_of_a_device_without_evidence_names_what_it_is_asked_by() -> None:
    (item,) = node_work([resource(release=True, deleted=True)], HOSTS, [], [], NOW)["release"]
    assert (item["evidence"]["phase"], item["evidence"]["release"]) == ("Preparing", ASKED)


def test_device_of_a_claim_is_not_released() -> None:
    asked = resource(done=READY, release=True, deleted=True)
    used = {"slices": [slice_of("node-0", "GPU-a")], "claims": [claim("gpu-0")]}
    assert todo(asked, **used) == {"write": ["a"]}
    told = node_work([asked], HOSTS, now=NOW, **used)["write"][0]["evidence"]
    assert (told["phase"], told["trouble"]["reason"], told["trouble"]["message"]) == (
        "Ready", "ClaimInUse", "claim ai/train uses the device")
    assert todo(resource(done=READY, release=True, force=True), **used) == {"release": ["a"]}


def test_device_that_no_slice_shows_may_be_in_use() -> None:
    """The vendor's plugin is away: the kubelet removes its slices, the pod keeps its device."""
    asked = resource(done=READY, release=True, deleted=True)
    here = claim("gpu-0")
    here["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]}]}
    assert todo(asked, claims=[here]) == {"write": ["a"]}
    assert todo(asked, claims=[claim("gpu-0")]) == {"release": ["a"]}


def test_device_of_which_a_claim_has_a_partition_is_not_released() -> None:
    shown = slice_of("node-0", "GPU-a")
    shown["spec"]["devices"].append({"name": "gpu-0-mig-1g", "attributes": {"parentUUID": {"string": "GPU-a"}}})
    asked = resource(done=READY, release=True, deleted=True)
    assert todo(asked, slices=[shown], claims=[claim("gpu-0-mig-1g")]) == {"write": ["a"]}


def test_a_detached_device_that_is_still_announced_has_the_plugin_look_again() -> None:
    gone = resource(done=REMOVED, release=True, deleted=True, device="")
    assert todo(gone, slices=[slice_of("node-0", "GPU-a")]) == {"restart": ["node-0"]}
    assert todo(resource(done=REMOVED, device="")) == {}


def test_after_the_removal_the_plugin_looks_again_and_the_device_is_withdrawn() -> None:
    gone = resource(done=REMOVED, release=True, deleted=True)
    assert todo(gone, slices=[slice_of("node-0", "GPU-a")]) == {"restart": ["node-0"]}
    told = plugin_restarted([gone], ["node-0"], NOW)[0]["evidence"]
    assert (told["phase"], told["steps"][-1]["step"]) == ("Removed", "PluginRestarted")
    restarted = resource(done=REMOVED.with_step("PluginRestarted", 4.0), release=True, deleted=True)
    assert todo(restarted, slices=[slice_of("node-0", "GPU-a")]) == {}
    assert todo(restarted) == {"write": ["a"]}


def test_evidence_about_another_device_is_none() -> None:
    assert todo(resource(done=READY, device="cdi-other")) == {"bring_up": ["a"]}


@pytest.mark.parametrize(("labels", "owner", "found"), [
    ({"nvidia-dra-driver-gpu-component": "kubelet-plugin"}, "DaemonSet", True),
    ({"dra-driver-nvidia-gpu-component": "kubelet-plugin"}, "DaemonSet", True),
    ({"app.kubernetes.io/component": "nvidia-dra-driver-kubelet-plugin"}, "DaemonSet", True),
    ({"dra-driver-nvidia-gpu-component": "kubelet-plugin"}, "ReplicaSet", False),
    ({"dra-driver-nvidia-gpu-component": "controller"}, "DaemonSet", False),
    ({"app.kubernetes.io/name": "dra-driver-nvidia-gpu"}, "DaemonSet", False)])
def test_pods_of_the_plugins(labels: dict[str, str], owner: str, found: bool) -> None:
    pod = {"metadata": {"name": "p", "namespace": "n", "labels": {**labels, "x": "y"},
                        "ownerReferences": [{"kind": owner}]}, "spec": {"nodeName": "node-0"}}
    assert list(plugin_pods([pod])) == ([{"name": "p", "namespace": "n", "node": "node-0"}] if found else [])
