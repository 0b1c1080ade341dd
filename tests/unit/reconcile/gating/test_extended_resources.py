# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Held pods without claims that ask by an extended resource: the device is kept for the claim to come (KEP-5004)."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import GatesKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.usage import usage
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.gated_pods import (
    bind,
    choose,
    gate_names,
    pod,
    reserved,
    serve,
)

Json = dict[str, t.Any]
GPU, KNOWN = "nvidia.com/gpu", "default/pod-train"


@pytest.fixture
def asked(held: Bench) -> Bench:
    """A held pod that asks for one GPU; the class selects the model."""
    cel = f'device.attributes["{DRIVER}"].productName == "NVIDIA {A100}"'
    held.put({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": objects.meta(DRIVER),
              "spec": {"extendedResourceName": GPU, "selectors": [{"cel": {"expression": cel}}]}})
    raw = pod("train")
    del raw["spec"]["resourceClaims"]
    raw["spec"]["containers"] = [{"name": "c", "resources": {"requests": {GPU: "1"}}}]
    held.put(raw)
    return held


def special(*results: Json, uid: str = "first") -> Json:
    """The claim that the scheduler makes for the pod."""
    raw = objects.claim("train-extended-resources-x", *results, pods=["train"])
    raw["metadata"] |= {"uid": uid, "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
                        "ownerReferences": [{"kind": "Pod", "name": "train", "uid": "pod-train", "controller": True}]}
    return raw


def kept(bench: Bench) -> list[str]:
    return [each.name for each in bench.state.holds.kept_for(KNOWN)]


def test_gate_opens_once_the_device_is_there(asked: Bench) -> None:
    choose(asked)
    assert reserved(asked) == [("train", "node-0")]
    assert gate_names(asked) != []
    serve(asked)
    assert (gate_names(asked), len(asked.fabric.attached), len(kept(asked))) == ([], 1, 1)


def test_claim_that_the_scheduler_makes_takes_the_device_over(asked: Bench) -> None:
    serve(asked)
    asked.put(special(objects.local_result("gpu-0")))
    bind(asked, "train")
    asked.run()
    (resource,) = node_snapshot(asked.state, "node-0").resources
    assert (resource.used_by, resource.held_for, resource.deleting) == ("default/train-extended-resources-x", "", False)
    assert len(asked.fabric.attached) == 1


def test_device_stays_kept_while_the_claim_is_away(asked: Bench) -> None:
    """Through the pool: when a binding fails the scheduler deletes the claim, and makes another in its next cycle."""
    asked.put({**pod("train"), "spec": {"containers": []}}, special(objects.pool_result()))
    asked.run(1)
    asked.put(objects.local_slice(*[str(d.serial) for d in asked.fabric.attached.values()]))
    asked.run(1)
    (name,) = kept(asked)
    asked.drop(special(objects.pool_result()))
    asked.run()
    (resource,) = node_snapshot(asked.state, "node-0").resources
    assert (resource.name, resource.held_for, resource.hold_alive) == (name, KNOWN, True)
    asked.drop({**pod("train"), "spec": {"containers": []}})
    (resource,) = node_snapshot(asked.state, "node-0").resources
    assert not resource.hold_alive, "its pod is gone"


def test_device_counts_for_the_namespace_before_its_claim_is_there(asked: Bench) -> None:
    asked.reconcile(GatesKey())
    assert usage(asked.state) == {("default", A100): 1}
    serve(asked)
    assert usage(asked.state) == {("default", A100): 1}
