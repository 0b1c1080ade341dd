# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tenant removes claim and pod from the API server while the container runs: nobody gets the device."""

from __future__ import annotations

import re
import shutil
import typing as t

import pytest

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.errors import Refused
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.preparation import (
    Preparation,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import from_response
from ansible_collections.composable.infra.tests.unit.controller.agent.kubelet_plugin.plugin_node import (
    DRIVER,
    PluginNode,
)

UID = "6d0ba3f8-7f31-4f4c-a3ce-0a6c0c2a1d01"
CGROUP = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-1.scope"
SPEC = f"{DRIVER}-claim_uid-tenant-a.json"


@pytest.fixture
def driver(node: PluginNode) -> Preparation:
    """A driver that prepared gpu-a for tenant-a. The claim is gone; the scheduler gave gpu-a to tenant-b."""
    made = node.preparation()
    node.claim("gpu-a", name="tenant-a")
    made.prepare("default", "tenant-a", "uid-tenant-a")
    node.api.remove(CLAIMS, "tenant-a", "default")
    node.claim("gpu-a", name="tenant-b")
    return made


def assert_kept(node: PluginNode, driver: Preparation, words: str) -> None:
    """Neither the next claim nor the sweep takes gpu-a from tenant-a. ``words`` say why."""
    with pytest.raises(Refused, match=f"default/tenant-a.*{re.escape(words)}"):
        driver.prepare("default", "tenant-b", "uid-tenant-b")
    driver.sweep()
    assert [claim.name for claim in driver.claims()] == ["tenant-a"]
    assert node.specs() == [SPEC]
    ((claim, reason),) = driver.withheld()
    assert claim.uid == "uid-tenant-a"
    assert words in reason


def test_pod_that_the_api_server_lost_keeps_its_open_device(
    node: PluginNode, driver: Preparation
) -> None:
    node.process(4242, "train", "/dev/nvidia0", cgroup=CGROUP)
    assert_kept(node, driver, f"the device 0000:10:00.0 is held open by pid 4242 (train) in cgroup {CGROUP} of a "
                              "pod that the API server does not have")


def test_pod_that_the_api_server_lost_may_open_its_device_later(
    node: PluginNode, driver: Preparation
) -> None:
    node.process(4242, "train", cgroup=f"0::/../besteffort/pod{UID}/1")
    assert_kept(node, driver, f"pid 4242 (train) in cgroup /../besteffort/pod{UID}/1")


def test_pod_that_names_the_claim_keeps_the_device(node: PluginNode, driver: Preparation) -> None:
    node.pods.append({"metadata": {"name": "p", "namespace": "default", "uid": UID,
                                   "deletionTimestamp": "2026-01-01T00:00:00Z"},
                      "spec": {"resourceClaims": [{"name": "g", "resourceClaimName": "tenant-a"}]},
                      "status": {"phase": "Running"}})
    node.process(4242, "train", cgroup=CGROUP)
    assert_kept(node, driver, "the pod default/p uses the claim")


def test_device_that_any_process_has_open_is_kept(node: PluginNode, driver: Preparation) -> None:
    node.process(7, "exporter", "/dev/nvidia0", cgroup="/system.slice/exporter.service")
    assert_kept(node, driver, "the device 0000:10:00.0 is held open by pid 7 (exporter) in cgroup "
                              "/system.slice/exporter.service")


def test_device_is_kept_where_the_processes_are_not_all_shown(
    node: PluginNode, driver: Preparation
) -> None:
    shutil.rmtree(node.root / "proc/1")
    assert_kept(node, driver, "process 1 is missing")


def test_a_release_names_the_claim_that_is_prepared(node: PluginNode, driver: Preparation) -> None:
    said = "the kubelet has not unprepared the claim default/tenant-a on this node"
    assert driver.holder("GPU-a", "0000:10:00.0") == said
    assert driver.holder("", "0000:10:00.0") == said
    assert driver.holder("GPU-b", "0000:10:00.0") == ""
    driver.unprepare("uid-tenant-a")
    assert driver.holder("GPU-a", "0000:10:00.0") == ""


def test_administrators_claim_keeps_no_device_from_its_release(node: PluginNode) -> None:
    made = node.preparation()
    node.claim("gpu-a", adminAccess=True)
    made.prepare("default", "c", "uid-c")
    assert made.holder("GPU-a", "0000:10:00.0") == ""


@pytest.mark.parametrize("how", ["unprepare", "proof"])
def test_device_is_free_after_unprepare_or_a_proof(
    node: PluginNode, driver: Preparation, how: str
) -> None:
    process = node.process(4242, "train", "/dev/nvidia0", cgroup=CGROUP)
    driver.sweep()
    assert driver.withheld()
    if how == "unprepare":
        (process / "fd/0").unlink()
        driver.unprepare("uid-tenant-a")
    else:
        shutil.rmtree(process)
        driver.sweep()
    assert driver.withheld() == []
    assert driver.prepare("default", "tenant-b", "uid-tenant-b").devices


@pytest.mark.parametrize("body", [b"<html><body><h1>404 Not Found</h1></body></html>",
                                  b"404 page not found\n"])
def test_404_of_a_load_balancer_is_no_claim_that_is_gone(
    node: PluginNode, driver: Preparation, body: bytes
) -> None:
    error: t.Any = from_response(404, body, "GET /apis/resource.k8s.io/v1/resourceclaims/tenant-a")
    node.api.fail("get", CLAIMS, error, name="tenant-a")
    driver.sweep()
    assert [claim.name for claim in driver.claims()] == ["tenant-a"]
    assert node.specs() == [SPEC]
    with pytest.raises(Refused, match="still prepared for the claim default/tenant-a"):
        driver.prepare("default", "tenant-b", "uid-tenant-b")
    node.api.heal()
    driver.sweep()
    assert driver.claims() == []


def pod(node: PluginNode, claim: str = "", **spec: t.Any) -> None:
    """The API server has the pod with UID."""
    claims = [{"name": "g", "resourceClaimName": claim}] if claim else []
    node.pods.append({"metadata": {"name": "p", "namespace": "default", "uid": UID},
                      "spec": {"resourceClaims": claims, **spec}, "status": {"phase": "Running"}})


@pytest.mark.parametrize("known", [True, False])
def test_device_that_was_passed_to_another_pod_is_not_unprepared(
    node: PluginNode, driver: Preparation, known: bool
) -> None:
    """A container passes its open device through a socket in a volume that both pods have."""
    if known:
        pod(node, volumes=[{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}])
    process = node.process(4242, "taker", "/dev/nvidia0", cgroup=CGROUP)
    with pytest.raises(Refused, match=r"default/tenant-a.*open by pid 4242 \(taker\)"):
        driver.unprepare("uid-tenant-a")
    assert node.specs() == [SPEC]
    (process / "fd/0").unlink()
    driver.unprepare("uid-tenant-a")
    assert driver.claims() == []


@pytest.mark.parametrize("spec", [
    {"volumes": [{"name": "dev", "hostPath": {"path": "/dev"}}]},
    {"containers": [{"name": "c", "securityContext": {"privileged": True}}]}],
    ids=["a folder of the node", "privileged"])
def test_monitoring_keeps_no_claim(
    node: PluginNode, driver: Preparation, spec: dict[str, t.Any]
) -> None:
    pod(node, **spec)
    node.process(4242, "exporter", "/dev/nvidia0", cgroup=CGROUP)
    node.process(7, "persistenced", "/dev/nvidia0", cgroup="/system.slice/nvidia.service")
    driver.unprepare("uid-tenant-a")
    assert driver.claims() == []


def test_pod_of_another_claim_for_the_device_keeps_no_claim(
    node: PluginNode, driver: Preparation
) -> None:
    node.claim("gpu-a", name="watcher", adminAccess=True)
    driver.prepare("default", "watcher", "uid-watcher")
    pod(node, claim="watcher")
    node.process(4242, "watcher", "/dev/nvidia0", cgroup=CGROUP)
    driver.unprepare("uid-tenant-a")
    assert [claim.name for claim in driver.claims()] == ["watcher"]


def test_claim_is_not_unprepared_where_the_processes_are_not_all_shown(
    node: PluginNode, driver: Preparation
) -> None:
    shutil.rmtree(node.root / "proc/1")
    with pytest.raises(Refused, match=r"cannot find out whether.*process 1 is missing"):
        driver.unprepare("uid-tenant-a")
