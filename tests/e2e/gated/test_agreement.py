# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the scheduler places held pods where the gate planner said, on random clusters with random pods."""

from __future__ import annotations

import os
import random
import re
import typing as t
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, pod_body
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, NODES, PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods as pod_objects
from ansible_collections.composable.infra.tests.bench import audit
from ansible_collections.composable.infra.tests.e2e.support.support import OPENED, counted, delete_all, wait_for

pytestmark = pytest.mark.e2e
Json = dict[str, t.Any]
ROUNDS, PODS_A_ROUND, NODE_COUNT = 5, 40, 12
WRONG_AT_MOST = 0.005
STAGE: Json = {"handover": "gated", "nodes": NODE_COUNT, "devices": {A100: 240}, "attach": 0.0, "hold": 5.0,
               "audit": True, "extra": {"unserved": "wait"}}
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DISK, TAINT = "example.com/disk", "example.com/only"
APPS = ("red", "green", "blue")


def shake(rng: random.Random, stage: Stage) -> None:
    """Give every node other labels, taints and room."""
    for name in stage.lab.nodes:
        taints = [{"key": TAINT, "value": rng.choice(APPS), "effect": rng.choice(["NoSchedule", "PreferNoSchedule"])}]
        stage.client.merge_patch(NODES, name, {
            "metadata": {"labels": {ZONE: f"zone-{rng.randrange(3)}", DISK: rng.choice(["ssd", "hdd"])}},
            "spec": {"taints": taints if rng.random() < 0.3 else None, "unschedulable": rng.random() < 0.1 or None}})


def some_pod(rng: random.Random, name: str) -> Json:
    """A pod that is particular about its node."""
    app = rng.choice(APPS)
    body = pod_body(name, None)
    spec = body["spec"]
    body["metadata"]["labels"] = {"app": app}
    spec["containers"][0]["resources"]["requests"] = {"cpu": rng.choice(["100m", "1", "3"]), "memory": "1Gi"}
    if rng.random() < 0.1:
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": rng.choice([8080, 8081])}]
    if rng.random() < 0.3:
        spec["tolerations"] = [{"key": TAINT, "operator": rng.choice(["Exists", "Equal"]), "effect": "NoSchedule"}]
        if spec["tolerations"][0]["operator"] == "Equal":
            spec["tolerations"][0]["value"] = rng.choice(APPS)
    if rng.random() < 0.2:
        spec["nodeSelector"] = {ZONE: f"zone-{rng.randrange(3)}"}
    if affinity := some_affinity(rng, app):
        spec["affinity"] = affinity
    if rng.random() < 0.2:
        spec["topologySpreadConstraints"] = [{"maxSkew": rng.choice([1, 2]), "topologyKey": rng.choice([ZONE, HOST]),
                                              "whenUnsatisfiable": "DoNotSchedule",
                                              "labelSelector": {"matchLabels": {"app": app}}}]
    return body


