# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attach operations: what is written before and after the manager is asked, and what each kind of answer leads to."""

from __future__ import annotations

import threading
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    FabricError,
    Missing,
    Refused,
    Unauthorized,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Conflict, Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import Attach, CreateResource
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node.attach_operations import ASK_AGAIN
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import Call, answered_by_a_proxy, unreachable
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

CREATE = CreateResource("node-0", "wanted", "gpu-new", "request", A100, "machine-0", ("foreign",))
ATTACH = Attach("node-0", "wanted", "gpu-a", A100, "machine-0", ("foreign",))


@pytest.fixture(autouse=True)
def device_of_somebody_else(bench: Bench) -> None:
    """What the intents below name as there already is there."""
    bench.fabric.attached["foreign"] = device("foreign")


def only(bench: Bench) -> dict[str, t.Any]:
    """The one ComposableResource that the API server has."""
    (found,) = bench.api.of(COMPOSABLE_RESOURCES)
    return found


def test_device_is_written_down_after_the_answer(bench: Bench) -> None:
    bench.operations.create(CREATE)
    bench.idle()
    raw = only(bench)
    assert bench.status(raw["metadata"]["name"]) == {"state": "Attaching", "error": "", "device_id": "GPU-d1",
                                                     "cdi_device_id": "d1"}
    assert bench.told("Attached") == [f"device GPU-d1 ({A100}) attached to node node-0"]
    bench.wait(lambda: bench.finished == ["node-0"], "the controllers are told")
    assert len(bench.metrics.observed("attach_duration_seconds")) == 1


def test_intent_is_stored_before_the_manager_is_asked(bench: Bench) -> None:
    bench.fabric.gate = threading.Event()
    bench.operations.create(CREATE)
    assert bench.fabric.asked.wait(10)
    machine, asked, present = cohdi.read_intent(only(bench))
    assert (machine, present) == ("machine-0", frozenset({"foreign"}))
    assert asked > 0
    assert len(bench.state.operations) == 1
    bench.fabric.gate.set()
    bench.idle()


def test_new_resource_belongs_to_its_request(bench: Bench) -> None:
    bench.operations.create(CREATE)
    bench.idle()
    raw = only(bench)
    assert raw["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "request",
                                         "composable.infra/target-node": "node-0"}
    assert raw["metadata"]["finalizers"] == [cohdi.FINALIZER]
    assert raw["metadata"]["name"].startswith("gpu-")
    assert raw["spec"] == {"type": "gpu", "model": A100, "target_node": "node-0"}


def test_nothing_is_asked_when_the_intent_cannot_be_stored(bench: Bench) -> None:
    bench.api.fail("create", COMPOSABLE_RESOURCES, Forbidden(403, "Forbidden", "no"))
    with pytest.raises(Forbidden):
        bench.operations.create(CREATE)
    assert bench.fabric.attaches == []
    assert len(bench.state.operations) == 0


