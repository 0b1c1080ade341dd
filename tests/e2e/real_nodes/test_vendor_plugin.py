# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real nodes with a vendor's plugin as it is: it fails on an empty node, has GPUs open, and is killed at any moment.

The plugin is the lab's stand-in for NVIDIA's. VENDOR_ROUNDS=100 takes about half an hour.
"""

from __future__ import annotations

import itertools
import os
import random
import statistics
import typing as t
from collections import defaultdict
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.lab.demo.installed import Installed
from ansible_collections.composable.infra.lab.demo.stage import A100, BESIDE, WORK, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.hardware.node import faults
from ansible_collections.composable.infra.lab.real_nodes.node import RealNode
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    ANNOUNCED,
    IDLE,
    OPEN_ON_NODE,
    PLUGIN_RESTARTED,
    REMOVED_FROM_BUS,
    STEPS_UP,
    TOUCHED,
)
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.real_nodes import on_real_nodes as real
from ansible_collections.composable.infra.tests.e2e.real_nodes.leftovers import (
    assert_no_container_left,
    assert_nothing_left,
)
from ansible_collections.composable.infra.tests.e2e.support import by_hand, real_hardware, real_pods
from ansible_collections.composable.infra.tests.e2e.support.support import PATIENCE, all_free, attached, wait_for

ROUNDS = int(os.environ.get("VENDOR_ROUNDS", "3"))
SEED = int(os.environ.get("SEED", "1"))
# The kubelet starts a container that fails again after 10, 20, 40, ... seconds. Nobody waits for that here.
AT_ONCE = 10.0
MOMENTS = (*STEPS_UP, IDLE, REMOVED_FROM_BUS)
# Seconds of each step in each round.
TOOK: dict[str, list[float]] = defaultdict(list)


@pytest.fixture(scope="module")
def stage(stage_factory: StageFactory) -> Stage:
    """A real node with everything that the role installs. The vendor's plugin does not start while it has no GPU."""
    made = stage_factory(nodes=0, real_nodes=1, devices={A100: 2}, handover="gated", attach=0.5, detach=0.2)
    Installed(made)
    name = made.lab.real_nodes[0].name
    made.lab.switch_fault(name, faults.PLUGIN_NEEDS_GPU)
    real_hardware.restart_plugin(made.lab, name)
    return made


@pytest.fixture
def node(stage: Stage) -> RealNode:
    """The node, nothing attached to it."""
    wait_for("nothing is under way", lambda: all_free(stage))
    return stage.lab.real_nodes[0]


@pytest.fixture
def log(stage: Stage) -> Iterator[real.EvidenceLog]:
    """What the agent writes."""
    found = real.EvidenceLog(stage)
    yield found
    found.stop()


def failing_pod(stage: Stage, node: RealNode) -> str:
    """uid of the plugin's pod whose container failed and waits to be started again; empty for none."""
    for pod in stage.lab.api.get(real_hardware.PLUGIN_PODS)["items"]:
        if pod["spec"].get("nodeName") == node.name and not pod["metadata"].get("deletionTimestamp"):
            states = [c["state"] for c in pod["status"].get("containerStatuses") or []]
            if any(s.get("waiting", {}).get("reason") == "CrashLoopBackOff" for s in states):
                return str(pod["metadata"]["uid"])
    return ""


def await_step(log: real.EvidenceLog, step: str) -> None:
    """Wait until a device of this round has taken the step."""
    wait_for(step, lambda: log.has(step))


def served(stage: Stage, timeline: Timeline, name: str) -> str:
    """The pod runs with one device, and its other container sees none; the device."""
    assert timeline.wait(lambda: timeline.running(name), PATIENCE), name
    (uuid,) = attached(stage)
    assert stage.first_line(name, WORK).endswith(f"={uuid}")
    assert stage.first_line(name, BESIDE) == "devices: "
    return uuid


def known(log: real.EvidenceLog, uuid: str) -> str:
    """The uid at the CDI Manager of the device with this UUID, when its evidence has one."""
    return next((uid for uid, found in list(log.seen.items()) if any(e.uuid == uuid for e in found)), "")


def end(stage: Stage, name: str) -> None:
    """The pod ends, its device returns, and nothing is left."""
    real_pods.delete_with_claims(stage.lab, name)
    wait_for("the device has returned", lambda: all_free(stage))
    assert_nothing_left(stage)


