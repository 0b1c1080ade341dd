# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All known state: watched objects, the last inventory of the CDI Manager, and the process's
memory.

Reading changes nothing. Only ``note_uses`` changes device holds after claims have changed.
"""

from __future__ import annotations

import copy
import time
import typing as t
from collections.abc import Callable, Iterable
from functools import partial

from ...fabric.api import FabricSnapshot
from ...kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    PROVISIONING_REQUESTS,
    SLICES,
    ApiResource,
)
from ...kube.objects import nodes, pods, provisioning_requests, slice_values
from ...kube.objects.claim_ref import ClaimRef
from ...kube.watch.store import BaseStore, Store
from ...kube.watch.value_store import ValueStore
from ...model.claim import ResourceClaim
from ...model.node import Node
from ...model.pod import Pod
from ...model.resource import Resource
from ...model.slice import DeviceKey, Shown, Slice
from ...model.value import Json, value
from ...planning.settings import Settings
from ..values import claim_values, request_values, resource_values
from . import adapters, indexers
from .device_holds import DeviceHolds
from .ending_claims import EndingClaims
from .idle_minimums import IdleMinimums
from .memory import (
    AttachBlocks,
    FirstSeen,
    Handovers,
    LastUses,
    OperationsUnderWay,
    PodHistories,
    RecentAttaches,
    Remembered,
    Returns,
    Rival,
)
from .node_agents import AGENT, NodeAgents
from .node_shares import NodeShares
from .reservations import Reservations
from .used_devices import UsedDevices


@value(frozen=True, slots=True)
class DeviceSight:
    """A device in the ResourceSlices of its node.

    ``keys`` are (driver, pool, device) of the device and of its parts, the whole device first.
    ``whole`` is the key of the whole device, or None if no slice shows it. ``user`` is a claim that
    the device or a part is allocated to. ``drivers`` are those that show the whole device, sorted.
    """

    keys: tuple[DeviceKey, ...]
    whole: DeviceKey | None
    user: ResourceClaim | None
    drivers: tuple[str, ...] = ()


# Number of nodes of which the sights are kept, some for each worker.
MOST_SIGHTS: t.Final = 64


def _wall() -> float:
    return time.time()


class ClusterState:
    """Stores of objects by kind, ``snapshot`` of the fabric (None before the first poll), and
    memory.

    ``fabric_problem`` and ``pools_problem`` are the current problems of the CDI Manager and the
    publisher, empty if there are none. ``refused_models`` says why pools of a model are not
    published. ``agents`` knows the node operations. ``tainted`` has by ComposableResource the slice
    entries that the scheduler must not allocate. ``clock`` is the API server's time in seconds
    since the epoch, the same as in objects. ``held_pods_planned`` says whether this process has
    planned the gated pods once. ``moment`` is when a captured state was taken, in seconds since the
    epoch, or None for a live state.
    """

    def __init__(self, settings: Settings, agents: NodeAgents | None = None) -> None:
        self.settings, self.agents = settings, agents or NodeAgents(AGENT)
        self.claims = ValueStore(indexers.CLAIMS, claim_values.read_claim, indexers.UNREAD_CLAIMS)
        self.slices = ValueStore(indexers.SLICES, slice_values.read)
        self.nodes = ValueStore(indexers.NODES, nodes.read)
        self.requests = ValueStore(indexers.REQUESTS, request_values.read_request, indexers.UNREAD_REQUESTS)
        self.resources = ValueStore(indexers.RESOURCES, partial(resource_values.read_resource, settings=settings),
                                    unread=indexers.UNREAD_RESOURCES)
        self.pods = ValueStore(indexers.PODS, pods.read, indexers.UNREAD_PODS)
        self.namespaces, self.classes = Store({}), Store({})
        self.provisioning = Store({}, trim=provisioning_requests.trimmed)
        self.snapshot: FabricSnapshot | None = None
        self.fabric_problem = self.pools_problem = ""
        self.refused_models: dict[str, str] = {}
        self.gated_pods_planned = False
        self.tainted: dict[str, frozenset[DeviceKey]] = {}
        self.clock: Callable[[], float] = _wall

        def clock() -> float:  # look up the current clock at each call
            return self.clock()

        self.holds, self.reservations = DeviceHolds(self.resources, clock), Reservations()
        self.handovers = Handovers()
        self.absent_nodes, self.doubts, self.departures = FirstSeen(), FirstSeen(), FirstSeen()
        self.operations, self.last_uses = OperationsUnderWay(), LastUses()
        self.blocks, self.rival = AttachBlocks(clock=clock), Rival(clock)
        self.held, self.returns, self.attaches = PodHistories(), Returns(), RecentAttaches()
        self.old_releases = FirstSeen()  # by UID, releases that nodes ended before this process saw them
        self.shares, self.idle_minimums = NodeShares(), IdleMinimums()
        # Copies share these, because they are computed from the stores alone.
        self.used_devices = UsedDevices(self.resources, self.slices, self.claims, self.users)
        self.ending_claims = EndingClaims(self.claims, self.pods)
        self._sights: dict[str, tuple[tuple[int, int, int], dict[str, DeviceSight]]] = {}
        self.moment: float | None = None

    @property
    def stores(self) -> dict[ApiResource, BaseStore]:
        """Return the store of each kind."""
        return {CLAIMS: self.claims, SLICES: self.slices, NODES: self.nodes, PODS: self.pods,
                COMPOSABILITY_REQUESTS: self.requests, COMPOSABLE_RESOURCES: self.resources,
                NAMESPACES: self.namespaces, DEVICE_CLASSES: self.classes,
                PROVISIONING_REQUESTS: self.provisioning}

    def now(self) -> float:
        """Return the current time, or the time of the capture, in seconds since the epoch."""
        return self.clock() if self.moment is None else self.moment

    def copy(self) -> ClusterState:
        """Return a state with the same objects and inventory but its own memory, for a forecast.

        The stores are shared, and only their watches write to them. ``refused_models`` and
        ``rival`` are shared and do not change in a forecast. The caches of slices, used devices and
        ending claims are shared.
        """
        other = copy.copy(self)
        for name, part in vars(self).items():
            if isinstance(part, Remembered):
                setattr(other, name, part.copy())
        other.tainted = dict(self.tainted)
        return other

    def forget(self, resource: str) -> None:
        """Forget a ComposableResource that is gone."""
        self.holds.forget(resource)
        self.last_uses.forget(resource)
        self.doubts.end(resource)
        self.departures.end(resource)
        self.handovers.forget(resource)

    def note_return(self, resource: Resource) -> None:
        """Record that the device of a ComposableResource is back on the fabric. The first time
        counts."""
        self.returns.note(resource.uid, resource.model, resource.node, self.clock())

    def may_release(self) -> bool:
        """Return False while an earlier process may have attached devices for gated pods that were
        not planned yet."""
        return self.gated_pods_planned or not self.pods.has("gated", True)

    def holding(self, claim: str) -> set[str]:
        """Return the nodes that keep a device for a claim (its UID)."""
        return {resource.node for resource in self.holds.kept_for(claim)}

    def note_uses(self, names: Iterable[str]) -> None:
        """Record which devices of these nodes claims use now, and since when nodes are gone.

        End the hold on a used device. If a claim took a device that was held for a second claim,
        then hold for the second claim a device that was held for the first.
        """
        now = self.now()
        for node in names:
            self._note_absence(node, now)
            users = self.users(node)
            for name in users:
                self.last_uses.note(name, now)
            moving = {claim.identity for name, claim in users.items()
                      if claim.pool_results and not self.keeper(self.resources.value(name))}
            self.holds.pass_on({name: claim.identity for name, claim in users.items()}, moving)

    def _note_absence(self, node: str, now: float) -> None:
        """Record since when a node is gone, and since when a request for a device is uncertain."""
        if self.nodes.stored(node) is None:
            self.absent_nodes.note(node, now)
        else:
            self.absent_nodes.end(node)
        for resource in self.resources.values("node", node):
            if resource.doubt:
                self.doubts.note(resource.name, now)

    def note_departures(self) -> set[str]:
        """Record which devices of lost nodes have left their machine by the last inventory, and
        since when.

        An inventory that may be incomplete ends the record. Return the nodes with a record that
        begins or ends.
        """
        now, changed = self.now(), set[str]()
        for node in self.absent_nodes.names():
            for resource in self.resources.values("node", node):
                name, gone = resource.name, self.nodes.stored(node) is None
                before = self.departures.of(name) is not None
                if gone and adapters.has_left(self.snapshot, resource):
                    self.departures.note(name, now)
                else:
                    self.departures.end(name)
                if before is not (self.departures.of(name) is not None):
                    changed.add(node)
        return changed

    def machine_of(self, node: str) -> tuple[str | None, int | None, str]:
        """Return (machine UID, fabric ID, problem) of a node.

        If two nodes claim the same machine, trust neither.
        """
        found = self.nodes.value(node)
        if found and (twins := self.twins(found)):
            both = " and ".join([node, *twins])
            return None, None, (f"nodes {both} have the same providerID (machine {found.machine}), so the "
                                "controllers trust none of them. Give each node its own providerID")
        return adapters.machine_of(found, self.snapshot)

    def twins(self, node: Node) -> list[str]:
        """Return other nodes with the same machine."""
        found = self.nodes.names_at("machine", node.machine) if node.machine else ()
        return sorted(name for name in found if name != node.name)

    def nodes_with_holds(self) -> set[str]:
        """Return the nodes that keep a device for a claim, and the nodes where such claims are
        allocated."""
        found = set()
        for name, claim_uid in self.holds.all().items():
            if resource := self.resources.value(name):
                found.add(resource.node)
            claim = self.claim(claim_uid)
            if claim and claim.node:
                found.add(claim.node)
        return found

    def unwritten_holds(self, node: str) -> list[tuple[str, str]]:
        """Return (ComposableResource, claim UID) of holds on a node that are not in the objects
        yet.

        An empty UID means that a hold has ended.
        """
        return [(each.name, uid) for each in self.resources.values("node", node)
                if (uid := self.holds.of(each)[0]) != each.hold[0] and not self.user(each)]

    def users(self, node: str) -> dict[str, ResourceClaim]:
        """Return the claims that use devices of a node, by ComposableResource."""
        return {name: sight.user for name, sight in self.sights(node).items() if sight.user}

    def sights(self, node: str) -> dict[str, DeviceSight]:
        """Return each ComposableResource's device as the node's slices show it now.

        They are computed once for a change. A reconcile reads them several times.
        """
        seen = self.slices.changes, self.resources.changes, self.claims.changes
        known = self._sights.get(node)
        if known is None or known[0] != seen:
            shown = [found.shown for found in self.slices.values("node", node)]
            found = {each.name: self._sight(each, shown) for each in self.resources.values("node", node)}
            if len(self._sights) >= MOST_SIGHTS:
                self._sights.clear()
            known = self._sights[node] = seen, found
        return known[1]

    def sick_devices(self, node: str) -> list[tuple[DeviceKey, str]]:
        """Return the devices of a node that their driver withholds from new claims, each with its
        taint."""
        return [each for found in self.slices.values("node", node) for each in found.shown.sick]

    def _sight(self, resource: Resource, shown: list[Shown]) -> DeviceSight:
        names = resource.names
        keys = tuple(dict.fromkeys(key for name in names for each in shown for key in each.parts.get(name, ())))
        wholes = [each.whole[name] for name in names for each in shown if name in each.whole]
        own = (claim for key in keys if (claim := self.claims.first_value("device", key)))
        return DeviceSight(keys, wholes[0] if wholes else None, self.keeper(resource) or next(own, None),
                           tuple(sorted({driver for driver, _pool, _device in wholes})))

    def user(self, resource: Resource) -> ResourceClaim | None:
        """Return a claim that the device of a ComposableResource, or a part of it, is allocated to,
        or None."""
        return self.sight(resource).user

    def sight(self, resource: Resource) -> DeviceSight:
        """Return the device of a ComposableResource as the node's own slices show it now."""
        return self._sight(resource, [found.shown for found in self.slices.values("node", resource.node)])

    def keeper(self, resource: Resource | None) -> ResourceClaim | None:
        """Return the claim that has the device of a ComposableResource as its allocated pool
        device, or None."""
        if resource is None or not resource.pool_device:
            return None
        return self.claims.first_value("pool device", (resource.pool_device, resource.node))

    def own_keys(self, resource: Resource) -> list[DeviceKey]:
        """Return (driver, pool, device) of a ComposableResource's device and of its parts in the
        node's slices.

        The whole device comes first.
        """
        return [*self.sight(resource).keys]

    def shown(self, node: str, uuid: str) -> tuple[Slice, int] | None:
        """Return the ResourceSlice of the node that shows the device with a UUID, and its position
        there. Return None if no slice shows it or the UUID is empty."""
        places = ((found, place) for found in (self.slices.values("node", node) if uuid else ())
                  for place, device in enumerate(found.devices) if device.uuid == uuid)
        return next(places, None)

    def note_taints(self, resource: str, keys: Iterable[DeviceKey]) -> None:
        """Record that these slice entries, a device and its parts, were tainted for the
        scheduler."""
        self.tainted[resource] = self.tainted.get(resource, frozenset()) | {*keys}

    def untainted(self, resource: str, keys: Iterable[DeviceKey]) -> list[DeviceKey]:
        """Return the entries of a ComposableResource's device that the scheduler may still
        allocate."""
        tainted = self.tainted.get(resource, frozenset())
        return [key for key in keys if key not in tainted]

    def stale_taints(self, node: str) -> dict[str, frozenset[DeviceKey]]:
        """Return tainted entries that now belong to another device, by ComposableResource.

        A plugin that reads its devices again may give them new names. Include entries of
        ComposableResources of any node that are gone without our cleanup, after a user removed
        their finalizer.
        """
        here = {each.name for each in self.resources.values("node", node)} if self.tainted else set()
        sights = self.sights(node) if here & self.tainted.keys() else {}
        known = {key for sight in sights.values() for key in sight.keys}
        gone = {name: keys for name, keys in [*self.tainted.items()] if self.resources.stored(name) is None}
        return gone | {name: stale for name, sight in sights.items()
                       if (stale := (self.tainted.get(name, frozenset()) & known) - {*sight.keys})}

    def claim(self, uid: str) -> ResourceClaim | None:
        """Return a claim by its UID or its ``claims.identity``, or None."""
        return self.claims.first_value("uid", uid)

    def claim_refs(self, uids: Iterable[str]) -> tuple[ClaimRef, ...]:
        """Return references to these claims for logs. Omit unknown claims."""
        return tuple(claim_values.claim_ref(claim) for uid in uids if (claim := self.claim(uid)))

    def claims_by_entry(self, pod: Pod) -> dict[str, ResourceClaim | None]:
        """Return the claims of a pod by their entry in ``spec.resourceClaims``, or None for a claim
        that is missing or cannot be read."""
        return {entry: self.claims.value(name, pod.namespace) if name else None for entry, name in pod.claims.items()}

    def planned_claims(self, pod: Pod) -> dict[str, Json | None]:
        """Return the claims of a pod by their entry, as the planner of gated pods reads them, or None
        for a missing claim.

        The object of a claim without devices is the same until the claim changes.
        """
        found = {entry: self.claims.stored(name, pod.namespace) if name else None for entry, name in pod.claims.items()}
        return {entry: claim.as_object() if claim else None for entry, claim in found.items()}

    def claims_of_pod(self, pod: Pod) -> tuple[ClaimRef, ...]:
        """Return references to the existing claims of a pod for logs."""
        return tuple(claim_values.claim_ref(claim) for claim in self.claims_by_entry(pod).values() if claim)

    def is_allocated(self, claim_uid: str) -> bool:
        """Return whether a claim (its UID) is allocated, without decoding the claim."""
        return self.claims.has("uid", claim_uid) and not self.claims.has("unallocated", claim_uid)
