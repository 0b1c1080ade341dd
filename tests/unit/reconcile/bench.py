# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of an engine on a fake API server and a fake manager, without its threads and watches."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.module_utils.kube.resource import (
    CLAIMS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    REQUESTS,
    RESOURCES,
    SLICES,
    Resource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.store import Store
from ansible_collections.composable.infra.plugins.module_utils.reconcile import publish
from ansible_collections.composable.infra.plugins.module_utils.reconcile.claimcheck import ClaimCheck
from ansible_collections.composable.infra.plugins.module_utils.reconcile.counters import Counters
from ansible_collections.composable.infra.plugins.module_utils.reconcile.engine import Engine
from ansible_collections.composable.infra.plugins.module_utils.reconcile.flights import Flights
from ansible_collections.composable.infra.plugins.module_utils.reconcile.gating import Gating
from ansible_collections.composable.infra.plugins.module_utils.reconcile.idleness import IdleProof
from ansible_collections.composable.infra.plugins.module_utils.reconcile.narrator import Narrator
from ansible_collections.composable.infra.plugins.module_utils.reconcile.passes import Passes
from ansible_collections.composable.infra.plugins.module_utils.reconcile.steering import Steering
from ansible_collections.composable.infra.plugins.module_utils.reconcile.world import World
from ansible_collections.composable.infra.plugins.module_utils.reconcile.writer import Writer
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi
from ansible_collections.composable.infra.tests.unit.reconcile.fake_fabric import FakeFabric
from ansible_collections.composable.infra.tests.unit.scaling.builders import settings

ROLES = frozenset({"publisher", "scaler", "operator"})


def kind_of(raw: dict[str, t.Any]) -> Resource:
    """The API resource of an object."""
    kinds = (CLAIMS, SLICES, NODES, REQUESTS, RESOURCES, PODS, NAMESPACES, DEVICE_CLASSES)
    return next(k for k in kinds if k.kind == raw["kind"])


class Bench:
    """Everything that a pass needs. ``put`` is what the API server has and the watches have seen."""

    def __init__(self, **options: t.Any) -> None:
        self.api, self.fabric = FakeApi(), FakeFabric()
        self.settings = settings(**options)
        self.world = World(self.api.client, self.settings, lambda *_unused: None)
        self.writer = Writer(self.api.client, self.world)
        self.narrator = Narrator(self.world, None, self.settings)
        self.steering = Steering(self.writer, self.settings.handover_timeout)
        self.landed: list[tuple[str, str]] = []
        self.later: list[tuple[tuple[str, ...], float]] = []
        self.keys: list[tuple[str, ...]] = []
        self.flights: Flights
        self.passes: Passes

    def build(self, node_root: str) -> None:
        """Put together what acts."""
        check = ClaimCheck(self.api.client, self.world)
        proof = IdleProof(self.world, self.writer, check, node_root)
        self.flights = Flights(self.world, self.writer, self.fabric, proof, 8,
                               lambda node, model: self.landed.append((node, model)), self.narrator.tell)
        self.counters = Counters()
        self.gating = Gating(self.world, self.writer, self.narrator, self.counters, self.keys.append, self._appoint,
                             lambda pool: publish.run(self.world, self.writer, pool))
        self.passes = Passes(self.world, self.writer, self.fabric, self.flights, self.steering, self.gating,
                             self.narrator, ROLES, 180.0, self._appoint)

    def _appoint(self, key: tuple[str, ...], when: float) -> None:
        self.later.append((key, when))

    def use(self, engine: Engine) -> None:
        """Let this be the bench of an engine, whose watches may run or not."""
        self.world, self.settings, self.narrator = engine.world, engine.config.settings, engine.narrator
        self.flights, self.passes, self.steering = engine.flights, engine.passes, engine.steering
        self.gating, self.counters = engine.gating, engine.counters

    def store(self, resource: Resource) -> Store:
        """The store that watches a kind."""
        stores = {CLAIMS: "claims", SLICES: "slices", NODES: "nodes", REQUESTS: "requests", RESOURCES: "resources",
                  PODS: "pods", NAMESPACES: "namespaces", DEVICE_CLASSES: "classes"}
        found = getattr(self.world, stores[resource])
        assert isinstance(found, Store)
        return found

    def put(self, *raws: dict[str, t.Any]) -> None:
        """Objects of any kind, seen by the watches."""
        for raw in raws:
            kind = kind_of(raw)
            self.store(kind).upsert(self.api.put(kind, raw))

    def drop(self, *raws: dict[str, t.Any]) -> None:
        """Objects are gone, and the watches have seen it."""
        for raw in raws:
            kind = kind_of(raw)
            gone = self.api.put(kind, raw)
            self.api.remove(kind, raw["metadata"]["name"], raw["metadata"].get("namespace") or "")
            self.store(kind).remove(gone)

    def look(self) -> None:
        """The manager is looked at, as the engine does from time to time."""
        self.world.snapshot = self.fabric.snapshot([m.cdi_model_name for m in self.settings.models])

    def run(self, rounds: int = 3) -> None:
        """Run every pass for what there is, as often as it takes for one to act on what another wrote."""
        for _unused in range(rounds):
            self.look()
            nodes = [n["metadata"]["name"] for n in self.world.nodes.list()]
            keys = [(kind, name) for name in nodes for kind in ("node", "tidy")]
            for key in [*keys, *(("request", r["metadata"]["name"]) for r in self.world.requests.list())]:
                self.passes.run(key)
            self.idle()

    def told(self, reason: str) -> list[str]:
        """Messages of the history with a reason."""
        return [e["message"] for e in self.narrator.history if e["reason"] == reason]

    def status(self, name: str = "gpu-a") -> dict[str, t.Any]:
        """Status of a ComposableResource at the API server."""
        found: dict[str, t.Any] = self.api.one(RESOURCES, name).get("status") or {}
        return found

    def wait(self, condition: Callable[[], object], what: str = "the condition") -> None:
        """Wait until something is true; fails after ten seconds."""
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not come true; history: {list(self.narrator.history)}"
            threading.Event().wait(0.002)

    def idle(self) -> None:
        """Wait until no flight is under way."""
        self.wait(lambda: not self.world.flying(), "the end of all flights")

    def close(self) -> None:
        """End all threads."""
        if self.fabric.gate:
            self.fabric.gate.set()
        self.flights.stop()
        self.passes.stop()
        self.steering.stop()
        self.gating.stop()
