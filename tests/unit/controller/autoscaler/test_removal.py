# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node goes: when all of a call may go, and when nothing runs there any more."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.controller.autoscaler.errors import Refused
from ansible_collections.composable.infra.controller.autoscaler.providers.http import Endpoint
from ansible_collections.composable.infra.controller.autoscaler.requests import HARD, SCALE_DOWN, SCALE_DOWN_DISABLED
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES, PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Conflict
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.machines import Machines, regroup
from ansible_collections.composable.infra.tests.unit.controller.autoscaler.testbed import Testbed

Json = dict[str, t.Any]


def note(testbed: Testbed, node: str, name: str) -> str | None:
    """An annotation of a node."""
    found: Json = testbed.api.one(NODES, node)["metadata"].get("annotations") or {}
    return found.get(name)


def runs(testbed: Testbed, name: str, node: str, **meta: t.Any) -> None:
    """A pod without devices that is bound to a node."""
    testbed.pod(name, 0)
    raw = testbed.api.one(PODS, name, "default")
    raw["metadata"] |= meta
    testbed.api.put(PODS, {**raw, "spec": {**raw["spec"], "nodeName": node}, "status": {"phase": "Running"}})
    testbed.sync()


def test_where_one_of_a_call_stays_none_goes(testbed: Testbed, machines: Machines) -> None:
    """Cluster Autoscaler takes the taint from all of a call that was refused: pods land on them again."""
    regroup(testbed, nodes={"min_size": 1}, scale_down={"policy": "power"})
    with pytest.raises(Refused, match="its group needs at least 1 nodes"):
        testbed.provider.delete("nodes", [("node-0", ""), ("node-1", "")])
    testbed.tick(3)
    assert machines.removed == []
    assert testbed.provider.target_size("nodes") == 2
    assert note(testbed, "node-0", SCALE_DOWN) is None, "the one that could go may be asked for again"
    assert note(testbed, "node-1", SCALE_DOWN_DISABLED) == "true"


def test_where_a_node_cannot_be_marked_none_goes(testbed: Testbed, machines: Machines) -> None:
    """A restart would not know of it; and Cluster Autoscaler is told that nothing goes."""
    regroup(testbed, scale_down={"policy": "power"})
    testbed.api.fail("merge_patch", NODES, ApiError(500, "InternalError", "etcd"), name="node-1", times=1)
    with pytest.raises(ApiError):
        testbed.provider.delete("nodes", [("node-0", ""), ("node-1", "")])
    testbed.tick(3)
    assert machines.removed == []
    assert note(testbed, "node-0", SCALE_DOWN) is None
    assert testbed.provider.target_size("nodes") == 2


@pytest.mark.parametrize("meta", [{}, {"ownerReferences": [{"kind": "ReplicaSet", "name": "r", "controller": True}]}])
def test_node_waits_for_the_pods_that_still_run_there(testbed: Testbed, machines: Machines, meta: Json) -> None:
    regroup(testbed, scale_down={"policy": "power"})
    runs(testbed, "late", "node-1", **meta)
    testbed.provider.delete("nodes", [("node-1", "")])
    testbed.tick(3)
    assert machines.removed == []
    testbed.end("late")
    testbed.tick(1)
    assert machines.removed == ["node-1"]


@pytest.mark.parametrize("meta", [
    {"ownerReferences": [{"kind": "DaemonSet", "name": "plugin", "controller": True}]},
    {"annotations": {"kubernetes.io/config.mirror": "x"}}], ids=["DaemonSet", "static pod"])
def test_pods_that_belong_to_the_node_go_with_it(testbed: Testbed, machines: Machines, meta: Json) -> None:
    regroup(testbed, scale_down={"policy": "power"})
    runs(testbed, "plugin", "node-1", **meta)
    testbed.provider.delete("nodes", [("node-1", "")])
    testbed.tick(2)
    assert machines.removed == ["node-1"]


