# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that is known right now: the watched stores of the cluster, the last snapshot of the fabric, work in flight."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable, Mapping

from ..fabric.types import FabricSnapshot
from ..kube import claims, cro, gates, slices
from ..kube.client import Client
from ..kube.resource import (
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
from ..kube.store import Store
from ..kube.watch import Reflector
from ..scaling.demand import RESCHEDULE
from ..scaling.settings import Settings
from ..scaling.view import NodeView
from ..scaling.view import Resource as ComposableResource
from . import indexes, views
from .bookings import Bookings
from .holds import Holds

Json = dict[str, t.Any]
DeviceKey = claims.DeviceKey
OnChange = Callable[[str, Resource, Json, "Json | None"], None]


class World:
    """Stores, snapshot and flights. ``on_change(type, resource, object, old)`` is called for each watched change."""

    def __init__(self, client: Client, settings: Settings, on_change: OnChange, *, pods: bool = True) -> None:
        self.settings = settings
        self.claims, self.slices = Store(indexes.CLAIMS), Store(indexes.SLICES)
        self.nodes, self.requests = Store({}), Store(indexes.REQUESTS)
        self.resources, self.pods = Store(indexes.RESOURCES), Store(indexes.PODS, trim=gates.trimmed)
        self.namespaces, self.classes = Store({}), Store({})
        self.snapshot: FabricSnapshot | None = None
        self.fabric_problem = self.pools_problem = ""
        self._busy: set[str] = set()
        self.holds, self.bookings = Holds(self.resources), Bookings()
        self._seen_used: dict[str, float] = {}
        self._blocked: dict[tuple[str, str], tuple[float, str]] = {}
        self._lock = threading.Lock()
        driver = f"spec.driver={settings.drivers[0]}" if len(settings.drivers) == 1 else None
        watched: list[tuple[Resource, Store, str | None]] = [
            (CLAIMS, self.claims, None), (SLICES, self.slices, driver), (NODES, self.nodes, None),
            (REQUESTS, self.requests, None), (RESOURCES, self.resources, None)]
        if pods and settings.gating:
            watched += [(PODS, self.pods, None), (NAMESPACES, self.namespaces, None),
                        (DEVICE_CLASSES, self.classes, None)]
        elif pods:
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
        """What the watches, the CDI Manager and the publisher complain about now, each once."""
        found = [*(r.last_error for r in self.reflectors), self.fabric_problem, self.pools_problem]
        return list(dict.fromkeys(said for said in found if said))

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
        self.holds.keep(resource, claim)

    def holding(self, claim: str) -> set[str]:
        """Nodes that keep a device for a claim (its uid)."""
        return {raw["spec"]["target_node"] for raw in self.holds.kept_for(claim)}

    def forget(self, resource: str) -> None:
        """A ComposableResource is gone, and with it what was remembered of it."""
        self.holds.forget(resource)
        with self._lock:
            self._seen_used.pop(resource, None)

    def unwritten_holds(self, node: str) -> list[tuple[str, str]]:
        """(resource, claim uid) of holds on a node that the objects do not say yet; an empty uid: no longer held."""
        resources = self.resources.by("node", node)
        users = self._users({raw["metadata"]["name"]: self._local(raw) for raw in resources})
        return [(name, uid) for raw in resources
                if (name := raw["metadata"]["name"]) not in users
                and (uid := self.holds.of(raw)[0]) != cro.read_hold(raw)[0]]

    def _users(self, local: Mapping[str, DeviceKey | None]) -> dict[str, Json]:
        """Claims that use devices of a node, by ComposableResource; what they took and left is settled.

        ``local``: how the node's slices show the devices of its ComposableResources.
        """
        users = {name: claim for name, key in local.items() if (claim := self._claim_with(key))}
        self.holds.settle({name: claim["metadata"]["uid"] for name, claim in users.items()})
        return users

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
        resources = self.resources.by("node", name)
        local = {raw["metadata"]["name"]: self._local(raw) for raw in resources}
        users = self._users(local)
        return NodeView(
            name=name, now=now, labels=(raw or {}).get("metadata", {}).get("labels") or {}, machine=machine,
            fabric=fabric, problem=problem, exists=raw is not None,
            claims=(*(c for r in self.claims.by("node", name) if (c := views.claim_view(r, self.settings))),
                    *self.bookings.claims(name, fabric, self.settings, self._claim_name)),
            resources=tuple(self._resource(r, now, local[n] is not None, users.get(n))
                            for r in resources if (n := r["metadata"]["name"])),
            requests=tuple(views.request_view(r) for r in self.requests.by("node", name)),
            other_requests=frozenset(r["metadata"]["name"] for r in self.requests.by("node", "")),
            attached=attached, owned=owned, blocked=self.blocked(name, now))

    def _claim_name(self, uid: str) -> str:
        claim = next(iter(self.claims.by("uid", uid)), None)
        return str(claim["metadata"]["name"]) if claim else uid

    def _resource(self, raw: Json, now: float, visible: bool, claim: Json | None) -> ComposableResource:
        name, user = raw["metadata"]["name"], _key(claim)
        with self._lock:
            busy = name in self._busy
        held_for, held_since = self.holds.of(raw)
        return views.resource_view(
            raw, self.settings, self._note_use(name, user, now), held_for=held_for, held_since=held_since,
            visible=visible, busy=busy, used_by=user,
            hold_alive=self._hold_alive(raw["spec"]["target_node"], held_for, held_since, now))

    def _note_use(self, name: str, user: str, now: float) -> float:
        """When a claim was last seen to use the device by this engine, 0.0 for never."""
        with self._lock:
            if user:
                self._seen_used[name] = now
            return self._seen_used.get(name, 0.0)

    def _local(self, raw: Json) -> DeviceKey | None:
        serial = (raw.get("status") or {}).get("device_id")
        return self.local_device(raw["spec"]["target_node"], serial) if serial else None

    def user(self, raw: Json) -> str:
        """The claim (namespace/name) that uses the device of a ComposableResource, empty when none does."""
        return _key(self._claim_with(self._local(raw)))

    def _claim_with(self, key: DeviceKey | None) -> Json | None:
        return next(iter(self.claims.by("device", key)), None) if key else None

    def local_device(self, node: str, uuid: str) -> DeviceKey | None:
        """(driver, pool, device) under which a node's own slices show a GPU UUID."""
        for item in self.slices.by("uuid", uuid):
            if slices.node(item) == node:
                return next(key for found, key in slices.uuids(item) if found == uuid)
        return None

    def has_devices(self, claim_uid: str) -> bool:
        """Whether a claim (its uid) is allocated."""
        return any(claims.results(claim) for claim in self.claims.by("uid", claim_uid))

    def _hold_alive(self, node: str, claim_uid: str, since: float, now: float) -> bool:
        """A claim that was given another node has left the device that was kept for it here."""
        claim = next(iter(self.claims.by("uid", claim_uid)), None) if claim_uid else None
        if claim is None:
            return False
        if claims.results(claim):
            told = views.claim_phase(claim) == RESCHEDULE and bool(claims.binding_results(claim))
            return told and claims.node(claim) == node
        return now - since < self.settings.handover_timeout or self.bookings.holds_for(claim_uid)


def _key(claim: Json | None) -> str:
    """namespace/name of a claim, empty for none."""
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}" if claim else ""
