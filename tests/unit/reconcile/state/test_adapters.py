# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Raw objects become what the planners read."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricSnapshot, Machine
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi, nodes, slice_values
from ansible_collections.composable.infra.plugins.module_utils.node import evidence
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import (
    Claim,
    ComposableResource,
    PodRef,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state import adapters
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values import (
    claim_values,
    request_values,
    resource_values,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, H100, settings
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import device
from ansible_collections.composable.infra.tests.unit.reconcile.objects import FAILED, READY, RESCHEDULE

SETTINGS = settings()
ONE, TWO = objects.pool_result("a100-0"), objects.pool_result("a100-1")


def phase(*devices: dict[str, t.Any], results: tuple[dict[str, t.Any], ...] = (ONE,)) -> str:
    """Phase of a claim with these entries in ``status.devices``."""
    return claim_values.claim_phase(objects.claim("c", *results, devices=list(devices)))


def test_claim_without_conditions_is_preparing() -> None:
    assert phase() == "preparing"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(RESCHEDULE, "reschedule"), (FAILED, "failed"), (READY, "ready"), ("Other", "preparing")])
def test_condition_decides(kind: str, expected: str) -> None:
    assert phase(objects.told(ONE, kind)) == expected


def test_condition_that_is_not_true_decides_nothing() -> None:
    assert phase(objects.told(ONE, RESCHEDULE, status="False")) == "preparing"


@pytest.mark.parametrize(("first", "second", "expected"), [
    (READY, READY, "ready"), (READY, None, "preparing"), (RESCHEDULE, None, "reschedule"),
    (RESCHEDULE, FAILED, "failed"), (FAILED, READY, "failed"),
])
def test_worst_of_two_devices_decides(first: str, second: str | None, expected: str) -> None:
    entries = [objects.told(ONE, first)] + ([objects.told(TWO, second)] if second else [])
    assert phase(*entries, results=(ONE, TWO)) == expected


@pytest.mark.parametrize("other", [{"pool": "a100-fabric2"}, {"driver": "other.example"}, {"device": "a100-9"}])
def test_condition_of_another_device_of_that_name_decides_nothing(other: dict[str, str]) -> None:
    """Matched on driver, pool and device: a name alone mixes fabrics."""
    assert phase(objects.told({**ONE, **other}, FAILED)) == "preparing"


def planned(raw: dict[str, t.Any]) -> Claim | None:
    """The claim as planners read it."""
    return adapters.claim_with_pool_devices(claim_values.read_claim(raw), SETTINGS)


def test_claim_as_planners_read_it() -> None:
    found = planned(objects.claim("c", ONE, objects.pool_result("h100-3", "h100-fabric2"), pods=("p", "q")))
    assert found is not None
    assert (found.uid, found.key, found.phase) == ("uid-c", "default/c", "preparing")
    assert found.pods == (PodRef("default", "p", "pod-p"), PodRef("default", "q", "pod-q"))
    assert found.need() == {A100: 1, H100: 1}
    assert [(r.device, r.fabric) for r in found.results] == [("a100-0", 1), ("h100-3", 2)]


@pytest.mark.parametrize("raw", [
    objects.claim("c"), objects.claim("c", objects.local_result()), objects.claim("c", ONE, pods=()),
    objects.claim("c", ONE, reservedFor=[{"resource": "others", "name": "x", "uid": "y"}]),
], ids=["not allocated", "local device", "no pod", "no pod but something else"])
def test_other_claims_are_none_of_ours(raw: dict[str, t.Any]) -> None:
    assert planned(raw) is None


def test_claim_of_a_pod_group_of_the_scheduler_is_read() -> None:
    """It is reserved for the group instead of its pods, and wants its devices like any other."""
    found = planned(objects.claim("c", ONE, reservedFor=[objects.POD_GROUP]))
    assert found is not None
    assert (found.phase, found.pods, found.need()) == ("preparing", (), {A100: 1})


def test_pool_of_our_driver_that_no_model_has_is_unknown() -> None:
    found = planned(objects.claim("c", objects.pool_result(pool="strange-fabric1")))
    assert found is not None
    assert found.results[0].model is None


def test_pool_of_our_name_and_another_driver_is_unknown() -> None:
    found = planned(objects.claim("c", ONE, objects.pool_result(driver="other.example")))
    assert found is not None
    assert [r.model is None for r in found.results] == [False, True]


def test_claim_that_waits_for_another_drivers_device_is_none_of_ours() -> None:
    foreign = {"request": "r", "driver": "nic.example", "pool": "rack-7", "device": "nic-0",
               "bindingConditions": ["nic.example/Ready"], "bindingFailureConditions": ["nic.example/Failed"]}
    assert planned(objects.claim("c", foreign)) is None


def test_local_devices_beside_pool_devices_are_left_out() -> None:
    found = planned(objects.claim("c", ONE, objects.local_result()))
    assert found is not None
    assert [r.device for r in found.results] == ["a100-0"]


def test_request() -> None:
    found = request_values.read_request(objects.request(size=3))
    assert (found.name, found.model, found.size, found.deleting) == ("request", A100, 3, False)