def test_node_stays_for_now_when_its_pods_cannot_be_read(testbed: Testbed, machines: Machines) -> None:
    regroup(testbed, scale_down={"policy": "power"})
    testbed.provider.delete("nodes", [("node-1", "")])
    testbed.api.fail("list", PODS, ApiError(500, "InternalError", "etcd"), times=1)
    with pytest.raises(ApiError):
        testbed.provider.serve_nodes()
    assert machines.removed == []
    testbed.tick(1)
    assert machines.removed == ["node-1"]


# A machine of the list that was switched off: nobody deletes its Node object


class Power:
    """The management controllers of all machines: what is on, by the path of its system."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self.on = {f"/systems/{number}": number < 2 for number in range(3)}
        self.calls: list[tuple[str, str]] = []

    def call(self, method: str, path: str, body: Json | None = None) -> Json:
        """What ``Endpoint.call`` would answer."""
        if method == "GET":
            return {"PowerState": "On" if self.on[path] else "Off"}
        system, kind = path.removesuffix("/Actions/ComputerSystem.Reset"), (body or {})["ResetType"]
        self.calls.append((system, kind))
        self.on[system] = kind == "On"
        return {}

    def kubelets(self) -> None:
        """Each node whose machine is off is not ready; one that is on is, or registers."""
        there = {raw["metadata"]["name"]: raw for raw in self._testbed.api.of(NODES)}
        for system, on in self.on.items():
            name = f"node-{system.rpartition('/')[2]}"
            if raw := there.get(name):
                raw["status"]["conditions"] = [{"type": "Ready", "status": "True" if on else "Unknown"}]
                self._testbed.api.put(NODES, raw)
            elif on:
                self._testbed.add_node(name)


@pytest.fixture
def power(testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> Power:
    """Three machines, of which two are nodes."""
    made = Power(testbed)
    monkeypatch.setattr(Endpoint, "call", made.call)
    listed = [{"node": f"node-{number}", "system": f"/systems/{number}", "endpoint": "https://bmc.example",
               "username": "u", "password_path": "/nowhere"} for number in range(3)]
    regroup(testbed, nodes={"max_size": 2, "provider": {"kind": "static", "machines": listed}},
            scale_down={"policy": "power"})
    return made


def drained(testbed: Testbed, name: str, cordoned_by: str = "cluster-autoscaler") -> None:
    """As Cluster Autoscaler leaves a node that it deletes: tainted and cordoned."""
    other = {"key": "site", "effect": "NoSchedule", "value": "x"}
    written = {"manager": cordoned_by, "operation": "Update", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}
    testbed.api.client.merge_patch(NODES, name, {"metadata": {"managedFields": [written]}, "spec": {
        "taints": [other, {"key": HARD, "value": "1", "effect": "NoSchedule"}], "unschedulable": True}})
    testbed.sync()
    testbed.provider.delete("nodes", [(name, "")])
    testbed.tick(1)


def test_machine_that_was_switched_off_is_spare_again(testbed: Testbed, power: Power) -> None:
    drained(testbed, "node-0")
    assert power.calls == [("/systems/0", "GracefulShutdown")]
    power.kubelets()
    testbed.tick(1)
    assert note(testbed, "node-0", SCALE_DOWN) == "removed"
    assert testbed.provider.target_size("nodes") == 1
    assert testbed.provider.group_of("node-0") is None, "Cluster Autoscaler sees no node that is off"
    assert power.calls == [("/systems/0", "GracefulShutdown")], "and once is enough"
    (option,) = testbed.provider.options()
    assert (option.room, option.coming) == (1, 0)


def test_node_whose_machine_is_switched_on_again_takes_pods(testbed: Testbed, power: Power) -> None:
    drained(testbed, "node-0")
    power.kubelets()
    testbed.tick(1)
    testbed.pod("plain", 0, cpu="8")
    testbed.pod("more", 0, cpu="8")
    testbed.schedule()
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    testbed.tick(1)
    assert power.calls[1:] == [("/systems/0", "On")], "the first of the list that is off"
    assert testbed.provider.orders.ahead("nodes") == 1
    power.kubelets()
    testbed.tick(2)
    raw = testbed.api.one(NODES, "node-0")
    assert [taint["key"] for taint in raw["spec"]["taints"]] == ["site"]
    assert not raw["spec"].get("unschedulable")
    assert note(testbed, "node-0", SCALE_DOWN) is None
    assert testbed.provider.target_size("nodes") == 2
    assert testbed.provider.orders.ahead("nodes") == 0
    testbed.provider.delete("nodes", [("node-0", "")])
    testbed.tick(1)
    assert power.calls[2:] == [("/systems/0", "GracefulShutdown")], "it may go again"


def test_machine_that_shuts_down_is_not_on_its_way(testbed: Testbed, power: Power) -> None:
    drained(testbed, "node-0")
    power.kubelets()
    power.on["/systems/0"] = True
    testbed.tick(1)
    assert testbed.provider.orders.ahead("nodes") == 0


def test_restart_knows_which_machines_are_off(testbed: Testbed, power: Power) -> None:
    drained(testbed, "node-0")
    power.kubelets()
    testbed.tick(1)
    testbed.start()
    testbed.tick(1)
    assert power.calls == [("/systems/0", "GracefulShutdown")]
    assert testbed.provider.target_size("nodes") == 1
    assert [option.room for option in testbed.provider.options()] == [1]


def test_node_that_returns_while_somebody_changes_it_is_looked_at_again(testbed: Testbed, power: Power) -> None:
    drained(testbed, "node-0")
    power.kubelets()
    testbed.tick(1)
    power.on["/systems/0"] = True
    power.kubelets()
    testbed.api.fail("merge_patch", NODES, Conflict(409, "Conflict", "changed"), name="node-0", times=1)
    testbed.sync()
    testbed.provider.step()
    assert note(testbed, "node-0", SCALE_DOWN) == "removed"
    testbed.provider.step()
    assert note(testbed, "node-0", SCALE_DOWN) is None


def test_cordon_of_an_administrator_stays(testbed: Testbed, power: Power) -> None:
    drained(testbed, "node-0", cordoned_by="kubectl-cordon")
    power.kubelets()
    testbed.tick(1)
    testbed.provider.scale_downs._marks.return_node("node-0")
    raw = testbed.api.one(NODES, "node-0")
    assert ([taint["key"] for taint in raw["spec"]["taints"]], raw["spec"].get("unschedulable")) == (["site"], True)


def test_node_that_is_another_machine_by_now_is_not_removed(testbed: Testbed, machines: Machines) -> None:
    """It was made anew under the same name after Cluster Autoscaler had looked."""
    regroup(testbed, scale_down={"policy": "power"})
    with pytest.raises(Refused, match="node node-1 has the providerID 'fsas-cdi://machine-1', not 'fsas-cdi://before'"):
        testbed.provider.delete("nodes", [("node-0", "fsas-cdi://machine-0"), ("node-1", "fsas-cdi://before")])
    assert note(testbed, "node-0", SCALE_DOWN) is None
    testbed.provider.delete("nodes", [("node-1", "fsas-cdi://machine-1")])
    assert note(testbed, "node-1", SCALE_DOWN) == "removing"


def test_node_is_left_alone_while_a_device_comes_to_it(testbed: Testbed) -> None:
    """Cluster Autoscaler cordoned such a node eight seconds after it was chosen (scale-down delay 1 s)."""
    testbed.pod("train")
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    testbed.step()
    (chosen,) = {node for node, _problem in testbed.provider._cluster.asked().values()}
    assert note(testbed, chosen, SCALE_DOWN_DISABLED) == "true"
    testbed.start()
    testbed.tick(4)
    assert testbed.bound("train") == chosen
    assert note(testbed, chosen, SCALE_DOWN_DISABLED) is None


def test_node_is_free_again_when_the_pod_is_gone(testbed: Testbed) -> None:
    testbed.pod("train")
    testbed.sync()
    testbed.provider.increase("vertical", 1)
    testbed.step()
    (chosen,) = {node for node, _problem in testbed.provider._cluster.asked().values()}
    testbed.end("train")
    testbed.tick(3)
    assert note(testbed, chosen, SCALE_DOWN_DISABLED) is None
