# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that counts usage, on a fake API server that outlives it."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    CONFIG_MAPS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.sums import NAME, Sum
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import Touch
from ansible_collections.composable.infra.plugins.module_utils.reconcile.accounting.keeper import UsageKeeper
from ansible_collections.composable.infra.plugins.module_utils.reconcile.accounting.ledger import Ledger
from ansible_collections.composable.infra.plugins.module_utils.reconcile.accounting.moments import Moments
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.writers.writer import Writer
from ansible_collections.composable.infra.tests.unit.planning.builders import settings
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi

NAMESPACE = "composable-infra"
NOW = 1_800_000_000.0
Json = dict[str, t.Any]


class World:
    """A cluster with a clock. ``now``: seconds since the epoch."""

    def __init__(self, api: FakeApi | None = None) -> None:
        self.api, self.now = api or FakeApi(), NOW
        self.api.put(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap",
                                   "metadata": {"name": NAME, "namespace": NAMESPACE}})
        self.processes: list[Process] = []

    def process(self, label: str = "", *, counts: bool = True) -> Process:
        """Start a process that watches. It has read all lists. ``counts``: it has begun to count."""
        made = Process(self, label, counts=counts)
        self.processes.append(made)
        return made

    def put(self, kind: t.Any, obj: Json) -> None:
        """Change an object. Every process sees it at once."""
        meta = obj["metadata"]
        old = self.api.objects.get((kind.plural, meta.get("namespace") or "", meta["name"]))
        new = self.api.put(kind, obj)
        for process in self.processes:
            process.see("MODIFIED", kind, new, old)

    def remove(self, kind: t.Any, name: str, namespace: str = "") -> None:
        """Delete an object. Every process sees it at once."""
        old = self.api.one(kind, name, namespace)
        self.api.remove(kind, name, namespace)
        old["metadata"]["resourceVersion"] = str(int(old["metadata"]["resourceVersion"]) + 1)
        for process in self.processes:
            process.see("DELETED", kind, old, old)

    def device(self, name: str, device: str, *, created: float = 0.0, meant: str = "") -> None:
        """A ComposableResource, with a device unless that is empty. Its notes stay as they are."""
        raw = objects.resource(name, device=device, serial=device, state="Online" if device else "Attaching")
        known = self.api.objects.get((COMPOSABLE_RESOURCES.plural, "", name))
        raw["metadata"]["annotations"] = dict(known["metadata"]["annotations"]) if known else (
            {"composable.infra/claim": f"{meant}/x uid-x"} if meant else {})
        raw["metadata"]["creationTimestamp"] = format_time(created or self.now)
        self.put(COMPOSABLE_RESOURCES, raw)

    def show(self, *devices: str) -> None:
        """The node's slice shows these devices as gpu-0, gpu-1, and so on."""
        self.put(SLICES, objects.local_slice(*devices))

    def claim(self, name: str, device: str = "", namespace: str = "default") -> None:
        """A claim, allocated now to the device of this name in the slice unless that is empty."""
        raw = objects.claim(name, *([objects.local_result(device)] if device else []))
        raw["metadata"] |= {"namespace": namespace, "uid": f"uid-{namespace}-{name}",
                            "creationTimestamp": format_time(self.now)}
        if device:
            raw["status"]["allocation"]["allocationTimestamp"] = format_time(self.now)
        self.put(CLAIMS, raw)


class Process:
    """One process with its stores."""

    def __init__(self, world: World, label: str, *, counts: bool) -> None:
        self.world, self.told = world, list[str]()
        self.state = ClusterState(settings())
        self.moments = Moments(label, lambda: world.now)
        self.ledger = Ledger(self.state, self.moments, lambda: world.now, lambda seconds: None)
        self.keeper = UsageKeeper(world.api.client, NAMESPACE, self.ledger, self.moments,
                                  lambda: str(world.api._version), self.told.append, enabled=True,
                                  clock=lambda: world.now)
        self.writer = Writer(world.api.client, self.state)
        self.writer.resources.uses = self.keeper
        for kind, store in self.state.stores.items():
            for raw in world.api.of(kind):
                store.upsert(raw)
        if counts:
            self.keeper.begin()

    def see(self, type_: str, kind: t.Any, new: Json, old: Json | None) -> None:
        """A watch reports a change."""
        store = self.state.stores[kind]
        kept = store.trimmed(json.loads(json.dumps(new)))
        before = store.trimmed(json.loads(json.dumps(old))) if old else None
        (store.remove if type_ == "DELETED" else store.upsert)(kept)
        self.moments.object_changed(type_, kind, kept, before)

    def touch(self, resource: str, *, in_use: bool) -> None:
        """Write the stamp of a use, as the planner has it done."""
        self.writer.resources.touch(Touch("node-0", "", resource, in_use))

    def sums(self) -> dict[str, Sum]:
        """All sums up to now by namespace, rounded to milliseconds."""
        self.keeper.update()
        return by_namespace(self.keeper.known().table)


def by_namespace(table: t.Mapping[t.Any, Sum]) -> dict[str, Sum]:
    """The sums of a table by namespace."""
    found: dict[str, Sum] = {}
    for place, row in table.items():
        found[place.namespace] = found.get(place.namespace, Sum()).plus(row)
    return {name: Sum(round(row.used, 3), round(row.idle, 3), row.attaches) for name, row in found.items()}
