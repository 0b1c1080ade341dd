# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of attach, run, end and detach on real nodes with the node agents' own driver: nothing is left, memory stays.

In each round a pod of a gated model and one of a direct model run at once. A pod with a vendor's plugin's labels is
on each node, and is left alone. ROUNDS=100 takes about 25 minutes, and only so many tell something about memory.
"""

from __future__ import annotations

import os
import statistics
import typing as t
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from ansible_collections.composable.infra.lab.demo.installed import Installed
from ansible_collections.composable.infra.lab.demo.stage import A100, BESIDE, H100, WORK, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.names import OWN_DRIVER
from ansible_collections.composable.infra.lab.real_nodes.plugin.daemonset import LABELS
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    ANNOUNCED,
    PLUGIN_RESTARTED,
    REMOVED_FROM_BUS,
    TOUCHED,
)
from ansible_collections.composable.infra.tests.bench.process import rss
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.real_nodes import leftovers
from ansible_collections.composable.infra.tests.e2e.real_nodes import on_real_nodes as real
from ansible_collections.composable.infra.tests.e2e.support import real_hardware, real_pods
from ansible_collections.composable.infra.tests.e2e.support.support import PATIENCE, all_free, attached, wait_for

ROUNDS = int(os.environ.get("ROUNDS", "2"))
# The first rounds load and compile, and Python's memory settles: they are not compared.
WARM_UP, ENOUGH = 20, 60
GROWTH, SLACK_MIB = 1.05, 2.0
# The garbage collector deletes pods of a DaemonSet that is gone, and they may take 30 s to end: long on a busy machine.
SETTLE_SECONDS = 300.0
GATED, DIRECT = "gated", "direct"


@dataclass(frozen=True, slots=True)
class Counted:
    """What a node has when no pod uses a device."""

    mounts: int
    groups: int
    snapshots: int


@pytest.fixture(scope="module")
def stage(stage_factory: StageFactory) -> Stage:
    """Two real nodes whose agents are the DRA driver; a model of the handover gated, and one of direct."""
    made = stage_factory(nodes=0, real_nodes=2, devices={A100: 1, H100: 1}, handover=GATED, driver=OWN_DRIVER,
                         extra={"handover_models": {H100: DIRECT}})
    Installed(made)
    wait_for("the end of the vendor's own pods", lambda: not plugin_pods(made), SETTLE_SECONDS)
    for node in made.lab.real_nodes:
        pod = real_pods.real_pod(f"plugin-{node.name}", node.name)
        pod["metadata"]["labels"] = dict(LABELS)
        made.lab.api.request("POST", real_hardware.PLUGIN_PODS, pod)
        wait_for("it runs", partial(real_hardware.plugin_pod, made.lab, node.name))
    return made


@pytest.fixture
def log(stage: Stage) -> Iterator[real.EvidenceLog]:
    """What the agents write."""
    found = real.EvidenceLog(stage)
    yield found
    found.stop()


def plugin_pods(stage: Stage) -> set[str]:
    """uids of the pods that look like the vendor's plugin."""
    return {pod["metadata"]["uid"] for pod in stage.lab.api.get(real_hardware.PLUGIN_PODS)["items"]}


def counted(stage: Stage) -> list[Counted]:
    """For each node."""
    leftovers.assert_no_container_left(stage)
    return [Counted(len(leftovers.mounts(node)), len(leftovers.groups(node)), leftovers.snapshots(node))
            for node in stage.lab.real_nodes]


def memory(stage: Stage) -> dict[str, float]:
    """MiB of each program that is there all along, by node and name."""
    found: dict[str, float] = {}
    for node in stage.lab.real_nodes:
        programs = {"agent": real.processes(node, real.AGENT), "controllers": real.processes(node, real.CONTROLLER),
                    "kubelet": real_hardware.programs(node, "kubelet"),
                    "containerd": real_hardware.programs(node, "containerd")}
        found |= {f"{name} of {node.name}": sum(map(rss, pids)) for name, pids in programs.items() if pids}
    return found


def test_nothing_is_left_after_any_round(stage: Stage, log: real.EvidenceLog) -> None:
    wait_for("nothing is under way", lambda: all_free(stage))
    plugins = plugin_pods(stage)
    before, samples = counted(stage), []
    for turn in range(ROUNDS):
        one_round(stage, f"round-{turn}")
        samples.append(memory(stage))
        print(f"round {turn}: {' '.join(f'{name} {mib:g}' for name, mib in samples[-1].items())}", flush=True)
    print(f"before {before}")
    # containerd collects what it dropped after a while.
    wait_for("the numbers of the beginning", lambda: counted(stage) == before)
    assert plugin_pods(stage) == plugins
    assert not log.has(PLUGIN_RESTARTED)
    assert all(log.has(step) for step in (TOUCHED, ANNOUNCED, REMOVED_FROM_BUS))
    if ROUNDS >= ENOUGH:
        assert growing(samples) == {}


def one_round(stage: Stage, name: str) -> None:
    """Two pods get their devices, use them, and end; the devices go back."""
    begun = len(stage.emulator.effects())
    pods = {f"{name}-{GATED}": A100, f"{name}-{DIRECT}": H100}
    timeline = Timeline(stage)
    for pod, model in pods.items():
        stage.pod(pod, model)
    assert timeline.wait(lambda: timeline.running(*pods), PATIENCE), name
    timeline.stop()
    devices = attached(stage)
    assert sorted(stage.first_line(pod, WORK).partition("=")[2] for pod in pods) == sorted(devices)
    assert {stage.first_line(pod, BESIDE) for pod in pods} == {"devices: "}
    real_pods.delete_with_claims(stage.lab, *pods)
    wait_for("both devices have returned", lambda: all_free(stage))
    effects = Counter(effect["effect"].split()[0] for effect in stage.emulator.effects()[begun:])
    assert effects == {"attached": 2, "detached": 2}
    leftovers.assert_nothing_left(stage)


def growing(samples: list[dict[str, float]]) -> dict[str, t.Any]:
    """Programs whose memory grew after the warm-up: medians of the first and the last third of what follows it."""
    later = samples[WARM_UP:]
    third = len(later) // 3
    found = {}
    for name in later[0]:
        first, last = (statistics.median(sample.get(name, 0.0) for sample in part)
                       for part in (later[:third], later[-third:]))
        print(f"{name}: {first:g} MiB, then {last:g} MiB")
        if last > GROWTH * first + SLACK_MIB:
            found[name] = (first, last)
    return found
