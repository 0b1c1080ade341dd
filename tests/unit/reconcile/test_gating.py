# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Held pods on a fake cluster: a node is chosen, devices leave the pool and are attached, the gate opens."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Refused
from ansible_collections.composable.infra.plugins.module_utils.kube import cro, gates
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Forbidden
from ansible_collections.composable.infra.plugins.module_utils.kube.resource import PODS, RESOURCES, SLICES
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.reconcile import gating, nominations
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating import KEY
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.scaling.builders import A100, DRIVER

Json = dict[str, t.Any]
CEL = f'device.attributes["{DRIVER}"].productName == "NVIDIA {A100}"'


def node(name: str = "node-0", machine: str | None = "machine-0") -> Json:
    """A node with room for pods."""
    return {**objects.node(name, machine), "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}


def claim(name: str, count: int = 1, cel: str = CEL) -> Json:
    """A claim for A100s that nobody has allocated."""
    exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count,
               "selectors": [{"cel": {"expression": cel}}]}
    return {**objects.claim(name), "status": {}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}


def pod(name: str, *gates_: str, group: str = "", size: int = 0) -> Json:
    """A held pod that refers to the claim of its name."""
    raw = objects.pod(name)
    raw["spec"] |= {"schedulingGates": [{"name": g} for g in gates_ or (gates.GATE,)], "containers": [{"name": "c"}],
                    "schedulerName": "default-scheduler"}
    if group:
        raw["metadata"] |= {"labels": {"composable.infra/group": group},
                            "annotations": {gates.GROUP_SIZE: str(size)}}
    return raw


