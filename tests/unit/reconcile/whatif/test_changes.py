# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each change makes of a capture, and how bad ones are refused."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.answer import (
    PLACED,
    RELEASED,
    SERVED,
    WAITING,
    Answer,
    answer,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.changes import CHANGES, changed
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.evictions import Gate
from ansible_collections.composable.infra.plugins.module_utils.reconcile.whatif.options import BadChange
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER, H100, rows
from ansible_collections.composable.infra.tests.unit.reconcile import gated_pods, objects
from ansible_collections.composable.infra.tests.unit.reconcile.bench import Bench
from ansible_collections.composable.infra.tests.unit.reconcile.conftest import MANAGER
from ansible_collections.composable.infra.tests.unit.reconcile.whatif.conftest import Ask, TakeCapture

Json = dict[str, t.Any]
TRAIN = "default/train"


def states(found: Answer) -> dict[str, tuple[str, str]]:
    """(state, node) by claim."""
    return {name: (each.state, each.node) for name, each in found.claims.items()}


def test_more_devices_serve_who_waits(held: Bench, ask: Ask) -> None:
    held.fabric.free_count = 0
    gated_pods.ask(held, count=2)
    assert states(ask()) == {TRAIN: (RELEASED, "")}
    assert "1 had only 0 x A100 40G in total on fabric 1" in ask().claims[TRAIN].says
    short = ask({"change": "add_devices", "model": A100, "fabric": 1, "count": 1})
    assert "1 had only 1 x A100 40G in total on fabric 1" in short.claims[TRAIN].says
    found = ask({"change": "add_devices", "model": A100, "fabric": 1, "count": 8})
    assert states(found) == {TRAIN: (PLACED, "node-0")}
    assert found.claims[TRAIN].says == "node node-0 has room and 2 x A100 40G (2 to be attached)"
    assert found.attaches == {("node-0", A100): 2}
    assert found.free[A100, 1] == 8
    other = ask({"change": "add_devices", "model": H100, "count": 8})
    assert states(other) == {TRAIN: (RELEASED, "")}


def test_fewer_devices(held: Bench, ask: Ask) -> None:
    gated_pods.ask(held, count=3)
    assert ask().attaches == {("node-0", A100): 3}
    found = ask({"change": "lose_devices", "model": A100, "count": 2})
    assert (found.free[A100, 1], found.attaches, states(found)) == (2, {}, {TRAIN: (RELEASED, "")})


def test_a_lost_device_sends_its_pod_back_to_wait(two: Bench, ask: Ask) -> None:
    two.fabric.free_count = 1
    assert states(ask()) == {TRAIN: (SERVED, "node-0")}
    found = ask({"change": "lose_devices", "devices": ["d-train"]})
    assert found.claims[TRAIN].state == PLACED
    assert sum(found.attaches.values()) == 1
    two.fabric.free_count = 0
    found = ask({"change": "lose_devices", "devices": ["d-train"]})
    assert states(found) == {TRAIN: (RELEASED, "")}
    assert found.free[A100, 1] == 0


@pytest.mark.parametrize("change", ["drain_node", "lose_node"])
def test_a_node_that_is_emptied(two: Bench, ask: Ask, change: str) -> None:
    """Its device is free again, and is attached where the pod goes."""
    found = ask({"change": change, "node": "node-0"})
    assert states(found) == {TRAIN: (PLACED, "node-1")}
    assert found.attaches == {("node-1", A100): 1}
    assert found.free[A100, 1] == 1


@pytest.mark.parametrize("change", ["drain_node", "lose_node"])
def test_nowhere_else_to_go(two: Bench, ask: Ask, change: str) -> None:
    found = ask({"change": change, "node": "node-0"}, {"change": change, "node": "node-1"} if change == "drain_node"
                else {"change": "drain_node", "node": "node-1"})
    assert states(found) == {TRAIN: (RELEASED, "")}
    assert "unschedulable" in found.claims[TRAIN].says


def test_an_evicted_pod_keeps_what_it_asks_of_nodes(two: Bench, ask: Ask) -> None:
    """A store forgets that of a bound pod; a capture must not."""
    raw = two.api.one(PODS, "train", "default")
    two.put({**raw, "spec": {**raw["spec"], "nodeSelector": {"zone": "a"}}})
    found = ask({"change": "drain_node", "node": "node-0"})
    assert states(found) == {TRAIN: (RELEASED, "")}
    assert "node affinity" in found.claims[TRAIN].says


