# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The handover direct on real nodes, whoever is killed: the pod runs with its one device, which then returns.

``KILLS=all`` kills everybody at every step.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import pytest

from ansible_collections.composable.infra.lab.demo.installed import Installed
from ansible_collections.composable.infra.lab.demo.stage import A100, BESIDE, WORK, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.real_nodes import on_real_nodes as real
from ansible_collections.composable.infra.tests.e2e.support import real_pods
from ansible_collections.composable.infra.tests.e2e.support.support import PATIENCE, all_free, attached, wait_for

VICTIMS = (real.AGENT, real.KUBELET, real.CONTAINERD, real.CONTROLLER)
ALLOCATED, INTENT, ATTACHED, TOLD, PREPARED = "allocated", "intent", "attached", "told", "prepared"
STEPS = (ALLOCATED, INTENT, ATTACHED, TOLD, PREPARED)
SOME = ((real.AGENT, ATTACHED), (real.KUBELET, TOLD), (real.CONTAINERD, PREPARED), (real.CONTROLLER, INTENT),
        (real.CONTROLLER, TOLD))
EVERY = tuple((victim, step) for victim in VICTIMS for step in STEPS)


@pytest.fixture(scope="module")
def stage(stage_factory: StageFactory) -> Stage:
    """Two real nodes whose agents are the DRA driver, with everything that the role installs."""
    made = stage_factory(nodes=0, real_nodes=2, devices={A100: 2}, handover="direct", attach=1.0, detach=0.5)
    Installed(made)
    return made


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
        PREPARED: lambda: any(list((node.folder / "devices").iterdir()) for node in stage.lab.real_nodes)}
    return checks[step]()


@pytest.mark.parametrize(("victim", "step"), EVERY if os.environ.get("KILLS") == "all" else SOME)
def test_whoever_is_killed_the_claim_keeps_one_device(
        stage: Stage, timeline: Timeline, victim: str, step: str) -> None:
    real.start_afresh(stage, victim)
    wait_for("nothing is under way", lambda: all_free(stage))
    before = len(stage.emulator.effects())
    stage.pod("one", A100)
    wait_for(f"the claim is {step}", partial(reached, stage, step))
    real.kill(stage, victim)
    assert timeline.wait(lambda: timeline.running("one"), PATIENCE)
    (device,) = attached(stage)
    assert stage.first_line("one", WORK).endswith(f"={device}")
    assert stage.first_line("one", BESIDE) == "devices: "
    assert claims.binding_results(stage.client.get(CLAIMS, "one", "default"))
    assert len(stage.client.list(COMPOSABLE_RESOURCES).items) == 1
    real_pods.delete_with_claims(stage.lab, "one")
    wait_for("the device has returned", lambda: all_free(stage))
    effects = [effect["effect"].split()[0] for effect in stage.emulator.effects()[before:]]
    assert effects == ["attached", "detached"]
    real.assert_nothing_left(stage)
