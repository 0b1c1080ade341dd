# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whoever lost leadership asks and writes nothing more; what a successor wrote down stays."""

from __future__ import annotations

import threading
import typing as t
from functools import partial

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Busy, Uncertain
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Conflict, NotLeading
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import (
    Adopt,
    AskRelease,
    CreateResource,
    Detach,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import Call
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

CREATE = CreateResource("node-0", "wanted", "gpu-new", "request", A100, "machine-0")
DETACH = Detach("node-0", "no longer wanted", "gpu-a", "machine-0", "d1")


class Leads:
    """Whether this process leads, as the test says."""

    def __init__(self) -> None:
        self.now = True

    def __call__(self) -> bool:
        return self.now


@pytest.fixture
def leads(bench: Bench) -> Leads:
    """The bench's engine leads until the test says otherwise."""
    leads = Leads()
    bench.fence.require(leads)
    return leads


def test_answer_that_comes_after_leadership_was_lost_overwrites_nothing(bench: Bench, leads: Leads) -> None:
    bench.fabric.gate = threading.Event()
    bench.operations.create(CREATE)
    assert bench.fabric.asked.wait(5)
    leads.now = False
    adopted = {"status": {"state": "Online", "cdi_device_id": "dX", "device_id": "GPU-dX"}}
    bench.api.merge_patch(COMPOSABLE_RESOURCES, "gpu-new", adopted, subresource="status")
    writes = len(bench.api.writes())
    bench.fabric.gate.set()
    bench.idle()
    assert bench.status("gpu-new") == adopted["status"]
    assert len(bench.api.writes()) == writes


def test_device_that_cannot_be_recorded_is_not_told_as_adopted(bench: Bench, leads: Leads) -> None:
    bench.put(objects.resource("gpu-a", asked=5))
    bench.fabric.attached["d9"] = device("d9")
    leads.now = False
    bench.operations.adopt(Adopt("node-0", "unanswered", "gpu-a", "d9"))
    bench.idle()
    assert (bench.told("Adopted"), bench.api.writes()) == ([], [])


def test_record_of_another_stays_also_where_both_think_that_they_lead(bench: Bench, leads: Leads) -> None:
    """The watch has not told of it yet: the API server's precondition does."""
    bench.fabric.gate = threading.Event()
    bench.operations.create(CREATE)
    assert bench.fabric.asked.wait(5)
    adopted = {"status": {"state": "Online", "cdi_device_id": "dX", "device_id": "GPU-dX"}}
    bench.api.merge_patch(COMPOSABLE_RESOURCES, "gpu-new", adopted, subresource="status")
    bench.fabric.gate.set()
    bench.idle()
    assert bench.status("gpu-new") == adopted["status"]
    assert bench.told("NotRecorded") == ["the CDI Manager answered with device d1, but dX was recorded in the meantime"]


def test_record_is_written_over_a_newer_version_that_names_no_device(bench: Bench) -> None:
    bench.fabric.gate = threading.Event()
    bench.operations.create(CREATE)
    assert bench.fabric.asked.wait(5)
    bench.api.merge_patch(COMPOSABLE_RESOURCES, "gpu-new", {"metadata": {"labels": {"a": "b"}}})
    bench.fabric.gate.set()
    bench.idle()
    assert bench.status("gpu-new")["cdi_device_id"] == "d1"


def test_nothing_is_asked_when_leadership_was_lost_after_the_intent_was_written(bench: Bench, leads: Leads) -> None:
    def lose(raw: t.Any, obj: t.Any) -> None:
        leads.now = False

    bench.api.after = lose
    bench.operations.create(CREATE)
    bench.idle()
    assert bench.fabric.attaches == []
    assert cohdi.read_intent(bench.api.one(COMPOSABLE_RESOURCES, "gpu-new"))[1] > 0, "the successor judges it"


def test_nothing_is_asked_again_after_leadership_was_lost(bench: Bench, leads: Leads) -> None:
    bench.fabric.answers = [Busy("not now")] * 1000
    bench.operations.create(CREATE)
    bench.wait(lambda: len(bench.fabric.attaches) > 1)
    leads.now = False
    bench.idle()
    asked = len(bench.fabric.attaches)
    bench.reconcile(NodeKey("node-0"))
    bench.idle()
    assert len(bench.fabric.attaches) == asked


@pytest.fixture
def leaving(bench: Bench) -> Bench:
    """A deleted ComposableResource whose device is attached, and which the node has let go."""
    bench.fabric.attached["d1"] = device("d1")
    bench.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, deleted=True, state="Online",
                               RELEASE="now", NODE=Evidence("Removed", "d1", release="now").to_json()))
    return bench