@pytest.mark.parametrize("change", ["drain_node", "lose_node"])
def test_pods_of_daemon_sets_do_not_move(two: Bench, captured: TakeCapture, change: str) -> None:
    raw = two.api.one(PODS, "train", "default")
    owner = {"kind": "DaemonSet", "name": "d", "uid": "u"}
    two.put({**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner]}})
    after = changed(captured(two), [{"change": change, "node": "node-0"}])
    assert [(pod["metadata"]["name"], pod["spec"].get("nodeName")) for pod in after.of("pods")] == (
        [("train", "node-0")] if change == "drain_node" else [])


def test_more_pods_with_a_claim(held: Bench, ask: Ask) -> None:
    held.fabric.free_count = 5
    found = ask({"change": "add_pods", "model": A100, "count": 3, "devices_each": 2})
    assert [each.state for each in found.claims.values()] == [PLACED, PLACED, RELEASED]
    assert found.attaches == {("node-0", A100): 4}


OTHER = "own.example"


def two_drivers(*classes: str) -> EngineConfig:
    """A model whose devices another driver shows on nodes that say so."""
    (first, *_rest) = rows()
    table = [{**first, "other-driver-names": [OTHER]}]
    return EngineConfig.from_dict({"device_info": table, "fabric": MANAGER, "node_operations": "none",
                                   "device_classes": [*classes]})


def device_class(name: str, *drivers: str) -> Json:
    """A DeviceClass for these drivers."""
    said = f"device.driver in {[*drivers]!r}"
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name, "uid": name},
            "spec": {"selectors": [{"cel": {"expression": said}}]}}


@pytest.mark.parametrize("label", ["", OTHER])
def test_more_pods_are_for_each_driver_of_the_model(held: Bench, captured: TakeCapture, label: str) -> None:
    held.fabric.free_count = 5
    node = gated_pods.node("node-0", "machine-0")
    node["metadata"]["labels"] = {**node["metadata"].get("labels", {}), "composable.infra/dra-driver": label}
    held.put(node, device_class(DRIVER, DRIVER), device_class("all", DRIVER, OTHER))
    config = two_drivers(DRIVER, "all")
    found = answer(changed(captured(held, config), [{"change": "add_pods", "model": A100, "count": 1}]))
    assert [each.state for each in found.claims.values()] == [PLACED]


def test_more_pods_ask_for_cpu_and_memory(held: Bench, ask: Ask) -> None:
    """The node has 8 CPUs."""
    found = ask({"change": "add_pods", "model": A100, "count": 3, "cpu": "4", "memory": "1Gi"})
    assert [each.state for each in found.claims.values()] == [PLACED, PLACED, RELEASED]
    assert "Insufficient cpu" in found.claims["default/what-if-3-devices"].says


def test_more_pods_like_one_that_there_is(held: Bench, ask: Ask) -> None:
    gated_pods.ask(held, count=2)
    found = ask({"change": "add_pods", "like": TRAIN, "count": 2})
    assert states(found)[TRAIN] == (PLACED, "node-0")
    assert states(found)["default/what-if-1-gpu"] == (PLACED, "node-0")
    assert found.claims["default/what-if-2-gpu"].state in (RELEASED, WAITING)
    assert found.attaches == {("node-0", A100): 4}


@pytest.mark.parametrize(("spec", "labels", "gates"), [
    ({"resourceClaims": [{"name": "c"}]}, {}, [pods.GATE]),
    ({"resourceClaims": [{"name": "c"}]}, {pods.OPT: "false"}, []),
    ({}, {}, []), ({"containers": [{"resources": {"requests": {"example.com/gpu": "1"}}}]}, {}, [pods.GATE]),
    ({"containers": [{"resources": {"requests": {"cpu": "1", "x.kubernetes.io/y": "1"}}}]}, {}, []),
    ({"schedulingGates": [{"name": "other"}, {"name": pods.GATE}]}, {}, ["other"]),
])
def test_new_pods_are_held_as_the_admission_policy_does(
    held: Bench, captured: TakeCapture, spec: Json, labels: Json, gates: list[str]
) -> None:
    pod = {"metadata": {"namespace": "default", "labels": labels}, "spec": spec}
    found = Gate(captured(held)).over(pod)
    assert [each["name"] for each in found["spec"].get("schedulingGates", ())] == gates


