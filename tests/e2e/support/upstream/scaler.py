# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for dynamic-device-scaler (DDS): sizes of requests, conditions on claims, labels that open nodes to pools.

Shortened: SCAN_INTERVAL (60 s), DEVICE_NO_REMOVAL_DURATION (600 s) and DEVICE_NO_ALLOCATION_DURATION (60 s) are
parameters. Left out: models that exclude each other, limits of nodes but for the default, and that each name that was
ever seen keeps a timer of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    NODES,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, slices
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_micro_time, parse_time
from ansible_collections.composable.infra.plugins.module_utils.planning.device_info import DeviceModel
from ansible_collections.composable.infra.tests.e2e.support.upstream.loop import (
    PREFIX,
    Json,
    Part,
    PassFailed,
    annotated,
)

RESCHEDULE, FAILED, PREPARING = "FabricDeviceReschedule", "FabricDeviceFailed", "Preparing"
LAST_USED = "last-used-time"
MOST_ON_A_NODE = 50


@dataclass
class Seen:
    """What one pass looks at; it is not read again while the pass runs (resch.go:234: one device, several claims)."""

    claims: list[Json]
    slices: list[Json]
    requests: list[Json]
    resources: list[Json]

    @property
    def red(self) -> dict[str, tuple[str, str, str]]:
        """GPUs that a node announces itself, by UUID."""
        return {uuid: key for item in self.slices if slices.node(item) and slices.driver(item) == "gpu.nvidia.com"
                for uuid, key in slices.uuids(item)}

    @property
    def used(self) -> set[str]:
        keys = {key for claim in self.claims for key in claims.device_keys(claim)}
        return {uuid for uuid, key in self.red.items() if key in keys}

    def online(self, node: str) -> list[Json]:
        return [r for r in self.resources if r["spec"]["target_node"] == node and state(r) == "Online"
                and "deletionTimestamp" not in r["metadata"]]

    def considered(self, node: str, states: Iterable[str]) -> list[Json]:
        """Claims of pool devices for a node, the oldest first."""
        found = [c for c in self.claims if claims.consumers(c) and claims.binding_results(c)
                 and claims.node(c) == node and condition(c) in states]
        return sorted(found, key=lambda claim: str(claim["metadata"]["creationTimestamp"]))


