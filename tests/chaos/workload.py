# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workload: users create and delete pods with claims, and administrators attach devices by hand
and cordon nodes.

Pods are gated and ungated, with several models and counts.
"""

from __future__ import annotations

import random
import typing as t
from collections.abc import Callable, Mapping

from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.gate_lease import NAME
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import pods
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.tests.chaos.models.kube_scheduler import PRODUCT
from ansible_collections.composable.infra.tests.chaos.models.node import NAMESPACE
from ansible_collections.composable.infra.tests.chaos.scenario import Step
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, DRIVER, T4

if t.TYPE_CHECKING:
    from ansible_collections.composable.infra.tests.chaos.world import World

Json = dict[str, t.Any]
# Pods of these namespaces are gated while a process removes gates. The third has no gates, and the
# pool serves it.
NAMESPACES: t.Final = {"team-a": True, "team-b": True, "plain": False}
MODELS: t.Final = (A100, T4)
SECONDS = 60.0


def steps(rng: random.Random, nodes: int) -> list[Step]:
    """Return a random workload."""
    found: list[Step] = []
    names: list[str] = []
    for number in range(rng.randint(3, 9)):
        name, at = f"pod-{number}", rng.uniform(0.0, SECONDS)
        if rng.random() < 0.4 and names:
            at = rng.choice(found).at + rng.uniform(0.0, 0.05)  # they come in bursts
        names.append(name)
        wanted: dict[str, t.Any] = {"name": name, "namespace": rng.choice(list(NAMESPACES)),
                                    "model": rng.choice(MODELS), "count": rng.choice((1, 1, 1, 2, 3))}
        if rng.random() < 0.15:
            wanted["second"] = rng.choice(MODELS)
        if rng.random() < 0.2:
            wanted["zone"] = f"zone-{rng.randrange(nodes) % 2}"
        found.append(Step(at, "pod", wanted))
        if rng.random() < 0.6:
            found.append(Step(at + rng.choice((0.02, 0.5, 3.0, 20.0)) * rng.uniform(0.5, 2.0), "delete",
                              {"name": name, "namespace": wanted["namespace"]}))
    for _unused in range(rng.choice((0, 0, 1, 2))):
        where: dict[str, t.Any] = {"node": rng.randrange(nodes), "model": rng.choice(MODELS)}
        found.append(Step(rng.uniform(0.0, SECONDS), "place", where))
    if rng.random() < 0.2:
        at = rng.uniform(0.0, SECONDS)
        node = rng.randrange(nodes)
        found += [Step(at, "cordon", {"node": node}), Step(at + rng.uniform(5.0, 30.0), "uncordon", {"node": node})]
    return found


def _pod(world: World, with_: Mapping[str, t.Any]) -> None:
    """Create a pod and its claims, as the API server has them after admission."""
    name, namespace = with_["name"], with_["namespace"]
    entries = [("first", with_["model"], with_["count"])]
    if with_.get("second"):
        entries.append(("second", with_["second"], 1))
    spec: Json = {"schedulerName": "default-scheduler", "containers": [{"name": "c"}], "resourceClaims": [
        {"name": entry, "resourceClaimName": f"{name}-{entry}"} for entry, _model, _count in entries]}
    if with_.get("zone"):
        spec["nodeSelector"] = {"zone": with_["zone"]}
    if NAMESPACES[namespace] and _gated(world):
        spec["schedulingGates"] = [{"name": pods.GATE}]
    made = world.server.create("pods", {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Pending"}},
                               namespace)
    for entry, model, count in entries:
        _claim(world, made, f"{name}-{entry}", model, count)


def _claim(world: World, pod: Json, name: str, model: str, count: int) -> None:
    cel = f'device.attributes["{DRIVER}"].productName == "NVIDIA {model}"'
    exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count,
               "selectors": [{"cel": {"expression": cel}}]}
    meta = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    world.server.create("resourceclaims", {
        "metadata": {"name": name, "annotations": {PRODUCT: f"NVIDIA {model}"}, "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}, meta["namespace"])


def _gated(world: World) -> bool:
    """Return whether the admission policy gates a pod now (deploy/gates/policy.yaml)."""
    lease = world.server.find("gateleases", NAME, NAMESPACE)
    spec = lease["spec"] if lease else {}
    lasts = spec.get("leaseDurationSeconds") or 0
    return bool(spec.get("holderIdentity")) and world.server.wall() - parse_time(spec.get("renewTime")) <= lasts


def delete(world: World, name: str, namespace: str) -> None:
    """Delete a pod. A pod without a node is gone at once."""
    found = world.server.find("pods", name, namespace)
    if found is None:
        return
    if pods.bound(found):
        world.server.delete("pods", name, namespace)
    else:
        world.server.remove("pods", name, namespace)


def _place(world: World, with_: Mapping[str, t.Any]) -> None:
    world.manager.place(world.node(with_).machine, with_["model"])


def _cordon(world: World, with_: Mapping[str, t.Any], unschedulable: bool) -> None:
    world.server.update("nodes", world.node(with_).name, "", {"spec": {"unschedulable": unschedulable or None}})


DO: t.Final[Mapping[str, Callable[[World, Mapping[str, t.Any]], object]]] = {
    "pod": _pod,
    "delete": lambda world, with_: delete(world, with_["name"], with_["namespace"]),
    "place": _place,
    "cordon": lambda world, with_: _cordon(world, with_, True),
    "uncordon": lambda world, with_: _cordon(world, with_, False),
}
