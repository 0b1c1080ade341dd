# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counting what changed gives what counting everything gives, whatever came, went and moved."""

from __future__ import annotations

import random
import typing as t
from collections import Counter

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import BaseStore
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.used_devices import Usage
from ansible_collections.composable.infra.tests.unit.planning.builders import A100
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.random_nodes import fill

Json = dict[str, t.Any]


def counted(state: ClusterState) -> Usage:
    """Everything, one by one."""
    resources = (each for name in state.resources.names() if (each := state.resources.value(name)))
    users = ((each.model, state.user(each)) for each in resources)
    return Counter((user.namespace, model) for model, user in users if user)


def change(bench: Bench, rng: random.Random) -> None:
    """Something comes, goes, or is written by somebody else."""
    stores = (bench.state.claims, bench.state.resources, bench.state.slices)
    store: BaseStore = rng.choice(stores)
    there = store.list()
    if rng.random() < 0.4 or not there:
        fill(bench, rng)
    elif rng.random() < 0.5:
        store.remove(rng.choice(there))
    else:
        store.upsert(moved(rng.choice(there), rng))


def moved(raw: Json, rng: random.Random) -> Json:
    """An object as another write has left it: with another serial or model, unallocated, or without its node."""
    version = str(int(raw["metadata"]["resourceVersion"]) + 1)
    new = {**raw, "metadata": {**raw["metadata"], "resourceVersion": version}}
    if "target_node" in raw.get("spec", {}):
        status = {**raw.get("status", {}), "device_id": rng.choice(("GPU-0", "GPU-1", "GPU-none"))}
        return {**new, "status": status, "spec": {**raw["spec"], "model": rng.choice((A100, "NVIDIA-T4"))}}
    if "devices" in raw.get("spec", {}) and "driver" in raw["spec"]:
        return {**new, "spec": {**raw["spec"], "devices": raw["spec"]["devices"][1:]}}
    allocation = (raw.get("status") or {}).get("allocation")
    if allocation and rng.random() < 0.5:
        return {**new, "status": {"allocation": {"devices": allocation["devices"]}}}
    return {**new, "status": {}}


@pytest.mark.parametrize("seed", range(4))
def test_what_changed_is_enough(bench: Bench, seed: int) -> None:
    rng, seen = random.Random(seed), Usage()
    fill(bench, rng)
    for _unused in range(80):
        change(bench, rng)
        found = bench.state.used_devices.total()
        assert found == counted(bench.state)
        seen |= found
    assert seen, "the random nodes must have devices in use"


def test_device_is_used_while_any_claim_has_a_share_of_it(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Online"), objects.local_slice("GPU-d1"))
    shares = [objects.claim(name, {**objects.local_result(), "shareID": name}) for name in ("one", "two")]
    bench.put(*shares)
    assert bench.state.used_devices.total() == {("default", A100): 1}
    resource = bench.state.resources.value("gpu-a")
    assert resource is not None
    for share in shares:
        assert bench.state.user(resource) is not None
        assert bench.state.used_devices.total() == {("default", A100): 1}
        bench.state.claims.remove(bench.state.claims.value(share["metadata"]["name"], "default") or share)
    assert bench.state.user(resource) is None
    assert bench.state.used_devices.total() == {}


def test_the_answer_is_the_callers_own(bench: Bench) -> None:
    bench.put(objects.resource("gpu-a", device="d1", serial="GPU-d1", state="Online"), objects.local_slice("GPU-d1"),
              objects.claim("train", objects.local_result()))
    first = bench.state.used_devices.total()
    assert first == {("default", A100): 1}
    first.clear()
    assert bench.state.used_devices.total() == {("default", A100): 1}
    assert bench.state.copy().used_devices.total() == {("default", A100): 1}
