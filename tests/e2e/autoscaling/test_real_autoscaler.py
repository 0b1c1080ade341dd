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

from ansible_collections.composable.infra.lab.autoscaling import processes
from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.front_doors import Process
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    DEVICE_CLASSES,
    PODS,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.tests.e2e.support.support import (
    OPENED,
    changes_asked,
    mark,
    wait_for,
)

pytestmark = pytest.mark.e2e
Json = dict[str, t.Any]
STAGE: Json = {"nodes": 2, "devices": {A100: 3}, "handover": "reschedule"}
GPU = processes.RESOURCE


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
    provider, _real = asked
    since = mark(stage)
    stage.client.create(PODS, body("train"))
    wait_for("it is asked", lambda: "AttachDecided" in provider.text())
    called = time.monotonic()
    wait_for("the pod runs", lambda: running(stage, "train"))
    took = time.monotonic() - called
    assert len(changes_asked(stage, since)) == 1
    wait_for("the call is over", lambda: "ScaleUpFinished" in provider.text())
    assert provider.text().count("AttachDecided") == 1
    assert took < QUICK_ATTACH + 5 + 10, f"{took:.1f} s"


QUICK_ATTACH = 0.3
