# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""etcd is restored from a backup under running controllers and node agents: they go on by themselves."""

from __future__ import annotations

import shutil
import time
import typing as t

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
    LEASES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import (
    NODE,
    annotation,
)
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import READY, Evidence
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.support import (
    at_rest,
    await_served,
    changes_asked,
    mark,
    wait_for,
)

pytestmark = pytest.mark.e2e
STAGE: dict[str, t.Any] = {"devices": {A100: 4}, "nodes": 2, "handover": "gated"}
# An administrator who restores etcd stops all API servers and restarts what else runs on them.
OTHERS = ("kube-scheduler", "kube-controller-manager", "kwok")
# Writes after the backup, so that watches are at a version that the restored server reaches much later.
WRITES = 1500
BEHIND = "Listing composableresources again: the API server is behind"


def stop_control_plane(stage: Stage) -> None:
    """Stop the processes that read etcd, and etcd."""
    for name in (*OTHERS, "kube-apiserver", "etcd"):
        stage.lab.stop_component(name)


def start_control_plane(stage: Stage) -> None:
    """Start them, so that all but ours begin with fresh lists."""
    for name in ("etcd", "kube-apiserver"):
        stage.lab.processes.restart(name)
    wait_for("the API server answers", lambda: answers(stage))
    for name in OTHERS:
        stage.lab.processes.restart(name)


def answers(stage: Stage) -> bool:
    """Whether the test's own client gets lists."""
    try:
        return stage.client.list(COMPOSABLE_RESOURCES) is not None
    except ApiError:
        return False


def version(stage: Stage) -> int:
    """The newest version of the API server."""
    return int(stage.client.list(COMPOSABLE_RESOURCES).resource_version)


def agents_log(stage: Stage) -> str:
    """What the node agents have said."""
    return stage.lab.processes.log("agents").read_text(encoding="utf-8")


def ready_evidence(stage: Stage) -> dict[str, Evidence]:
    """What agents wrote of devices that are ready, by the ComposableResource's name."""
    found = {raw["metadata"]["name"]: Evidence.parse(annotation(raw, NODE))
             for raw in stage.client.list(COMPOSABLE_RESOURCES).items}
    return {name: each for name, each in found.items() if each and each.phase == READY}


def test_controllers_and_agents_go_on_after_a_restore(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    controller = open_process(front_doors.controller, stage)
    stage.pod("kept", A100)
    await_served(stage, timeline, "kept", deployed=controller)
    wait_for("nothing is on its way", lambda: at_rest(stage))
    stop_control_plane(stage)
    etcd, backup = stage.lab.state_dir / "etcd", stage.lab.state_dir / "etcd-backup"
    shutil.copytree(etcd, backup)
    start_control_plane(stage)

    for number in range(WRITES):
        stage.client.create(LEASES, {"metadata": {"name": f"write-{number}"}, "spec": {}}, "default")
    stage.pod("lost", A100)
    await_served(stage, timeline, "lost", deployed=controller)
    wait_for("nothing is on its way", lambda: at_rest(stage))
    wait_for("both devices are ready", lambda: len(ready_evidence(stage)) == 2)
    before, since = version(stage), mark(stage)
    stop_control_plane(stage)
    shutil.rmtree(etcd)
    shutil.copytree(backup, etcd)
    start_control_plane(stage)
    assert version(stage) < before, "the restored server must be behind"
    began = time.monotonic()
    wait_for("the agents list again", lambda: BEHIND in agents_log(stage))
    listed = time.monotonic() - began

    # The device of the pod that is lost stays attached and is shown, so one more is needed.
    stage.pod("after", A100, 2)
    await_served(stage, timeline, "after", deployed=controller)
    print(f"after the API server answered: listed again {listed:.1f} s, next pod ran {time.monotonic() - began:.1f} s")
    wait_for("the agents know a device of now", lambda: len(ready_evidence(stage)) >= 2)
    assert changes_asked(stage, since, "PATCH"), "a device was attached after the restore"
    assert version(stage) < before, "a server that has caught up proves nothing"
    assert not changes_asked(stage, since, "DELETE"), "what was attached since stays"
    assert "Traceback" not in controller.text() + agents_log(stage)
