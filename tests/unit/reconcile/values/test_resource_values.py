# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The value of a ComposableResource says all that is kept of its object, and equal parts are in memory once."""

from __future__ import annotations

import copy
import random
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.model.resource import Resource
from ansible_collections.composable.infra.plugins.module_utils.model.value import Unreadable
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import Settings
from ansible_collections.composable.infra.plugins.module_utils.reconcile.controller import Change
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.dispatch import is_further_step
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node import concerned_nodes
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values import resource_values
from ansible_collections.composable.infra.tests.bench.large import objects
from ansible_collections.composable.infra.tests.unit.reconcile import objects as small

Json = dict[str, t.Any]
SETTINGS = Settings.from_dict({"device_info": [objects.ROW]})
THEIRS = {"type": "Theirs", "status": "Unknown", "reason": "R", "message": "m"}


def read(raw: Json) -> Resource:
    return resource_values.read_resource(copy.deepcopy(raw), SETTINGS)


def filled(part: t.Any) -> t.Any:
    """The same without empty fields, and without what a list of the API leaves out."""
    if not isinstance(part, dict):
        return part
    return {name: value for name, value in ((name, filled(value)) for name, value in part.items())
            if value not in ("", None, False, 0, [], {})}


def same(raw: Json) -> None:
    """Check that the value gives the object back, as far as it is kept."""
    kept, back = cohdi.trimmed(copy.deepcopy(raw)), read(raw).as_object()
    assert (back["apiVersion"], back["kind"]) == (COMPOSABLE_RESOURCES.group_version, COMPOSABLE_RESOURCES.kind)
    assert filled({**kept, "apiVersion": back["apiVersion"], "kind": back["kind"]}) == filled(back)
    assert read(back) == read(raw)
    assert cohdi.trimmed(back) == back


@pytest.mark.parametrize("raw", [
    objects.resource(0, 0), objects.resource(3, 7), {**objects.resource(0, 7), "status": {}}, small.resource(),
    small.resource("gpu-b", device="d", serial="GPU-d", asked=3.0, present=("x", "y"), state="Online", deleted=True)])
def test_the_object_comes_back(raw: Json) -> None:
    raw["metadata"].setdefault("annotations", {})[cohdi.LAST_APPLIED] = "{}"
    same(raw)
    assert cohdi.LAST_APPLIED not in read(raw).annotations


def a_random_one(rng: random.Random) -> Json:
    raw = objects.resource(rng.randrange(9), rng.randrange(8))
    meta, spec, status = raw["metadata"], raw["spec"], raw["status"]
    meta["annotations"] |= {name: rng.choice(["", "true", "x"]) for name in (
        cohdi.HELD_FOR, cohdi.POOL_DEVICE, cohdi.OPERATION, cohdi.RELEASE, cohdi.IN_USE, "other.example/note")}
    meta["labels"] |= {cohdi.RECLAIMED: rng.choice(["", "d-1"]), "other.example/label": "x"}
    for name in rng.sample(["annotations", "labels", "finalizers", "generation", "creationTimestamp"],
                           rng.randrange(6)):
        del meta[name]
    if rng.random() < 0.3:
        meta |= {"deletionTimestamp": "2026-01-02T03:04:05Z", "namespace": rng.choice(["", "n"])}
    spec |= {"type": rng.choice(["gpu", "cxlmemory"]), "force_detach": rng.random() < 0.5}
    status["conditions"] = rng.sample([*status["conditions"], THEIRS, {**THEIRS, "lastTransitionTime": "t"},
                                       {**THEIRS, "lastTransitionTime": None}], rng.randrange(5))
    status["error"] = rng.choice(["", "it is busy"])
    for name in rng.sample(sorted(status), rng.randrange(len(status) + 1)):
        del status[name]
    return raw


def test_random_objects_come_back(rng: random.Random) -> None:
    for _unused in range(300):
        same(a_random_one(rng))


def test_another_version_of_the_same_says_nothing_new() -> None:
    raw = objects.resource(0, 0)
    raw["metadata"]["resourceVersion"] = "7"
    first = read(raw)
    raw["metadata"]["resourceVersion"] = "8"
    assert (first, first.version) == (read(raw), "7")
    raw["metadata"]["annotations"]["other.example/note"] = "x"
    assert first != read(raw)


def test_equal_parts_are_in_memory_once() -> None:
    first, second = (read(objects.resource(1, gpu)) for gpu in (1, 2))
    assert first.labels is second.labels
    assert first.finalizers is second.finalizers
    assert all(a is b for a, b in zip(first.annotations, second.annotations, strict=False))
    assert first.said[0].common is second.said[0].common


def test_the_serial_that_only_the_node_told_is_not_in_the_status() -> None:
    raw = objects.resource(0, 0)
    del raw["status"]["device_id"]
    found = read(raw)
    assert (found.serial, found.device_id) == (objects.serial(0, 0), "")
    assert "device_id" not in found.as_object()["status"]


def unreadable() -> Json:
    raw = small.resource("gpu-a", device="d1", node="node-0")
    del raw["spec"]["model"]
    return raw


def test_one_that_cannot_be_read_is_on_its_node_and_owns_its_device() -> None:
    state = ClusterState(SETTINGS)
    state.resources.upsert(unreadable())
    assert (state.resources.value("gpu-a"), state.resources.values("node", "node-0")) == (None, [])
    assert (state.resources.has("device", "d1"), state.resources.keys("node")) == (True, ("node-0",))
    with pytest.raises(KeyError):
        state.resources.checked("node", "node-0")


def test_a_change_that_cannot_be_read_concerns_its_node() -> None:
    state = ClusterState(SETTINGS)
    new, old = (state.resources.trimmed(raw) for raw in (unreadable(), small.resource("gpu-a", node="node-1")))
    assert isinstance(new, Unreadable)
    change = Change("MODIFIED", COMPOSABLE_RESOURCES, new, old)
    assert {*concerned_nodes.of_change(state, change)} == {"node-0", "node-1"}
    assert not is_further_step(change)
