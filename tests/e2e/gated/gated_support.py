# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of gated pods share."""

from __future__ import annotations

import typing as t
from functools import partial

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import GATE_LEASES, PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.gate_lease import NAME
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.support import (
    all_free,
    holds_new_pods,
    wait_for,
)

Json = dict[str, t.Any]
STAGE: Json = {"handover": "gated", "nodes": 2, "devices": {A100: 3}}


def lead(stage: Stage, open_process: OpenProcess) -> front_doors.Process:
    """A controller that gates new pods, with all devices in the pool."""
    before = holder(stage)
    process = open_process(front_doors.controller, stage)
    wait_for("somebody else opens gates", lambda: holder(stage) not in ("", before))
    # The API server's policy sees the GateLease by a watch of its own.
    wait_for("new pods are held", partial(holds_new_pods, stage))
    wait_for("all devices are free", lambda: all_free(stage))
    return process


def holder(stage: Stage) -> str:
    """Who opens gates, by the Lease."""
    found = stage.client.list(GATE_LEASES, namespace="composable-infra").items
    ours = (lease["spec"] for lease in found if lease["metadata"]["name"] == NAME)
    return next((str(spec.get("holderIdentity") or "") for spec in ours), "")


def pod(stage: Stage, name: str) -> Json:
    """A pod as the API server has it."""
    return stage.client.get(PODS, name, namespace="default")


def gated(stage: Stage, name: str) -> bool:
    """Whether our gate holds a pod."""
    return pods.held(pod(stage, name))


def lets_new_pods_go(stage: Stage) -> bool:
    """The opposite."""
    return not holds_new_pods(stage)
