# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flights: what is written before and after the manager is asked, and what each kind of answer leads to."""

from __future__ import annotations

import threading
import typing as t

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
from ansible_collections.composable.infra.plugins.module_utils.kube import cro
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.resource import RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.scaling.actions import Attach, CreateResource
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import Call, unreachable
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device
from ansible_collections.composable.infra.tests.unit.scaling.builders import A100

CREATE = CreateResource("node-0", "wanted", "request", A100, "machine-0", ("foreign",))
ATTACH = Attach("node-0", "wanted", "gpu-a", A100, "machine-0", ("foreign",))


@pytest.fixture(autouse=True)
def device_of_somebody_else(bench: Bench) -> None:
    """What the intents below name as there already is there."""
    bench.fabric.attached["foreign"] = device("foreign")


def only(bench: Bench) -> dict[str, t.Any]:
    """The one ComposableResource that the API server has."""
    (found,) = bench.api.of(RESOURCES)
    return found


def test_device_is_written_down_after_the_answer(bench: Bench) -> None:
    bench.flights.create(CREATE)
    bench.idle()
    raw = only(bench)
    assert raw["status"] == {"state": "Attaching", "error": "", "device_id": "GPU-d1", "cdi_device_id": "d1"}
    assert bench.told("Attached") == [f"device GPU-d1 ({A100}) attached to node node-0"]
    bench.wait(lambda: bench.landed == [("node-0", A100)], "the passes are told")


def test_intent_is_stored_before_the_manager_is_asked(bench: Bench) -> None:
    bench.fabric.gate = threading.Event()
    bench.flights.create(CREATE)
    assert bench.fabric.asked.wait(10)
    machine, asked, present = cro.read_intent(only(bench))
    assert (machine, present) == ("machine-0", frozenset({"foreign"}))
    assert asked > 0
    assert bench.world.flying() == 1
    bench.fabric.gate.set()
    bench.idle()