def test_resource_that_exists_gets_its_intent_first(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a"))
    order: list[str] = []
    bench.api.before = lambda call: order.append(call.subresource or "intent")
    bench.fabric.gate = threading.Event()
    bench.operations.attach(ATTACH)
    assert bench.fabric.asked.wait(10)
    assert order[:1] == ["intent"]
    assert cohdi.read_intent(bench.api.one(COMPOSABLE_RESOURCES, "gpu-a"))[2] == frozenset({"foreign"})
    bench.fabric.gate.set()
    bench.idle()
    assert bench.status()["cdi_device_id"] == "d1"


@pytest.mark.parametrize(("error", "waits"), [
    (Forbidden(403, "Forbidden", "no"), True), (Conflict(409, "Conflict", "changed meanwhile"), False),
], ids=["refused", "conflict"])
def test_an_intent_that_cannot_be_stored_is_tried_again_after_a_while(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: ApiError, waits: bool
) -> None:
    """The next plan would write it at once, and again; one that met a newer object plans with that."""
    waited: list[float] = []
    monkeypatch.setattr(bench.operations.stopping, "wait", waited.append)
    bench.put(objects.resource("gpu-a"))
    bench.api.fail("merge_patch", COMPOSABLE_RESOURCES, error)
    bench.operations.attach(ATTACH)
    bench.idle()
    assert waited == ([ASK_AGAIN] if waits else [])
    assert bench.fabric.attaches == []
    assert bench.finished == ["node-0"], "it is planned anew"


def test_one_resource_is_asked_for_once_at_a_time(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a"))
    bench.fabric.gate = threading.Event()
    bench.operations.attach(ATTACH)
    assert bench.fabric.asked.wait(10)
    bench.operations.attach(ATTACH)
    bench.fabric.gate.set()
    bench.idle()
    assert len(bench.fabric.attaches) == 1


def test_several_resources_are_asked_for_at_the_same_time(bench: Bench) -> None:
    bench.fabric.gate = threading.Event()
    for number in range(4):
        bench.operations.create(replace(CREATE, name=f"gpu-{number}"))
    bench.wait(lambda: len(bench.fabric.attaches) == 4, "four requests at once")
    bench.fabric.gate.set()
    bench.idle()
    assert {r["status"]["cdi_device_id"] for r in bench.api.of(COMPOSABLE_RESOURCES)} == {"d1", "d2", "d3", "d4"}


@pytest.mark.parametrize("error", [Unavailable, Busy, Unauthorized])
def test_what_was_surely_not_done_is_asked_again(bench: Bench, error: type[FabricError]) -> None:
    bench.fabric.answers = [error("not now"), error("not now"), None]
    bench.operations.create(CREATE)
    bench.idle()
    assert len(bench.fabric.attaches) == 3
    assert only(bench)["status"]["cdi_device_id"] == "d3"
    assert bench.told("AttachFailed") == ["not now"]


def test_error_that_changes_is_told_each_time(bench: Bench) -> None:
    bench.fabric.answers = [Unavailable("a"), Unavailable("b"), Unavailable("b"), None]
    bench.operations.create(CREATE)
    bench.idle()
    assert bench.told("AttachFailed") == ["a", "b"]


def test_intent_is_renewed_before_it_is_asked_again(bench: Bench) -> None:
    """The time in it is what decides how long a lost reply may still take effect."""
    seen: list[float] = []

    def note(call: Call) -> None:
        if call.plural == "composableresources" and "annotations" in (call.body or {}).get("metadata", {}):
            seen.append(cohdi.read_intent(call.body)[1])

    bench.api.before = note
    bench.fabric.answers = [Unavailable("not now"), None]
    bench.operations.create(CREATE)
    bench.idle()
    assert len(seen) == 2
    assert 0 < seen[0] < seen[1]
    assert cohdi.read_intent(only(bench))[2] == frozenset({"foreign"})


def test_error_is_on_the_object_while_it_lasts(bench: Bench) -> None:
    bench.fabric.answers = [Unavailable("the CDI Manager does not answer")] * 10_000
    bench.operations.create(CREATE)
    bench.wait(lambda: only(bench).get("status", {}).get("error"))
    assert bench.status(only(bench)["metadata"]["name"]) == {"state": "Attaching",
                                                             "error": "the CDI Manager does not answer"}
    bench.fabric.answers = []
    bench.idle()
    assert only(bench)["status"]["error"] == ""


def test_lost_reply_is_not_asked_again(bench: Bench) -> None:
    bench.fabric.answers = [Uncertain("the reply was lost")]
    bench.operations.create(CREATE)
    bench.idle()
    assert len(bench.fabric.attaches) == 1
    assert only(bench)["status"]["error"] == "the reply was lost"
    assert cohdi.read_intent(only(bench))[1] > 0


def test_lost_reply_calls_for_a_pass(bench: Bench) -> None:
    bench.fabric.answers = [Uncertain("the reply was lost")]
    bench.operations.create(CREATE)
    bench.wait(lambda: bench.finished)
    assert bench.finished == ["node-0"]


@pytest.mark.parametrize("error", [Refused("no: E02XXXX"), Missing("no such machine")], ids=["refused", "missing"])
def test_refusal_blocks_the_model_on_the_node(bench: Bench, error: FabricError) -> None:
    bench.fabric.answers = [error]
    bench.operations.create(CREATE)
    bench.idle()
    assert node_snapshot(bench.state, "node-0").blocked == {A100: str(error)}
    assert len(bench.fabric.attaches) == 1
    assert cohdi.read_intent(only(bench)) == ("", 0.0, frozenset())
    assert only(bench)["status"]["error"] == str(error)


@pytest.mark.parametrize(("exhausted", "seconds"), [(True, 5.0), (False, 60.0)])
def test_block_is_short_when_devices_only_ran_out(bench: Bench, exhausted: bool, seconds: float) -> None:
    bench.fabric.answers = [Refused("no", exhausted=exhausted)]
    bench.operations.create(CREATE)
    bench.idle()
    now = node_snapshot(bench.state, "node-0").now
    assert bench.state.blocks.of("node-0", now + seconds - 4)
    assert not bench.state.blocks.of("node-0", now + seconds + 1)


def test_block_is_for_one_node_and_one_model(bench: Bench) -> None:
    bench.state.blocks.block("node-0", A100, 60, "no")
    assert node_snapshot(bench.state, "node-1").blocked == {}
    assert set(node_snapshot(bench.state, "node-0").blocked) == {A100}


def test_refusal_that_attached_a_device_all_the_same_is_undone(bench: Bench) -> None:
    error = Refused("the device is critical")
    error.device = device("bad")
    bench.fabric.answers = [error]
    bench.operations.create(CREATE)
    bench.idle()
    assert bench.fabric.detaches == [("machine-0", "bad")]
    assert "cdi_device_id" not in only(bench)["status"]


@pytest.mark.parametrize("named", ["foreign", "owned"])
def test_refusal_that_names_a_device_of_somebody_else_detaches_nothing(bench: Bench, named: str) -> None:
    """The manager names first what was there before, or what another ComposableResource has. The new device is found
    on the machine by the next pass, as after a lost reply."""
    bench.put(objects.resource("gpu-owner", device="owned", serial="GPU-owned"))
    error = Refused("the device is critical")
    error.device = device(named)
    bench.fabric.answers = [error]
    bench.put(objects.resource("gpu-a"))
    bench.operations.attach(ATTACH)
    bench.idle()
    assert bench.fabric.detaches == []
    assert "was not detached again" in bench.status("gpu-a")["error"]
    (raw,) = [r for r in bench.api.of(COMPOSABLE_RESOURCES) if r["metadata"]["name"] == "gpu-a"]
    assert cohdi.read_intent(raw)[0] == "machine-0"
    assert node_snapshot(bench.state, "node-0").blocked == {}


def test_refused_device_that_cannot_be_given_back_stays_known(bench: Bench) -> None:
    """The intent stays, so the device is found on the machine later instead of being forgotten."""
    error = Refused("the device is critical")
    error.device = device("bad")
    bench.fabric.answers, bench.fabric.detach_error = [error], Unavailable("not now")
    bench.operations.create(CREATE)
    bench.idle()
    assert cohdi.read_intent(only(bench))[1] > 0
    assert bench.told("Failed") == ["not now"]


def test_device_that_another_resource_owns_is_not_taken(bench: Bench) -> None:
    bench.put(objects.resource("gpu-owner", device="d1", serial="GPU-d1"))
    bench.put(objects.resource("gpu-a"))
    bench.operations.attach(ATTACH)
    bench.idle()
    assert "cdi_device_id" not in bench.status("gpu-a")
    assert "which gpu-owner already owns" in bench.status("gpu-a")["error"]


@pytest.mark.parametrize("error", [unreachable(), answered_by_a_proxy()])
def test_device_is_remembered_until_the_api_server_is_back(bench: Bench, error: ApiError) -> None:
    bench.api.fail("merge_patch", COMPOSABLE_RESOURCES, error)
    bench.operations.create(CREATE)
    bench.wait(lambda: len([c for c in bench.api.calls if c.subresource == "status"]) >= 3, "three tries")
    assert len(bench.state.operations) == 1
    bench.api.heal()
    bench.idle()
    assert only(bench)["status"]["cdi_device_id"] == "d1"
    assert len(bench.fabric.attaches) == 1


def test_device_of_a_resource_that_is_gone_stays_attached_and_is_told(bench: Bench) -> None:
    """As after a restore of etcd. The node may have the device by now, and nobody can ask the node to let it go."""
    bench.fabric.gate = threading.Event()
    bench.operations.create(CREATE)
    assert bench.fabric.asked.wait(10)
    bench.api.objects.clear()
    bench.fabric.gate.set()
    bench.idle()
    assert bench.fabric.detaches == []
    (said,) = [entry for entry in bench.reporter.history if entry["reason"] == "NotRecorded"]
    assert "d1" in said["message"]
    assert "Detach it with the module fabric_device" in said["message"]


def test_resource_deleted_while_it_waits_is_not_asked_for_again(bench: Bench) -> None:
    bench.fabric.answers = [Unavailable("not now")] * 10_000
    bench.operations.create(CREATE)
    bench.wait(lambda: len(bench.fabric.attaches) > 1)
    bench.writer.resources.delete(only(bench)["metadata"]["name"])
    bench.idle()
    assert "cdi_device_id" not in only(bench)["status"]


def test_resource_deleted_while_it_waits_forgets_its_intent(bench: Bench) -> None:
    bench.fabric.answers = [Unavailable("not now")] * 10_000
    bench.operations.create(CREATE)
    bench.wait(lambda: len(bench.fabric.attaches) > 1)
    bench.writer.resources.delete(only(bench)["metadata"]["name"])
    bench.idle()
    assert cohdi.read_intent(only(bench))[1] == 0.0