class Scaler(Part):
    """Each event of a claim or a slice begins a pass over all, and so does each tick."""

    watched = (CLAIMS, SLICES)

    def __init__(self, stage: Stage, tick: float = 60.0, no_removal: float = 600.0,
                 no_allocation: float = 60.0) -> None:
        super().__init__(stage, tick)
        self.no_removal, self.no_allocation = no_removal, no_allocation

    def look(self) -> None:
        seen = self._see()
        red, used = seen.red, seen.used
        for resource in seen.resources:
            if state(resource) == "Online" and resource["status"].get("device_id") in red.keys() & used:
                self._stamp(resource)
        nodes = [node["metadata"]["name"] for node in self.client.list(NODES).items]
        for node in nodes:
            self._fail(seen, node)
            self._reschedule(self._see(), node)
        for node in nodes:
            for model in self.models:
                self._size(self._see(), node, model)
            # Each node is patched in each pass, whether or not it changes (patch_utils.go:340).
            labels: Json = {f"{PREFIX}/{model.k8s_device_name}": "true" for model in self.models}
            self.client.merge_patch(NODES, node, {"metadata": {"labels": labels}})

    def _see(self) -> Seen:
        return Seen(*(self.client.list(kind).items for kind in
                      (CLAIMS, SLICES, COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES)))

    def _fail(self, seen: Seen, node: str) -> None:
        """A claim whose pool device is no longer shown fails, though its device may be on the way (resch.go:94)."""
        shown = {d["name"] for item in seen.slices if not slices.node(item) for d in slices.devices(item)}
        for claim in reversed(seen.considered(node, [PREPARING])):
            if any(result["device"] not in shown for result in claims.binding_results(claim)):
                self._mark(claim, FAILED)

    def _reschedule(self, seen: Seen, node: str) -> None:
        """A device may be matched with several claims of a pass: what was matched is not taken off the list."""
        for claim in seen.considered(node, [PREPARING]):
            matched: list[Json] = []
            for model, count in self._need(claim).items():
                idle = [r for r in seen.online(node) if r["spec"]["model"] == model and self._eligible(seen, r)]
                matched += idle[:count] if len(idle) >= count else []
            if len(matched) == sum(self._need(claim).values()):
                self._mark(claim, RESCHEDULE)
                for resource in matched:
                    self._stamp(resource)

    def _eligible(self, seen: Seen, resource: Json) -> bool:
        uuid, last = resource["status"].get("device_id"), annotated(resource, LAST_USED)
        rested = not last or time.time() - parse_time(last) > self.no_allocation
        return uuid in seen.red and uuid not in seen.used and rested

    def _size(self, seen: Seen, node: str, model: DeviceModel) -> None:
        name = model.cdi_model_name
        waiting = sum(self._need(c).get(name, 0) for c in seen.considered(node, [PREPARING, RESCHEDULE]))
        wanted = waiting + sum(1 for r in seen.online(node) if r["spec"]["model"] == name
                               and r["status"].get("device_id") in seen.used)
        if wanted > MOST_ON_A_NODE:
            raise PassFailed(f"node {node} is to have {wanted} x {name}")
        requests = {(r["spec"]["resource"]["target_node"], r["spec"]["resource"]["model"]): r for r in seen.requests}
        if (node, name) in requests:
            self._resize(requests[node, name], wanted, self._recent(seen, node))
        elif wanted:
            self._create(node, name, wanted)

    def _resize(self, request: Json, wanted: int, recent: int) -> None:
        """Upwards to what is wanted, downwards to no less than what was used a short time ago."""
        size = request["spec"]["resource"]["size"]
        if wanted < size:
            wanted = min(max(wanted, recent), size)
        if wanted != size:
            patch = [{"op": "replace", "path": "/spec/resource/size", "value": wanted}]
            self.client.json_patch(COMPOSABILITY_REQUESTS, request["metadata"]["name"], patch)

    def _recent(self, seen: Seen, node: str) -> int:
        """Devices of the node that are not to be removed yet, of all models together (device_utils.go:199)."""
        now = time.time()
        used = [parse_time(annotated(r, LAST_USED) or r["metadata"]["creationTimestamp"]) for r in seen.resources
                if r["spec"]["target_node"] == node and state(r) in ("Online", "Attaching")
                and "deletionTimestamp" not in r["metadata"]]
        return sum(1 for moment in used if now - moment < self.no_removal)

    def _create(self, node: str, model: str, size: int) -> None:
        """Under a new name each time: what is read may be old, and then there are two (rmc.go:247)."""
        spec = {"type": "gpu", "model": model, "size": size, "target_node": node}
        self.client.create(COMPOSABILITY_REQUESTS, {
            "apiVersion": COMPOSABILITY_REQUESTS.group_version, "kind": COMPOSABILITY_REQUESTS.kind,
            "metadata": {"generateName": "composability-"}, "spec": {"resource": spec}})

    def _mark(self, claim: Json, kind: str) -> None:
        """The whole list of devices is overwritten, without a precondition (patch_utils.go:255)."""
        now = format_micro_time(time.time())[:19] + "Z"
        said = {"type": kind, "status": "True", "reason": "DeviceConditionUpdated", "lastTransitionTime": now,
                "message": ""}
        devices = (claim.get("status") or {}).get("devices") or [
            {key: result[key] for key in ("driver", "pool", "device")} for result in claims.binding_results(claim)]
        body = {"status": {"devices": [{**device, "conditions": [said]} for device in devices]}}
        meta = claim["metadata"]
        self.client.merge_patch(CLAIMS, meta["name"], body, meta["namespace"], "status")

    def _stamp(self, resource: Json) -> None:
        now = format_micro_time(time.time())[:19] + "Z"
        notes: Json = {"annotations": {f"{PREFIX}/{LAST_USED}": now}}
        self.client.merge_patch(COMPOSABLE_RESOURCES, resource["metadata"]["name"], {"metadata": notes})

    def _need(self, claim: Json) -> dict[str, int]:
        """Devices by model, by the names of the pools without their fabrics."""
        known = {model.k8s_device_name: model.cdi_model_name for model in self.models}
        found: dict[str, int] = {}
        for result in claims.binding_results(claim):
            device = str(result["pool"]).rpartition("-fabric")[0]
            if device not in known:
                raise PassFailed(f"pool {result['pool']} belongs to no model")  # info_utils.go:84
            found[known[device]] = found.get(known[device], 0) + 1
        return found


def state(resource: Json) -> str:
    return str((resource.get("status") or {}).get("state") or "")


def condition(claim: Json) -> str:
    """Preparing, the condition that is True, or nothing where an entry lacks (info_utils.go:95: name alone counts)."""
    entries = (claim.get("status") or {}).get("devices") or []
    if not entries:
        return PREPARING
    names = {result["device"] for result in claims.binding_results(claim)}
    own = next((entry for entry in entries if entry["device"] in names), None)
    if own is None:
        return ""
    true = {c["type"] for c in own.get("conditions") or () if c["status"] == "True"}
    return next((kind for kind in (RESCHEDULE, FAILED, "FabricDeviceReady") if kind in true), PREPARING)
