# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One engine behind all front doors: watch, queue, pass. A module runs it until all is settled, the controller for
ever, and check mode asks it only for its plan."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
import typing as t
from collections.abc import Callable, Iterable

from ..fabric.errors import FabricError
from ..fabric.types import Fabric
from ..kube import claims
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.events import Recorder
from ..kube.resource import CLAIMS, NODES, PODS, RESOURCES, Resource
from ..scaling.demand import RESCHEDULE
from . import publish, triggers, views
from .claimcheck import ClaimCheck
from .config import ROLES, EngineConfig
from .counters import Counters
from .flights import Flights
from .gating import KEY, Gating
from .idleness import IdleProof
from .keyqueue import KeyQueue
from .narrator import Narrator
from .passes import Passes
from .steering import Steering
from .world import Json, World
from .writer import Writer

SHORTEST_LOOK = 0.5
SLOW_PASS = 1.0
# Connections to the API server that are kept open, and how often they are used for that.
CONNECTIONS, WARM_SECONDS = 8, 15.0
# What nobody waits for gathers changes for so many seconds, so that a burst is one write.
COLD = {"pool": 0.1, "request": 1.0, "tidy": 0.5}


class Engine:
    """Start it, let it run, stop it. ``roles`` says which of CoHDI's components it stands for."""

    def __init__(self, client: Client, fabric: Fabric, config: EngineConfig, *, roles: Iterable[str] = ROLES,
                 component: str = "composable-infra", events: bool = True) -> None:
        self.client, self.fabric, self.config = client, fabric, config
        self.roles = frozenset(roles)
        self.queue = KeyQueue(cold=lambda key: t.cast("tuple[str, ...]", key)[0] in COLD)
        self.world = World(client, config.settings, self._changed, pods="scaler" in self.roles)
        self.recorder = Recorder(client, component, component) if events else None
        self.narrator = Narrator(self.world, self.recorder, config.settings)
        self.writer = Writer(client, self.world)
        self.counters = Counters()
        self.steering = Steering(self.writer, config.settings.handover_timeout)
        self.gating = Gating(self.world, self.writer, self.narrator, self.counters, self._enqueue, self.queue.add_at,
                             self._publish_now)
        proof = IdleProof(self.world, self.writer, ClaimCheck(client, self.world), config.node_root)
        self.flights = Flights(self.world, self.writer, fabric, proof, config.parallel_attaches, self._landed,
                               self.narrator.tell, self.counters.observe)
        self.passes = Passes(self.world, self.writer, fabric, self.flights, self.steering, self.gating, self.narrator,
                             self.roles, config.fabric.attach_timeout, self.queue.add_at)
        self.stopping = threading.Event()
        self._look_soon = threading.Event()
        self._threads: list[threading.Thread] = []
        self.last_activity = time.time()

    def watch(self) -> None:
        """Begin to watch the cluster and look at the fabric; change nothing."""
        self.world.start()
        if "publisher" in self.roles or "operator" in self.roles:
            self._thread(self._look_loop, "look")

    def work(self) -> None:
        """Begin to act."""
        for number in range(self.config.workers):
            self._thread(self._worker, f"worker-{number}")
        self._thread(self._stay_warm, "warm")

    def _thread(self, target: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def quiesce(self) -> None:
        """Begin nothing new; watches go on."""
        self.stopping.set()
        self.queue.close()
        self.flights.stop()

    def stop(self, patience: float = 5.0) -> None:
        """End watches and workers; an attach that the manager is working on is adopted by the next engine."""
        self.quiesce()
        self._look_soon.set()
        self.world.stop()
        for thread in self._threads:
            thread.join(patience)
        self.passes.stop()
        self.steering.stop()
        self.gating.stop()
        if self.recorder:
            self.recorder.close()

    def _worker(self) -> None:
        while (key := self.queue.get()) is not None:
            began = time.monotonic()
            try:
                self.passes.run(t.cast("tuple[str, ...]", key))
            except Exception as error:  # one bad key must not end a worker
                self.narrator.once("/".join(t.cast("tuple[str, ...]", key)), f"{type(error).__name__}: {error}")
                self.queue.add_at(key, time.time() + 5.0)
            finally:
                self.last_activity = time.time()
                self.queue.done(key)
                self._say_if_slow(key, time.monotonic() - began)

    def _say_if_slow(self, key: object, seconds: float) -> None:
        """A pass that takes long keeps everybody of its key waiting: say so."""
        if seconds > SLOW_PASS:
            self.narrator.note("SlowPass", "/".join(t.cast("tuple[str, ...]", key)), f"took {seconds:.2f} s", "Warning")

    def _changed(self, kind: str, resource: Resource, obj: Json, old: Json | None) -> None:
        if resource == PODS:
            self.steering.seen(kind, obj)
            if self.gates:
                self.gating.seen(kind, obj, old)
            return
        if resource == NODES and kind == "DELETED":
            self.queue.add(triggers.node_key(obj["metadata"]["name"]))
        if resource == CLAIMS:
            self._claim_changed(kind, obj, old)
        elif resource == RESOURCES and kind == "DELETED":
            self.world.forget(obj["metadata"]["name"])
            self.passes.forget(obj["metadata"]["name"])
        keys = list(triggers.keys_of(resource, obj, old, self.config.settings))
        for key in keys:
            self._enqueue(key)
        if self.gates and (keys or resource != NODES):
            self.gating.changed()

    @property
    def gates(self) -> bool:
        """True when pods that our gate holds are served here."""
        return "scaler" in self.roles and self.config.settings.gating

    def _publish_now(self, pool: tuple[str, int]) -> None:
        """A chosen device leaves the pool at once, where the pool is ours."""
        if "publisher" in self.roles:
            publish.run(self.world, self.writer, pool)

    def _claim_changed(self, kind: str, claim: Json, old: Json | None) -> None:
        """A claim that is gone or elsewhere lets go of what was held for it; one on its way is helped along."""
        for node in self.world.holding(claim["metadata"]["uid"]):
            self.queue.add(triggers.node_key(node))
        if kind != "DELETED" and "scaler" in self.roles and old is not None and claims.binding_results(old):
            if not claims.results(claim):
                self.steering.deallocated(claim)
            elif not claims.consumers(claim) and views.claim_phase(claim) == RESCHEDULE:
                self.steering.given_up(claim)

    def _enqueue(self, key: triggers.Key) -> None:
        """Urgent keys at once; the others gather changes for a moment."""
        if key[0] in COLD:
            self.queue.add_at(key, time.time() + COLD[key[0]])
        else:
            self.queue.add(key)

    def _landed(self, node: str, model: str) -> None:
        self.queue.add(triggers.node_key(node))
        self._look_soon.set()

    def _stay_warm(self) -> None:
        """Connections for a burst: opening one costs as much as ten requests, just when there are many."""
        while not self.stopping.wait(WARM_SECONDS):
            with contextlib.suppress(ApiError):
                self.client.warm(CONNECTIONS)

    def _look_loop(self) -> None:
        while not self.stopping.is_set():
            began = time.time()
            self._look(began)
            self.stopping.wait(max(SHORTEST_LOOK, 10 * (time.time() - began)))
            self._look_soon.wait(max(0.0, self.config.scan_interval - (time.time() - began)))
            self._look_soon.clear()

    def _look(self, began: float) -> None:
        models = [m.cdi_model_name for m in self.config.settings.models]
        try:
            new = dataclasses.replace(self.fabric.snapshot(models), taken=began, read=time.time())
        except Exception as error:  # an answer that nobody expected must not end the looking
            said = str(error) if isinstance(error, FabricError) else f"{type(error).__name__}: {error}"
            self.world.fabric_problem = said
            self.narrator.once("fabric", said)
            return
        self.world.fabric_problem = "; ".join(sorted(set(new.problems.values())))
        self.narrator.once("fabric", self.world.fabric_problem)
        old, self.world.snapshot = self.world.snapshot, new
        for key in triggers.fabric_keys(self.world, old, new):
            self._enqueue(key)
        if self.gates:
            self.gating.changed()

    def ready(self) -> bool:
        """True once every list was read and the fabric was seen."""
        looks = "publisher" in self.roles or "operator" in self.roles
        return self.world.synced() and (self.world.snapshot is not None or not looks)

    def enqueue_all(self) -> None:
        """Look at everything once more: what events may have missed, time repairs."""
        for node in self.world.nodes.list():
            self.queue.add(triggers.node_key(node["metadata"]["name"]))
        for model, fabric in publish.pool_keys(self.world):
            self.queue.add(triggers.pool_key(model, fabric))
        if self.gates:
            self.queue.add(KEY)

    def metrics(self) -> str:
        """What was counted, and what is true now, for Prometheus."""
        waiting = sum(len(v) for v in list(self.passes.verdicts.values())) + len(self.gating.verdicts)
        return self.counters.text({"claims_waiting": waiting, "gated_pods": len(self.world.pods.by("gated", True))})

    def problems(self) -> list[str]:
        """What stands in the way now, one sentence each."""
        return self.world.problems()
