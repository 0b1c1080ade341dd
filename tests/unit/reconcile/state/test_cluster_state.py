# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture of a node, and what the world keeps in memory beside what it watches."""

from __future__ import annotations

import time
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.node_snapshot import node_snapshot
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device


def test_node_has_what_concerns_it_and_nothing_else(bench: Bench) -> None:
    bench.put(objects.node("node-1", "machine-1"), objects.claim("a", objects.pool_result()), objects.resource("r"),
              objects.claim("b", objects.pool_result("a100-1"), node="node-1"), objects.request("q"),
              objects.resource("s", node="node-1"), objects.request("p", node="node-1"))
    view = node_snapshot(bench.state, "node-0")
    assert ([c.name for c in view.claims], [r.name for r in view.resources], [r.name for r in view.requests]) == (
        ["a"], ["r"], ["q"])
    assert (view.machine, view.fabric, view.exists, view.problem) == ("machine-0", 1, True, "")


def test_node_that_is_gone(bench: Bench) -> None:
    bench.put(objects.resource("r", node="gone"))
    view = node_snapshot(bench.state, "gone")
    assert (view.exists, view.machine, view.problem) == (False, None, "the cluster has no such node")
    assert [r.name for r in view.resources] == ["r"]


def test_attached_devices_and_who_owns_them(bench: Bench) -> None:
    bench.fabric.attached = {"d1": device("d1"), "d2": device("d2", "T4")}
    bench.look()
    bench.put(objects.resource("r", device="d1"))
    view = node_snapshot(bench.state, "node-0")
    assert view.attached == {"d1": A100, "d2": "T4"}
    assert set(view.owned) == {"d1"}


