# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller and node agents on nodes that are as harsh as real ones: a claim is served, and its device comes back.

Its story is in the logs of all processes by the claim's uid, and in one trace.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import NODE, annotation
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import STEPS_UP, Evidence
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess, StageFactory
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.support import (
    all_free,
    assert_served,
    delete_all,
    holds_new_pods,
    run_pods,
    wait_for,
)
from ansible_collections.composable.infra.tests.integration.tracing.collector import Collector

OPTIONS: dict[str, t.Any] = {"devices": {A100: 4}, "nodes": 2, "handover": "gated"}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    """Where all processes of the stage send their traces."""
    made = Collector()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        yield made
    made.close()


@pytest.fixture(scope="module")
def stage(collector: Collector, stage_factory: StageFactory) -> Stage:
    """A stage with harsh nodes, each with its agent."""
    return stage_factory(**OPTIONS)


def reasons(text: str, uid: str) -> set[str]:
    """The first word of each line about a claim."""
    return {line.split()[2] for line in text.splitlines() if f" uid={uid}" in line}


def evidence(stage: Stage) -> list[Evidence]:
    """What the agents wrote."""
    found = (Evidence.parse(annotation(raw, NODE)) for raw in stage.client.list(COMPOSABLE_RESOURCES).items)
    return [each for each in found if each is not None]


def all_told(stage: Stage, count: int) -> list[Evidence]:
    """What the agents wrote of so many devices, once it has each step; the gate opens by the slice, often before."""
    found = evidence(stage)
    return found if [[step.step for step in each.steps] for each in found] == [[*STEPS_UP]] * count else []


def check_trace(collector: Collector, uid: str) -> None:
    """One trace, named by the claim's uid, with a span of each step for each device, of two processes and one root."""
    wanted = {"claim": 1, "plan": 1, "gate": 1, "bind": 1, **dict.fromkeys(("request", "attach", "slice"), 4)}
    steps = Counter({f"node {step}": 4 for step in STEPS_UP})  # one that was done again is there again

    def names() -> Counter[str]:
        return Counter(span["name"] for span in collector.trace(uid.replace("-", "")))

    wait_for("all spans are sent", lambda: names() >= steps + Counter(wanted))
    assert {name: number for name, number in names().items() if name not in steps} == wanted
    assert collector.refused == []
    spans = collector.trace(uid.replace("-", ""))
    (root,) = (span for span in spans if "parentSpanId" not in span)
    assert {span["parentSpanId"] for span in spans if span is not root} == {root["spanId"]}
    assert all(int(root["endTimeUnixNano"]) >= int(span["startTimeUnixNano"]) for span in spans)
    services = {resource["service.name"] for resource in collector.resources}
    assert services == {"composable-infra-controllers", "composable-infra-agent"}


def plugin_pods(stage: Stage) -> set[str]:
    """The pods of the vendor's plugin."""
    return {pod["metadata"]["uid"] for pod in stage.lab.api.get(by_hand.PODS)["items"]}


def test_claims_are_served_with_one_restart_and_devices_come_back(
    stage: Stage, timeline: Timeline, open_process: OpenProcess, collector: Collector
) -> None:
    controller = open_process(front_doors.controller, stage)
    wait_for("new pods are held", lambda: holds_new_pods(stage))
    before = plugin_pods(stage)
    wanted = {"four": (A100, 4)}
    since = run_pods(stage, timeline, lambda: None, wanted)
    assert_served(stage, timeline.finish(), since, wanted)
    told = wait_for("the agent has told each step of four devices", lambda: all_told(stage, 4))
    assert len({each.address for each in told}) == 4
    assert len(plugin_pods(stage) - before) == 1
    (claim,) = stage.client.list(CLAIMS).items
    delete_all(stage)
    wait_for("the devices are returned", lambda: all_free(stage))
    uid, by_agents = claim["metadata"]["uid"], stage.lab.processes.log("agents").read_text(encoding="utf-8")
    assert reasons(controller.text(), uid) >= {
        "PodHeld", "NodeChosen", "SizeSet", "Attaching", "Attached", "GateOpened", "PodBound", "Releasing",
        "ReleaseAsked", "Detached"}
    assert reasons(by_agents, uid) >= {"DeviceReady", "DeviceRemoved"}
    check_trace(collector, uid)
    for node in stage.lab.nodes:
        folder = stage.lab.node_folder(node)
        assert by_hand.gpus(folder) == []
        assert "Xid" not in by_hand.kernel_log(folder), "the fabric pulled a device that the node still had"
