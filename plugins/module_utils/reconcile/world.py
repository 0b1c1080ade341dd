# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that is known right now: the watched stores of the cluster, the last snapshot of the fabric, work in flight."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable, Hashable, Iterable

from ..fabric.types import FabricSnapshot
from ..kube import claims, cro, slices
from ..kube.client import Client
from ..kube.resource import CLAIMS, NODES, PODS, REQUESTS, RESOURCES, SLICES, Resource
from ..kube.store import Store
from ..kube.watch import Reflector
from ..scaling.demand import PREPARING, RESCHEDULE
from ..scaling.pools import PoolView
from ..scaling.settings import DeviceModel, Settings
from ..scaling.view import NodeView
from ..scaling.view import Resource as ComposableResource
from . import views

Json = dict[str, t.Any]
OnChange = Callable[[str, Resource, Json, "Json | None"], None]


def _of_claim_node(claim: Json) -> Iterable[Hashable]:
    name = claims.node(claim)
    return (name,) if name else ()


def _pools(claim: Json) -> Iterable[Hashable]:
    return {r["pool"] for r in claims.binding_results(claim)}


def _target(obj: Json) -> Iterable[Hashable]:
    spec = obj["spec"].get("resource") or obj["spec"]
    return (spec.get("target_node") or "",)


def _device_uid(obj: Json) -> Iterable[Hashable]:
    uid = (obj.get("status") or {}).get("cdi_device_id")
    return (uid,) if uid else ()


def _held_for(obj: Json) -> Iterable[Hashable]:
    uid = cro.read_hold(obj)[0]
    return (uid,) if uid else ()


def _slice_node(obj: Json) -> Iterable[Hashable]:
    name = slices.node(obj)
    return (name,) if name else ()


def _slice_pool(obj: Json) -> Iterable[Hashable]:
    return () if slices.node(obj) else (slices.pool(obj),)


