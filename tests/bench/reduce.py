# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute figures from the audit log and the emulator's journal: server-side times, one clock."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable, Sequence

from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES, PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import NODE, annotation
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import TOUCHED, Evidence
from ansible_collections.composable.infra.tests.bench import audit
from ansible_collections.composable.infra.tests.bench.figures import Figures

Moments = list[tuple[str, float]]
CONTROLLER = "system:serviceaccount:composable-infra:composable-infra"


def gated(stage: Stage, names: Sequence[str], since: float, figures: Figures) -> None:
    """Compute the figures of a burst of gated pods. ``since``: its begin in epoch seconds."""
    scenario, marks = figures.scenario, _marks(stage, names)
    attaches = _attaches(stage, since)
    begin = min(m.created for m in marks)
    figures.total = max(m.running for m in marks) - begin
    figures.rate = _rate(marks)
    order = sorted(m.created for m in marks for _unused in range(scenario.gpus))
    figures.asked = [a - c for a, c in zip(sorted(e["time_received"] for e in attaches), order, strict=True)]
    shown = _shown(stage, attaches, since)
    attached = max(e["time_replied"] for e in attaches)
    touched = max(_touched(stage, {e["device"] for e in attaches}))
    figures.node_found, figures.plugin_restart = touched - attached, max(m for _node, m in shown) - touched
    figures.overhead = figures.total - scenario.attach - figures.node_found - figures.plugin_restart
    visible = last_of(shown, scenario.gpus)
    figures.conditioned = differences(*of_same_nodes([(m.node, m.opened) for m in marks], visible))
    figures.ran = differences(*of_same_nodes([(m.node, m.running) for m in marks], visible))
    figures.scheduler = [m.running - m.opened for m in marks]
    homes = Counter(node for node, _moment in _asked(stage, attaches))
    figures.at_home = sum((Counter(m.node for m in marks) & Counter(
        {node: n // scenario.gpus for node, n in homes.items()})).values())


def rescheduled(stage: Stage, names: Sequence[str], since: float, figures: Figures) -> None:
    """Compute the figures of a burst of pods that kube-scheduler first allocated to the pool."""
    marks, attaches, gpus = _marks(stage, names), _attaches(stage, since), figures.scenario.gpus
    figures.total = max(m.bound for m in marks) - min(m.created for m in marks)
    allocated = [(m.node, m.allocated) for m in marks for _unused in range(gpus)]
    figures.asked = differences(_asked(stage, attaches), allocated)
    figures.conditioned = differences([(m.node, m.condition) for m in marks],
                                      last_of(_shown(stage, attaches, since), gpus))
    figures.writes = audit.write_seconds(stage.lab.audit_log, audit.SCHEDULER, since)
    figures.scheduler = [m.bound - m.condition for m in marks]
    figures.at_home = sum(m.node == stage.client.get(PODS, name, "default")["spec"]["nodeName"]
                          for name, m in zip(names, marks, strict=True))


def direct(stage: Stage, names: Sequence[str], since: float, figures: Figures) -> None:
    """Compute the figures of a burst of pods that kept their pool devices."""
    marks, attaches, gpus = _marks(stage, names), _attaches(stage, since), figures.scenario.gpus
    figures.total = max(m.running for m in marks) - min(m.created for m in marks)
    allocated = [(m.node, m.allocated) for m in marks for _unused in range(gpus)]
    figures.asked = differences(_asked(stage, attaches), allocated)
    touched = [(node, moment) for e, (node, _moment) in zip(attaches, _asked(stage, attaches), strict=True)
               for moment in _touched(stage, {e["device"]})]
    figures.node_found = max(moment for _node, moment in touched) - max(e["time_replied"] for e in attaches)
    figures.conditioned = differences([(m.node, m.condition) for m in marks], last_of(touched, gpus))
    figures.scheduler = [m.bound - m.condition for m in marks]
    figures.overhead = figures.total - figures.scenario.attach - figures.node_found
    figures.at_home = sum(m.node == stage.client.get(PODS, name, "default")["spec"]["nodeName"]
                          for name, m in zip(names, marks, strict=True))


def alone(stage: Stage, names: Sequence[str], figures: Figures) -> None:
    """Compute the figures of a burst of pods with devices that were attached already."""
    marks = _marks(stage, names)
    figures.alone = _rate(marks)
    figures.alone_total = max(m.running for m in marks) - min(m.created for m in marks)


def _marks(stage: Stage, names: Sequence[str]) -> list[audit.ClaimMarks]:
    found = audit.claim_marks(stage.lab.audit_log, CONTROLLER)
    return [found[name] for name in names]


def _attaches(stage: Stage, since: float) -> list[dict[str, t.Any]]:
    return [e for e in stage.emulator.log() if e["method"] == "PATCH" and e["device"] and e["time_received"] > since]


def _asked(stage: Stage, attaches: Iterable[dict[str, t.Any]]) -> Moments:
    machine_node = {machine_uuid(n): n for n in stage.lab.nodes}
    return [(machine_node[e["machine"]], e["time_received"]) for e in attaches]


def _shown(stage: Stage, attaches: Iterable[dict[str, t.Any]], since: float) -> Moments:
    seen = audit.visible(stage.lab.audit_log, since)
    serial = {d["uid"]: d["serial"] for d in stage.emulator.state()["devices"]}
    return [(node, moment) for moment, node in (seen[serial[e["device"]]] for e in attaches)]


def _touched(stage: Stage, devices: set[str]) -> list[float]:
    """Return when nodes had found, bound and used devices, as their agents recorded it, on the same
    clock.
    """
    found = [Evidence.parse(annotation(raw, NODE)) for raw in stage.client.list(COMPOSABLE_RESOURCES).items]
    return [parse_time(step.at) for each in found if each and each.device in devices for step in each.steps
            if step.step == TOUCHED]


def _rate(marks: Sequence[audit.ClaimMarks]) -> float:
    return len(marks) / max(0.001, max(m.bound for m in marks) - min(m.created for m in marks))


def differences(after: Moments, before: Moments) -> list[float]:
    """Return the k-th of ``after`` minus the k-th of ``before``, node by node.

    Devices of one node are interchangeable.
    """
    pairs = list(zip(sorted(after), sorted(before), strict=True))
    if strange := [(a[0], b[0]) for a, b in pairs if a[0] != b[0]]:
        raise RuntimeError(f"something on {strange[0][0]} answers something on {strange[0][1]}")
    return [a[1] - b[1] for a, b in pairs]


def of_same_nodes(after: Moments, before: Moments) -> tuple[Moments, Moments]:
    """Return both without nodes of different numbers: a pod ended on another node, which `at_home`
    counts.
    """
    counts = [Counter(node for node, _moment in side) for side in (after, before)]
    same = {node for node in counts[0] if counts[0][node] == counts[1][node]}
    return [m for m in after if m[0] in same], [m for m in before if m[0] in same]


def last_of(shown: Moments, gpus: int) -> Moments:
    """Return the last moment of each group of ``gpus`` devices of a node, since a claim waits for
    all its devices.
    """
    return sorted(shown)[gpus - 1::gpus]