def test_plugin_that_fails_on_an_empty_node_is_replaced_at_once(
    stage: Stage, node: RealNode, timeline: Timeline, log: real.EvidenceLog
) -> None:
    before = wait_for("the plugin fails again and again", lambda: failing_pod(stage, node), 120)
    stage.pod("first", A100)
    device = known(log, served(stage, timeline, "first"))
    wait_for("it is announced", lambda: log.steps(device, ANNOUNCED))
    print({step: log.steps(device, step) for step in STEPS_UP})
    (touched,), (told,), (shown,) = (log.steps(device, step) for step in (TOUCHED, PLUGIN_RESTARTED, ANNOUNCED))
    print(f"touched to restarted {told - touched:.2f} s, to announced {shown - touched:.2f} s")
    running = real_hardware.plugin_pod(stage.lab, node.name)
    assert running
    assert running["metadata"]["uid"] != before
    assert shown - touched < AT_ONCE
    end(stage, "first")


def test_device_that_the_plugin_has_open_is_returned(
    stage: Stage, node: RealNode, timeline: Timeline, log: real.EvidenceLog
) -> None:
    """As with NVMLDeviceHealthCheck or DynamicMIG; a pod beside it runs on."""
    stage.lab.switch_fault(node.name, faults.PLUGIN_HOLDS)
    stage.pod("stays", A100)
    kept = served(stage, timeline, "stays")
    stage.pod("goes", A100)
    assert timeline.wait(lambda: timeline.running("goes"), PATIENCE)
    (other,) = set(attached(stage)) - {kept}
    gone = known(log, other)
    beside = stage.lab.api.get(f"{real_pods.PODS}/stays")["status"]["containerStatuses"]
    real_pods.delete_with_claims(stage.lab, "goes")
    wait_for("its device has returned", lambda: list(attached(stage)) == [kept])
    assert log.steps(gone, REMOVED_FROM_BUS)
    assert OPEN_ON_NODE not in log.troubles(gone)
    assert stage.lab.api.get(f"{real_pods.PODS}/stays")["status"]["containerStatuses"] == beside
    wait_for("no slice shows it", lambda: by_hand.announced(stage.lab, node.name) == [kept])
    end(stage, "stays")
    stage.lab.switch_fault(node.name, faults.PLUGIN_HOLDS, False)


def test_plugin_with_the_older_service_only_is_asked_by_that(
    stage: Stage, node: RealNode, timeline: Timeline
) -> None:
    """The kubelet takes v1 where it is served. The messages of the own driver's v1beta1 are the same as here."""
    stage.lab.switch_fault(node.name, faults.PLUGIN_IS_OLD)
    stage.pod("older", A100)
    served(stage, timeline, "older")
    end(stage, "older")
    stage.lab.switch_fault(node.name, faults.PLUGIN_IS_OLD, False)


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_whenever_the_plugin_is_killed_a_pod_starts_and_nothing_is_left(
    stage: Stage, node: RealNode, timeline: Timeline, log: real.EvidenceLog, turn: int
) -> None:
    rng = random.Random(f"{SEED} {turn}")
    name, moment = f"round-{turn}", rng.choice(MOMENTS)
    stage.lab.switch_fault(node.name, faults.PLUGIN_HOLDS, rng.random() < 0.5)
    stage.pod(name, A100)
    if moment in STEPS_UP:
        await_step(log, moment)
        real.kill_in_pods(node, real.PLUGIN)
    device = known(log, served(stage, timeline, name))
    real_pods.delete_with_claims(stage.lab, name)
    if moment not in STEPS_UP:
        await_step(log, moment)
        real.kill_in_pods(node, real.PLUGIN)
    wait_for("the device has returned", lambda: all_free(stage))
    assert_nothing_left(stage)
    for step, seconds in durations(log, device).items():
        TOOK[step].append(seconds)
    print(f"round {turn}: plugin killed at {moment}", flush=True)


def test_containerd_keeps_nothing_of_them(stage: Stage) -> None:
    for step, seconds in TOOK.items():
        print(f"{step}: median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s of {len(seconds)}")
    assert_no_container_left(stage)


def durations(log: real.EvidenceLog, device: str) -> dict[str, t.Any]:
    """Seconds from each step of the device to its next one."""
    order = [step for step in (*STEPS_UP, IDLE, REMOVED_FROM_BUS) if log.steps(device, step)]
    # The plugin is restarted on the way up, and may be on the way down as well.
    moments = {step: log.steps(device, step)[0] for step in order}
    return {f"{a} to {b}": moments[b] - moments[a] for a, b in itertools.pairwise(order) if b != IDLE}