def some_affinity(rng: random.Random, app: str) -> Json:
    """Required terms about nodes and about other pods, often none."""
    found: Json = {}
    if rng.random() < 0.2:
        term = {"key": DISK, "operator": rng.choice(["In", "NotIn"]), "values": [rng.choice(["ssd", "hdd"])]}
        found["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    if rng.random() < 0.15:
        found["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": rng.choice(APPS)}}}]}
    elif rng.random() < 0.1:
        found["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}]}
    return found


def all_decided(stage: Stage) -> bool:
    """Whether each pod runs, or was refused by the scheduler where it was sent.

    Pods that were let go are removed: they would be placed anywhere, and take room that others were promised.
    """
    pods = stage.client.list(PODS, namespace="default").items
    for pod in pods:
        if not pod_objects.held(pod) and not pod_objects.node(pod):
            remove(stage, pod["metadata"]["name"])
    return all(pod_objects.phase(p) == "Running" or (not pod_objects.held(p) and pod_objects.unschedulable(p))
               for p in pods)


def create(stage: Stage, name: str, count: int, body: Json) -> None:
    """A claim and its pod."""
    stage.claim(name, A100, count)
    stage.client.create(PODS, body)


def remove(stage: Stage, name: str) -> None:
    """A pod and its claim."""
    for kind in (PODS, CLAIMS):
        try:
            stage.client.delete(kind, name, namespace="default")
        except NotFound:
            continue


@dataclass(frozen=True)
class Outcome:
    """What became of all pods: gates opened, and what the controller says of those that the scheduler placed elsewhere.

    ``crossed``: where a pod that had been let go, and that the scheduler so placed freely, came to the chosen node
    between choice and binding; the plan could not know of it.
    """

    opened: float
    wrong: list[str]
    crossed: list[str]


@dataclass(frozen=True)
class Told:
    """A line of the controller about a pod of the default namespace; ``at`` in seconds since the epoch."""

    at: float
    reason: str
    pod: str
    line: str

    @property
    def node(self) -> str:
        """The node that it speaks of first."""
        return str(re.findall(r"node (node-\d+)", self.line)[0])


def told_by(text: str) -> list[Told]:
    """Such lines, in their order."""
    found = re.findall(r"^((\S+) \S+ +(\w+) default/(\S+): .*)$", text, re.MULTILINE)
    return [Told(datetime.fromisoformat(at).timestamp(), reason, pod, line) for line, at, reason, pod in found]


def bindings(stage: Stage) -> list[tuple[float, str, str]]:
    """When which pod was bound to which node."""
    return [(audit.moment(e), e["objectRef"]["name"], e["requestObject"]["target"]["name"])
            for e in audit.entries(stage.lab.audit_log) if e["objectRef"].get("subresource") == "binding"]


def is_crossed(wrong: Told, told: list[Told], bound: list[tuple[float, str, str]]) -> bool:
    """Whether a pod that was let go was bound to the chosen node after it had been chosen."""
    chosen = max(it.at for it in told if (it.pod, it.reason) == (wrong.pod, "NodeChosen") and it.at <= wrong.at)
    free = {it.pod for it in told if it.reason == "GateReleased"}
    return any(pod in free and node == wrong.node and chosen <= at <= wrong.at for at, pod, node in bound)


@pytest.fixture(scope="module")
def outcome(stage: Stage) -> Iterator[Outcome]:
    """All rounds; each ends when no pod is stuck."""
    seed = os.environ["TEST_SEED"]
    print(f"TEST_SEED={seed}")
    rng, controller = random.Random(f"{seed} agreement"), OPENED.add(front_doors.controller(stage))
    for number in range(ROUNDS):
        play(rng, stage, number)
    told = told_by(controller.text())
    wrong = [it for it in told if it.reason == "NodeMisjudged"]
    assert len(wrong) == counted(controller, "gate_misjudged_total")
    crossed = [it for it in wrong if is_crossed(it, told, bindings(stage))]
    yield Outcome(counted(controller, "gate_opened_total"), [it.line for it in wrong if it not in crossed],
                  [it.line for it in crossed])
    delete_all(stage)
    OPENED.stop(controller)


def play(rng: random.Random, stage: Stage, number: int) -> None:
    """Another cluster, forty more pods, and most of those that run end."""
    shake(rng, stage)
    bodies = {f"p{number}-{i}": some_pod(rng, f"p{number}-{i}") for i in range(PODS_A_ROUND)}
    counts = {name: rng.choice([1, 1, 1, 2]) for name in bodies}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: create(stage, name, counts[name], bodies[name]), bodies))
    wait_for("every pod runs or is refused", partial(all_decided, stage), 120)
    running = [p for p in stage.client.list(PODS, namespace="default").items if pod_objects.phase(p) == "Running"]
    for pod in rng.sample(running, len(running) * 2 // 3):
        remove(stage, pod["metadata"]["name"])


def test_nobody_is_stuck(outcome: Outcome) -> None:
    assert outcome.opened >= ROUNDS * PODS_A_ROUND / 3, "too few pods were planned for the answer to mean something"


def test_scheduler_agrees(outcome: Outcome) -> None:
    print(f"{outcome.opened:g} gates opened; misjudged: {outcome.wrong}; crossed by others: {outcome.crossed}")
    assert len(outcome.wrong) <= WRONG_AT_MOST * outcome.opened
