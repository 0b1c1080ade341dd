# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real nodes, controllers and agents as the role ``controllers`` installs them: devices come, are used, and return.

Only the image of these pods is a stand-in, see ``lab/real_nodes/python_image.py``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.lab.demo.installed import Installed
from ansible_collections.composable.infra.lab.demo.stage import A100, BESIDE, WORK, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.real_nodes.node import HARDWARE
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import OPEN_ON_NODE, STEPS_UP
from ansible_collections.composable.infra.plugins.module_utils.stack.reader import Reader
from ansible_collections.composable.infra.plugins.plugin_utils.stack.verify import judge
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.real_nodes.leftovers import assert_nothing_left
from ansible_collections.composable.infra.tests.e2e.real_nodes.on_real_nodes import EvidenceLog, pulled_first
from ansible_collections.composable.infra.tests.e2e.support import real_hardware, real_pods
from ansible_collections.composable.infra.tests.e2e.support.support import (
    PATIENCE,
    all_free,
    attached,
    mark,
    wait_for,
)

DEVICES = 4
OPTIONS: dict[str, t.Any] = {"nodes": 0, "real_nodes": 2, "devices": {A100: DEVICES}, "handover": "gated"}


@pytest.fixture(scope="module")
def stage(stage_factory: StageFactory) -> Stage:
    """Two real nodes, with everything that the role installs."""
    made = stage_factory(**OPTIONS)
    # Two controllers and two agents.
    assert Installed(made).text().count('"message": "listening on') == 4
    return made


@pytest.fixture
def log(stage: Stage) -> Iterator[EvidenceLog]:
    """What the agents write."""
    found = EvidenceLog(stage)
    yield found
    found.stop()


def plugin_pods(stage: Stage) -> set[str]:
    """The pods of the vendor's plugin."""
    return {pod["metadata"]["uid"] for pod in stage.lab.api.get(real_hardware.PLUGIN_PODS)["items"]}


def uids(stage: Stage) -> list[str]:
    """Attached devices, by their uid at the CDI Manager."""
    return [str(device["uid"]) for device in attached(stage).values()]


def only(found: list[str]) -> list[str]:
    """The list, if it has one entry."""
    return found if len(found) == 1 else []


def monitor(stage: Stage, node: str) -> None:
    """Run a pod that has no claim and has a device of its node open, as the vendor's monitoring has."""
    file = "/dev/nvidia0"
    body = real_pods.real_pod("monitor", node, args=["hold", file], volumeMounts=[{"name": "gpu", "mountPath": file}])
    body["spec"]["volumes"] = [{"name": "gpu", "hostPath": {"path": HARDWARE + file, "type": "File"}}]
    real_pods.run(stage.lab, body)


def test_four_devices_come_with_one_restart_of_the_plugin_and_only_their_container_sees_them(
    stage: Stage, timeline: Timeline, log: EvidenceLog
) -> None:
    before = plugin_pods(stage)
    stage.pod("four", A100, DEVICES)
    assert timeline.wait(lambda: timeline.running("four"), PATIENCE)
    (times,) = timeline.finish()
    assert len(plugin_pods(stage) - before) == 1
    wait_for("the agent has told each step of all devices", lambda: len(log.seen) == DEVICES and all(
        [step.step for step in seen[-1].steps] == [*STEPS_UP] for seen in log.seen.values()))
    named = stage.first_line("four", WORK).removeprefix("devices: ").split()
    assert sorted(word.partition("=")[2] for word in named) == sorted(times.devices)
    assert stage.first_line("four", BESIDE) == "devices: "
    devices = [f"nvidia{minor}" for minor in range(DEVICES)]
    assert set(devices) <= set(stage.printed("four", WORK).split())
    assert not set(devices) & set(stage.printed("four", BESIDE).split())


def test_verify_sees_that_every_agent_lives(stage: Stage) -> None:
    said = [finding.found for finding in judge(Reader(stage.client).read(), {}) if finding.check == "node agents"]
    assert said == [f"the agent of node {node.name} lives" for node in stage.lab.real_nodes]


def test_idle_devices_leave_their_node_before_the_fabric_and_one_that_is_open_stays(
    stage: Stage, timeline: Timeline, log: EvidenceLog
) -> None:
    since = mark(stage)
    assert timeline.wait(lambda: timeline.running("four"), PATIENCE)
    monitor(stage, stage.client.get(PODS, "four", "default")["spec"]["nodeName"])
    real_pods.delete_with_claims(stage.lab, "four")
    (kept,) = wait_for("all but one return", lambda: only(uids(stage)))
    wait_for("it is said why that one stays", lambda: OPEN_ON_NODE in log.troubles(kept))
    assert uids(stage) == [kept]
    real_pods.delete(stage.lab, "monitor")
    wait_for("it returns, too", lambda: all_free(stage))
    assert pulled_first(stage, log, since) == []
    assert_nothing_left(stage)
