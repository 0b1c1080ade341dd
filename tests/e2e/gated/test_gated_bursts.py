# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A burst that follows another: its pods wait for devices that are still on their way back, and none is let go."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, pod_body
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.gated.gated_support import (
    lead,
)
from ansible_collections.composable.infra.tests.e2e.support.support import (
    await_served,
    counted,
    delete_all,
    states,
    wait_for,
)

pytestmark = pytest.mark.e2e
BURST = 8
STAGE: dict[str, t.Any] = {"handover": "gated", "nodes": 4, "devices": {A100: BURST}, "detach": 3.0}


def test_pods_of_the_second_burst_wait_for_devices_that_come_back(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    """All devices were used. The last pod of the first burst ends when the others' devices are leaving already."""
    controller = lead(stage, open_process)
    first, second = ([f"{name}-{number}" for number in range(BURST)] for name in ("first", "second"))
    for name in first:
        stage.pod(name, A100)
    await_served(stage, timeline, *first)
    *most, straggler = first
    for name in most:
        stage.delete_pod(name)
    wait_for("devices leave", lambda: "detaching" in states(stage))
    stage.delete_pod(straggler)
    for name in second:
        stage.pod(name, A100)
    await_served(stage, timeline, *second)
    assert counted(controller, "gate_released_total") == 0
    assert "GateReleased" not in controller.text()
    for name in second:
        it = timeline.claims[name]
        assert it.first_node, f"{name} went without a node"
        assert (it.node, it.allocated) == (it.first_node, None), f"{name} did not run where its device was to come"
    delete_all(stage)


def test_pod_waits_for_the_device_of_a_pod_that_leaves(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    """Nothing is on its way back yet: the pod that has the device takes its time to end, here for a finalizer."""
    controller = lead(stage, open_process)
    slow, *others = (f"slow-{number}" for number in range(BURST))
    stage.claim(slow, A100)
    body = pod_body(slow, None)
    body["metadata"]["finalizers"] = ["example.com/last-words"]
    body["spec"]["terminationGracePeriodSeconds"] = 30
    stage.client.create(PODS, body)
    for name in others:
        stage.pod(name, A100)
    await_served(stage, timeline, slow, *others)
    stage.client.delete(PODS, slow, namespace="default")
    stage.pod("next", A100)
    stage.pod("too-large", A100, BURST + 1)
    wait_for("a plan was made", lambda: "GateReleased default/too-large" in controller.text())
    assert pods.held(stage.client.get(PODS, "next", namespace="default") or {})
    stage.client.merge_patch(PODS, slow, {"metadata": {"finalizers": None}}, namespace="default")
    await_served(stage, timeline, "next")
    assert "GateReleased default/next" not in controller.text()
