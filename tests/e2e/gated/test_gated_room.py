# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A held pod's room on its node, as the real scheduler sees it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, pod_body
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.gated.gated_support import (
    gated,
    lead,
    pod,
)
from ansible_collections.composable.infra.tests.e2e.support.support import await_served, wait_for

pytestmark = pytest.mark.e2e
Json = dict[str, t.Any]
STAGE: Json = {"handover": "gated", "nodes": 2, "devices": {A100: 1}, "attach": 4.0}


def filling(name: str) -> Json:
    """A pod beside which no other one of its kind fits on a node."""
    body = pod_body(name, None)
    body["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "20"}
    return body


def test_room_is_kept_while_the_device_is_on_its_way(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    """Two pods that fill a node each, one of them held: a third that comes meanwhile finds no room."""
    lead(stage, open_process)
    stage.claim("held", A100)
    stage.client.create(PODS, filling("held"))
    wait_for("the pod is nominated", lambda: pods.nominated(pod(stage, "held")))
    assert gated(stage, "held")
    for name in ("second", "third"):
        body = filling(name)
        del body["spec"]["resourceClaims"], body["spec"]["containers"][0]["resources"]["claims"]
        stage.client.create(PODS, body)
    bound = wait_for("one of them finds room", lambda: [n for n in ("second", "third") if pods.bound(pod(stage, n))])
    await_served(stage, timeline, "held")
    assert bound == [n for n in ("second", "third") if pods.bound(pod(stage, n))]
    assert {pods.bound(pod(stage, n)) for n in ("held", *bound)} == set(stage.lab.nodes)
