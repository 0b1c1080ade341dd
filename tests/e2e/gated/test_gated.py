# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gated handover by the controller: who is held, what it waits for, and what happens when things go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from ansible_collections.composable.infra.controller import gate_reaper
from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, pod_body
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.gated.gated_support import (
    STAGE,
    gated,
    holder,
    lead,
    lets_new_pods_go,
    pod,
)
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.flow import waits_for
from ansible_collections.composable.infra.tests.e2e.support.support import (
    all_free,
    assert_served,
    attached,
    await_served,
    changes_asked,
    delete_all,
    lose_api_server_during_an_attach,
    mark,
    run_pods,
    wait_for,
)

pytestmark = pytest.mark.e2e
# The fixture `stage` reads the options of this file.
__all__ = ["STAGE"]


@pytest.fixture(autouse=True)
def clean(stage: Stage, open_process: OpenProcess) -> Iterator[None]:
    """Nothing is left of the test before."""
    delete_all(stage)
    yield
    delete_all(stage)


def grouped(stage: Stage, name: str, size: int) -> None:
    """A claim and a pod that belongs to the group ``g``."""
    body = pod_body(name, None)
    body["metadata"] |= {"labels": {pods.GROUPS[0]: "g"}, "annotations": {pods.GROUP_SIZE: str(size)}}
    stage.claim(name, A100)
    stage.client.create(PODS, body)


def test_no_pool_device_is_touched_on_the_way(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    lead(stage, open_process)
    wanted = {"one": (A100, 1), "two": (A100, 2)}
    since = run_pods(stage, timeline, lambda: None, wanted)
    assert_served(stage, timeline.finish(), since, wanted)
    for it in timeline.claims.values():
        assert it.held
        assert it.opened
        assert it.allocated is None, "the pool was not to be used"


def test_pod_that_opts_out_takes_the_pools_way(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    lead(stage, open_process)
    stage.pod("out", A100, gated=False)
    await_served(stage, timeline, "out")
    it = timeline.claims["out"]
    assert (it.held, bool(it.allocated)) == (None, True)


def test_gate_of_somebody_else_is_left_alone(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    lead(stage, open_process)
    body = pod_body("both", None)
    body["spec"]["schedulingGates"] = [{"name": "example.com/other"}]
    stage.claim("both", A100)
    stage.client.create(PODS, body)
    names = [g["name"] for g in pod(stage, "both")["spec"]["schedulingGates"]]
    assert sorted(names) == [pods.GATE, "example.com/other"]
    path = f"/spec/schedulingGates/{names.index('example.com/other')}"
    stage.client.json_patch(PODS, "both", [{"op": "remove", "path": path}], namespace="default")
    await_served(stage, timeline, "both")


def test_pod_that_cannot_be_served_is_let_go_with_the_reason(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    controller = lead(stage, open_process)
    stage.pod("large", A100, 4)
    wait_for("the gate is removed", lambda: not gated(stage, "large"))
    wait_for("the scheduler says why", lambda: pods.unschedulable(pod(stage, "large")))
    assert "GateReleased default/large: 4 x" in controller.text()
    assert not attached(stage)


def test_group_takes_all_or_nothing(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    lead(stage, open_process)
    since = mark(stage)
    grouped(stage, "a", 3)
    grouped(stage, "b", 3)
    assert waits_for(stage, "a")
    assert gated(stage, "a")
    assert changes_asked(stage, since) == []
    grouped(stage, "c", 3)
    await_served(stage, timeline, "a", "b", "c")
    opened = [timeline.claims[n].opened or 0.0 for n in ("a", "b", "c")]
    asked = [e["time_replied"] for e in changes_asked(stage, since, "PATCH")]
    assert min(opened) > max(asked), "a gate was opened before the group had all its devices"


def test_stopped_controller_holds_nobody(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    lead(stage, open_process).stop()
    assert not holder(stage)
    wait_for("new pods are not held", partial(lets_new_pods_go, stage), 5)


def test_killed_controller_holds_nobody_once_its_lease_is_over(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    """The policy looks at the time itself: nobody has to notice that the controller died."""
    lead(stage, open_process).kill()
    stage.pod("early", A100)
    assert gated(stage, "early")
    wait_for("new pods are not held", partial(lets_new_pods_go, stage), 30)
    patient = gate_reaper.Reaper(stage.client, "composable-infra", 3600)
    assert patient.look() == 0, "a controller may come back in time"
    reaper = gate_reaper.Reaper(stage.client, "composable-infra", 0)
    wait_for("the pod is let go", lambda: reaper.look() >= 1, 30)
    assert not gated(stage, "early")


@pytest.mark.parametrize("said", ["NodeChosen", "Attaching", "Attached", "GateOpened"])
def test_killed_on_the_way(stage: Stage, timeline: Timeline, open_process: OpenProcess, said: str) -> None:
    first = lead(stage, open_process)
    since = mark(stage)
    stage.pod("one", A100)
    first.wait_for(said)
    first.kill()
    open_process(front_doors.controller, stage)
    await_served(stage, timeline, "one")
    done = [e for e in changes_asked(stage, since, "PATCH") if e["device"]]
    assert len({e["device"] for e in done}) == len(done) == 1
    assert set(attached(stage)) == set(timeline.claims["one"].devices)


def test_pod_deleted_while_its_device_is_attached_leaves_nothing(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    controller = lead(stage, open_process)
    stage.pod("brief", A100)
    controller.wait_for("Attaching")
    stage.delete_pod("brief")
    controller.wait_for("Detached")
    wait_for("all devices are free", lambda: all_free(stage))
    for folder in map(stage.lab.node_folder, stage.lab.nodes):
        assert by_hand.gpus(folder) == []
        assert "Xid" not in by_hand.kernel_log(folder)


def test_device_that_somebody_else_took_is_attached_anew(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    """A pod without a gate that waits for any device of a node is woken by the same slice and may be faster."""
    lead(stage, open_process)
    stage.claim("thief", A100, local=True)
    body = pod_body("thief", None)
    body["metadata"]["labels"] = {pods.OPT: "false"}
    stage.client.create(PODS, body)
    wait_for("the thief waits", lambda: pods.unschedulable(pod(stage, "thief")))
    stage.pod("owner", A100)
    await_served(stage, timeline, "owner")


def test_api_server_away_during_an_attach(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    controller = lead(stage, open_process)
    since = mark(stage)
    stage.emulator.set_timing(attach=2.0)
    try:
        stage.pod("one", A100)
        lose_api_server_during_an_attach(stage)
    finally:
        stage.emulator.set_timing(attach=0.3)
    await_served(stage, timeline, "one", deployed=controller)
    assert len([e for e in changes_asked(stage, since, "PATCH") if e["device"]]) == 1


def test_manager_away_holds_the_pod_until_it_is_back(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    controller = lead(stage, open_process)
    since = mark(stage)
    stage.emulator.kill()
    stage.pod("one", A100)
    wait_for("it is said why", lambda: "AttachFailed" in controller.text())
    assert gated(stage, "one")
    stage.emulator.restart()
    await_served(stage, timeline, "one")
    assert len([e for e in changes_asked(stage, since, "PATCH") if e["device"]]) == 1
