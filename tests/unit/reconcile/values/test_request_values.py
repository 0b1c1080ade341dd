# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The value of a ComposabilityRequest says all that is kept of its object."""

from __future__ import annotations

import copy
import random
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABILITY_REQUESTS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import autoscaling, cohdi
from ansible_collections.composable.infra.plugins.module_utils.model.value import Unreadable
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import Settings
from ansible_collections.composable.infra.plugins.module_utils.reconcile.controller import Change
from ansible_collections.composable.infra.plugins.module_utils.reconcile.node import concerned_nodes
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values.request_values import read_request
from ansible_collections.composable.infra.tests.bench.large import objects
from ansible_collections.composable.infra.tests.unit.reconcile import objects as small

Json = dict[str, t.Any]


@pytest.fixture
def state() -> ClusterState:
    return ClusterState(Settings.from_dict({"device_info": [objects.ROW]}))


def same(raw: Json) -> None:
    """Check that the value gives the object back, as far as it is kept."""
    kept, back = cohdi.trimmed(copy.deepcopy(raw)), read_request(copy.deepcopy(raw)).as_object()
    assert (back["apiVersion"], back["kind"]) == (COMPOSABILITY_REQUESTS.group_version, COMPOSABILITY_REQUESTS.kind)
    assert {name: value for name, value in kept["metadata"].items() if value} == back["metadata"]
    assert (kept["spec"], kept.get("status", {})) == (back["spec"], back.get("status", {}))
    assert read_request(back) == read_request(copy.deepcopy(raw))


@pytest.mark.parametrize("raw", [objects.request(0), objects.request(7), small.request(size=3)])
def test_the_object_comes_back(raw: Json) -> None:
    raw["metadata"].setdefault("annotations", {})[cohdi.LAST_APPLIED] = "{}"
    same(raw)
    assert cohdi.LAST_APPLIED not in read_request(raw).annotations


def test_random_objects_come_back(rng: random.Random) -> None:
    for _unused in range(200):
        raw = objects.request(rng.randrange(9))
        meta, asked = raw["metadata"], raw["spec"]["resource"]
        notes = (autoscaling.SCALE_UP, cohdi.CLAIMS, "other.example/note")
        meta["annotations"] = {name: rng.choice(["", "x"]) for name in notes}
        for name in rng.sample(["finalizers", "generation", "creationTimestamp", "annotations"], rng.randrange(4)):
            del meta[name]
        if rng.random() < 0.3:
            meta["deletionTimestamp"] = "2026-01-02T03:04:05Z"
        asked |= rng.choice([{}, {"force_detach": True}, {"other_spec": {"milli_cpu": 4}}, {"type": "cxlmemory"}])
        if rng.random() < 0.3:
            del asked["target_node"]
        raw["status"] = rng.choice([{}, raw["status"], {"state": "Error", "error": "it is busy"}])
        same(raw)


def test_a_new_status_concerns_no_node(state: ClusterState) -> None:
    raw, later = objects.request(0), objects.request(0)
    later["status"]["error"] = "it is busy"
    later["metadata"]["resourceVersion"] = "1001"
    change = Change("MODIFIED", COMPOSABILITY_REQUESTS, read_request(later), read_request(raw))
    assert [*concerned_nodes.of_change(state, change)] == []
    later["spec"]["resource"]["size"] = 9
    change = Change("MODIFIED", COMPOSABILITY_REQUESTS, read_request(later), read_request(raw))
    assert {*concerned_nodes.of_change(state, change)} == {objects.name_of(0)}


def test_one_that_cannot_be_read_is_on_its_node(state: ClusterState) -> None:
    raw = objects.request(0)
    raw["spec"]["resource"]["size"] = "many"
    name = raw["metadata"]["name"]
    state.requests.upsert(copy.deepcopy(raw))
    assert isinstance(state.requests.stored(name), Unreadable)
    assert state.requests.names_at("node", objects.name_of(0)) == (name,)
    change = Change("ADDED", COMPOSABILITY_REQUESTS, state.requests.stored(name))
    assert {*concerned_nodes.of_change(state, change)} == {objects.name_of(0)}
    with pytest.raises(ValueError, match="many"):
        state.requests.checked_value(name)
