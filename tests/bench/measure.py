# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one scenario on a fresh stage and reduce what was seen to figures."""

from __future__ import annotations

import os
import statistics
import time
import typing as t
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ansible_collections.composable.infra.lab.demo import doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, StageOptions, pod_body
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.kube import gates
from ansible_collections.composable.infra.plugins.module_utils.kube.resource import CLAIMS, PODS, SLICES
from ansible_collections.composable.infra.tests.bench import audit

Moments = list[tuple[str, float]]
CONTROLLER = "system:serviceaccount:composable-infra:composable-infra"


@dataclass(frozen=True, slots=True)
class Scenario:
    """``pods`` pods of ``gpus`` devices each on ``nodes`` nodes; F = ``attach`` and ``announce`` in seconds."""

    name: str
    pods: int
    nodes: int
    attach: float
    gpus: int = 1
    announce: float = 0.05
    spread: bool = False
    gated: bool = False
    alone: bool = False


@dataclass(slots=True)
class Figures:
    """Seconds; hops as lists over claims, ``total`` from the first claim created to the last pod bound.

    Gated: ``asked`` counts from the pod's creation, ``conditioned`` is from the device seen to the gate removed,
    ``scheduler`` from there to the pod Running, ``ran`` from the device seen to the pod Running. ``rate`` is pods per
    second from the first to the last binding; ``alone`` and ``alone_total`` are rate and total of the scheduler with
    the same pods and claims when their devices are there already.
    """

    scenario: dict[str, t.Any]
    total: float = 0.0
    asked: list[float] = field(default_factory=list)
    conditioned: list[float] = field(default_factory=list)
    scheduler: list[float] = field(default_factory=list)
    ran: list[float] = field(default_factory=list)
    overhead: float = 0.0
    rate: float = 0.0
    alone: float = 0.0
    alone_total: float = 0.0
    at_home: int = 0
    cpu_seconds: float = 0.0
    rss_mib: float = 0.0


def run(scenario: Scenario) -> Figures:
    """One run. RuntimeError when a pod did not run in time."""
    options = StageOptions(nodes=scenario.nodes, devices={A100: scenario.pods * scenario.gpus},
                           attach=scenario.attach, announce=scenario.announce, attach_timeout=180.0, audit=True,
                           handover="gated" if scenario.gated else "reschedule")
    with Stage(options) as stage:
        door = doors.controller(stage)
        try:
            return _on(stage, scenario, door)
        finally:
            door.stop()


def _on(stage: Stage, scenario: Scenario, door: doors.Process) -> Figures:
    _wait(lambda: published(stage) == scenario.pods * scenario.gpus, 60, "pools are published")
    if scenario.gated:
        _wait(lambda: gated(stage), 60, "new pods are gated")
    cpu = _cpu(door.pid)
    names = [f"pod-{i}" for i in range(scenario.pods)]
    nodes = stage.lab.nodes
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: stage.pod(names[i], A100, scenario.gpus,
                                          nodes[i % len(nodes)] if scenario.spread else None), range(len(names))))
    limit = 120 + 3 * scenario.attach
    _wait(lambda: running(stage) >= len(names), limit, "all pods run")
    figures = Figures(asdict(scenario), cpu_seconds=round(_cpu(door.pid) - cpu, 3), rss_mib=_rss(door.pid))
    (_reduce_gated if scenario.gated else _reduce)(stage, figures)
    if scenario.alone:
        _alone(stage, scenario, figures)
    return figures


def _alone(stage: Stage, scenario: Scenario, figures: Figures) -> None:
    """What the scheduler does with the same pods, claims and devices, which are attached already."""
    for kind in (PODS, CLAIMS):
        for item in stage.client.list(kind, namespace="default").items:
            stage.client.delete(kind, item["metadata"]["name"], namespace="default")
    _wait(lambda: not stage.client.list(PODS, namespace="default").items, 120, "all pods are gone")
    _wait(lambda: not stage.client.list(CLAIMS, namespace="default").items, 120, "all claims are gone")
    names = [f"alone-{i}" for i in range(scenario.pods)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: stage.pod(name, A100, scenario.gpus, gated=False), names))
    _wait(lambda: running(stage) >= len(names), 300, "all pods run that the scheduler places alone")
    marks = audit.claim_marks(stage.lab.audit_log, CONTROLLER)
    figures.alone = _rate([marks[name].bound for name in names], [marks[name].created for name in names])
    figures.alone_total = max(marks[n].running for n in names) - min(marks[n].created for n in names)


def _rate(bound: list[float], created: list[float]) -> float:
    return len(bound) / max(0.001, max(bound) - min(created))