def test_new_resource_belongs_to_its_request(bench: Bench) -> None:
    bench.flights.create(CREATE)
    bench.idle()
    raw = only(bench)
    assert raw["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "request"}
    assert raw["metadata"]["finalizers"] == [cro.FINALIZER]
    assert raw["metadata"]["name"].startswith("gpu-")
    assert raw["spec"] == {"type": "gpu", "model": A100, "target_node": "node-0"}


def test_nothing_is_asked_when_the_intent_cannot_be_stored(bench: Bench) -> None:
    bench.api.fail("create", RESOURCES, Forbidden(403, "Forbidden", "no"))
    with pytest.raises(Forbidden):
        bench.flights.create(CREATE)
    assert bench.fabric.attaches == []
    assert bench.world.flying() == 0


def test_resource_that_exists_gets_its_intent_first(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a"))
    order: list[str] = []
    bench.api.before = lambda call: order.append(call.subresource or "intent")
    bench.fabric.gate = threading.Event()
    bench.flights.attach(ATTACH)
    assert bench.fabric.asked.wait(10)
    assert order[:1] == ["intent"]
    assert cro.read_intent(bench.api.one(RESOURCES, "gpu-a"))[2] == frozenset({"foreign"})
    bench.fabric.gate.set()
    bench.idle()
    assert bench.status()["cdi_device_id"] == "d1"


def test_one_resource_is_asked_for_once_at_a_time(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a"))
    bench.fabric.gate = threading.Event()
    bench.flights.attach(ATTACH)
    assert bench.fabric.asked.wait(10)
    bench.flights.attach(ATTACH)
    bench.fabric.gate.set()
    bench.idle()
    assert len(bench.fabric.attaches) == 1


def test_several_resources_are_asked_for_at_the_same_time(bench: Bench) -> None:
    bench.fabric.gate = threading.Event()
    for _unused in range(4):
        bench.flights.create(CREATE)
    bench.wait(lambda: len(bench.fabric.attaches) == 4, "four requests at once")
    bench.fabric.gate.set()
    bench.idle()
    assert {r["status"]["cdi_device_id"] for r in bench.api.of(RESOURCES)} == {"d1", "d2", "d3", "d4"}


@pytest.mark.parametrize("error", [Unavailable, Busy, Unauthorized])
def test_what_was_surely_not_done_is_asked_again(bench: Bench, error: type[FabricError]) -> None:
    bench.fabric.answers = [error("not now"), error("not now"), None]
    bench.flights.create(CREATE)
    bench.idle()
    assert len(bench.fabric.attaches) == 3
    assert only(bench)["status"]["cdi_device_id"] == "d3"
    assert bench.told("AttachFailed") == ["not now"]


def test_error_that_changes_is_told_each_time(bench: Bench) -> None:
    bench.fabric.answers = [Unavailable("a"), Unavailable("b"), Unavailable("b"), None]
    bench.flights.create(CREATE)
    bench.idle()
    assert bench.told("AttachFailed") == ["a", "b"]


def test_intent_is_renewed_before_it_is_asked_again(bench: Bench) -> None:
    """The time in it is what decides how long a lost reply may still take effect."""
    seen: list[float] = []

    def note(call: Call) -> None:
        if call.plural == "composableresources" and "metadata" in (call.body or {}):
            seen.append(cro.read_intent(call.body)[1])

    bench.api.before = note
    bench.fabric.answers = [Unavailable("not now"), None]
    bench.flights.create(CREATE)
    bench.idle()
    assert len(seen) == 2
    assert 0 < seen[0] < seen[1]
    assert cro.read_intent(only(bench))[2] == frozenset({"foreign"})


def test_error_is_on_the_object_while_it_lasts(bench: Bench) -> None:
    bench.fabric.answers = [Unavailable("the CDI Manager does not answer")] * 10_000
    bench.flights.create(CREATE)
    bench.wait(lambda: only(bench).get("status", {}).get("error"))
    assert only(bench)["status"] == {"state": "Attaching", "error": "the CDI Manager does not answer"}
    bench.fabric.answers = []
    bench.idle()
    assert only(bench)["status"]["error"] == ""


def test_lost_reply_is_not_asked_again(bench: Bench) -> None:
    bench.fabric.answers = [Uncertain("the reply was lost")]
    bench.flights.create(CREATE)
    bench.idle()
    assert len(bench.fabric.attaches) == 1
    assert only(bench)["status"]["error"] == "the reply was lost"
    assert cro.read_intent(only(bench))[1] > 0


def test_lost_reply_calls_for_a_pass(bench: Bench) -> None:
    bench.fabric.answers = [Uncertain("the reply was lost")]
    bench.flights.create(CREATE)
    bench.wait(lambda: bench.landed)
    assert bench.landed == [("node-0", A100)]


@pytest.mark.parametrize("error", [Refused("no: E02XXXX"), Missing("no such machine")], ids=["refused", "missing"])
def test_refusal_blocks_the_model_on_the_node(bench: Bench, error: FabricError) -> None:
    bench.fabric.answers = [error]
    bench.flights.create(CREATE)
    bench.idle()
    assert bench.world.node_view("node-0").blocked == {A100: str(error)}
    assert len(bench.fabric.attaches) == 1
    assert cro.read_intent(only(bench)) == ("", 0.0, frozenset())
    assert only(bench)["status"]["error"] == str(error)


@pytest.mark.parametrize(("exhausted", "seconds"), [(True, 5.0), (False, 60.0)])
def test_block_is_short_when_devices_only_ran_out(bench: Bench, exhausted: bool, seconds: float) -> None:
    bench.fabric.answers = [Refused("no", exhausted=exhausted)]
    bench.flights.create(CREATE)
    bench.idle()
    now = bench.world.node_view("node-0").now
    assert bench.world.blocked("node-0", now + seconds - 4)
    assert not bench.world.blocked("node-0", now + seconds + 1)


def test_block_is_for_one_node_and_one_model(bench: Bench) -> None:
    bench.world.block("node-0", A100, 60, "no")
    assert bench.world.node_view("node-1").blocked == {}
    assert set(bench.world.node_view("node-0").blocked) == {A100}


def test_refusal_that_attached_a_device_all_the_same_is_undone(bench: Bench) -> None:
    error = Refused("the device is critical")
    error.device = device("bad")
    bench.fabric.answers = [error]
    bench.flights.create(CREATE)
    bench.idle()
    assert bench.fabric.detaches == [("machine-0", "bad")]
    assert "cdi_device_id" not in only(bench)["status"]


def test_refused_device_that_cannot_be_given_back_stays_known(bench: Bench) -> None:
    """The intent stays, so the device is found on the machine later instead of being forgotten."""
    error = Refused("the device is critical")
    error.device = device("bad")
    bench.fabric.answers, bench.fabric.detach_error = [error], Unavailable("not now")
    bench.flights.create(CREATE)
    bench.idle()
    assert cro.read_intent(only(bench))[1] > 0
    assert bench.told("Failed") == ["not now"]


def test_device_that_another_resource_owns_is_not_taken(bench: Bench) -> None:
    bench.put(objects.resource("gpu-owner", device="d1", serial="GPU-d1"))
    bench.put(objects.resource("gpu-a"))
    bench.flights.attach(ATTACH)
    bench.idle()
    assert "cdi_device_id" not in bench.status("gpu-a")
    assert "which gpu-owner already owns" in bench.status("gpu-a")["error"]


def test_device_is_remembered_until_the_api_server_is_back(bench: Bench) -> None:
    bench.api.fail("merge_patch", RESOURCES, unreachable())
    bench.flights.create(CREATE)
    bench.wait(lambda: len([c for c in bench.api.calls if c.subresource == "status"]) >= 3, "three tries")
    assert bench.world.flying() == 1
    bench.api.heal()
    bench.idle()
    assert only(bench)["status"]["cdi_device_id"] == "d1"
    assert len(bench.fabric.attaches) == 1


def test_device_of_a_resource_removed_by_force_is_given_back(bench: Bench) -> None:
    bench.fabric.gate = threading.Event()
    bench.flights.create(CREATE)
    assert bench.fabric.asked.wait(10)
    bench.api.objects.clear()
    bench.fabric.gate.set()
    bench.idle()
    assert bench.fabric.detaches == [("machine-0", "d1")]


def test_resource_deleted_while_it_waits_is_not_asked_for_again(bench: Bench) -> None:
    bench.fabric.answers = [Unavailable("not now")] * 10_000
    bench.flights.create(CREATE)
    bench.wait(lambda: len(bench.fabric.attaches) > 1)
    bench.writer.delete_resource(only(bench)["metadata"]["name"])
    bench.idle()
    assert "cdi_device_id" not in only(bench)["status"]


def test_resource_deleted_while_it_waits_forgets_its_intent(bench: Bench) -> None:
    bench.fabric.answers = [Unavailable("not now")] * 10_000
    bench.flights.create(CREATE)
    bench.wait(lambda: len(bench.fabric.attaches) > 1)
    bench.writer.delete_resource(only(bench)["metadata"]["name"])
    bench.idle()
    assert cro.read_intent(only(bench))[1] == 0.0
