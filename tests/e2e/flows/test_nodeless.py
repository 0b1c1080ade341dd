# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ComposabilityRequest that names no node: devices come to nodes of the operator's choice, and go with it."""

from __future__ import annotations

import typing as t
from collections import Counter

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABILITY_REQUESTS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.support import attached, changes_asked, mark, wait_for

pytestmark = pytest.mark.e2e
STAGE: dict[str, t.Any] = {"nodes": 3, "devices": {A100: 4}}
NAME = "theirs"


def ask(stage: Stage, policy: str, size: int) -> None:
    """As somebody writes it who wants devices somewhere."""
    stage.client.create(COMPOSABILITY_REQUESTS, {
        "apiVersion": cohdi.GROUP_VERSION, "kind": "ComposabilityRequest",
        "metadata": {"name": NAME, "finalizers": [cohdi.FINALIZER]},
        "spec": {"resource": {"type": "gpu", "model": A100, "size": size, "allocation_policy": policy}}})


def state(stage: Stage) -> str:
    """State of the request."""
    raw = stage.client.get(COMPOSABILITY_REQUESTS, NAME)
    return str((raw.get("status") or {}).get("state") or "")


def gone(stage: Stage) -> bool:
    """Whether neither request nor device is left."""
    return not stage.client.list(COMPOSABILITY_REQUESTS).items and not attached(stage)


@pytest.mark.parametrize(("policy", "spread"), [("differentnode", [1, 1]), ("samenode", [2])])
def test_devices_come_by_its_policy_and_go_with_it(
    stage: Stage, open_process: OpenProcess, policy: str, spread: list[int]
) -> None:
    open_process(front_doors.controller, stage)
    since = mark(stage)
    ask(stage, policy, 2)
    wait_for("the request is running", lambda: state(stage) == "Running")
    assert sorted(Counter(d["machine"] for d in attached(stage).values()).values()) == spread
    assert [e["method"] for e in changes_asked(stage, since)] == ["PATCH", "PATCH"]
    stage.client.delete(COMPOSABILITY_REQUESTS, NAME)
    wait_for("all is back", lambda: gone(stage))
