# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gated handover without any feature gate, pods gated by their template; LAB_KUBERNETES=1.34 for older releases."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, pods
from ansible_collections.composable.infra.plugins.module_utils.reconcile.writers.pools import DROPPED
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.support import (
    assert_served,
    await_served,
    mark,
    pools,
    returned,
    wait_for,
)

pytestmark = pytest.mark.e2e
STAGE: dict[str, t.Any] = {"handover": "gated", "nodes": 2, "devices": {A100: 3}, "feature_gates": False, "hold": 1.0}


def test_pods_are_served_and_their_devices_go_back(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    controller = open_process(front_doors.controller, stage)
    wanted, since = {"one": (A100, 1), "two": (A100, 2)}, mark(stage)
    for name, (model, count) in wanted.items():
        stage.pod(name, model, count, by_template=True)
    await_served(stage, timeline, *wanted)
    assert_served(stage, timeline.finish(), since, wanted)
    assert all(it.opened and it.allocated is None for it in timeline.claims.values())
    for name in wanted:
        stage.delete_pod(name)
    wait_for("all devices are back", lambda: returned(stage))
    if stage.pooled:
        wait_for("the pool is full", lambda: sum(pools(stage).values()) == 3)
    else:
        assert pools(stage) == {}
        wait_for("it is said why there is no pool", lambda: DROPPED in controller.text())


def test_claim_is_prepared_for_the_scheduler_and_goes_with_its_pod(stage: Stage, open_process: OpenProcess) -> None:
    """Its finalizer is there before it is allocated, and is in nobody's way when it never is."""
    open_process(front_doors.controller, stage)
    stage.pod("brief", A100, by_template=True)
    wait_for("the claim has the finalizer",
             lambda: claims.FINALIZER in stage.client.get(CLAIMS, "brief", "default")["metadata"].get("finalizers", ()))
    assert pods.held(stage.client.get(PODS, "brief", "default"))
    stage.delete_pod("brief")
    wait_for("the claim is gone", lambda: not stage.client.list(CLAIMS, namespace="default").items)
    wait_for("all devices are back", lambda: returned(stage))


def test_scheduler_writes_a_prepared_claim_once(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    open_process(front_doors.controller, stage)
    stage.pod("one", A100, by_template=True)
    await_served(stage, timeline, "one")
    written = json.loads(stage.client.text(CLAIMS.path("one", "default")))["metadata"]["managedFields"]
    assert [f.get("subresource") for f in written if f["manager"] == "kube-scheduler"] == ["status"]