class World:
    """Stores, snapshot and flights. ``on_change(type, resource, object, old)`` is called for each watched change."""

    def __init__(self, client: Client, settings: Settings, on_change: OnChange, *, pods: bool = True) -> None:
        self.settings = settings
        self.claims = Store({"node": _of_claim_node, "device": claims.device_keys, "pool": _pools,
                             "uid": lambda o: (o["metadata"]["uid"],)})
        self.slices = Store({"node": _slice_node, "pool": _slice_pool})
        self.nodes = Store({})
        self.requests = Store({"node": _target})
        self.resources = Store({"node": _target, "device": _device_uid, "held": _held_for})
        self.pods = Store({"uid": lambda o: (o["metadata"]["uid"],)})
        self.snapshot: FabricSnapshot | None = None
        self.fabric_problem = ""
        self._busy: set[str] = set()
        self._holds: dict[str, tuple[str, float]] = {}
        self._seen_used: dict[str, float] = {}
        self._blocked: dict[tuple[str, str], tuple[float, str]] = {}
        self._lock = threading.Lock()
        driver = f"spec.driver={settings.drivers[0]}" if len(settings.drivers) == 1 else None
        watched: list[tuple[Resource, Store, str | None]] = [
            (CLAIMS, self.claims, None), (SLICES, self.slices, driver), (NODES, self.nodes, None),
            (REQUESTS, self.requests, None), (RESOURCES, self.resources, None)]
        if pods:
            watched.append((PODS, self.pods, "spec.nodeName="))
        self.reflectors = [Reflector(client, res, store, self._told(res, on_change), field_selector=selector)
                           for res, store, selector in watched]

    @staticmethod
    def _told(resource: Resource, on_change: OnChange) -> Callable[[str, Json, Json | None], None]:
        return lambda kind, obj, old: on_change(kind, resource, obj, old)

    def start(self) -> None:
        """Begin to list and watch."""
        for reflector in self.reflectors:
            reflector.start()

    def stop(self) -> None:
        """End all watches."""
        for reflector in self.reflectors:
            reflector.stop()

    def synced(self) -> bool:
        """True once every list has been read."""
        return all(r.synced.is_set() for r in self.reflectors)

    def problems(self) -> list[str]:
        """What the watches and the CDI Manager complain about now, each once."""
        found = [r.last_error for r in self.reflectors if r.last_error]
        return list(dict.fromkeys([*found, *([self.fabric_problem] if self.fabric_problem else [])]))

    def fly(self, name: str) -> bool:
        """Mark work on a ComposableResource as under way; False when it already is."""
        with self._lock:
            if name in self._busy:
                return False
            self._busy.add(name)
            return True

    def land(self, name: str) -> None:
        """The work has ended."""
        with self._lock:
            self._busy.discard(name)

    def flying(self) -> int:
        """How many ComposableResources have work under way."""
        with self._lock:
            return len(self._busy)

    def hold(self, resource: str, claim: str) -> None:
        """Keep a device for the claim it is handed to; the annotation that remembers it is written later."""
        with self._lock:
            self._holds[resource] = (claim, time.time())

    def _held(self, raw: Json) -> tuple[str, float]:
        """(claim uid, since), from memory or from the annotation; a device in use is held no more."""
        name, used = raw["metadata"]["name"], bool(self._user(raw))
        with self._lock:
            if used:
                self._holds.pop(name, None)
            return self._holds.get(name) or cro.read_hold(raw)

    def unwritten_holds(self, node: str) -> list[tuple[str, str]]:
        """(resource, claim uid) of holds on a node that are not on the objects yet and still matter."""
        found = []
        for raw in self.resources.by("node", node):
            uid = self._held(raw)[0]
            if uid and uid != cro.read_hold(raw)[0] and not self._user(raw):
                found.append((raw["metadata"]["name"], uid))
        return found

    def block(self, node: str, model: str, seconds: float, reason: str) -> None:
        """Do not attach a model to a node for a while."""
        with self._lock:
            self._blocked[node, model] = (time.time() + seconds, reason)

    def blocked(self, node: str, now: float) -> dict[str, str]:
        """Models that cannot be attached to a node now, with the reason."""
        with self._lock:
            return {m: why for (n, m), (until, why) in self._blocked.items() if n == node and until > now}

    def node_view(self, name: str, attached: dict[str, str] | None = None, *, unread: bool = False) -> NodeView:
        """The frozen picture of one node.

        ``attached`` is a fresher reading of its machine than the snapshot's; ``unread`` says that one was needed and
        could not be had.
        """
        now, raw, snapshot = time.time(), self.nodes.get(name), self.snapshot
        machine, fabric, problem = views.machine_of(raw, snapshot)
        if attached is None and not unread:
            attached = views.attached_models(snapshot, machine)
        owned = frozenset(u for u in attached or () if self.resources.by("device", u))
        return NodeView(
            name=name, now=now, labels=(raw or {}).get("metadata", {}).get("labels") or {}, machine=machine,
            fabric=fabric, problem=problem, exists=raw is not None,
            claims=tuple(c for r in self.claims.by("node", name) if (c := views.claim_view(r, self.settings))),
            resources=tuple(self._resource(r, now) for r in self.resources.by("node", name)),
            requests=tuple(views.request_view(r) for r in self.requests.by("node", name)),
            other_requests=frozenset(r["metadata"]["name"] for r in self.requests.by("node", "")),
            attached=attached, owned=owned, blocked=self.blocked(name, now))

    def _resource(self, raw: Json, now: float) -> ComposableResource:
        key, user = self._local(raw), self._user(raw)
        with self._lock:
            busy = raw["metadata"]["name"] in self._busy
        held_for, held_since = self._held(raw)
        return views.resource_view(
            raw, self.settings, self._note_use(raw, user, now), held_for=held_for, held_since=held_since,
            visible=key is not None, busy=busy,
            used_by=user,
            hold_alive=self._hold_alive(raw, now))

    def _note_use(self, raw: Json, user: str, now: float) -> float:
        """When a claim was last seen to use the device by this engine, 0.0 for never."""
        with self._lock:
            if user:
                self._seen_used[raw["metadata"]["name"]] = now
            return self._seen_used.get(raw["metadata"]["name"], 0.0)

    def _local(self, raw: Json) -> tuple[str, str, str] | None:
        serial = (raw.get("status") or {}).get("device_id")
        return self.local_device(raw["spec"]["target_node"], serial) if serial else None

    def _user(self, raw: Json) -> str:
        key = self._local(raw)
        claim = next(iter(self.claims.by("device", key)), None) if key else None
        return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}" if claim else ""

    def local_device(self, node: str, uuid: str) -> tuple[str, str, str] | None:
        """(driver, pool, device) under which a node's own slices show a GPU UUID."""
        for item in self.slices.by("node", node):
            for found, key in slices.uuids(item):
                if found == uuid:
                    return key
        return None

    def _hold_alive(self, raw: Json, now: float) -> bool:
        uid, since = self._held(raw)
        claim = next(iter(self.claims.by("uid", uid)), None) if uid else None
        if claim is None:
            return False
        if claims.results(claim):
            return views.claim_phase(claim) == RESCHEDULE and bool(claims.binding_results(claim))
        return now - since < self.settings.handover_timeout

    def pool_view(self, model: DeviceModel, fabric: int, snapshot: FabricSnapshot) -> PoolView | None:
        """The frozen picture of one pool; None when the manager's count could not be read.

        A claim that was told to move on holds its name no more: the scheduler must not find it free once it drops
        the allocation.
        """
        free = snapshot.free.get((model.cdi_model_name, fabric))
        if free is None:
            return None
        name = model.pool(fabric)
        holders = [c for c in self.claims.by("pool", name) if views.claim_phase(c) == PREPARING]
        published = tuple(views.slice_view(s) for s in self.slices.by("pool", name)
                          if slices.driver(s) == model.driver_name)
        promised = frozenset(r["device"] for c in holders for r in claims.binding_results(c) if r["pool"] == name)
        return PoolView(model, fabric, free, promised, self._arrived(model, name, holders, snapshot), published)

    def _arrived(self, model: DeviceModel, pool: str, holders: list[Json], snapshot: FabricSnapshot) -> int:
        """Promised devices that had left the manager's free count when it was read: asked for before that."""
        promised: dict[str, int] = {}
        for claim in holders:
            n = sum(r["pool"] == pool for r in claims.binding_results(claim))
            promised[claims.node(claim) or ""] = promised.get(claims.node(claim) or "", 0) + n
        return sum(min(n, self._left(node, model, snapshot)) for node, n in promised.items())

    def _left(self, node: str, model: DeviceModel, snapshot: FabricSnapshot) -> int:
        found = 0
        for raw in self.resources.by("node", node):
            if raw["spec"]["model"] == model.cdi_model_name and not raw["metadata"].get("deletionTimestamp"):
                asked = cro.read_intent(raw)[1]
                found += 0 < asked < snapshot.taken and not self._user(raw)
        return found
