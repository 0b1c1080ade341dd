# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ResourceClaim as its object says, read once when the object comes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from datetime import UTC, datetime

from .slice import DeviceKey
from .value import Json, Value, filled, value


@value(frozen=True, slots=True)
class Result:
    """One device of an allocation. ``request`` is empty for none.

    ``more``: the other fields of its entry, such as binding conditions. Equal ones are in memory
    once.
    """

    request: str
    driver: str
    pool: str
    device: str
    more: Json = field(default_factory=dict)

    @property
    def binding(self) -> bool:
        """Return whether it has binding conditions. Then it is a pool device."""
        return bool(self.more.get("bindingConditions"))

    @property
    def key(self) -> DeviceKey:
        """Return driver, pool and device."""
        return self.driver, self.pool, self.device

    @property
    def entry(self) -> Json:
        """Return its entry in the allocation, which must not be changed."""
        named = {"driver": self.driver, "pool": self.pool, "device": self.device, **self.more}
        return {"request": self.request, **named} if self.request else named


@value(frozen=True, slots=True)
class ResourceClaim(Value):
    """A claim with its allocation and who has it. Times are epoch seconds.

    - ``identity``: its UID, or for a special claim a key that stays the same
      (``kube/objects/claims.py``).
    - ``allocated``: when the allocation was written, 0.0 if that is not known.
    - ``node``: the node in the allocation, else empty.
    - ``phase``: CoHDI's state of its pool devices (``planning/node/demand.py``).
    - ``pods``: (name, UID) of each pod that it is reserved for.
    - ``for_a_group``: it is reserved for a PodGroup, which does not name its pods.
    - ``spec``: its spec as JSON. Equal ones are in memory once.
    - ``made_for``: annotations and owners of a special claim, empty for any other.
    - ``devices``: ``status.devices`` without the data of drivers.
    - ``more``: the fields of the allocated devices besides their results.
    - ``selector``: the node selector, if it does more than name the node.
    - ``users``: ``status.reservedFor``, if it says more than ``pods``.
    - ``deleted``: its deletionTimestamp, else empty.
    - ``whole``: the object of a claim without devices, since the planner of gated pods reads it.
      None for a claim with devices.
    """

    name: str
    namespace: str
    uid: str
    version: str = field(compare=False)
    identity: str
    created: float
    allocated: float
    node: str
    phase: str
    results: tuple[Result, ...]
    pods: tuple[tuple[str, str], ...]
    for_a_group: bool
    spec: Json
    finalizers: tuple[str, ...] = ()
    made_for: Json = field(default_factory=dict)
    devices: tuple[Json, ...] = ()
    more: Json = field(default_factory=dict)
    selector: Json | None = None
    users: tuple[Json, ...] = ()
    deleted: str = ""
    whole: Json | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        """Return ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def allocated_at(self) -> float:
        """Return when the allocation was written, else when the claim was created."""
        return self.allocated or self.created

    @property
    def allocation(self) -> tuple[object, ...]:
        """Return what the scheduler allocated, to compare it with another allocation."""
        return self.allocated, self.results, self.node, self.selector, self.more

    @property
    def pool_results(self) -> tuple[Result, ...]:
        """Return the pool devices of the allocation."""
        return tuple(result for result in self.results if result.binding)

    @property
    def device_keys(self) -> Iterator[DeviceKey]:
        """Return (driver, pool, device) of every allocated device. Administrative access does not use
        a device."""
        return (result.key for result in self.results if not result.more.get("adminAccess"))

    @property
    def requests(self) -> list[Json]:
        """Return its requests for devices."""
        found: list[Json] = (self.spec.get("devices") or {}).get("requests") or []
        return found

    @property
    def reserved(self) -> bool:
        """Return whether it is reserved for pods, or for a PodGroup."""
        return bool(self.pods) or self.for_a_group

    @property
    def special(self) -> bool:
        """Return whether kube-scheduler made it for extended resources of a pod (KEP-5004)."""
        return bool(self.made_for)

    @property
    def reference(self) -> Json:
        """Return its kind and names, for Events about it."""
        meta = {"name": self.name, "namespace": self.namespace, "uid": self.uid, "resourceVersion": self.version}
        return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "metadata": filled(meta)}

    def as_object(self) -> Json:
        """Return the object as JSON. Fields that no reader uses are missing."""
        if self.whole is not None:
            return self.whole
        meta = {"creationTimestamp": _time(self.created), "deletionTimestamp": self.deleted,
                "finalizers": [*self.finalizers], **self.made_for}
        selector = self.selector or (selector_of(self.node) if self.node else None)
        allocation = {"allocationTimestamp": _time(self.allocated), "nodeSelector": selector,
                      "devices": {"results": [result.entry for result in self.results], **self.more}}
        status = {"reservedFor": [*self.users] or [user_of(*pod) for pod in self.pods],
                  "allocation": filled(allocation), "devices": [*self.devices]}
        found = self.reference
        return {**found, "metadata": {**found["metadata"], **filled(meta)}, "spec": self.spec,
                "status": filled(status)}


def selector_of(node: str) -> Json:
    """Return the node selector of devices that only one node reaches."""
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}


def user_of(name: str, uid: str) -> Json:
    """Return the entry of a pod in ``status.reservedFor``."""
    return {"resource": "pods", "name": name, "uid": uid}


def _time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z") if moment else ""
