# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node agents of an older version beside controllers of today, rolled forward node by node, and back.

An upgrade updates the agents first, and so does a downgrade. Meanwhile the agents of some nodes are
of another version than the controllers. Pods get devices in each phase, and a pod
that runs keeps its device. `-s` prints the measured seconds.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess, StageFactory
from ansible_collections.composable.infra.tests.e2e.stories import older
from ansible_collections.composable.infra.tests.e2e.support import by_hand, node_evidence
from ansible_collections.composable.infra.tests.e2e.support.support import (
    attached,
    await_served,
    changes_asked,
    mark,
    returned,
    wait_for,
)

pytestmark = pytest.mark.e2e
FIRST, SECOND = "node-0", "node-1"
# With the handover direct the agents announce the devices themselves.
HANDOVERS = ("gated", "direct")


@pytest.fixture(scope="module", params=HANDOVERS)
def stage(request: pytest.FixtureRequest, stage_factory: StageFactory) -> Stage:
    """Two nodes whose agents are started by the test."""
    made = stage_factory(devices={A100: 8}, nodes=2, handover=request.param)
    made.lab.stop_agents()
    return made


@dataclass
class Cluster:
    """Pods and agents of a stage. `measured`: seconds by what took them."""

    stage: Stage
    timeline: Timeline
    open: OpenProcess
    old: Path
    agents: dict[str, front_doors.Process] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)
    pods: list[str] = field(default_factory=list)
    devices: dict[str, dict[str, t.Any]] = field(default_factory=dict)
    logs: list[t.Callable[[], str]] = field(default_factory=list)

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Measure the seconds of what is done inside."""
        began = time.monotonic()
        yield
        self.measured[what] = round(time.monotonic() - began, 1)

    def run(self, node: str, *, old: bool) -> None:
        """Replace the agent of a node by the older one or that of today."""
        which = "older" if old else "today's"
        with self.timed(f"{len(self.measured)}: {which} agent on {node}"):
            if node in self.agents:
                self.agents[node].stop()
            version = self.old if old else None
            self.agents[node] = self.open(older.agent, self.stage, node, self.stage.own_driver, version)
        self.logs.append(self.agents[node].text)
        self.check()

    def serve(self, name: str, node: str) -> None:
        """Create a pod for a node, and wait until it runs with its device."""
        with self.timed(f"{len(self.measured)}: pod {name}"):
            self.stage.pod(name, A100, node=node)
            await_served(self.stage, self.timeline, name)
        self.pods.append(name)
        wait_for("each pod has a device", lambda: len(attached(self.stage)) == len(self.pods))
        self.check()
        self.devices |= {name: self.given(name)}

    def given(self, name: str) -> dict[str, t.Any]:
        """What the claim of a pod was allocated."""
        (result,) = claims.results(self.stage.client.get(CLAIMS, name, "default"))
        return {key: result[key] for key in ("driver", "pool", "device")}

    def check(self) -> None:
        """Each pod runs, and its claim has the device that it was given."""
        assert self.timeline.running(*self.pods)
        assert {name: self.given(name) for name in self.devices} == self.devices


def all_ready(stage: Stage, node: str, count: int) -> bool:
    """Whether the agent of a node has reported so many devices as ready."""
    found = node_evidence.evidence(stage, node)
    return [each.phase for each in found] == ["Ready"] * count


def test_pods_get_and_keep_devices_while_agents_are_rolled_forward_and_back(
    stage: Stage, timeline: Timeline, open_process: OpenProcess, old_version: Path
) -> None:
    since = mark(stage)
    controller = open_process(front_doors.controller, stage)
    cluster = Cluster(stage, timeline, open_process, old_version)

    # Both agents are older than the controllers. Pods get devices on both nodes.
    for node in (FIRST, SECOND):
        cluster.run(node, old=True)
    cluster.serve("train", FIRST)
    cluster.serve("old-beside", SECOND)

    # The DaemonSet is rolled forward, one node after the other. Each node serves in between.
    cluster.run(FIRST, old=False)
    cluster.serve("new-first", FIRST)
    cluster.serve("old-second", SECOND)
    cluster.run(SECOND, old=False)
    cluster.serve("new-second", SECOND)

    # And back: the older agent reads what that of today has written.
    cluster.run(FIRST, old=True)
    cluster.serve("old-again", FIRST)
    for node in (FIRST, SECOND):
        wait_for(f"{node} reports its devices", partial(all_ready, stage, node, 3))
    assert len(changes_asked(stage, since, "PATCH")) == 6, "one request for each pod"
    assert changes_asked(stage, since, "DELETE") == []

    # An agent of either version returns the devices that the other one brought up.
    with cluster.timed("all devices returned"):
        for name in cluster.pods:
            stage.delete_pod(name)
        wait_for("all devices are free", lambda: returned(stage))
    for node in (FIRST, SECOND):
        folder = stage.lab.node_folder(node)
        assert by_hand.gpus(folder) == []
        assert "Xid" not in by_hand.kernel_log(folder), "a device left before its node released it"
    for text in (controller.text, *cluster.logs):
        assert "Traceback" not in text()
    print({"handover": stage.options.handover, **cluster.measured})
