# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controllers are put back to an older version and forward again while pods have devices.

The definitions, permissions and node agents stay those of today. `-s` prints the measured seconds.
"""

from __future__ import annotations

import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.stories import older
from ansible_collections.composable.infra.tests.e2e.support.support import (
    attached,
    await_served,
    changes_asked,
    mark,
    returned,
    wait_for,
)

pytestmark = pytest.mark.e2e
STAGE: dict[str, t.Any] = {"devices": {A100: 4}, "nodes": 2, "handover": "gated"}


def serve(stage: Stage, timeline: Timeline, name: str) -> float:
    """Create a pod and return the seconds until it runs."""
    began = time.monotonic()
    stage.pod(name, A100)
    await_served(stage, timeline, name)
    return time.monotonic() - began


def test_pods_keep_their_devices_through_a_downgrade_and_an_upgrade(
    stage: Stage, timeline: Timeline, open_process: OpenProcess, old_version: Path
) -> None:
    since = mark(stage)
    new = open_process(front_doors.controller, stage)
    measured = {"pod, version of today": serve(stage, timeline, "train")}

    # The administrator puts the controllers back. The pod goes on, and another one is served.
    began = time.monotonic()
    new.stop()
    old = open_process(older.controller, stage, old_version)
    measured["downgrade, until a controller leads"] = time.monotonic() - began
    measured["pod, older version"] = serve(stage, timeline, "second")
    assert len(attached(stage)) == 2

    # The upgrade: the pods of both versions go on, and a third one is served.
    began = time.monotonic()
    old.stop()
    again = open_process(front_doors.controller, stage)
    measured["upgrade, until a controller leads"] = time.monotonic() - began
    measured["pod, version of today again"] = serve(stage, timeline, "third")
    assert timeline.running("train", "second", "third")
    assert len(changes_asked(stage, since, "PATCH")) == 3, "one request for each pod"
    assert changes_asked(stage, since, "DELETE") == []

    # Devices that either version attached return when their pods end.
    began = time.monotonic()
    for name in ("train", "second", "third"):
        stage.client.delete(PODS, name, namespace="default")
    wait_for("all devices are free", lambda: returned(stage))
    measured["all devices returned"] = time.monotonic() - began
    for process in (new, old, again):
        assert "Traceback" not in process.text()
    print({what: round(seconds, 1) for what, seconds in measured.items()})
