# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of a run by watches of the API server: which claim had which device, and when."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable
from dataclasses import dataclass, field

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi, pods, slices
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.reflector import Reflector
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store

Json = dict[str, t.Any]
Listener = Callable[[str], object]
# States that stand for the point of an armed fault. An intent without a device comes right before
# the request.
CREATED, INTENDED, OWNED, DELETING = "created", "intended", "owned", "deleting"


@dataclass(slots=True)
class Use:
    """A claim has a device of a node, from ``since`` to ``until``, by observation, in epoch
    seconds.
    """

    claim: str
    uuid: str
    since: float
    until: float = float("inf")


@dataclass(slots=True)
class ResourceTimes:
    """A ComposableResource as it was last observed.

    ``devices``: all UIDs at the CDI Manager that it ever had. ``owns``: the present one.
    """

    name: str
    node: str
    model: str
    created: float
    gone: float = float("inf")
    asked: bool = False
    machine: str = ""
    present: frozenset[str] = frozenset()
    devices: list[str] = field(default_factory=list)
    owns: str = ""
    owned_since: float = float("inf")


class History:
    """Watches pods, claims, slices and ComposableResources from ``start`` to ``stop``.

    ``listener``: called with the name of each point.
    """

    def __init__(self, client: Client, listener: Listener) -> None:
        self._lock, self._listener = threading.RLock(), listener
        self.resources: dict[str, ResourceTimes] = {}
        self.uses: list[Use] = []
        self.double: list[str] = []
        self._open: dict[tuple[str, claims.DeviceKey], Use] = {}
        self._held: dict[str, tuple[str, float]] = {}
        self._names: dict[str, dict[claims.DeviceKey, str]] = {}
        self._allocated: dict[str, Json] = {}
        watched = ((PODS, self._on_pod), (CLAIMS, self._on_claim), (SLICES, self._on_slice),
                   (COMPOSABLE_RESOURCES, self._on_resource))
        self._reflectors = [Reflector(client, resource, Store({}), on_change, longest_delay=0.2,
                                      namespace="default" if resource.namespaced else None)
                            for resource, on_change in watched]

    def start(self) -> None:
        """Start, and return when everything was listed."""
        for reflector in self._reflectors:
            reflector.start()
        for reflector in self._reflectors:
            reflector.synced.wait(60.0)

    def stop(self) -> None:
        """Stop all watches."""
        for reflector in self._reflectors:
            reflector.stop()

    def held(self) -> list[tuple[str, float]]:
        """Return (name, since) of each gated pod."""
        with self._lock:
            return list(self._held.values())

    def ambiguous(self, machine: str, model: str, at: float, margin: float) -> bool:
        """Return whether a resource waited for such a device on the machine around the moment
        ``at``.

        ``margin``: seconds before and after.
        """
        with self._lock:
            return any(seen.machine == machine and seen.model == model and seen.created - margin <= at
                       <= min(seen.owned_since, seen.gone) + margin for seen in self.resources.values())

    def _on_pod(self, kind: str, obj: Json, _old: Json | None) -> None:
        uid = obj["metadata"]["uid"]
        with self._lock:
            if kind == "DELETED" or not pods.held(obj):
                self._held.pop(uid, None)
            else:
                self._held.setdefault(uid, (obj["metadata"]["name"], time.time()))

    def _on_slice(self, kind: str, obj: Json, _old: Json | None) -> None:
        if not slices.node(obj):
            return
        with self._lock:
            shown = {} if kind == "DELETED" else {key: uuid for uuid, key in slices.uuids(obj)}
            self._names[obj["metadata"]["name"]] = shown
            for claim in list(self._allocated.values()):
                self._note_uses(claim)

    def _on_claim(self, kind: str, obj: Json, _old: Json | None) -> None:
        with self._lock:
            uid = obj["metadata"]["uid"]
            self._allocated.pop(uid, None)
            if kind != "DELETED" and (obj.get("status") or {}).get("allocation"):
                self._allocated[uid] = obj
                self._note_uses(obj)
                return
            for opened in [opened for opened in self._open if opened[0] == uid]:
                self._open.pop(opened).until = time.time()

    def _note_uses(self, claim: Json) -> None:
        """Record the uses of a claim. Devices without an observed slice are recorded when the slice
        comes.
        """
        uid = claim["metadata"]["uid"]
        for key in claims.device_keys(claim):
            uuid = next((shown[key] for shown in self._names.values() if key in shown), None)
            if uuid and (uid, key) not in self._open:
                use = self._open[uid, key] = Use(claim["metadata"]["name"], uuid, time.time())
                self.uses.append(use)

    def _on_resource(self, kind: str, obj: Json, _old: Json | None) -> None:
        uid, now = obj["metadata"]["uid"], time.time()
        with self._lock:
            seen = self.resources.get(uid)
            told = []
            if seen is None:
                spec = obj["spec"]
                seen = self.resources[uid] = ResourceTimes(
                    obj["metadata"]["name"], spec["target_node"], spec["model"], now)
                told.append(CREATED)
            if kind == "DELETED":
                seen.gone = now
                return
            told += self._follow(seen, obj, now)
        for point in told:
            self._listener(point)

    def _follow(self, seen: ResourceTimes, obj: Json, now: float) -> list[str]:
        machine, asked, present = cohdi.read_intent(obj)
        device = str((obj.get("status") or {}).get("cdi_device_id") or "")
        told = []
        if asked and not device and (not seen.asked or present != seen.present):
            told.append(INTENDED)
        if asked:
            seen.asked, seen.machine, seen.present = True, machine, present
        seen.owns = device
        if device and device not in seen.devices:
            self._own(seen, device, now)
            told.append(OWNED)
        if (obj.get("status") or {}).get("state") == "Detaching":
            told.append(DELETING)
        return told

    def _own(self, seen: ResourceTimes, device: str, now: float) -> None:
        others = [other.name for other in self.resources.values()
                  if other is not seen and other.gone > now and other.owns == device]
        if others:
            self.double.append(f"device {device} belongs to {seen.name} and {', '.join(others)}")
        seen.devices.append(device)
        seen.owned_since = now
