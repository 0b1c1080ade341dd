# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of an engine at 50, 500 and 5,000 nodes: memory, the first pass, a plan of gated pods,
and single events.

Everything is simulated in one process. The engine is the shipped one, but its API server is a
stand-in, and its CDI Manager is made of values. Times are processor seconds of this process, so
that other work does not count.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import typing as t
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ansible_collections.composable.infra.lab.demo.deployed import AS_DEPLOYED
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import (
    Capabilities,
    Device,
    FabricManager,
    FabricSnapshot,
    Machine,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    NODES,
    PODS,
    SLICES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating.planner import plan_gated_pods
from ansible_collections.composable.infra.plugins.module_utils.reconcile.keys import Key, RequestKey
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.plugins.module_utils.runtime.garbage import (
    collect_seldom,
    spare_collections,
)
from ansible_collections.composable.infra.tests.bench.large import objects
from ansible_collections.composable.infra.tests.bench.large.api_server import running
from ansible_collections.composable.infra.tests.bench.process import peak_rss, rss

SIZES = (50, 500, 5000)
TRIES = 5
MANAGER = {"endpoint": "https://manager.example", "tenant": "00000000-0000-4000-8000-000000000001", "username": "u",
           "password": "p", "realm": "r", "client_id": "c", "client_secret": "s"}


class Fabric:
    """A CDI Manager that lists the devices of all nodes, and no free ones. It makes them once, because
    its own time is no time of the engine."""

    def __init__(self, nodes: int) -> None:
        self._machines = tuple(map(self._machine, range(nodes)))

    capabilities = Capabilities(asynchronous=False, batch=False)

    def _machine(self, number: int) -> Machine:
        uid = objects.machine(number)
        return Machine(uid, objects.name_of(number), 1, tuple(
            Device(objects.device_uid(number, i), objects.MODEL, fabric=1, machine=uid,
                   serial=objects.serial(number, i)) for i in range(objects.GPUS)))

    def machine(self, number: int) -> Machine:
        """Return a node's machine with its devices."""
        return self._machines[number]

    def machines(self) -> tuple[Machine, ...]:
        """Return the machines of all nodes."""
        return self._machines

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Return the whole inventory."""
        machines = {found.uid: found for found in self.machines()}
        return FabricSnapshot(machines, {(model, 1): 0 for model in models}, time.time())


def engine(url: str, fabric: Fabric) -> ControllerManager:
    """Return an engine that watches and does no work."""
    config = EngineConfig.from_dict({"device_info": [objects.ROW], "fabric": MANAGER, "handover": "gated",
                                     "unserved": "wait", "scan_interval": 86400.0})
    made = ControllerManager(Client(Connection(url)), t.cast(FabricManager, fabric), config, events=False)
    made.watch()
    while not made.ready():
        time.sleep(0.05)
    return made


class Recorded:
    """The keys that an engine queues. They are worked on here instead of by its workers."""

    def __init__(self, made: ControllerManager) -> None:
        self.keys: dict[Key, None] = {}
        self._made = made
        for name in ("add", "add_change", "add_at"):
            setattr(made.queue, name, self._add)

    def _add(self, key: Key, _when: float = 0.0) -> None:
        self.keys[key] = None

    def work(self, later: type[Key] | tuple[()] = ()) -> int:
        """Reconcile each key that was queued until now once. Return their number. Keys of the class
        ``later`` stay."""
        keys = [key for key in self.keys if not isinstance(key, later)]
        self.keys = {key: None for key in self.keys if isinstance(key, later)}
        for key in keys:
            self._made.workers.reconcile(key)
        return len(keys)


@dataclass
class Spent:
    """Processor seconds."""

    seconds: float = 0.0


@contextmanager
def cpu() -> Iterator[Spent]:
    """Yield the processor seconds of a block, known at its end."""
    spent, began = Spent(), time.process_time()
    yield spent
    spent.seconds = time.process_time() - began


def measure(nodes: int, url: str) -> dict[str, t.Any]:
    """Return all figures of one size, in seconds of CPU and MiB."""
    found: dict[str, t.Any] = {"nodes": nodes, "devices": nodes * objects.GPUS, "empty_mib": rss(os.getpid())}
    collect_seldom()  # as the controller does
    fabric = Fabric(nodes)
    with cpu() as spent:
        made = engine(url, fabric)
        made.writer.read_journal()  # as a new leader does
    spare_collections()
    found |= {"list_seconds": spent.seconds, "rss_mib": rss(os.getpid()), "peak_mib": peak_rss(os.getpid())}
    recorded = Recorded(made)
    made.dispatch.begin()
    with cpu() as spent:
        found["keys"] = recorded.work(later=RequestKey)
    found["first_pass_seconds"] = spent.seconds
    with cpu() as spent:
        for _step in made.gating.read_ahead():
            pass
    spare_collections()  # as the controller does after its first round of reading ahead
    found["read_ahead_seconds"] = spent.seconds
    for name, count in (("first", 1), ("again", 1), ("burst", 100)):
        with cpu() as spent:
            _plan(made, f"plan-{name}", count)
        found[f"plan_{name}_seconds"] = spent.seconds
    found["events_ms"] = {name: _event(made, recorded, kind, raws) for name, kind, raws in _events(nodes)}
    with cpu() as spent:
        made.inventory_polls.look(time.time())
        recorded.work()
    found |= {"look_seconds": spent.seconds, "worked_mib": rss(os.getpid())}
    made.stop(0.1)
    return found


def _plan(made: ControllerManager, name: str, count: int = 1) -> None:
    """Add gated pods, and plan them."""
    for number in range(count):
        claim, pod = objects.held_pod(f"{name}-{number}")
        made.state.claims.upsert(claim)
        made.state.pods.upsert(pod)
    placed = plan_gated_pods(made.state, made.gating._cycle.plan, made.gating._known_nodes).placements
    if len(placed) < count:
        raise RuntimeError(f"{len(placed)} of {count} gated pods got a node")
    for number in range(count):
        claim, pod = objects.held_pod(f"{name}-{number}")
        made.state.pods.remove(pod)
        made.state.claims.remove(claim)


def _events(nodes: int) -> Iterator[tuple[str, ApiResource, list[objects.Json]]]:
    """Yield the kinds of events, each with objects that change. A claim gets one more pod, and a
    device an annotation, since a new resourceVersion alone concerns no controller."""
    some = [i * nodes // TRIES for i in range(TRIES)]
    claims, devices = [objects.claim(i, 0) for i in some], [objects.resource(i, 0) for i in some]
    for claim in claims:
        claim["status"]["reservedFor"].append({"resource": "pods", "name": "another", "uid": "another"})
    for device in devices:
        device["metadata"]["annotations"]["example.org/note"] = "changed"
    yield "node heartbeat", NODES, [objects.node(i) for i in some]
    yield "claim changed", CLAIMS, claims
    yield "device changed", COMPOSABLE_RESOURCES, devices
    yield "slice changed", SLICES, [objects.node_slice(i) for i in some]
    yield "pod changed", PODS, [objects.pod(i, 0) for i in some]
    yield "gated pod comes", PODS, [objects.held_pod(f"event-{i}", objects.GPUS)[1] for i in range(TRIES)]


def _event(made: ControllerManager, recorded: Recorded, kind: ApiResource, raws: list[objects.Json]) -> float:
    """Return the median milliseconds of an event with all its work."""
    taken: list[float] = []
    for number, raw in enumerate(raws):
        raw["metadata"]["resourceVersion"] = str(2000 + number)
        meta, store = raw["metadata"], made.state.stores[kind]
        old = store.stored(meta["name"], meta.get("namespace", ""))
        if old is None:
            made.state.claims.upsert(objects.held_pod(meta["name"], objects.GPUS)[0])
        recorded.keys.clear()
        with cpu() as spent:
            obj = store.trimmed(raw)
            store.upsert(obj)
            made.dispatch.watched("MODIFIED" if old else "ADDED", kind, obj, old)
        while old is None and made.gating._coming.lasts_until():
            time.sleep(0.005)
        with cpu() as worked:
            recorded.work()
        taken.append(spent.seconds + worked.seconds)
        if old is None:
            store.remove(obj)
    return 1000 * statistics.median(taken)


def run(sizes: Iterable[int] = SIZES) -> list[dict[str, t.Any]]:
    """Return a row for each size, each measured in a fresh process."""
    rows = []
    for nodes in sizes:
        writes: list[str] = []
        with running(nodes, writes) as url:
            done = subprocess.run([sys.executable, "-m", __name__ if __name__ != "__main__" else __spec__.name,
                                   str(nodes), url], capture_output=True, text=True, check=False,
                                  env={**os.environ, **AS_DEPLOYED})
        if done.returncode:
            raise RuntimeError(done.stderr)
        if writes:
            raise RuntimeError(f"the cluster was not as it should be: {writes[:5]}")
        rows.append(json.loads(done.stdout.splitlines()[-1]))
    return rows


if __name__ == "__main__":
    if sys.argv[-1].startswith("http:"):
        print(json.dumps(measure(int(sys.argv[1]), sys.argv[2])))
    else:
        print(json.dumps(run(map(int, sys.argv[1:] or SIZES))))
