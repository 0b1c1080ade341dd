# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the node's ResourceSlices of this driver up to date.

A kubelet deletes them when it starts.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import typing as t
from collections.abc import Sequence

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES, SLICES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import slices
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.framework.quantity import quantity

from .allocation import Place
from .devices import NodeDevice
from .shares import Share, share_of

log = logging.getLogger("composable.infra")
# The API server's limit for a slice.
MOST_DEVICES = 128
_LONGEST_NAME = 253
_LONGEST_VALUE = 64
NOT_SERVED = ("the driver %s shares no device, because this API server drops the field allowMultipleAllocations. Use "
              "Kubernetes 1.36 or later, or turn on the feature gate DRAConsumableCapacity")


class Publisher:
    """Publish devices.

    ``store``: has all ResourceSlices of the node, and gets each written slice at once. ``shares``:
    which devices several claims may share.
    """

    def __init__(self, client: Client, place: Place, store: Store, shares: Sequence[Share] = ()) -> None:
        self._client, self._place, self._store, self._shares = client, place, store, shares

    def publish(self, devices: Sequence[NodeDevice]) -> bool:
        """Make the slices show these devices. Return whether something was written.

        Raises ApiError.

        The scheduler takes the first devices that fit, so devices that are near each other are
        listed side by side.
        """
        entries = [entry(device, share_of(device, self._shares))
                   for device in sorted(devices, key=lambda device: device.place)]
        parts = [entries[n:n + MOST_DEVICES] for n in range(0, len(entries), MOST_DEVICES)] or [[]]
        there = {str(item["metadata"]["name"]): item for item in self._own()}
        names = [self._name(number) for number in range(len(parts))]
        if sorted(there) == sorted(names) and self._is_as_wanted([there[name] for name in names], parts):
            return False
        generation = max((int(item["spec"]["pool"]["generation"]) for item in there.values()), default=0) + 1
        for name, part in zip(names, parts, strict=True):
            self._write(there.get(name), name, self._spec(part, generation, len(parts)))
        for name in sorted(set(there) - set(names)):
            self._delete(there[name])
        self._look_for_shares(entries)
        return True

    def _look_for_shares(self, wanted: Sequence[Json]) -> None:
        """Stop sharing if the API server dropped the fields for it, because it lacks the feature
        gate.
        """
        kept = {str(device["name"]): device for item in self._own() for device in slices.devices(item)}
        if any(is_shared(each) and not is_shared(kept.get(str(each["name"]), each)) for each in wanted):
            self._shares = ()
            log.warning(NOT_SERVED, self._place.driver)

    def shown(self) -> frozenset[str]:
        """Return the names of the devices that the slices show now."""
        return frozenset(str(device["name"]) for item in self._own() for device in slices.devices(item))

    def _own(self) -> list[Json]:
        return [item for item in self._store.list()
                if slices.driver(item) == self._place.driver and slices.node(item) == self._place.node]

    @staticmethod
    def _is_as_wanted(there: list[Json], parts: list[list[Json]]) -> bool:
        pools = [item["spec"]["pool"] for item in there]
        shown = [[comparable(device) for device in slices.devices(item)] for item in there]
        wanted = [[comparable(device) for device in part] for part in parts]
        return (shown == wanted and len({p["generation"] for p in pools}) == 1
                and all(p["resourceSliceCount"] == len(parts) for p in pools))

    def _spec(self, part: list[Json], generation: int, count: int) -> Json:
        pool = {"name": self._place.pool, "generation": generation, "resourceSliceCount": count}
        return {"driver": self._place.driver, "nodeName": self._place.node, "pool": pool, "devices": part}

    def _name(self, number: int) -> str:
        name = f"{self._place.node}-{self._place.driver}-{number}"
        if len(name) <= _LONGEST_NAME:
            return name
        return f"{self._place.driver}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"

    def _write(self, there: Json | None, name: str, spec: Json) -> None:
        kind = {"apiVersion": SLICES.group_version, "kind": SLICES.kind}
        if there is None:
            body = {**kind, "metadata": {"name": name, "ownerReferences": [self._owner()]}, "spec": spec}
            self._store.upsert(self._client.create(SLICES, body))
            return
        try:
            self._store.upsert(self._client.replace(SLICES, name, {**there, **kind, "spec": spec}))
        except NotFound:
            self._store.remove(there)
            raise

    def _delete(self, there: Json) -> None:
        with contextlib.suppress(NotFound):
            self._client.delete(SLICES, there["metadata"]["name"])
        self._store.remove(there)

    def _owner(self) -> Json:
        """Return the owner reference of the Node, with which its slices are deleted."""
        node = self._client.get(NODES, self._place.node)
        return {"apiVersion": NODES.group_version, "kind": NODES.kind, "name": self._place.node,
                "uid": node["metadata"]["uid"], "controller": True}


def comparable(device: Json) -> Json:
    """Return an entry with numbers for its quantities, because the API server writes 1024Mi as 1Gi.
    """
    return {**device, "capacity": _numbers(device["capacity"])} if "capacity" in device else device


def _numbers(found: t.Any) -> t.Any:
    return {key: _numbers(value) for key, value in found.items()} if isinstance(found, dict) else quantity(str(found))


def is_shared(device: Json) -> bool:
    """Return whether an entry allows several claims to have parts of the device."""
    return bool(device.get("allowMultipleAllocations"))


def entry(device: NodeDevice, share: Share | None = None) -> Json:
    """Return the entry for a device in ``spec.devices``, without unknown attributes.

    ``share``: how several claims share the device, None if they do not.
    """
    texts = {"type": device.type, "uuid": device.uuid, "productName": device.model[:_LONGEST_VALUE],
             "pciVendor": device.vendor, "pciDevice": device.device, "switch": device.switch,
             "linkSpeed": device.link_speed,
             "resource.kubernetes.io/pciBusID": device.address, "resource.kubernetes.io/pcieRoot": device.root}
    numbers = {"numaNode": device.numa_node, "resource.kubernetes.io/numaNode": device.numa_node,
               "linkWidth": device.link_width}
    attributes: Json = {name: {"string": value} for name, value in texts.items() if value}
    attributes |= {name: {"int": value} for name, value in numbers.items() if value is not None}
    found: Json = {"name": device.name, "attributes": attributes}
    return {**found, "allowMultipleAllocations": True, "capacity": share.capacities} if share else found
