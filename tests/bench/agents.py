# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requests of node agents to the API server: at their start, at rest, and for each device that
comes and goes.

Every node has an agent with its own connections, watches and token. All agents are threads of one
process, since a machine has no room for 500 Python processes. This makes no difference to the API
server.
"""

from __future__ import annotations

import time
import typing as t
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, StageOptions
from ansible_collections.composable.infra.lab.hardware.agents_options import NAME as AGENTS
from ansible_collections.composable.infra.tests.bench import audit, measure
from ansible_collections.composable.infra.tests.bench.process import cpu, peak_rss
from ansible_collections.composable.infra.tests.e2e.support.support import all_free, delete_all, holds_new_pods

USER = "system:serviceaccount:composable-infra:composable-infra-agent"
# Nodes with an agent, devices in the pool for each node, and nodes that get their devices.
NODES, DEVICES, BUSY = 500, 10, 10
REST_SECONDS, LIMIT_SECONDS = 180.0, 900.0


@dataclass(slots=True)
class Phase:
    """Requests of all agents by verb and resource, and processor seconds of their process, in
    ``seconds``.
    """

    name: str
    per: str
    of: float
    seconds: float = 0.0
    cpu: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)

    def row(self, rss_mib: float) -> dict[str, t.Any]:
        """Return the row of a results file, with requests for each ``per``."""
        return {"name": self.name, "per": self.per, "nodes": NODES, "devices": BUSY * DEVICES, "seconds": self.seconds,
                "requests": {kind: count / self.of for kind, count in sorted(self.asked.items())},
                "cpu_ms": 1000 * self.cpu / self.of, "rss_mib": rss_mib}


def run() -> list[dict[str, t.Any]]:
    """Measure all phases once. Raise RuntimeError if something is not reached in time."""
    options = StageOptions(nodes=NODES, devices={A100: NODES * DEVICES}, attach=0.0, detach=0.0, hold=5.0, audit=True,
                           handover="gated")
    with Stage(options) as stage:
        # Until now each agent has listed, begun its watches, and taken its Lease.
        start = Phase("start", "agent", NODES, asked=_since(stage, 0.0))
        process = front_doors.controller(stage)
        try:
            measure.wait(lambda: all_free(stage) and holds_new_pods(stage), LIMIT_SECONDS, "pools and gates are there")
            phases = [start, *_phases(stage)]
        finally:
            process.stop()
        pid = stage.lab.processes.record(AGENTS).pid
        return [phase.row(peak_rss(pid)) for phase in phases]


def _phases(stage: Stage) -> Iterator[Phase]:
    for phase, do in ((Phase("at rest, no device attached", "agent and minute", NODES * REST_SECONDS / 60), _rest),
                      (Phase("attach", "device", BUSY * DEVICES), _attach),
                      (Phase("at rest, devices attached", "agent and minute", NODES * REST_SECONDS / 60), _rest),
                      (Phase("return", "device", BUSY * DEVICES), _give_back)):
        with _watched(stage, phase):
            do(stage)
        yield phase


@contextmanager
def _watched(stage: Stage, phase: Phase) -> Iterator[None]:
    pid, began = stage.lab.processes.record(AGENTS).pid, time.time()
    before = cpu(pid)
    yield
    phase.seconds, phase.cpu = round(time.time() - began, 1), cpu(pid) - before
    phase.asked = _since(stage, began)


def _rest(_stage: Stage) -> None:
    time.sleep(REST_SECONDS)


def _attach(stage: Stage) -> None:
    for node in stage.lab.nodes[:BUSY]:
        stage.pod(f"on-{node}", A100, DEVICES, node)
    measure.wait(lambda: measure.running(stage) >= BUSY, LIMIT_SECONDS, "all pods run")


def _give_back(stage: Stage) -> None:
    delete_all(stage)
    measure.wait(lambda: all_free(stage), LIMIT_SECONDS, "all devices are back in the pool")


def _since(stage: Stage, moment: float) -> Counter[str]:
    """Return the answered requests of agents since ``moment``. A watch counts when it begins."""
    found: Counter[str] = Counter()
    for entry in audit.requests_of(stage.lab.audit_log, USER):
        if audit.moment(entry) > moment:
            found[f"{entry['verb']} {entry['objectRef']['resource']}"] += 1
    return found
