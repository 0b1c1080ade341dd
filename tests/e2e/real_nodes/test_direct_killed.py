# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The handover direct on real nodes, whoever is killed: the pod runs with its one device, which then returns.

Each run kills one program on both nodes at a step of the way up and again at a step of the way down. KILLS=all takes
every program at every step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from ansible_collections.composable.infra.lab.demo.installed import Installed
from ansible_collections.composable.infra.lab.demo.stage import A100, BESIDE, WORK, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import DRAINED, IDLE, REMOVED_FROM_BUS
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.real_nodes import on_real_nodes as real
from ansible_collections.composable.infra.tests.e2e.real_nodes.leftovers import (
    assert_no_container_left,
    assert_nothing_left,
)
from ansible_collections.composable.infra.tests.e2e.support import real_pods
from ansible_collections.composable.infra.tests.e2e.support.support import (
    PATIENCE,
    all_free,
    attached,
    changes_asked,
    mark,
    wait_for,
)

VICTIMS = (real.AGENT, real.KUBELET, real.CONTAINERD, real.CONTROLLER)
ALLOCATED, INTENT, ATTACHED, TOLD, PREPARED = "allocated", "intent", "attached", "told", "prepared"
UNPREPARED, ASKED = "unprepared", "asked"
UP = (ALLOCATED, INTENT, ATTACHED, TOLD, PREPARED)
DOWN = (UNPREPARED, IDLE, DRAINED, REMOVED_FROM_BUS, ASKED)
SOME = ((real.AGENT, ATTACHED, DRAINED), (real.KUBELET, TOLD, UNPREPARED), (real.CONTAINERD, PREPARED, IDLE),
        (real.CONTROLLER, INTENT, ASKED), (real.CONTROLLER, TOLD, REMOVED_FROM_BUS))
EVERY = tuple((victim, up, down) for victim in VICTIMS for up, down in zip(UP, DOWN, strict=True))


@pytest.fixture(scope="module")
def stage(stage_factory: StageFactory) -> Stage:
    """Two real nodes whose agents are the DRA driver, with everything that the role installs."""
    made = stage_factory(nodes=0, real_nodes=2, devices={A100: 2}, handover="direct", attach=1.0, detach=0.5)
    Installed(made)
    return made


@pytest.fixture
def log(stage: Stage) -> Iterator[real.EvidenceLog]:
    """What the agents write."""
    found = real.EvidenceLog(stage)
    yield found
    found.stop()


def reached(stage: Stage, step: str) -> bool:
    """Whether the claim has come so far, or further."""
    claim = stage.client.get(CLAIMS, "one", "default")
    results = claims.binding_results(claim)
    resources = stage.client.list(COMPOSABLE_RESOURCES).items
    checks: dict[str, Callable[[], bool]] = {
        ALLOCATED: lambda: bool(results),
        INTENT: lambda: any(cohdi.annotation(raw, cohdi.POOL_DEVICE) for raw in resources),
        ATTACHED: lambda: any((raw.get("status") or {}).get("cdi_device_id") for raw in resources),
        TOLD: lambda: bool(results) and bool(claims.condition(claim, results[0], ["FabricDeviceReady"])),
        PREPARED: lambda: bool(specs(stage))}
    return checks[step]()


def specs(stage: Stage) -> list[str]:
    """Specs of prepared claims, on all nodes."""
    return [path.name for node in stage.lab.real_nodes for path in (node.folder / "devices").iterdir()]


def gave_back(stage: Stage, log: real.EvidenceLog, since: int, step: str) -> bool:
    """Whether the device has come so far on its way down."""
    if step == UNPREPARED:
        return not specs(stage)
    return bool(changes_asked(stage, since, "DELETE")) if step == ASKED else log.has(step)


@pytest.mark.parametrize(("victim", "up", "down"), EVERY if os.environ.get("KILLS") == "all" else SOME)
def test_whoever_is_killed_the_claim_keeps_one_device(
        stage: Stage, timeline: Timeline, log: real.EvidenceLog, victim: str, up: str, down: str) -> None:
    real.start_afresh(stage, victim)
    wait_for("nothing is under way", lambda: all_free(stage))
    since, before = mark(stage), len(stage.emulator.effects())
    stage.pod("one", A100)
    wait_for(f"the claim is {up}", partial(reached, stage, up))
    real.kill(stage, victim)
    assert timeline.wait(lambda: timeline.running("one"), PATIENCE)
    (device,) = attached(stage)
    assert stage.first_line("one", WORK).endswith(f"={device}")
    assert stage.first_line("one", BESIDE) == "devices: "
    assert claims.binding_results(stage.client.get(CLAIMS, "one", "default"))
    assert len(stage.client.list(COMPOSABLE_RESOURCES).items) == 1
    real_pods.delete_with_claims(stage.lab, "one")
    wait_for(f"{down}, on the way down", lambda: gave_back(stage, log, since, down))
    real.kill(stage, victim)
    wait_for("the device has returned", lambda: all_free(stage))
    assert real.pulled_first(stage, log, since) == []
    effects = [effect["effect"].split()[0] for effect in stage.emulator.effects()[before:]]
    assert effects == ["attached", "detached"]
    assert_nothing_left(stage)


def test_containerd_keeps_nothing_of_them(stage: Stage) -> None:
    assert_no_container_left(stage)