def test_names_of_more_pods_do_not_clash(held: Bench, ask: Ask) -> None:
    more: Json = {"change": "add_pods", "model": A100, "count": 2}
    assert len(ask(more, more).claims) == 4


def test_pods_of_other_namespaces_are_not_held(held: Bench, ask: Ask) -> None:
    held.put({"apiVersion": "v1", "kind": "Namespace", "metadata": objects.meta("other")})
    found = ask({"change": "add_pods", "model": A100, "count": 1, "namespace": "other"})
    (claim,) = found.claims.values()
    assert (claim.claim, claim.state, found.attaches) == ("other/what-if-1-devices", WAITING, {})
    assert claim.says.startswith("a node with 1 free device of A100 40G: pool a100-fabric1 has 0 free")


def test_another_hold_time(two: Bench, ask: Ask) -> None:
    """The device of a pod that ended a minute ago stays, or goes back."""
    for raw in (two.api.one(PODS, "train", "default"), objects.claim("train")):
        two.drop(raw)
    keep, drop = ({"change": "settings", "settings": {"device_no_removal_duration": seconds}} for seconds in (86400, 0))
    assert ask(keep).returns == {}
    assert ask(drop).returns == {("node-0", A100): 1}


def test_another_unserved(held: Bench, ask: Ask) -> None:
    for name in ("first", "second"):
        gated_pods.ask(held, name, 3)
    found = ask({"change": "settings", "settings": {"unserved": "wait"}})
    assert sorted(each.state for each in ask().claims.values()) == [PLACED, RELEASED]
    assert sorted(each.state for each in found.claims.values()) == [PLACED, WAITING]


def test_another_handover(held: Bench, ask: Ask) -> None:
    """Pods that wait count as made after the change: held no more, and held again."""
    gated_pods.ask(held)
    away: Json = {"change": "settings", "settings": {"handover": "reschedule"}}
    back: Json = {"change": "settings", "settings": {"handover": "gated"}}
    found = ask(away)
    assert found.claims[TRAIN].state == WAITING
    assert found.claims[TRAIN].says.startswith("a node with 1 free device")
    assert ask(away, back) == ask()


def test_an_allocated_claim_stays_with_its_handover(held: Bench, captured: TakeCapture) -> None:
    """What the scheduler has begun is not begun anew."""
    held.put(objects.claim("train", objects.pool_result()), objects.pod("train"))
    capture = captured(held, EngineConfig.from_dict({"device_info": rows(), "fabric": MANAGER, "node_operations": "ssh",
                                                     "handover": "reschedule"}))
    after = changed(capture, [{"change": "settings", "settings": {"handover": "gated"}}])
    assert after.of("pods") == capture.of("pods")
    assert answer(after).claims[TRAIN].node == "node-0"


