# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each of publisher, scaler and operator is ours or CoHDI's: a pod runs and its device returns in every mix.

CoHDI's are stand-ins (``tests/e2e/support/upstream``), whose waiting times are shortened. Their scaler's hold time is
shorter than kube-scheduler's second round, so that it shrinks the request meanwhile. Our operator keeps the device.
CoHDI's would give it back in each round, so the hold time is longer beside that one.
"""

from __future__ import annotations

import itertools
import typing as t
from collections.abc import Iterator
from functools import partial

import pytest

from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.launch import begin, write_config
from ansible_collections.composable.infra.tests.e2e.support.support import (
    assert_served,
    await_served,
    changes_asked,
    delete_all,
    holds_new_pods,
    mark,
    pools,
    returned,
    wait_for,
)
from ansible_collections.composable.infra.tests.e2e.support.upstream.loop import Part
from ansible_collections.composable.infra.tests.e2e.support.upstream.operator import Operator
from ansible_collections.composable.infra.tests.e2e.support.upstream.publisher import Publisher
from ansible_collections.composable.infra.tests.e2e.support.upstream.scaler import Scaler

OURS, THEIRS = "ours", "upstream"
ROLES = ("publisher", "scaler", "operator")
TICK = 0.5
SHORT_HOLD, LONG_HOLD = 0.5, 10.0
MIXES = [dict(zip(ROLES, sides, strict=True)) for sides in itertools.product((OURS, THEIRS), repeat=3)]
# CoHDI's operator uses DeviceTaintRules of v1alpha3, which Kubernetes 1.37 does not serve.
STAGE: dict[str, t.Any] = {"kubernetes": "1.36", "handover": "gated", "nodes": 2, "devices": {A100: 2}}
Mix = dict[str, str]


def upstream(role: str, stage: Stage, mix: Mix) -> Part:
    """CoHDI's part for a role."""
    if role == "publisher":
        return Publisher(stage, TICK)
    if role == "operator":
        return Operator(stage, TICK, plugin_rest=1.0)
    return Scaler(stage, TICK, SHORT_HOLD if mix["operator"] == OURS else LONG_HOLD, no_allocation=0.5)


class Sides:
    """Starts and stops the three parts of a mix."""

    def __init__(self, stage: Stage, open_process: OpenProcess) -> None:
        self._stage, self._open = stage, open_process
        self.theirs: list[Part] = []

    def start(self, mix: Mix, handover: str) -> None:
        config = write_config(self._stage, f"config-{handover}", {**self._stage.config(), "handover": handover})
        ours = [self._open(begin, self._stage, f"{handover}-{by_name(mix)}-{role}", "--only", role, config=config,
                           kubeconfig=self._stage.lab.service_account_kubeconfig("composable-infra",
                                                                                 f"composable-infra-{role}"))
                for role, side in mix.items() if side == OURS]
        self.theirs += [upstream(role, self._stage, mix).start() for role, side in mix.items() if side == THEIRS]
        for process in ours:
            process.wait_for("leading as")
        wait_for("the pool shows all devices", lambda: sum(pools(self._stage).values()) == 2)

    def stop(self) -> None:
        for part in self.theirs:
            part.stop()
            print(f"{type(part).__name__}: {part.troubles}")


@pytest.fixture
def sides(stage: Stage, open_process: OpenProcess) -> Iterator[Sides]:
    """Stopped at the end of the test, with nothing left on the stage."""
    made = Sides(stage, open_process)
    yield made
    delete_all(stage)
    made.stop()


def by_name(mix: Mix) -> str:
    """Whose publisher, scaler and operator, in this order."""
    return "-".join(mix.values())


def quick(mix: Mix) -> bool:
    """Those that are the hardest for us; the others are left to make e2e-slow."""
    return (mix["scaler"], mix["operator"]) == (THEIRS, OURS)


@pytest.mark.parametrize("mix", [pytest.param(mix, marks=() if quick(mix) else pytest.mark.slow, id=by_name(mix))
                                 for mix in MIXES])
def test_pod_runs_and_its_device_returns(stage: Stage, timeline: Timeline, sides: Sides, mix: Mix) -> None:
    """CoHDI's scaler nominates no pod: it may end on the other node and have a second device attached there, so it is
    pinned beside that one."""
    sides.start(mix, "reschedule")
    serve(stage, timeline, pod_of(mix), gated=False, node="node-1" if mix["scaler"] == THEIRS else None)
    assert timeline.claims[pod_of(mix)].allocated, "the pool was to be used"


@pytest.mark.parametrize("mix", [mix for mix in MIXES if mix["scaler"] == OURS], ids=by_name)
def test_held_pod_runs_and_its_device_returns(stage: Stage, timeline: Timeline, sides: Sides, mix: Mix) -> None:
    sides.start(mix, "gated")
    wait_for("new pods are held", partial(holds_new_pods, stage))
    serve(stage, timeline, pod_of(mix), gated=True)
    assert timeline.claims[pod_of(mix)].allocated is None, "the pool was not to be used"


def pod_of(mix: Mix) -> str:
    return f"pod-{by_name(mix)}"


def serve(stage: Stage, timeline: Timeline, name: str, *, gated: bool, node: str | None = None) -> None:
    """One pod runs on the node of its choice, and one device came for it and goes back, by the emulator's log."""
    since = mark(stage)
    stage.pod(name, A100, node=node, gated=gated)
    await_served(stage, timeline, name)
    assert_served(stage, timeline.finish(), since, {name: (A100, 1)})
    stage.delete_pod(name)
    wait_for("the device is returned", lambda: returned(stage))
    assert [(e["method"], e["status"]) for e in changes_asked(stage, since) if e["device"]] == [
        ("PATCH", 200), ("DELETE", 200)]
    assert not stage.client.list(COMPOSABLE_RESOURCES).items