def _reduce_gated(stage: Stage, figures: Figures) -> None:
    log = stage.lab.audit_log
    marks, seen = audit.claim_marks(log, CONTROLLER), audit.visible(log)
    attaches = [e for e in stage.emulator.log() if e["method"] == "PATCH" and e["device"]]
    serial = {d["uid"]: d["serial"] for d in stage.emulator.state()["devices"]}
    scenario, begin = figures.scenario, min(m.created for m in marks.values())
    figures.total = max(m.running for m in marks.values()) - begin
    figures.overhead = figures.total - scenario["attach"] - scenario["announce"]
    figures.rate = _rate([m.bound for m in marks.values()], [m.created for m in marks.values()])
    order = sorted(m.created for m in marks.values() for _unused in range(scenario["gpus"]))
    figures.asked = [a - c for a, c in zip(sorted(e["time_received"] for e in attaches), order, strict=True)]
    shown = [(node, moment) for moment, node in (seen[serial[e["device"]]] for e in attaches)]
    visible = last_of(shown, scenario["gpus"])
    figures.conditioned = differences(*of_same_nodes([(m.node, m.opened) for m in marks.values()], visible))
    figures.ran = differences(*of_same_nodes([(m.node, m.running) for m in marks.values()], visible))
    figures.scheduler = [m.running - m.opened for m in marks.values()]
    machine_node = {machine_uuid(n): n for n in stage.lab.nodes}
    homes = Counter(machine_node[e["machine"]] for e in attaches)
    figures.at_home = sum((Counter(m.node for m in marks.values()) & Counter(
        {node: n // scenario["gpus"] for node, n in homes.items()})).values())


def _wait(condition: t.Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {seconds:g} s: {what}")
        time.sleep(0.25)


def published(stage: Stage) -> int:
    """Devices in pool slices."""
    return sum(len(s["spec"].get("devices") or []) for s in stage.client.list(SLICES).items
               if not s["spec"].get("nodeName"))


def gated(stage: Stage) -> bool:
    """True when a new pod would be held.

    Also the API server's first pod of the kind: it prepares a policy when it is first used, which takes 50 ms for one
    pod, and ten times that for eight at once.
    """
    would_be = stage.client.create(PODS, pod_body("first", None), dry_run=True)
    return gates.held(would_be)


def running(stage: Stage) -> int:
    """Pods that run."""
    return len(stage.client.list(PODS, namespace="default", field_selector="status.phase=Running").items)


def _reduce(stage: Stage, figures: Figures) -> None:
    log = stage.lab.audit_log
    marks = audit.claim_marks(log, CONTROLLER)
    seen = audit.visible(log)
    attaches = [e for e in stage.emulator.log() if e["method"] == "PATCH" and e["device"]]
    serial = {d["uid"]: d["serial"] for d in stage.emulator.state()["devices"]}
    figures.total = max(m.bound for m in marks.values()) - min(m.created for m in marks.values())
    machine_node = {machine_uuid(n): n for n in stage.lab.nodes}
    gpus = figures.scenario["gpus"]
    asked = [(machine_node[e["machine"]], e["time_received"]) for e in attaches]
    allocated = [(m.node, m.allocated) for m in marks.values() for _unused in range(gpus)]
    figures.asked = differences(asked, allocated)
    shown = [(node, moment) for moment, node in (seen[serial[e["device"]]] for e in attaches)]
    conditions = [(m.node, m.condition) for m in marks.values()]
    figures.conditioned = differences(conditions, last_of(shown, gpus))
    figures.scheduler = [m.bound - m.condition for m in marks.values()]
    figures.at_home = sum(m.node == stage.client.get(PODS, n, "default")["spec"]["nodeName"] for n, m in marks.items())


def differences(after: Moments, before: Moments) -> list[float]:
    """Node by node, the k-th of ``after`` minus the k-th of ``before``: devices of one node are interchangeable."""
    pairs = list(zip(sorted(after), sorted(before), strict=True))
    if strange := [(a[0], b[0]) for a, b in pairs if a[0] != b[0]]:
        raise RuntimeError(f"something on {strange[0][0]} answers something on {strange[0][1]}")
    return [a[1] - b[1] for a, b in pairs]


def of_same_nodes(after: Moments, before: Moments) -> tuple[Moments, Moments]:
    """Both without the nodes where their numbers differ: a pod ended elsewhere, which `at_home` counts."""
    counts = [Counter(node for node, _moment in side) for side in (after, before)]
    same = {node for node in counts[0] if counts[0][node] == counts[1][node]}
    return [m for m in after if m[0] in same], [m for m in before if m[0] in same]


def last_of(shown: Moments, gpus: int) -> Moments:
    """Of each run of ``gpus`` devices of a node the last moment: a claim waits for all its devices."""
    return sorted(shown)[gpus - 1::gpus]


def quantiles(values: list[float]) -> dict[str, float]:
    """p50, p99 and max, in milliseconds."""
    ordered = sorted(values)
    at = min(len(ordered) - 1, round(0.99 * (len(ordered) - 1)))
    return {"p50": 1000 * statistics.median(ordered), "p99": 1000 * ordered[at], "max": 1000 * ordered[-1]}


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return round(int(line.split()[1]) / 1024, 1)
    return 0.0