@pytest.mark.parametrize(("change", "said"), [
    ({}, "changes[0].change: None is not usable: must be one of add_devices, lose_devices"),
    ({"change": "explode"}, "changes[0].change: 'explode' is not usable: must be one of add_devices, lose_devices, "
                            "drain_node, lose_node, add_pods, settings"),
    ({"change": "add_devices", "count": 1}, "changes[0].model: None is not usable: must be one of A100 40G, H100 80G"),
    ({"change": "add_devices", "model": "B200", "count": 1}, "changes[0].model: 'B200' is not usable: must be one of"),
    ({"change": "add_devices", "model": A100, "fabric": 7, "count": 1},
     "changes[0].fabric: 7 is not usable: must be one of 1"),
    ({"change": "add_devices", "model": A100}, "changes[0].count: None is not usable: must be a whole number from 1"),
    ({"change": "add_devices", "model": A100, "count": 0}, "changes[0].count: 0 is not usable: must be a whole number"),
    ({"change": "add_devices", "model": A100, "count": True}, "changes[0].count: True is not usable"),
    ({"change": "add_devices", "model": A100, "count": 1, "node": "node-0"},
     "changes[0].node: 'node-0' is not usable: add_devices takes model, fabric, count"),
    ({"change": "lose_devices", "model": A100, "count": 9},
     "changes[0].count: 9 is not usable: must be a whole number from 1 to 4"),
    ({"change": "lose_devices", "devices": ["nobody"]},
     "changes[0].devices: ['nobody'] is not usable: nobody is not attached. Attached are none"),
    ({"change": "lose_devices", "devices": []}, "changes[0].devices: [] is not usable: must be a list of names"),
    ({"change": "lose_devices", "devices": ["d"], "count": 1},
     "changes[0].count: 1 is not usable: lose_devices with devices takes devices"),
    ({"change": "drain_node", "node": "node-9"}, "changes[0].node: 'node-9' is not usable: must be one of node-0"),
    ({"change": "lose_node", "node": ["node-0"]}, "changes[0].node: ['node-0'] is not usable: must be one of node-0"),
    ({"change": "add_pods", "model": A100, "count": 1, "namespace": "nowhere"},
     "changes[0].namespace: 'nowhere' is not usable: must be one of default"),
    ({"change": "add_pods", "model": A100, "count": 1, "devices_each": 33},
     "changes[0].devices_each: 33 is not usable: must be a whole number from 1 to 32"),
    ({"change": "add_pods", "model": A100, "count": 1, "cpu": "many"},
     "changes[0].cpu: 'many' is not usable: must be an amount such as 500m, 4 or 16Gi"),
    ({"change": "add_pods", "like": "default/nobody", "count": 1},
     "changes[0].like: 'default/nobody' is not usable: must be one of default/alone, default/train"),
    ({"change": "add_pods", "like": "default/alone", "count": 1},
     "changes[0].like: 'default/alone' is not usable: its claim gpu was not captured. Name a pod with captured claims"),
    ({"change": "add_pods", "like": TRAIN, "model": A100, "count": 1},
     "changes[0].model: 'A100 40G' is not usable: add_pods with like takes count, like"),
    ({"change": "settings"}, "changes[0].settings: None is not usable: must be a mapping with some of"),
    ({"change": "settings", "settings": {"device_info": []}},
     "changes[0].settings.device_info: [] is not usable: it cannot be changed. Allowed are allocation_policy"),
    ({"change": "settings", "settings": {"handover": "magic"}},
     "changes[0].settings.handover: 'magic' is not usable: must be one of gated, direct, reschedule"),
    ({"change": "settings", "settings": {"hold_timeout": -1}},
     "changes[0].settings.hold_timeout: -1 is not usable: must be a number from 1 to 86400"),
    ({"change": "settings", "settings": {"handover": "direct"}},
     "changes[0].settings: {'handover': 'direct'} is not usable: A100 40G would have the handover direct"),
])
def test_bad_changes(held: Bench, captured: TakeCapture, change: Json, said: str) -> None:
    gated_pods.ask(held)
    held.put(gated_pods.pod("alone"))
    with pytest.raises(BadChange) as raised:
        changed(captured(held), [change])
    assert str(raised.value).startswith(said)


def test_the_number_of_a_bad_change_is_said(held: Bench, captured: TakeCapture) -> None:
    with pytest.raises(BadChange, match=r"changes\[1\]: 'text' is not usable: must be a mapping"):
        changed(captured(held), [{"change": "add_pods", "model": A100, "count": 1}, t.cast(Json, "text")])


def test_a_long_list_of_what_is_allowed_is_cut(held: Bench, captured: TakeCapture) -> None:
    held.put(*(gated_pods.node(f"node-{number:02}", None) for number in range(30)))
    with pytest.raises(BadChange, match=r"must be one of node-0, node-00, node-01, .* and 11 more$"):
        changed(captured(held), [{"change": "drain_node", "node": "nowhere"}])


def test_no_free_device_can_be_lost_where_none_is(two: Bench, ask: Ask) -> None:
    with pytest.raises(BadChange,
                       match=r"no device of A100 40G is free on fabric 1\. Name attached devices in devices"):
        ask({"change": "lose_devices", "model": A100, "count": 1})


def test_each_change_has_a_name() -> None:
    assert [*CHANGES] == ["add_devices", "lose_devices", "drain_node", "lose_node", "add_pods", "settings"]
