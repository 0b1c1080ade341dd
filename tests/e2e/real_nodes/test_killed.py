# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real nodes: whoever is killed while a device comes or goes, the pod runs with one device, which then returns.

Each run kills one program on both nodes at a step of the way up and again at a step of the way down. KILLS=all takes
every program at every step.
"""

from __future__ import annotations

import os
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.lab.demo.installed import Installed
from ansible_collections.composable.infra.lab.demo.stage import A100, BESIDE, WORK, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import (
    ANNOUNCED,
    DRAINED,
    IDLE,
    ON_BUS,
    PLUGIN_RESTARTED,
    REMOVED_FROM_BUS,
    STEPS_UP,
)
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

ASKED = "asked"
VICTIMS = (real.AGENT, real.PLUGIN, real.KUBELET, real.CONTAINERD, real.CONTROLLER)
UP, DOWN = (ASKED, *STEPS_UP), (IDLE, DRAINED, REMOVED_FROM_BUS, ASKED)
SOME = ((real.AGENT, ON_BUS, IDLE), (real.PLUGIN, PLUGIN_RESTARTED, REMOVED_FROM_BUS), (real.KUBELET, ASKED, DRAINED),
        (real.CONTAINERD, ANNOUNCED, REMOVED_FROM_BUS), (real.CONTROLLER, ASKED, ASKED))
EVERY = tuple((victim, up, DOWN[n % len(DOWN)]) for victim in VICTIMS for n, up in enumerate(UP))
OPTIONS: dict[str, t.Any] = {"nodes": 0, "real_nodes": 2, "devices": {A100: 2}, "handover": "gated", "attach": 1.0,
                             "detach": 1.0}


@pytest.fixture(scope="module")
def stage(stage_factory: StageFactory) -> Stage:
    """Two real nodes, with everything that the role installs."""
    made = stage_factory(**OPTIONS)
    Installed(made)
    return made


@pytest.fixture
def log(stage: Stage) -> Iterator[real.EvidenceLog]:
    """What the agents write."""
    found = real.EvidenceLog(stage)
    yield found
    found.stop()


def asked_or_has(stage: Stage, log: real.EvidenceLog, since: int, method: str, step: str) -> bool:
    """Whether the manager was asked by this method, or a device has taken the step."""
    return bool(changes_asked(stage, since, method)) if step == ASKED else log.has(step)


@pytest.mark.parametrize(("victim", "up", "down"), EVERY if os.environ.get("KILLS") == "all" else SOME)
def test_whoever_is_killed_one_device_comes_and_returns(
    stage: Stage, timeline: Timeline, log: real.EvidenceLog, victim: str, up: str, down: str
) -> None:
    real.start_afresh(stage, victim)
    wait_for("nothing is under way", lambda: all_free(stage))
    since, before = mark(stage), len(stage.emulator.effects())
    stage.pod("one", A100)
    wait_for(f"{up}, on the way up", lambda: asked_or_has(stage, log, since, "PATCH", up))
    real.kill(stage, victim)
    assert timeline.wait(lambda: timeline.running("one"), PATIENCE)
    (device,) = attached(stage)
    assert stage.first_line("one", WORK).endswith(f"={device}")
    assert stage.first_line("one", BESIDE) == "devices: "
    assert len(stage.client.list(COMPOSABLE_RESOURCES).items) == 1
    real_pods.delete_with_claims(stage.lab, "one")
    wait_for(f"{down}, on the way down", lambda: asked_or_has(stage, log, since, "DELETE", down))
    real.kill(stage, victim)
    wait_for("the device has returned", lambda: all_free(stage))
    assert real.pulled_first(stage, log, since) == []
    effects = [effect["effect"].split()[0] for effect in stage.emulator.effects()[before:]]
    assert effects == ["attached", "detached"]
    assert_nothing_left(stage)


def test_containerd_keeps_nothing_of_them(stage: Stage) -> None:
    assert_no_container_left(stage)