def test_resource() -> None:
    raw = objects.resource("gpu-a", device="d1", serial="GPU-d1", asked=60, present=("x",), state="Online",
                           IN_USE="true")
    raw["metadata"]["annotations"]["cohdi.io/last-used-time"] = "2026-01-02T03:04:05Z"
    raw["metadata"]["annotations"]["cohdi.io/delete-device"] = "true"
    raw["spec"]["force_detach"] = True
    found = resource_values.read_resource(raw, SETTINGS)
    assert (found.device_uid, found.serial, found.state, found.request) == ("d1", "GPU-d1", "Online", "request")
    assert (found.machine, found.present) == ("machine-0", frozenset({"x"}))
    assert found.in_use
    assert (found.last_used, found.delete_first, found.force_detach) == (1767323045.0, True, True)
    seen = ComposableResource.of(found, visible=True, used_by="ns/c", last_used=9.0)
    assert (seen.visible, seen.used_by, seen.busy, seen.last_used) == (True, "ns/c", False, 9.0)
    assert (seen.name, seen.device_uid, seen.present, seen.in_use) == ("gpu-a", "d1", frozenset({"x"}), True)


def test_hold() -> None:
    raw = objects.resource("gpu-a", HELD_FOR=cohdi.hold("uid-c", 1_800_000_000.5))
    assert cohdi.read_hold(raw) == ("uid-c", 1_800_000_000.5)
    assert cohdi.read_hold(objects.resource("gpu-a", HELD_FOR="uid-c nonsense")) == ("uid-c", 0.0)
    assert cohdi.read_hold(objects.resource("gpu-a")) == ("", 0.0)


@pytest.mark.parametrize("text", ["", "{", "[]", "5", '{"machine": 5, "asked": 7, "present": 3}', "null"])
def test_unreadable_intent_is_none(text: str) -> None:
    raw = objects.resource("gpu-a")
    raw["metadata"]["annotations"][cohdi.ATTACH] = text
    assert cohdi.read_intent(raw)[1:] == (0.0, frozenset())


@pytest.mark.parametrize("text", ["nonsense", "2026-13-45T00:00:00Z", ""])
def test_unreadable_time_is_never(text: str) -> None:
    raw = objects.resource("gpu-a")
    raw["metadata"]["annotations"]["cohdi.io/last-used-time"] = text
    assert resource_values.read_resource(raw, SETTINGS).last_used == 0.0


def snapshot(**machines: int | None) -> FabricSnapshot:
    """Machines with their fabric; ``_`` in a name stands for ``-``."""
    found = {n.replace("_", "-"): f for n, f in machines.items()}
    return FabricSnapshot({n: Machine(n, n, f, (device("d1"),)) for n, f in found.items()}, {}, 0.0)


def test_machine_of_a_node() -> None:
    assert adapters.machine_of(nodes.read(objects.node()), snapshot(machine_0=7)) == ("machine-0", 7, "")


def test_machine_is_what_follows_the_last_slash() -> None:
    node = nodes.read(objects.node(machine="region/machine-0"))
    assert adapters.machine_of(node, snapshot(machine_0=0)) == ("machine-0", 0, "")


def test_machine_is_believed_until_the_manager_was_seen() -> None:
    assert adapters.machine_of(nodes.read(objects.node()), None) == ("machine-0", None, "")


@pytest.mark.parametrize(("node", "problem"), [
    (None, "the cluster has no such node"),
    (objects.node(machine=None), "its providerID is 'empty', not fsas-cdi://<machine uuid>"),
    (objects.node(machine=""), "its providerID is 'empty', not fsas-cdi://<machine uuid>"),
    ({**objects.node(), "spec": {"providerID": "aws:///i-1"}}, "its providerID is 'aws:///i-1', not fsas-cdi://"),
    (objects.node(machine="machine-9"), "the CDI Manager knows no machine machine-9 (from its providerID)"),
    (objects.node(machine="loose"), "machine loose is on no fabric"),
])
def test_node_without_a_machine_says_why(node: dict[str, t.Any] | None, problem: str) -> None:
    machine, fabric, said = adapters.machine_of(nodes.read(node) if node else None, snapshot(machine_0=1, loose=None))
    assert (machine, fabric) == (None, None)
    assert said.startswith(problem)


def test_attached_models() -> None:
    assert adapters.attached_models(snapshot(machine_0=1), "machine-0") == {"d1": A100}
    assert adapters.attached_models(snapshot(machine_0=1), "machine-1") is None
    assert adapters.attached_models(snapshot(machine_0=1), None) is None
    assert adapters.attached_models(None, "machine-0") is None


def test_slice() -> None:
    found = adapters.pool_slice(slice_values.read(objects.pool_slice("a100-0", "a100-1", name="s", generation=4)))
    assert (found.name, found.generation, found.count, found.devices) == ("s", 4, 1, ("a100-0", "a100-1"))


def test_what_a_thousand_devices_say_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are looked at in turn, so a burst comes to a device again after all others."""
    seen = [Evidence(evidence.READY, f"d-{i}", uuid=f"GPU-{i}", address="0000:10:00.0").to_json() for i in range(1000)]
    raws = [objects.resource(f"gpu-{i}", device=f"d-{i}", asked=10.0 + i, NODE=text) for i, text in enumerate(seen)]
    first = [resource_values.read_resource(raw, SETTINGS) for raw in raws]

    def loads(text: str) -> t.NoReturn:
        raise AssertionError(f"read once more: {text}")

    monkeypatch.setattr(json, "loads", loads)
    assert [resource_values.read_resource(raw, SETTINGS) for raw in raws] == first
    assert (first[7].serial, first[7].machine, first[7].node_work.prepared) == ("GPU-7", "machine-0", True)
