# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real nodes, F = 0: from a claim's creation to the first line that its container prints, by each
handover.

Kubelets, containerd and runc are real. Bus, driver and CDI Manager are simulated. The node agents
are the DRA driver in all three handovers. After each pod comes another one of the same kind that
finds the device attached and idle.
"""

from __future__ import annotations

import statistics
import time
import typing as t
from dataclasses import dataclass, field
from datetime import datetime

from ansible_collections.composable.infra.lab.demo.installed import Installed
from ansible_collections.composable.infra.lab.demo.report import NOTE, table
from ansible_collections.composable.infra.lab.demo.stage import A100, BESIDE, H100, WORK, Stage, StageOptions
from ansible_collections.composable.infra.lab.demo.timeline import ClaimTimes, Timeline
from ansible_collections.composable.infra.lab.names import OWN_DRIVER
from ansible_collections.composable.infra.lab.real_nodes.requirements import missing
from ansible_collections.composable.infra.tests.bench.measure import idle, wait
from ansible_collections.composable.infra.tests.e2e.support import real_pods
from ansible_collections.composable.infra.tests.e2e.support.support import all_free, holds_new_pods

GATED, DIRECT, RESCHEDULE = "gated", "direct", "reschedule"
MODELS = {GATED: A100, DIRECT: H100, RESCHEDULE: "NVIDIA-L40S"}
# Seconds between two checks of binding conditions in kube-scheduler, and the allowed cost of an
# attach beside these, the node and the fabric.
TICK, OURS = 5.0, 1.5
LIMIT, HOLD = 120.0, 10.0
MOMENTS = ("asked", "attached", "touched", "visible", "told", "bound_at", "running")


@dataclass(slots=True)
class Measured:
    """Runs of one kind: seconds from the claim's creation to each moment, and to the first line of
    ``output``.

    ``limits``: allowed seconds of each run, empty for a handover without a promise.
    """

    name: str
    moments: dict[str, list[float]] = field(default_factory=dict)
    output: list[float] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)

    def add(self, claim: ClaimTimes, output: float) -> None:
        """Add a run, without moments that it did not have."""
        created = claim.created or 0.0
        told = claim.condition or claim.opened
        for name in MOMENTS:
            if (moment := told if name == "told" else getattr(claim, name)) is not None:
                self.moments.setdefault(name, []).append(moment - created)
        self.output.append(output - created)

    def row(self) -> dict[str, t.Any]:
        """Return the row of a results file: medians."""
        within = sum(took <= limit for took, limit in zip(self.output, self.limits, strict=bool(self.limits)))
        return {"name": self.name, "runs": len(self.output),
                "seconds": {name: round(statistics.median(each), 3) for name, each in self.moments.items()},
                "output_seconds": {"median": statistics.median(self.output), "min": min(self.output),
                                   "max": max(self.output)},
                "limit_seconds": statistics.median(self.limits) if self.limits else None,
                "within": within if self.limits else None}


def run(runs: int) -> list[dict[str, t.Any]]:
    """Return the rows of all kinds.

    Raise RuntimeError if this machine can have no real nodes, or a pod did not run in time.
    """
    if trouble := missing():
        raise RuntimeError(trouble)
    options = StageOptions(nodes=0, real_nodes=2, devices=dict.fromkeys(MODELS.values(), 1), attach=0.0, detach=0.0,
                           hold=HOLD, handover=GATED, driver=OWN_DRIVER, scan_interval=1.0,
                           extra={"handover_models": {MODELS[name]: name for name in (DIRECT, RESCHEDULE)}})
    cold, warm = ([Measured(name) for name in MODELS], [Measured(f"{name}, device idle") for name in MODELS])
    with Stage(options) as stage:
        Installed(stage)
        wait(lambda: all_free(stage) and holds_new_pods(stage), LIMIT, "pools and gates are there")
        for turn in range(runs):
            for name, first, then in zip(MODELS, cold, warm, strict=True):
                _pair(stage, f"{name}-{turn}", MODELS[name], first, then)
    print(NOTE, flush=True)
    return [each.row() for each in (*cold, *warm)]


def _pair(stage: Stage, name: str, model: str, first: Measured, then: Measured) -> None:
    """Run a pod with an attach, then a pod for the same device, which is idle."""
    with_attach = _pod(stage, name, model, first)
    wait(lambda: idle(stage) == 1, LIMIT, f"the device of {name} is idle")
    asked = len(stage.emulator.effects())
    _pod(stage, f"{name}-again", model, then)
    if len(stage.emulator.effects()) != asked:
        raise RuntimeError(f"a device was attached for {name}-again, though one was idle")
    wait(lambda: all_free(stage), LIMIT, f"the device of {name} is back in the pool")
    if first.name == DIRECT:
        first.limits.append(TICK + OURS)
    if first.name == GATED:
        first.limits.append((with_attach.visible or 0.0) - (with_attach.attached or 0.0) + OURS)
    then.limits.append(OURS)


def _pod(stage: Stage, name: str, model: str, measured: Measured) -> ClaimTimes:
    """Run a pod, record its times, print its timeline, and delete it."""
    timeline = Timeline(stage)
    stage.pod(name, model)
    if not timeline.wait(lambda: timeline.running(name), LIMIT):
        raise RuntimeError(f"not within {LIMIT:g} s: pod {name} runs")
    moment, line = _first_output(stage, name)
    beside = stage.first_line(name, BESIDE)
    claim = next(each for each in timeline.finish() if each.name == name)
    timeline.stop()
    if line != f"devices: GPU_DEVICE_0={claim.devices[0]}" or beside != "devices: ":
        raise RuntimeError(f"{name} prints {line!r}, and the container beside it {beside!r}")
    measured.add(claim, moment)
    print(f"{table([claim]).removesuffix(NOTE)}first line of the container: {measured.output[-1]:.2f}\n", flush=True)
    real_pods.delete_with_claims(stage.lab, name)
    return claim


def _first_output(stage: Stage, pod: str) -> tuple[float, str]:
    """Return (epoch seconds, line) of the first line of the container, by its runtime's log."""
    path = f"/api/v1/namespaces/default/pods/{pod}/log?container={WORK}&timestamps=true"
    deadline = time.monotonic() + LIMIT
    while "\n" not in (text := str(stage.lab.api.get(path))):
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {LIMIT:g} s: pod {pod} prints a line")
        time.sleep(0.05)
    moment, _space, line = text.partition("\n")[0].partition(" ")
    return datetime.fromisoformat(f"{moment[:26].rstrip('Z')}+00:00").timestamp(), line
