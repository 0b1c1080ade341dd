# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The condition Ready goes with each status that is written, and costs no write of its own."""

from __future__ import annotations

from typing import Any

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import NodeKey, NodeRecordsKey
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device


def generation(raw: dict[str, Any], number: int) -> dict[str, Any]:
    raw["metadata"]["generation"] = number
    return raw


def ready(bench: Bench, kind: ApiResource, name: str) -> dict[str, Any]:
    (found,) = bench.api.one(kind, name)["status"]["conditions"]
    assert found["type"] == "Ready"
    return {key: found[key] for key in ("status", "reason", "message", "observedGeneration")}


def test_it_goes_with_the_status_of_a_resource(bench: Bench) -> None:
    bench.put(generation(objects.resource("gpu-a", device="d1"), 4))
    bench.writer.resources.set_status("gpu-a", state="Detaching", error="in use")
    assert ready(bench, COMPOSABLE_RESOURCES, "gpu-a") == {
        "status": "False", "reason": "Detaching", "message": "in use", "observedGeneration": 4}
    bench.writer.resources.set_status("gpu-a", state="Online", error="")
    assert ready(bench, COMPOSABLE_RESOURCES, "gpu-a")["status"] == "True"
    assert len(bench.api.writes(COMPOSABLE_RESOURCES)) == 2


def test_it_goes_with_the_device_that_is_recorded(bench: Bench) -> None:
    bench.put(generation(objects.resource("gpu-a", state="", device=""), 1))
    bench.writer.resources.record_device("gpu-a", "d1", "GPU-d1")
    assert ready(bench, COMPOSABLE_RESOURCES, "gpu-a")["reason"] == "Attaching"


def test_status_of_a_request_is_written_once_for_each_generation(bench: Bench) -> None:
    bench.put(generation(objects.request(), 1))
    wanted: dict[str, Any] = {"state": "Running", "scalarResource": {}}
    for _each in range(3):
        bench.writer.requests.set_status("request", dict(wanted))
    assert len(bench.api.writes(COMPOSABILITY_REQUESTS)) == 1
    raw = bench.api.one(COMPOSABILITY_REQUESTS, "request")
    bench.put(generation(raw, 2))
    for _each in range(3):
        bench.writer.requests.set_status("request", dict(wanted))
    assert len(bench.api.writes(COMPOSABILITY_REQUESTS)) == 2
    assert ready(bench, COMPOSABILITY_REQUESTS, "request")["observedGeneration"] == 2


def test_where_cohdis_own_crd_drops_it_nothing_is_written_again_and_again(bench: Bench) -> None:
    bench.put(objects.request())
    bench.api.pruned = ("conditions",)
    for _each in range(5):
        bench.writer.requests.set_status("request", {"state": "Running", "scalarResource": {}})
    assert len(bench.api.writes(COMPOSABILITY_REQUESTS)) == 1


def test_spec_that_changes_without_a_new_state_is_observed(bench: Bench) -> None:
    """force_detach of a device that stays: whoever waits for the generation would wait for ever."""
    bench.put(objects.local_slice("GPU-d1"), objects.request(),
              generation(objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=900, state="Online"), 1))
    bench.fabric.attached["d1"] = device("d1")
    bench.look()
    bench.writer.resources.set_status("gpu-a", state="Online", error="")
    raw = bench.api.one(COMPOSABLE_RESOURCES, "gpu-a")
    raw["spec"]["force_detach"] = True
    bench.put(generation(raw, 2))
    bench.reconcile(NodeKey("node-0"))
    assert NodeRecordsKey("node-0") in bench.keys
    bench.reconcile(NodeRecordsKey("node-0"))
    assert ready(bench, COMPOSABLE_RESOURCES, "gpu-a") == {
        "status": "True", "reason": "Online", "message": "", "observedGeneration": 2}


def test_object_that_changes_right_now_is_observed_with_that_change(bench: Bench) -> None:
    """It says nothing: the change comes by the watch, and with it the next turn."""
    raw = generation(objects.resource("gpu-a", device="d1"), 1)
    bench.put(raw)
    bench.api.put(COMPOSABLE_RESOURCES, generation({**raw, "metadata": {**raw["metadata"], "labels": {"a": "b"}}}, 2))
    bench.writer.resources.observe("gpu-a")
    assert "conditions" not in bench.api.one(COMPOSABLE_RESOURCES, "gpu-a")["status"]