@pytest.fixture
def held(bench: Bench) -> Bench:
    """A node with room, the namespace and the DeviceClass."""
    bench.put(node(), {"apiVersion": "v1", "kind": "Namespace", "metadata": objects.meta("default")},
              {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": objects.meta(DRIVER),
               "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}})
    return bench


def ask(bench: Bench, name: str = "train", count: int = 1, **more: t.Any) -> None:
    """A claim and its pod."""
    bench.put(claim(name, count), pod(name, **more))


def gate_names(bench: Bench, name: str = "train") -> list[str]:
    """Gates that the pod has at the API server."""
    return [g["name"] for g in bench.api.one(PODS, name, "default")["spec"].get("schedulingGates") or []]


def booked(bench: Bench) -> list[tuple[str, str]]:
    """(pod, node) of all bookings."""
    return sorted((s.booking.pod.name, s.booking.node) for s in bench.world.bookings.all())


def announce(bench: Bench) -> None:
    """The node shows every attached device."""
    bench.put(objects.local_slice(*[str(d.serial) for d in bench.fabric.attached.values()]))


def nominated(bench: Bench, name: str = "train") -> str:
    """The node that the pod is nominated to at the API server."""
    return gates.nominated(bench.api.one(PODS, name, "default"))


def choose(bench: Bench) -> None:
    """Choose nodes, and wait until the pods are nominated."""
    bench.passes.run(KEY)
    bench.passes.run(nominations.KEY)
    bench.wait(lambda: all(nominated(bench, name) == node for name, node in booked(bench)), "the nominations")


def serve(bench: Bench) -> None:
    """Choose, attach, announce, open."""
    choose(bench)
    bench.run(1)
    announce(bench)
    bench.run(1)


def test_pod_is_nominated_and_let_go_when_its_device_is_there(held: Bench) -> None:
    ask(held)
    choose(held)
    assert booked(held) == [("train", "node-0")]
    assert held.fabric.attaches == [], "the room is kept while the device is on its way"
    held.run(1)
    assert len(held.fabric.attaches) == 1
    assert gate_names(held) == [gates.GATE]
    announce(held)
    held.run(1)
    raw = held.api.one(PODS, "train", "default")
    assert (gate_names(held), raw["status"]["nominatedNodeName"]) == ([], "node-0")
    verbs = [c.verb for c in held.api.writes(PODS)]
    assert verbs == ["merge_patch", "strategic_patch"], "the nomination must be there when the scheduler looks"


def test_burst_of_pods_is_planned_at_its_end(held: Bench) -> None:
    ask(held)
    held.gating.seen("ADDED", pod("train"), None)
    held.passes.run(KEY)
    assert (booked(held), [key for key, _when in held.later]) == ([], [KEY, KEY])
    held.wait(lambda: time.time() > held.later[-1][1], "the end of the burst")
    held.passes.run(KEY)
    assert booked(held) == [("train", "node-0")]


def test_pod_that_waits_no_more_is_not_nominated_again(held: Bench) -> None:
    ask(held)
    held.passes.run(KEY)
    assert [key for key, _when in held.later] == [nominations.KEY]
    held.gating.drop("pod-train")
    held.passes.run(nominations.KEY)
    held.passes.run(nominations.KEY)
    held.gating.stop()
    assert nominated(held) == ""


def test_nomination_that_failed_is_made_good_before_the_gate_goes(held: Bench) -> None:
    ask(held)
    held.api.fail("merge_patch", PODS, ApiError(500, "InternalError", "etcd is away"))
    held.passes.run(KEY)
    held.run(1)
    held.passes.run(nominations.KEY)
    held.wait(lambda: held.api.writes(PODS), "a try")
    held.api.heal()
    announce(held)
    held.run(1)
    assert (gate_names(held), nominated(held)) == ([], "node-0")
    assert [c.verb for c in held.api.writes(PODS)][-1] == "strategic_patch"


def test_node_that_is_given_up_is_nominated_no_more(held: Bench) -> None:
    ask(held)
    held.fabric.answers = [Refused("E02: out of order")]
    choose(held)
    held.run(2)
    assert booked(held) == []
    held.wait(lambda: nominated(held) == "", "the nomination's end")


def test_old_nomination_of_a_held_pod_takes_no_room(held: Bench) -> None:
    """An earlier engine had nominated it to a node that only this pod fills."""
    raw = pod("train")
    raw["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "8"}}}]
    raw["status"] = {"nominatedNodeName": "node-0"}
    held.put(claim("train"), raw)
    held.passes.run(KEY)
    assert booked(held) == [("train", "node-0")]


def test_device_leaves_the_pool_before_it_is_asked_for(held: Bench) -> None:
    ask(held)
    held.passes.run(KEY)
    (pool,) = [s for s in held.api.of(SLICES) if s["spec"]["pool"]["name"] == "a100-fabric1"]
    assert len(pool["spec"]["devices"]) == 3
    assert held.fabric.attaches == []


def test_pool_that_cannot_be_written_books_nothing(held: Bench) -> None:
    ask(held)
    held.api.fail("create", SLICES, Forbidden(403, "Forbidden", "slices may not be created"))
    held.passes.run(KEY)
    assert booked(held) == []
    assert any(key == KEY for key, _when in held.later)
    held.api.heal()
    held.passes.run(KEY)
    assert booked(held) == [("train", "node-0")]


def test_device_is_held_for_the_pods_claim(held: Bench) -> None:
    ask(held)
    serve(held)
    (resource,) = held.world.node_view("node-0").resources
    assert (resource.held_for, resource.hold_alive) == ("uid-train", True)


def test_idle_device_is_used_before_one_is_attached(held: Bench) -> None:
    held.put(objects.resource("gpu-a", device="d9", serial="GPU-d9", asked=60, state="Online"), objects.request(),
             objects.local_slice("GPU-d9"))
    ask(held)
    held.passes.run(KEY)
    held.run(1)
    assert held.fabric.attaches == []
    assert gate_names(held) == []


def test_several_devices_of_one_claim_are_attached_together(held: Bench) -> None:
    ask(held, count=3)
    serve(held)
    assert (len(held.fabric.attaches), gate_names(held)) == (3, [])


def test_pod_that_cannot_be_served_is_let_go_with_the_reason(held: Bench) -> None:
    ask(held, count=5)
    held.passes.run(KEY)
    assert (gate_names(held), booked(held)) == ([], [])
    assert "0/1 nodes" in held.told("GateReleased")[0]
    assert held.counters.get("gate_released_total", reason="unserved") == 1


def test_pod_that_cannot_be_judged_is_let_go(held: Bench) -> None:
    held.put(claim("train", cel='device.attributes["other.example"].size > 3'), pod("train"))
    held.passes.run(KEY)
    assert gate_names(held) == []
    assert held.counters.get("gate_released_total", reason="not_judged") == 1


def young(name: str) -> Json:
    """A held pod that was created just now."""
    raw = pod(name)
    raw["metadata"]["creationTimestamp"] = format_time(time.time())
    return raw


def test_pod_without_its_claim_yet_is_held(held: Bench) -> None:
    held.put(young("train"))
    held.passes.run(KEY)
    assert (gate_names(held), booked(held)) == ([gates.GATE], [])
    assert held.gating.verdicts


def test_gate_of_somebody_else_is_left_alone(held: Bench) -> None:
    held.put(claim("train"), pod("train", "other.example/gate", gates.GATE))
    held.passes.run(KEY)
    assert (gate_names(held), booked(held)) == (["other.example/gate", gates.GATE], [])


def test_namespace_with_another_handover_is_let_go(held: Bench) -> None:
    held.world.settings = replace(held.settings, handover_namespaces={"default": "reschedule"}, _by_pool={}, _by_cdi={})
    ask(held)
    held.passes.run(KEY)
    assert gate_names(held) == []
    assert held.told("GateReleased") == ["the handover of namespace default is reschedule"]


def test_refused_attach_gives_the_node_up(held: Bench) -> None:
    ask(held)
    held.fabric.answers = [Refused("E02: out of order")]
    held.passes.run(KEY)
    held.run(2)
    assert booked(held) == []
    assert "E02: out of order" in held.told("NodeGivenUp")[0]
    assert any(key == KEY for key, _when in held.later)


def test_group_opens_together(held: Bench) -> None:
    ask(held, "a", group="g", size=2)
    held.passes.run(KEY)
    assert booked(held) == []
    ask(held, "b", group="g", size=2)
    serve(held)
    assert (gate_names(held, "a"), gate_names(held, "b")) == ([], [])


def test_group_gives_up_together(held: Bench) -> None:
    ask(held, "a", group="g", size=2)
    ask(held, "b", group="g", size=2)
    held.fabric.answers = [Refused("E02: out of order")]
    held.passes.run(KEY)
    assert len(booked(held)) == 2
    held.run(2)
    assert booked(held) == []


def test_gate_that_cannot_be_removed_is_tried_again(held: Bench) -> None:
    ask(held)
    held.api.fail("strategic_patch", PODS, ApiError(500, "InternalError", "etcd is away"))
    serve(held)
    assert gate_names(held) == [gates.GATE]
    held.api.heal()
    held.run(1)
    assert (gate_names(held), len(held.fabric.attaches)) == ([], 1)


def test_pod_that_went_away_meanwhile_frees_its_device(held: Bench) -> None:
    ask(held)
    held.passes.run(KEY)
    held.run(1)
    held.drop(pod("train"))
    announce(held)
    held.run(1)
    assert booked(held) == []
    assert not held.world.node_view("node-0").resources[0].hold_alive


@pytest.fixture
def opened(held: Bench) -> Callable[..., None]:
    """A pod whose gate was opened; call with what is then seen of it."""
    ask(held)
    serve(held)
    assert booked(held) == [("train", "node-0")]

    def see(kind: str = "MODIFIED", node: str = "", **status: t.Any) -> None:
        raw = held.api.one(PODS, "train", "default")
        spec = {**raw["spec"], "nodeName": node} if node else raw["spec"]
        new = {**raw, "spec": spec, "status": {**raw["status"], **status}}
        held.put(new)
        held.gating.seen(kind, new, raw)

    return see


REFUSED = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes: no room"}]


def test_bound_where_it_was_sent(held: Bench, opened: Callable[..., None]) -> None:
    opened(node="node-0")
    assert booked(held) == []
    assert held.told("NodeMisjudged") == []


def test_bound_elsewhere_is_counted_and_frees_the_device(held: Bench, opened: Callable[..., None]) -> None:
    opened(node="node-7")
    assert held.counters.get("gate_misjudged_total", reason="elsewhere") == 1
    assert held.told("NodeMisjudged") == ["node node-0 was chosen, but the scheduler placed it on node node-7"]
    assert not held.world.node_view("node-0").resources[0].hold_alive


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal counts at once."""
    monkeypatch.setattr(gating, "PATIENCE", 0.0)


def test_refusal_counts_only_if_it_lasts(held: Bench, opened: Callable[..., None]) -> None:
    """The scheduler may look before it has seen the device."""
    opened(conditions=REFUSED)
    for _unused in range(2):
        held.later.clear()
        held.passes.run(KEY)
        assert booked(held) == [("train", "node-0")]
        assert [key for key, _when in held.later] == [KEY], "of two appointments the queue keeps the earlier"
    opened(node="node-0", conditions=[])
    assert held.counters.get("gate_misjudged_total", reason="unschedulable") == 0


@pytest.mark.usefixtures("impatient")
def test_device_of_a_refused_pod_is_anybodys_also_where_the_hold_is_written(
    held: Bench, opened: Callable[..., None]
) -> None:
    (raw,) = held.api.of(RESOURCES)
    assert cro.read_hold(raw)[0] == "uid-train"
    opened(conditions=REFUSED)
    held.passes.run(KEY)
    assert not held.world.node_view("node-0").resources[0].hold_alive
    held.passes.run(("tidy", "node-0"))
    assert cro.read_hold(held.api.of(RESOURCES)[0])[0] == ""


@pytest.mark.usefixtures("impatient")
def test_refused_by_the_scheduler_is_counted_with_its_words(held: Bench, opened: Callable[..., None]) -> None:
    opened(conditions=REFUSED)
    held.passes.run(KEY)
    assert held.counters.get("gate_misjudged_total", reason="unschedulable") == 1
    assert "0/1 nodes: no room" in held.told("NodeMisjudged")[0]
    assert booked(held) == []


def test_not_yet_looked_at_by_the_scheduler_waits(held: Bench, opened: Callable[..., None]) -> None:
    opened(conditions=[{**REFUSED[0], "reason": "SchedulingGated"}])
    assert booked(held) == [("train", "node-0")]


@pytest.mark.parametrize(("kind", "status"), [("DELETED", {}), ("MODIFIED", {"phase": "Failed"})])
def test_ended_pod_frees_the_device(held: Bench, opened: Callable[..., None], kind: str, status: Json) -> None:
    opened(kind, **status)
    assert booked(held) == []
    assert ("node", "node-0") in held.keys


def test_gate_removed_by_somebody_else_ends_the_booking(held: Bench) -> None:
    ask(held)
    held.passes.run(KEY)
    raw = held.api.one(PODS, "train", "default")
    held.gating.seen("MODIFIED", {**raw, "spec": {**raw["spec"], "schedulingGates": None}}, raw)
    assert booked(held) == []


def test_new_held_pod_is_planned_soon(held: Bench) -> None:
    held.gating.seen("ADDED", pod("train"), None)
    assert [key for key, _when in held.later] == [KEY]


def test_nothing_is_decided_before_the_manager_was_seen(held: Bench) -> None:
    held.world.snapshot = None
    ask(held)
    held.passes.run(KEY)
    assert (gate_names(held), booked(held)) == ([gates.GATE], [])
    held.gating.changed()
    assert [key for key, _when in held.later] == [KEY]


def test_device_of_a_held_pod_stays_until_the_pod_is_planned_again(held: Bench) -> None:
    """An earlier engine had it attached; its hold time is over when this one begins."""
    held.put(objects.resource("gpu-a", device="d9", serial="GPU-d9", asked=5000, created=5000), objects.request(),
             objects.local_slice("GPU-d9"))
    ask(held)
    held.passes.run(("tidy", "node-0"))
    held.passes.run(("node", "node-0"))
    (resource,) = held.api.of(RESOURCES)
    assert "deletionTimestamp" not in resource["metadata"]
    held.passes.run(KEY)
    assert ("node", "node-0") in held.keys
    held.run(1)
    assert (gate_names(held), held.fabric.attaches) == ([], [])


def test_changes_matter_only_while_a_pod_waits(held: Bench) -> None:
    held.passes.run(KEY)
    held.gating.changed()
    assert held.later == []
    held.put(young("train"))
    held.passes.run(KEY)
    held.later.clear()
    held.gating.changed()
    assert [key for key, _when in held.later] == [KEY]


def test_crash_after_the_attach_finds_the_device_again(held: Bench) -> None:
    """All bookings are lost; the pod is planned anew onto the device that is there."""
    ask(held)
    held.passes.run(KEY)
    held.run(1)
    held.world.bookings.drop("pod-train")
    announce(held)
    held.passes.run(KEY)
    held.run(1)
    assert (gate_names(held), len(held.fabric.attaches), len(held.api.of(RESOURCES))) == ([], 1, 1)


def allocated(name: str, device: str) -> Json:
    """The claim of a pod that the scheduler has given a device of the node."""
    return {**objects.claim(name, objects.local_result(device)), "spec": claim(name)["spec"]}


def kept_for(bench: Bench, name: str) -> str:
    """Serial number of the one device that is kept for the claim of a pod."""
    (raw,) = bench.world.holds.kept_for(f"uid-{name}")
    return str(raw["status"]["device_id"])


def bind(bench: Bench, name: str) -> None:
    """The scheduler has placed the pod where it was sent."""
    raw = bench.api.one(PODS, name, "default")
    new = {**raw, "spec": {**raw["spec"], "nodeName": "node-0"}}
    bench.put(new)
    bench.gating.seen("MODIFIED", new, raw)


@pytest.mark.parametrize("bound_first", [False, True], ids=["the claim is seen first", "the pod is seen first"])
def test_pods_that_take_each_others_devices_keep_both(held: Bench, bound_first: bool) -> None:
    """A third pod waits for its own; it must not be let go for a device that the second is about to take."""
    for name in ("a", "b", "c"):
        ask(held, name)
    choose(held)
    held.run(1)
    serials = [str(d.serial) for d in held.fabric.attached.values()]
    held.put(objects.local_slice(*serials[:2]))
    held.run(1)
    gone = [name for name in ("a", "b", "c") if not gate_names(held, name)]
    assert len(gone) == 2
    first, second = (kept_for(held, name) for name in gone)
    if bound_first:
        bind(held, gone[0])
    held.put(allocated(gone[0], f"gpu-{serials.index(second)}"))
    held.run(1)
    assert kept_for(held, gone[1]) == first
    assert sum(bool(gate_names(held, name)) for name in ("a", "b", "c")) == 1
    assert len(held.fabric.attaches) == 3


def pool(bench: Bench) -> int:
    """Devices that the pool shows."""
    found = [s for s in bench.api.of(SLICES) if s["spec"]["pool"]["name"] == "a100-fabric1"]
    return sum(len(s["spec"]["devices"]) for s in found)


def test_pool_is_looked_at_when_a_booking_ends(held: Bench) -> None:
    ask(held)
    held.passes.run(KEY)
    assert pool(held) == 3
    held.keys.clear()
    held.gating.drop("pod-train")
    assert set(held.keys) == {("node", "node-0"), ("pool", A100, "1")}
    for key in held.keys:
        held.passes.run(key)
    assert pool(held) == 4


def test_device_that_was_given_to_its_pod_is_wanted_no_more(held: Bench) -> None:
    ask(held)
    serve(held)
    held.put(allocated("train", "gpu-0"))
    held.passes.run(("pool", A100, "1"))
    assert pool(held) == 4, "the fake manager has four besides"
    assert booked(held) == [("train", "node-0")]
