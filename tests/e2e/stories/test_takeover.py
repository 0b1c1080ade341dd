# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CoHDI's controllers end at any step of a device's way in or out, and ours go on from there; and the other way round.

CoHDI's are stand-ins (``tests/e2e/support/upstream``). Whoever goes on serves the pod with the one device that was
asked for, and gives it back.
"""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.launch import begin
from ansible_collections.composable.infra.tests.e2e.support.support import (
    await_served,
    changes_asked,
    delete_all,
    mark,
    returned,
    states,
    wait_for,
)
from ansible_collections.composable.infra.tests.e2e.support.upstream.loop import Json, Part
from ansible_collections.composable.infra.tests.e2e.support.upstream.operator import TAINTS, Operator
from ansible_collections.composable.infra.tests.e2e.support.upstream.publisher import Publisher
from ansible_collections.composable.infra.tests.e2e.support.upstream.scaler import Scaler

pytestmark = pytest.mark.e2e
# CoHDI's operator uses DeviceTaintRules of v1alpha3, which Kubernetes 1.37 does not serve.
STAGE: dict[str, t.Any] = {"kubernetes": "1.36", "handover": "reschedule", "nodes": 1, "devices": {A100: 2}}
TICK = 0.5
# The attach takes so long that a controller ends meanwhile.
SLOW = 8.0
# The kubelet kills a controller after this time, terminationGracePeriodSeconds in the shipped Deployment.
GRACE = 30.0
# Not the moment between its request and its note: only the report shows a device that nobody has written down.
WAY_IN = ("created", "recorded", "announced", "online")
WAY_OUT = ("detaching", "tainted", "drained", "detached", "deleting")


class Ended(Exception):
    """The operator has come to the step at which it ends."""


class EndingOperator(Operator):
    """CoHDI's operator until it ends at a step of WAY_IN or WAY_OUT, for ever."""

    def __init__(self, stage: Stage, step: str) -> None:
        super().__init__(stage, TICK, plugin_rest=0.0)
        self._step, self.ended = step, threading.Event()

    def look(self) -> None:
        if self.ended.is_set():
            return
        try:
            super().look()
        except Ended:
            self.ended.set()

    def _at(self, step: str) -> None:
        if step == self._step:
            raise Ended

    def _attach(self, resource: Json, status: Json) -> None:
        if not status.get("cdi_device_id"):
            self._at("created")
        else:
            self._at("recorded")
            if self._visible(status["device_id"]):
                self._at("announced")
        super()._attach(resource, status)

    def _online(self, resource: Json, status: Json) -> None:
        self._at("online")
        super()._online(resource, status)

    def _detach(self, resource: Json, status: Json) -> None:
        self._at("detaching")
        name, node, device = resource["metadata"]["name"], resource["spec"]["target_node"], status["device_id"]
        if self._step in ("tainted", "drained", "detached"):
            self._taint(name, device)
            self._at("tainted")
            self.pods[node].drain(device)
            self._at("drained")
            self.manager.detach(self._machine(node), status["cdi_device_id"])
            raise Ended
        super()._detach(resource, status)

    def _delete(self, resource: Json, status: Json) -> None:
        self._at("deleting")
        super()._delete(resource, status)


@pytest.fixture
def theirs(stage: Stage) -> Iterator[list[Part]]:
    """Parts of CoHDI that run; what is left on the stage goes at the end."""
    running: list[Part] = []
    yield running
    delete_all(stage)
    stop(running)


def stop(parts: list[Part]) -> None:
    """As ``cohdi_state: paused`` does."""
    for part in parts:
        part.stop()
        print(f"{type(part).__name__}: {part.troubles}")
    parts.clear()


def others(stage: Stage, hold: float = 10.0) -> list[Part]:
    """CoHDI's publisher and scaler.

    Its operator gives a device back that is idle for longer than ``hold`` seconds, and kube-scheduler takes up to 10 s
    to allocate it.
    """
    return [Publisher(stage, TICK).start(), Scaler(stage, TICK, hold, no_allocation=0.5).start()]


def ours(stage: Stage, open_process: OpenProcess, name: str) -> front_doors.Process:
    """Start our controllers, and wait until they lead."""
    process = open_process(begin, stage, name)
    process.wait_for("leading as")
    return process


def assert_nothing_is_left(stage: Stage) -> None:
    """The device returns, and neither side's objects are left."""
    wait_for("the device is returned", lambda: returned(stage))
    assert stage.client.list(COMPOSABLE_RESOURCES).items == []
    assert stage.client.list(TAINTS).items == []


def asked(stage: Stage, since: int, method: str) -> int:
    """How often the CDI Manager was asked with success."""
    return sum(entry["method"] == method and entry["status"] == 200 and bool(entry["device"])
               for entry in changes_asked(stage, since))


@pytest.mark.parametrize("step", WAY_IN)
def test_pod_whose_device_cohdi_was_bringing_is_served_by_ours(
    stage: Stage, timeline: Timeline, theirs: list[Part], open_process: OpenProcess, step: str
) -> None:
    since, pod = mark(stage), f"in-{step}"
    operator = EndingOperator(stage, step)
    theirs += [*others(stage), operator.start()]
    stage.pod(pod, A100)
    wait_for(f"CoHDI's operator has ended at {step}", operator.ended.is_set)
    stop(theirs)
    ours(stage, open_process, f"ours-{pod}")
    await_served(stage, timeline, pod)
    assert asked(stage, since, "PATCH") == 1
    stage.delete_pod(pod)
    assert_nothing_is_left(stage)


@pytest.mark.parametrize("step", WAY_OUT)
def test_device_that_cohdi_was_taking_away_is_returned_by_ours(
    stage: Stage, timeline: Timeline, theirs: list[Part], open_process: OpenProcess, step: str
) -> None:
    since, pod = mark(stage), f"out-{step}"
    operator = EndingOperator(stage, step)
    theirs += [*others(stage), operator.start()]
    stage.pod(pod, A100)
    await_served(stage, timeline, pod)
    stage.delete_pod(pod)
    wait_for(f"CoHDI's operator has ended at {step}", operator.ended.is_set)
    stop(theirs)
    ours(stage, open_process, f"ours-{pod}")
    assert_nothing_is_left(stage)
    assert (asked(stage, since, "PATCH"), asked(stage, since, "DELETE")) == (1, 1)


def test_device_that_ours_was_bringing_is_known_to_cohdi(
    stage: Stage, timeline: Timeline, theirs: list[Part], open_process: OpenProcess
) -> None:
    """Ours end while the CDI Manager attaches: CoHDI's operator does not look for a device that is not written down."""
    process = ours(stage, open_process, "ours-back")
    stage.emulator.set_timing(attach=SLOW)
    try:
        stage.pod("back", A100)
        wait_for("the device is on its way", lambda: "attaching" in states(stage))
        process.stop(patience=GRACE)
    finally:
        stage.emulator.set_timing(attach=0.0)
    on_machines = [device["uid"] for device in stage.emulator.state()["devices"] if device["state"] == "attached"]
    known = [raw["status"].get("cdi_device_id") for raw in stage.client.list(COMPOSABLE_RESOURCES).items]
    assert known == on_machines != []
    theirs += [*others(stage), Operator(stage, TICK, plugin_rest=0.0).start()]
    await_served(stage, timeline, "back")
    stage.delete_pod("back")
    assert_nothing_is_left(stage)