def test_detach_that_waited_in_a_batch_is_not_asked_after_leadership_was_lost(leaving: Bench, leads: Leads) -> None:
    def lose() -> None:
        leads.now = False

    leaving.fabric.queued = lose
    writes = len(leaving.api.writes())
    leaving.detaches.detach(DETACH)
    leaving.idle()
    assert leaving.fabric.detaches == []
    assert len(leaving.api.writes()) == writes


def test_detach_is_not_asked_when_leadership_was_lost_while_the_claims_were_read(leaving: Bench, leads: Leads) -> None:
    def lose(call: Call) -> None:
        leads.now = leads.now and call.plural != "resourceclaims"

    leaving.api.before = lose
    leaving.detaches.detach(DETACH)
    leaving.idle()
    assert not leads.now, "the claims were read"
    assert leaving.fabric.detaches == []


def test_node_is_asked_for_nothing_after_leadership_was_lost(leaving: Bench, leads: Leads) -> None:
    leads.now = False
    leaving.detaches.ask_release(AskRelease("node-0", "no longer wanted", "gpu-a"))
    leaving.idle()
    assert leaving.api.writes() == []


def test_no_write_goes_out_after_leadership_was_lost(leaving: Bench, leads: Leads) -> None:
    leads.now = False
    writer = leaving.writer.resources
    writes: list[t.Callable[[], object]] = [
        partial(writer.finish, "gpu-a"), partial(writer.delete, "gpu-a"), partial(writer.hold, "gpu-a", "uid"),
        partial(writer.intent, "gpu-a", "machine-0", ()), partial(writer.set_status, "gpu-a", state="Online")]
    for write in writes:
        with pytest.raises(NotLeading):
            write()
    assert leaving.api.writes() == []


def test_two_that_plan_from_the_same_state_create_one_resource(bench: Bench) -> None:
    """Both believe that they lead; the second has not seen what the first wrote."""
    second = Bench()
    second.api = bench.api
    second.writer.outlet.client = bench.api.client
    second.fabric = bench.fabric
    second.build()
    second.put(objects.node())
    second.look()
    for one in (bench, second):
        one.put(objects.request(size=1), objects.claim("train", objects.pool_result()))
    bench.fabric.gate = threading.Event()
    for one in (bench, second):
        one.reconcile(NodeKey("node-0"))
    bench.fabric.gate.set()
    bench.idle()
    second.idle()
    second.close()
    assert len(bench.api.of(COMPOSABLE_RESOURCES)) == 1
    assert len(bench.fabric.attaches) == 1


def test_intent_of_another_is_not_overwritten(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a", state=""))
    intent = cohdi.attach_intent("machine-0", 5.0, ())
    bench.api.merge_patch(COMPOSABLE_RESOURCES, "gpu-a", {"metadata": {"annotations": {cohdi.ATTACH: intent}}})
    with pytest.raises(Conflict):
        bench.writer.resources.intent("gpu-a", "machine-0", ())
    assert cohdi.read_intent(bench.api.one(COMPOSABLE_RESOURCES, "gpu-a"))[1] == 5.0
    known = bench.state.resources.value("gpu-a")
    assert known is not None
    assert known.asked == 5.0, "the object is read from the API server again"


def test_device_that_came_while_the_manager_was_busy_is_not_adopted(bench: Bench) -> None:
    """An administrator attached it by hand: it was there before the request whose answer was lost."""
    bench.fabric.answers = [Busy("not now"), Busy("not now"), Uncertain("no answer")]

    def by_hand(call: Call) -> None:
        if len(bench.fabric.attaches) == 1:
            bench.fabric.attached["admin"] = device("admin")

    bench.api.before = by_hand
    bench.operations.create(CREATE)
    bench.idle()
    assert len(bench.fabric.attaches) == 3
    bench.put(objects.request(size=1))
    bench.look()
    bench.reconcile(NodeKey("node-0"))
    bench.idle()
    assert "cdi_device_id" not in bench.status("gpu-new")
    assert cohdi.read_intent(bench.api.one(COMPOSABLE_RESOURCES, "gpu-new"))[2] == {"admin"}
