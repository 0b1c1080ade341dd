# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asynchronous managers: the operation is written down, and asked about after a crash."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Missing,
    Refused,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import Adopt, CreateResource, Resume
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node import attach_operations
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import Call
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device

CREATE = CreateResource("node-0", "wanted", "gpu-new", "request", A100, "machine-0")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations are asked about again without a pause."""
    monkeypatch.setattr(attach_operations, "ASK_AGAIN", 0.001)


def operation(bench: Bench, name: str) -> str:
    """The handle that is written down."""
    return cohdi.annotation(bench.api.one(COMPOSABLE_RESOURCES, name), cohdi.OPERATION)


def crashed(bench: Bench, *names: str, handle: str = "op-1") -> None:
    """Resources whose operation an earlier process had begun."""
    bench.put(objects.request(size=len(names)))
    bench.put(*[objects.resource(name, asked=5, OPERATION=handle) for name in names])


def test_handle_is_written_down_before_it_is_waited_for(bench: Bench) -> None:
    bench.fabric.handle, bench.fabric.gate = "op-1", threading.Event()
    bench.operations.create(CREATE)
    bench.wait(lambda: operation(bench, bench.api.of(COMPOSABLE_RESOURCES)[0]["metadata"]["name"]) == "op-1",
               "the handle")
    bench.fabric.gate.set()
    bench.idle()
    assert bench.api.of(COMPOSABLE_RESOURCES)[0]["status"]["cdi_device_id"] == "d1"


def test_handle_that_cannot_be_written_down_stops_nothing(bench: Bench) -> None:
    bench.fabric.handle = "op-1"
    bench.api.fail("merge_patch", COMPOSABLE_RESOURCES, Forbidden(403, "Forbidden", "no"), times=1)
    bench.operations.create(CREATE)
    bench.idle()
    assert bench.api.of(COMPOSABLE_RESOURCES)[0]["status"]["cdi_device_id"] == "d1"


def test_operation_of_an_earlier_process_is_waited_for(bench: Bench) -> None:
    crashed(bench, "gpu-a")
    bench.fabric.operations["op-1"] = [device("d7")]
    bench.run()
    assert bench.status("gpu-a")["cdi_device_id"] == "d7"
    assert bench.fabric.attaches == []


def test_resources_that_share_an_operation_share_its_devices(bench: Bench) -> None:
    crashed(bench, "gpu-a", "gpu-b")
    bench.fabric.operations["op-1"] = [device("d7"), device("d8")]
    bench.run(4)
    assert {bench.status(n)["cdi_device_id"] for n in ("gpu-a", "gpu-b")} == {"d7", "d8"}
    assert bench.fabric.attaches == []


def test_device_goes_to_one_of_two_that_hear_of_it_at_the_same_time(bench: Bench) -> None:
    crashed(bench, "gpu-a", "gpu-b")
    bench.fabric.operations["op-1"] = [device("d7"), device("d8")]
    both = threading.Barrier(2, timeout=5)

    def together(call: Call) -> None:
        if call.subresource == "status" and call.body["status"].get("cdi_device_id"):
            both.wait()

    bench.api.before = together
    for name in ("gpu-a", "gpu-b"):
        bench.operations.resume(Resume("node-0", "an earlier process sent this request", name, "op-1"))
    bench.idle()
    assert {bench.status(name)["cdi_device_id"] for name in ("gpu-a", "gpu-b")} == {"d7", "d8"}


def test_adopted_device_is_given_to_nobody_else_meanwhile(bench: Bench) -> None:
    bench.put(objects.request(size=2), *[objects.resource(name, asked=5) for name in ("gpu-a", "gpu-b")])
    bench.fabric.attached["d7"] = device("d7")
    second = Adopt("node-0", "an earlier request without a reply attached it", "gpu-b", "d7")

    def adopted(call: Call) -> None:
        if call.subresource == "status" and call.name == "gpu-a":
            bench.operations.adopt(second)
            bench.wait(lambda: "gpu-b" not in bench.state.operations, "the end of the second")

    bench.api.before = adopted
    bench.operations.adopt(replace(second, resource="gpu-a"))
    bench.idle()
    assert bench.status("gpu-a")["cdi_device_id"] == "d7"
    assert "cdi_device_id" not in bench.status("gpu-b")


@pytest.mark.parametrize("error", [Missing("no such operation"), Refused("it failed")])
def test_operation_that_came_to_nothing_is_looked_for_on_the_machine(bench: Bench, error: BaseException) -> None:
    crashed(bench, "gpu-a")
    bench.fabric.operations["op-1"] = error
    bench.fabric.attached["d7"] = device("d7")
    bench.run(4)
    assert (operation(bench, "gpu-a"), bench.status("gpu-a")["cdi_device_id"]) == ("", "d7")


def test_manager_that_is_away_is_asked_again(bench: Bench) -> None:
    crashed(bench, "gpu-a")
    bench.fabric.operations["op-1"] = Unavailable("no answer")
    bench.run(1)
    assert "cdi_device_id" not in bench.status("gpu-a")
    assert operation(bench, "gpu-a") == "op-1"
    bench.fabric.operations["op-1"] = [device("d7")]
    bench.run(1)
    assert bench.status("gpu-a")["cdi_device_id"] == "d7"
    assert len(bench.fabric.resumed) >= 2


def test_operation_that_another_release_began_keeps_its_handle_and_nothing_is_asked_for(bench: Bench) -> None:
    crashed(bench, "gpu-a")
    bench.fabric.operations["op-1"] = Uncertain("its version is 2")
    bench.run(3)
    assert operation(bench, "gpu-a") == "op-1"
    assert bench.fabric.attaches == []
    assert bench.status("gpu-a")["error"] == "its version is 2", "the administrator is told"
    bench.fabric.operations["op-1"] = [device("d7")]
    bench.run(2)
    assert bench.status("gpu-a")["cdi_device_id"] == "d7"


def test_deleted_resource_is_resolved_before_it_goes(bench: Bench) -> None:
    bench.put(objects.request(size=0), objects.resource("gpu-a", asked=5, deleted=True, OPERATION="op-1"))
    bench.fabric.operations["op-1"] = [device("d7")]
    bench.run(1)
    assert bench.status("gpu-a")["cdi_device_id"] == "d7"