@pytest.mark.parametrize(("node", "deleted", "leaving"), [
    ("node-1", True, {"d1"}), ("node-1", False, set()), ("node-0", True, set()),
], ids=["of another node, deleted", "of another node", "of this node"])
def test_device_that_another_node_has_to_write_off(bench: Bench, node: str, deleted: bool, leaving: set[str]) -> None:
    resource = objects.resource("r", node=node, device="d1")
    if deleted:
        resource["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    bench.put(resource)
    assert set(node_snapshot(bench.state, "node-0", {"d1": A100}).leaving) == leaving


def test_fresher_reading_of_the_machine_counts(bench: Bench) -> None:
    view = node_snapshot(bench.state, "node-0", {"d9": A100})
    assert view.attached == {"d9": A100}


def test_device_is_visible_and_used_by_its_uuid(bench: Bench) -> None:
    bench.put(objects.local_slice("GPU-x", "GPU-d1"), objects.resource("r", device="d1", serial="GPU-d1"),
              objects.claim("user", objects.local_result("gpu-1")))
    (seen,) = node_snapshot(bench.state, "node-0").resources
    assert (seen.visible, seen.used_by) == (True, "default/user")


@pytest.mark.parametrize("result", [objects.local_result("gpu-1"), objects.local_result("gpu-0", "node-1"),
                                    {**objects.local_result("gpu-0"), "driver": "other.example"},
                                    {**objects.local_result("gpu-0"), "adminAccess": True}],
                         ids=["another device", "another pool", "another driver", "administrative access"])
def test_device_is_not_used_by_claims_on_others(bench: Bench, result: dict[str, object]) -> None:
    bench.put(objects.local_slice("GPU-d1"), objects.resource("r", device="d1", serial="GPU-d1"),
              objects.claim("user", result))
    assert node_snapshot(bench.state, "node-0").resources[0].used_by == ""


def test_device_on_another_node_is_not_visible_here(bench: Bench) -> None:
    bench.put(objects.local_slice("GPU-d1", node="node-1"), objects.resource("r", device="d1", serial="GPU-d1"))
    assert not node_snapshot(bench.state, "node-0").resources[0].visible


def shown_twice(driver: str) -> dict[str, t.Any]:
    """A slice by which another driver shows the same device."""
    again = objects.local_slice("GPU-d1")
    again["metadata"] = {**again["metadata"], "name": "again", "uid": "again"}
    again["spec"] = {**again["spec"], "driver": driver}
    return again


def test_device_that_two_drivers_show_at_once_is_given_to_nobody(bench: Bench) -> None:
    prepared = objects.resource("r", device="d1", serial="GPU-d1", state="Online")
    bench.put(objects.local_slice("GPU-d1"), prepared)
    (seen,) = node_snapshot(bench.state, "node-0").resources
    assert (seen.usable, seen.shown_by, seen.rivalry) == (True, (DRIVER,), "")
    bench.put(again := shown_twice("own.example"))
    (seen,) = node_snapshot(bench.state, "node-0").resources
    assert (seen.visible, seen.usable) == (True, False)
    assert "the DRA drivers gpu.nvidia.com and own.example of node node-0 both show" in seen.rivalry
    bench.drop(again)
    assert node_snapshot(bench.state, "node-0").resources[0].usable


@pytest.mark.parametrize(("machines", "told"), [(("machine-0", "machine-1"), "machine machine-1"),
                                                 (("machine-0",), "another machine")])
def test_device_that_two_machines_have_is_given_to_nobody(bench: Bench, machines: tuple[str, ...], told: str) -> None:
    bench.put(objects.node(), objects.local_slice("GPU-d1"),
              objects.resource("r", device="d1", serial="GPU-d1", state="Online"))
    assert node_snapshot(bench.state, "node-0").resources[0].usable
    bench.state.snapshot = replace(bench.fabric.snapshot([]), shared={"d1": machines})
    (seen,) = node_snapshot(bench.state, "node-0").resources
    assert (seen.usable, seen.also_on) == (False, told)


def test_parts_by_one_driver_are_no_rivals(bench: Bench) -> None:
    bench.put(objects.local_slice("GPU-d1"), shown_twice(DRIVER),
              objects.resource("r", device="d1", serial="GPU-d1", state="Online"))
    assert node_snapshot(bench.state, "node-0").resources[0].usable


def test_uuid_of_another_type_harms_nobody(bench: Bench) -> None:
    raw = objects.local_slice("GPU-d1")
    raw["spec"]["devices"] += [{"name": "odd", "attributes": {"uuid": {"int": 5}}}, {"name": "none"}]
    bench.put(raw, objects.resource("r", device="d1", serial="GPU-d1"))
    assert node_snapshot(bench.state, "node-0").resources[0].visible


def test_malformed_object_leaves_the_others(bench: Bench) -> None:
    bad = objects.claim("bad", objects.pool_result())
    bad["status"]["allocation"]["nodeSelector"] = "nonsense"
    bench.put(bad, objects.claim("good", objects.pool_result()))
    assert [c.name for c in node_snapshot(bench.state, "node-0").claims] == ["good"]


def test_one_resource_flies_once_at_a_time(bench: Bench) -> None:
    bench.put(objects.resource("r"))
    assert bench.state.operations.begin("r")
    assert not bench.state.operations.begin("r")
    assert (len(bench.state.operations), node_snapshot(bench.state, "node-0").resources[0].busy) == (1, True)
    bench.state.operations.end("r")
    bench.state.operations.end("r")
    assert (len(bench.state.operations), node_snapshot(bench.state, "node-0").resources[0].busy) == (0, False)


def hold_is_alive(bench: Bench, *claims: dict[str, object], age: float = 5.0) -> bool:
    """Whether a hold for the claim ``train`` counts while these claims are there."""
    bench.put(objects.resource("r", HELD_FOR=cohdi.hold("uid-train", time.time() - age)), *claims)
    return node_snapshot(bench.state, "node-0").resources[0].hold_alive


RESULT = objects.pool_result()
TOLD = objects.claim("train", RESULT, devices=[objects.told(RESULT, objects.RESCHEDULE)])


def test_hold_counts_while_the_claim_is_told_to_move_on(bench: Bench) -> None:
    assert hold_is_alive(bench, TOLD)


def test_hold_counts_for_a_while_after_the_allocation_was_dropped(bench: Bench) -> None:
    assert hold_is_alive(bench, objects.claim("train"))


@pytest.mark.parametrize(("claim", "age"), [
    (None, 5), (objects.claim("train"), 61), (objects.claim("train", objects.local_result("gpu-7")), 5),
    (objects.claim("train", RESULT), 5),
    (objects.claim("train", RESULT, devices=[objects.told(RESULT, objects.FAILED)]), 5),
    (objects.claim("train", RESULT, node="node-1", devices=[objects.told(RESULT, objects.RESCHEDULE)]), 5),
], ids=["gone", "not allocated for too long", "has another device", "waits anew", "failed", "goes elsewhere"])
def test_hold_that_does_not_count(bench: Bench, claim: dict[str, object] | None, age: float) -> None:
    assert not hold_is_alive(bench, *([claim] if claim else []), age=age)


def test_hold_of_a_claim_of_another_life_does_not_count(bench: Bench) -> None:
    again = objects.claim("train")
    again["metadata"]["uid"] = "uid-another-life"
    assert not hold_is_alive(bench, again)


def test_nodes_that_keep_a_device_for_a_claim(bench: Bench) -> None:
    """From memory and from the annotation; nothing is left of it once the ComposableResource is gone."""
    hold = cohdi.hold("uid-train", time.time())
    bench.put(objects.resource("r"), objects.resource("s", node="node-1", HELD_FOR=hold))
    bench.state.holds.keep("r", "uid-train")
    assert bench.state.holding("uid-train") == {"node-0", "node-1"}
    bench.state.forget("r")
    assert bench.state.holding("uid-train") == {"node-1"}
    assert bench.state.holding("uid-other") == set()


def test_claim_is_allocated_from_its_allocation_to_its_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for each claim of each held pod, in every plan: no claim is read for it."""
    uid = objects.claim("train")["metadata"]["uid"]
    known = [bench.state.is_allocated(uid)]
    for raw in (objects.claim("train"), objects.claim("train", objects.pool_result()), objects.claim("train")):
        bench.put(raw)
        with monkeypatch.context() as patch:
            patch.setattr(type(bench.state.claims), "first_value", lambda *_unused: pytest.fail("read"))
            known.append(bench.state.is_allocated(uid))
    bench.state.claims.remove(raw)
    assert [*known, bench.state.is_allocated(uid)] == [False, False, True, False, False]


def test_forgotten_resource_was_never_used(bench: Bench) -> None:
    bench.put(objects.local_slice("GPU-d1"), objects.resource("r", device="d1", serial="GPU-d1"))
    bench.put(objects.claim("user", objects.local_result()))
    bench.state.note_uses(["node-0"])
    assert node_snapshot(bench.state, "node-0").resources[0].last_used > 0
    bench.state.claims.remove(bench.state.claims.list()[0])
    assert node_snapshot(bench.state, "node-0").resources[0].last_used > 0
    bench.state.forget("r")
    assert node_snapshot(bench.state, "node-0").resources[0].last_used == 0
