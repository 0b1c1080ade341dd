# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real Cluster Autoscaler, unchanged, against the provider on the lab: cases 1 and 3 of docs/autoscaling.md.

Its binary is no release and not on the module proxy: ``CLUSTER_AUTOSCALER`` names it, or the lab's cache has it.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.controller.autoscaler.requests import SCALE_DOWN_DISABLED
from ansible_collections.composable.infra.lab.autoscaling import processes
from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.autoscale import told
from ansible_collections.composable.infra.lab.demo.front_doors import Process
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    DEVICE_CLASSES,
    NODES,
    PODS,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.tests.e2e.support.support import (
    OPENED,
    changes_asked,
    delete_all,
    mark,
    returned,
    wait_for,
)

pytestmark = pytest.mark.e2e
Json = dict[str, t.Any]
STAGE: Json = {"nodes": 2, "devices": {A100: 3}, "handover": "reschedule", "hold": 600.0}
GPU = processes.RESOURCE
# A busy machine makes everything slower; the real one waits before it takes a node down.
BUSY, SCALE_DOWN_SECONDS = 10.0, 240.0


def body(name: str, count: int = 1, **spec: t.Any) -> Json:
    """A pod that asks by the extended resource."""
    container = {"name": "work", "image": "example.invalid/work:1", "resources": {"limits": {GPU: str(count)}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}}


@pytest.fixture(scope="module")
def asked(stage: Stage) -> Iterator[tuple[Process, Process]]:
    """(provider, Cluster Autoscaler): a scaler and an operator, and no publisher, so that there are no pools."""
    binary = processes.find_cluster_autoscaler()
    if binary is None:
        pytest.skip(f"no binary of Cluster Autoscaler {processes.VERSION}: name one in {processes.VARIABLE}")
    if not stage.policed:
        pytest.skip("the scheduler serves extended resources by devices from 1.36 on")
    stage.client.merge_patch(DEVICE_CLASSES, "gpu.nvidia.com", {"spec": {"extendedResourceName": GPU}})
    OPENED.add(front_doors.controller(stage, "--only", "scaler", "--only", "operator"))
    certificates = processes.Certificates(stage.folder / "autoscaler-pki")
    provider, port = processes.provider(stage, processes.groups(), certificates)
    OPENED.add(provider)
    real = OPENED.add(processes.cluster_autoscaler(stage, binary, port, certificates))
    wait_for("its first loop", lambda: "Starting main loop" in real.text())
    yield provider, real
    OPENED.stop_all()


def running(stage: Stage, name: str) -> Json:
    """The pod once it runs, empty before."""
    raw = stage.client.get(PODS, name, "default")
    return raw if pods.phase(raw) == "Running" else {}


def test_case_1_device_is_attached_and_the_pod_runs(stage: Stage, asked: tuple[Process, Process]) -> None:
    provider, real = asked
    since = mark(stage)
    stage.client.create(PODS, body("train"))
    wait_for("the pod runs", lambda: running(stage, "train"))
    took = time.time() - decided(provider)
    print(f"\nfrom the call until the pod runs: {took:.1f} s, of which an attach {stage.options.attach:g} s")
    wait_for("the call is over", lambda: "ScaleUpFinished" in provider.text())
    assert len(changes_asked(stage, since)) == 1
    assert provider.text().count("AttachDecided") == 1
    assert took < stage.options.attach + 5 + BUSY, f"{took:.1f} s"
    for trouble in ("ScaleUpFailed", "FailedToScaleUpGroup", "ScaleUpTimedOut"):
        assert not events(stage, trouble), "no backoff"
    assert "resourceUnready" not in real.text()


def test_case_3_idle_device_goes_the_node_stays_and_it_is_asked_for_once(
        stage: Stage, asked: tuple[Process, Process]) -> None:
    """An idle device would stay for ten minutes: what returns it is that Cluster Autoscaler does not need the node."""
    provider, real = asked
    if not stage.client.list(PODS, namespace="default").items:
        pytest.skip("the pod of case 1 did not run")
    node = pods.bound(running(stage, "train"))
    delete_all(stage)
    wait_for("the device is back", lambda: returned(stage), SCALE_DOWN_SECONDS)
    wait_for("the node is asked for and refused", lambda: disabled(stage, node), SCALE_DOWN_SECONDS)
    calls = provider.text().count(f"ScaleDownDecided node {node}")
    assert calls == 1
    quiet = time.monotonic() + 45
    wait_for("45 s pass", lambda: time.monotonic() > quiet)
    assert provider.text().count(f"ScaleDownDecided node {node}") == 1, "then quiet"
    assert stage.client.get(NODES, node)["spec"].get("unschedulable") is None
    assert not stage.client.list(COMPOSABLE_RESOURCES).items
    assert "resourceUnready" not in real.text(), "a node without devices is none that waits for them"


def decided(provider: Process) -> float:
    """When the provider began with the first call, by its own log (epoch seconds)."""
    return next(parse_time(stamp) for stamp, line in told(provider.text()) if line.startswith("AttachDecided"))


def disabled(stage: Stage, node: str) -> bool:
    """Whether Cluster Autoscaler is told to leave a node alone."""
    notes: Json = stage.client.get(NODES, node)["metadata"].get("annotations") or {}
    return notes.get(SCALE_DOWN_DISABLED) == "true"


def events(stage: Stage, reason: str) -> list[Json]:
    """Events with a reason, wherever they are."""
    found: list[Json] = stage.lab.api.get(f"/api/v1/events?fieldSelector=reason%3D{reason}")["items"]
    return found
