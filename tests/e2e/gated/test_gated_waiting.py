# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gated handover with ``unserved: wait``: pods that no node fits wait in order, and are told why."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.gated.gated_support import (
    gated,
    lead,
)
from ansible_collections.composable.infra.tests.e2e.support.flow import waits_for
from ansible_collections.composable.infra.tests.e2e.support.support import await_served, wait_for

pytestmark = pytest.mark.e2e
STAGE: dict[str, t.Any] = {"handover": "gated", "nodes": 2, "devices": {A100: 1}, "extra": {"unserved": "wait"}}


def test_order_is_kept_and_said(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    lead(stage, open_process)
    stage.pod("first", A100)
    await_served(stage, timeline, "first")
    stage.pod("second", A100)
    wait_for("it is said why", lambda: "position 1 of 1: 0/2 nodes" in waits_for(stage, "second"))
    stage.pod("third", A100)
    wait_for("it is said who comes first", lambda: "position 2 of 2: 0/2 nodes" in waits_for(stage, "third"))
    assert gated(stage, "second")
    stage.delete_pod("first")
    await_served(stage, timeline, "second")
    assert timeline.claims["second"].allocated is None
    assert gated(stage, "third")
