# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small model of kube-scheduler. It takes any node and any device that fits, without scores and
preemption.

It has these parts of the real one. Gated pods are ignored. A nominated node is tried first. Node
selectors, cordons and tainted devices are respected. Devices with binding conditions come last. The
claim's finalizer comes first, then allocation and reservation. A pod with devices with binding
conditions waits, and checks them every 5 s up to the first device that is not ready. A failure
condition there ends the wait: the reservation is removed, and the allocation is dropped in the next
scheduling cycle of the pod. A growing back-off follows each failure.
"""

from __future__ import annotations

import random
import typing as t
from dataclasses import dataclass, field

from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi, pods, slices
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_micro_time
from ansible_collections.composable.infra.tests.chaos.models.api_server import ApiServer
from ansible_collections.composable.infra.tests.chaos.models.patches import Json
from ansible_collections.composable.infra.tests.chaos.simulation import stand_ins
from ansible_collections.composable.infra.tests.chaos.simulation.tasks import Process, Simulation

TICK, BINDING_TIMEOUT, LONGEST_BACKOFF = 5.0, 120.0, 10.0
# The device model that a claim requests, in addition to the CEL expression for it.
PRODUCT = "chaos/product"
Device = tuple[str, str, str]


@dataclass(slots=True)
class _Try:
    failures: int = 0
    until: float = 0.0
    waits_since: float = 0.0


@dataclass
class KubeScheduler:
    """``granted``: UUIDs of the nodes' devices by the UID of the claim that got them."""

    simulation: Simulation
    server: ApiServer
    process: Process = field(default_factory=lambda: Process("kube-scheduler"))
    granted: dict[str, dict[Device, str]] = field(default_factory=dict)
    down: bool = False
    _tries: dict[str, _Try] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.simulation.rng.random())
        self.changed = stand_ins.Event()
        self.server.on_change.append(self._on_change)

    def start(self) -> None:
        """Start the process."""
        self.simulation.spawn(self.process, "scheduler", self._run)

    def restart(self) -> None:
        """Restart the scheduler. It forgets which pods wait."""
        self._tries.clear()

    def _on_change(self, plural: str, kind: str, obj: Json, old: Json | None) -> None:
        if plural in ("pods", "resourceclaims", "resourceslices", "nodes"):
            self.changed.set()

    def _run(self) -> None:
        while True:
            self.changed.wait(1.0)
            self.changed.clear()
            self.simulation.sleep(self.rng.uniform(0.002, 0.05))
            if not self.down:
                self._turn()

    def _turn(self) -> None:
        waiting = [pod for pod in self.server.of("pods") if not pods.bound(pod) and not pods.ended(pod)
                   and not pod["spec"].get("schedulingGates")]
        for pod in sorted(waiting, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"])):
            known = self._tries.setdefault(pod["metadata"]["uid"], _Try())
            if known.until <= self.simulation.now:
                self._schedule(pod, known)

    def _schedule(self, pod: Json, known: _Try) -> None:
        namespace = pod["metadata"]["namespace"]
        names = [name for name in pods.claim_names(pod).values() if name]
        found = [self.server.find("resourceclaims", name, namespace) for name in names]
        wanted = [claim for claim in found if claim and not claim["metadata"].get("deletionTimestamp")]
        if len(wanted) < len(pod["spec"].get("resourceClaims") or []):
            self._failed(pod, known, "waiting for resource claims to be created")
            return
        if any(self._given_up(claim) for claim in wanted):
            for claim in wanted:
                if self._given_up(claim):
                    self._status(claim, {"allocation": None, "reservedFor": None})
            known.until = self.simulation.now + 0.01
            return
        if not all(claims.results(claim) for claim in wanted) and not self._allocate(pod, wanted):
            self._drop_one(pod, wanted)
            self._failed(pod, known, "0/3 nodes are available: cannot allocate all claims")
            return
        self._pre_bind(pod, wanted, known)

    def _drop_one(self, pod: Json, wanted: list[Json]) -> None:
        """Deallocate a claim that ties the pod to a node without devices for its other claims
        (PostFilter of the plugin).
        """
        mine = {pod["metadata"]["uid"]}
        for claim in wanted:
            if claims.results(claim) and {consumer["uid"] for consumer in claims.consumers(claim)} <= mine:
                self._status(claim, {"allocation": None, "reservedFor": None})
                return

    def _given_up(self, claim: Json) -> bool:
        """Return whether the claim is allocated, not reserved, and its devices never came."""
        return bool(claims.binding_results(claim)) and not claims.consumers(claim)

    def _allocate(self, pod: Json, wanted: list[Json]) -> bool:
        """Allocate all unallocated claims, on one node."""
        fixed = {node for claim in wanted if (node := claims.node(claim))}
        names = [node["metadata"]["name"] for node in self.server.of("nodes") if self._fits(pod, node)]
        self.rng.shuffle(names)
        names.sort(key=lambda name: name != pods.nominated(pod))
        open_ = [claim for claim in wanted if not claims.results(claim)]
        for name in names:
            if fixed <= {name} and (chosen := self._choose(name, open_)) is not None:
                for claim, results in zip(open_, chosen, strict=True):
                    self._give(claim, name, results)
                return True
        return False

    def _fits(self, pod: Json, node: Json) -> bool:
        if (node.get("spec") or {}).get("unschedulable") or (node.get("spec") or {}).get("taints"):
            return False
        labels = node["metadata"].get("labels") or {}
        return all(labels.get(k) == v for k, v in (pod["spec"].get("nodeSelector") or {}).items())

    def _choose(self, node: str, open_: list[Json]) -> list[list[Json]] | None:
        taken = {key for claim in self.server.of("resourceclaims") for key in claims.device_keys(claim)}
        devices = self._devices(node)
        found = []
        for claim in open_:
            request = claim["spec"]["devices"]["requests"][0]
            product = claim["metadata"]["annotations"][PRODUCT]
            fitting = [d for d in devices if d["product"] == product and d["key"] not in taken]
            count = request["exactly"]["count"]
            if len(fitting) < count:
                return None
            self.rng.shuffle(fitting)
            chosen = sorted(fitting, key=lambda d: "bindingConditions" in d["result"])[:count]
            taken |= {d["key"] for d in chosen}
            found.append([{"request": request["name"], **d["result"]} for d in chosen])
        return found

    def _devices(self, node: str) -> list[Json]:
        """Return the devices for a pod on a node: the node's own, and those of pools that are open
        to it.
        """
        raw = self.server.find("nodes", node) or {"metadata": {}}
        labels = raw["metadata"].get("labels") or {}
        tainted = {tuple(rule["spec"]["deviceSelector"][k] for k in ("driver", "pool", "device"))
                   for rule in self.server.of("devicetaintrules")}
        found = []
        listed = self.server.of("resourceslices")
        newest: dict[str, int] = {}
        for item in listed:
            newest[slices.pool(item)] = max(newest.get(slices.pool(item), 0), item["spec"]["pool"]["generation"])
        for item in listed:
            if item["spec"]["pool"]["generation"] < newest[slices.pool(item)]:
                continue
            if not (slices.node(item) == node or (not slices.node(item) and _selected(item, labels))):
                continue
            for device in slices.devices(item):
                key = (slices.driver(item), slices.pool(item), device["name"])
                if key not in tainted and not device.get("taints"):
                    found.append({"key": key, "product": slices.attribute(device, "productName"),
                                  "result": _result(key, device)})
        return found

    def _give(self, claim: Json, node: str, results: list[Json]) -> None:
        meta = claim["metadata"]
        if claims.FINALIZER not in (claim["metadata"].get("finalizers") or ()):
            claim = self.server.put("resourceclaims", {**claim, "metadata": {
                **meta, "finalizers": [*(meta.get("finalizers") or []), claims.FINALIZER]}})
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms},
                      "allocationTimestamp": format_micro_time(self.server.wall())}
        shown = {(slices.driver(item), slices.pool(item), device["name"]): slices.attribute(device, "uuid") or ""
                 for item in self.server.of("resourceslices") if slices.node(item) for device in slices.devices(item)}
        keys = [(r["driver"], r["pool"], r["device"]) for r in results]
        self.granted[meta["uid"]] = {key: shown[key] for key in keys if shown.get(key)}
        self._status(claim, {"allocation": allocation})

    def _pre_bind(self, pod: Json, wanted: list[Json], known: _Try) -> None:
        """Reserve, wait for the conditions, and bind."""
        meta = pod["metadata"]
        me = {"resource": "pods", "name": meta["name"], "uid": meta["uid"]}
        current = [self.server.find("resourceclaims", c["metadata"]["name"], meta["namespace"]) or c for c in wanted]
        for claim in current:
            if me["uid"] not in {c["uid"] for c in claims.consumers(claim)}:
                self._status(claim, {"reservedFor": [*claims.consumers(claim), me]})
        binding = [(claim, result) for claim in current for result in claims.binding_results(claim)]
        known.waits_since = known.waits_since or self.simulation.now
        not_ready = next(((c, r) for c, r in binding if not claims.condition(c, r, r["bindingConditions"])), None)
        failed = not_ready and claims.condition(*not_ready, not_ready[1].get("bindingFailureConditions") or [])
        if not_ready is None:
            self._bind(pod, current)
        elif failed or self.simulation.now - known.waits_since > BINDING_TIMEOUT:
            self._unreserve(pod, current, known)
        else:
            known.until = self.simulation.now + TICK

    def _unreserve(self, pod: Json, current: list[Json], known: _Try) -> None:
        uid = pod["metadata"]["uid"]
        for claim in current:
            fresh = self.server.find("resourceclaims", claim["metadata"]["name"], claim["metadata"]["namespace"])
            if fresh:
                left = [c for c in claims.consumers(fresh) if c["uid"] != uid]
                self._status(fresh, {"reservedFor": left or None})
        known.waits_since = 0.0
        self._failed(pod, known, "binding failed")

    def _bind(self, pod: Json, current: list[Json]) -> None:
        meta, (node,) = pod["metadata"], {claims.node(claim) for claim in current} or {None}
        self._tries.pop(meta["uid"], None)
        for claim in current:
            self._note_kept(claim)
        node = node or self.rng.choice([n["metadata"]["name"] for n in self.server.of("nodes")])
        self.server.update("pods", meta["name"], meta["namespace"], {
            "spec": {"nodeName": node},
            "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}})

    def _note_kept(self, claim: Json) -> None:
        """Record which devices the pool devices of a claim are now (handover ``direct``)."""
        node, uid = claims.node(claim), claim["metadata"]["uid"]
        for raw in self.server.of("composableresources") if claims.binding_results(claim) else ():
            for r in claims.binding_results(claim):
                name = cohdi.pool_device(r["pool"], r["device"])
                if raw["spec"]["target_node"] == node and cohdi.annotation(raw, cohdi.POOL_DEVICE) == name:
                    key = (r["driver"], r["pool"], r["device"])
                    self.granted.setdefault(uid, {})[key] = str((raw.get("status") or {}).get("device_id") or "")

    def _failed(self, pod: Json, known: _Try, message: str) -> None:
        meta = pod["metadata"]
        known.until = self.simulation.now + min(LONGEST_BACKOFF, 2.0 ** known.failures)
        known.failures += 1
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        self.server.update("pods", meta["name"], meta["namespace"],
                           {"status": {"conditions": [said], "nominatedNodeName": None}})

    def _status(self, claim: Json, status: dict[str, t.Any]) -> None:
        meta = claim["metadata"]
        self.server.update("resourceclaims", meta["name"], meta["namespace"], {"status": status})


def _selected(item: Json, labels: t.Mapping[str, str]) -> bool:
    terms = (item["spec"].get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    return any(all(labels.get(e["key"]) in e["values"] for e in term.get("matchExpressions") or []) for term in terms)


def _result(key: Device, device: Json) -> Json:
    kept = {k: device[k] for k in ("bindingConditions", "bindingFailureConditions") if device.get(k)}
    return {"driver": key[0], "pool": key[1], "device": key[2], **kept}
