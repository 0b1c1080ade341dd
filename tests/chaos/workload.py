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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
    return [*found, *_by_administrators(rng, nodes)]


def jobs(rng: random.Random, devices: Mapping[str, int], queues: Sequence[str]) -> list[Step]:
    """Return Jobs for these queues. Each of them fits on the fabric if nothing else does."""
    found: list[Step] = []
    for number in range(rng.randint(2, 6)):
        model = rng.choice(MODELS)
        each = rng.choice((1, 1, 2)) if devices[model] > 1 else 1
        wanted: dict[str, t.Any] = {"name": f"job-{number}", "namespace": rng.choice(("team-a", "team-b")),
                                    "model": model, "devices": each, "count": rng.randint(1, devices[model] // each),
                                    "seconds": rng.choice((1.0, 10.0, 30.0)), "queue": rng.choice(queues),
                                    "priority": rng.choice((0, 0, 10))}
        found.append(Step(rng.uniform(0.0, SECONDS), "job", wanted))
    return found


def _by_administrators(rng: random.Random, nodes: int) -> list[Step]:
    found: list[Step] = []
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
    entries = [("first", with_["model"], with_["count"])]
    if with_.get("second"):
        entries.append(("second", with_["second"], 1))
    create_pod(world, with_["name"], with_["namespace"], entries, {}, with_.get("zone"))


def create_pod(world: World, name: str, namespace: str, entries: list[tuple[str, str, int]],
               annotations: Mapping[str, str], zone: str | None = None, gates: Sequence[str] = ()) -> None:
    """Create a pod and its claims.

    ``entries``: entry, model and number of devices of each claim. ``gates``: further scheduling gates.
    """
    spec: Json = {"schedulerName": "default-scheduler", "containers": [{"name": "c"}], "resourceClaims": [
        {"name": entry, "resourceClaimName": f"{name}-{entry}"} for entry, _model, _count in entries]}
    if zone:
        spec["nodeSelector"] = {"zone": zone}
    gates = [*([pods.GATE] if NAMESPACES[namespace] and gated(world) else []), *gates]
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    meta = {"name": name, **({"annotations": {**annotations}} if annotations else {})}
    made = world.server.create("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}},
                               namespace)
    for entry, model, count in entries:
        _claim(world, made, f"{name}-{entry}", model, count)


def _claim(world: World, pod: Json, name: str, model: str, count: int) -> None:
    meta = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    world.server.create("resourceclaims", {
        "metadata": {"name": name, "annotations": {PRODUCT: f"NVIDIA {model}"}, "ownerReferences": [owner]},
        "spec": claim_spec(model, count)}, meta["namespace"])


def claim_spec(model: str, count: int) -> Json:
    """Return the spec of a claim for ``count`` devices of a model."""
    cel = f'device.attributes["{DRIVER}"].productName == "NVIDIA {model}"'
    exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count,
               "selectors": [{"cel": {"expression": cel}}]}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def gated(world: World) -> bool:
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


@dataclass
class Job:
    """A Job for Kueue: ``count`` pods with ``devices`` each, which run for ``seconds``.

    ``queue``: the name of its ClusterQueue. ``topology``: the nodes that topology-aware scheduling
    chooses for its pods after the devices were attached, none without a topology request.
    """

    name: str
    namespace: str
    model: str
    count: int
    devices: int
    seconds: float
    queue: str = "main"
    priority: int = 0
    topology: tuple[str, ...] = ()
    reserved_at: float = 0.0
    state: str = "queued"
    attempt: int = 1
    not_before: float = 0.0
    running_since: float = 0.0
    message: str = ""

    @property
    def request(self) -> str:
        """Return the name of its request (``ProvisioningRequestName``)."""
        return f"{self.name}-attach-{self.attempt}"

    @property
    def pods(self) -> list[str]:
        """Return the names of its pods."""
        return [f"{self.name}-{number}" for number in range(self.count)]

    @property
    def size(self) -> int:
        """Return the number of its devices."""
        return self.count * self.devices

    @property
    def over(self) -> bool:
        """Return whether the Job needs nothing any more."""
        return self.state in ("finished", "rejected")


def _place(world: World, with_: Mapping[str, t.Any]) -> None:
    world.manager.place(world.node(with_).machine, with_["model"])


def _cordon(world: World, with_: Mapping[str, t.Any], unschedulable: bool) -> None:
    world.server.update("nodes", world.node(with_).name, "", {"spec": {"unschedulable": unschedulable or None}})


DO: t.Final[Mapping[str, Callable[[World, Mapping[str, t.Any]], object]]] = {
    "pod": _pod,
    "delete": lambda world, with_: delete(world, with_["name"], with_["namespace"]),
    "job": lambda world, with_: world.kueue.submit(Job(**with_)),
    "place": _place,
    "cordon": lambda world, with_: _cordon(world, with_, True),
    "uncordon": lambda world, with_: _cordon(world, with_, False),
}
