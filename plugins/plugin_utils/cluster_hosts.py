# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Join nodes of a cluster with their machines into hosts with variables and groups. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, FabricSnapshot
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi, nodes, slices
from ansible_collections.composable.infra.plugins.module_utils.planning.device_info import DIRECT, RESCHEDULE
from ansible_collections.composable.infra.plugins.module_utils.planning.node.demand import PREPARING, READY
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.adapters import machine_of
from ansible_collections.composable.infra.plugins.module_utils.reconcile.values.claim_values import claim_phase

from ..module_utils.model.value import Json
from .fabric_hosts import HEALTHS
from .hosts import Host, group


@dataclass(slots=True)
class Cluster:
    """Raw objects of a cluster, and the fabric's inventory if it was read."""

    nodes: list[Json]
    claims: list[Json] = field(default_factory=list)
    slices: list[Json] = field(default_factory=list)
    resources: list[Json] = field(default_factory=list)
    snapshot: FabricSnapshot | None = None


def node_hosts(cluster: Cluster) -> list[Host]:
    """Return a host for each node, sorted by name."""
    known = _Known(cluster)
    return [known.host(node) for node in sorted(cluster.nodes, key=lambda n: str(n["metadata"]["name"]))]


class _Known:
    """Lookup tables of all nodes, made once."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.claims: dict[str, list[Json]] = {}
        self.users: dict[claims.DeviceKey, str] = {}
        for claim in cluster.claims:
            self.claims.setdefault(claims.node(claim) or "", []).append(claim)
            self.users.update(dict.fromkeys(claims.device_keys(claim), _name(claim)))
        self.seen = {(slices.node(item), uuid): key for item in cluster.slices if slices.node(item)
                     for uuid, key in slices.uuids(item)}
        allocated = {(claims.node(c), name): _name(c) for c in cluster.claims for name in _pool_devices(c)}
        self.keepers: dict[str, str] = {}
        self.resources: dict[str, list[Json]] = {}
        for resource in cluster.resources:
            node = str(resource["spec"].get("target_node", ""))
            self.resources.setdefault(node, []).append(resource)
            if keeper := allocated.get((node, cohdi.annotation(resource, cohdi.POOL_DEVICE))):
                self.keepers[str((resource.get("status") or {}).get("cdi_device_id") or "")] = keeper
        self.direct = frozenset(self.keepers.values())

    def host(self, node: Json) -> Host:
        name = str(node["metadata"]["name"])
        machine, fabric, problem = machine_of(nodes.read(node), self.cluster.snapshot)
        devices = [self._device(name, device) for device in self._attached(name, machine)]
        found = [_claim(c, _name(c) in self.direct) for c in sorted(self.claims.get(name, ()), key=_name)]
        variables: Json = {
            "composable_node": name, "composable_machine": machine, "composable_fabric": fabric,
            "composable_problem": problem, "composable_devices": devices, "composable_claims": found,
            "composable_ready": nodes.ready(node), "composable_cordoned": bool(node["spec"].get("unschedulable")),
            "composable_health": next((h for h in HEALTHS if h in {d["health"] for d in devices}), "OK"),
            "composable_labels": dict(node["metadata"].get("labels") or {})}
        address = _address(node)
        return Host(name, variables | ({"ansible_host": address} if address else {}), _groups(variables))

    def _attached(self, name: str, machine: str | None) -> Iterable[Device]:
        """Return the machine's devices, or without a CDI Manager its ComposableResources'."""
        if self.cluster.snapshot is not None:
            shown = self.cluster.snapshot.machines.get(machine or "")
            return shown.devices if shown else ()
        return [d for r in self.resources.get(name, ()) if (d := _of_resource(r)) is not None]

    def _device(self, node: str, device: Device) -> Json:
        key = self.seen.get((node, device.serial)) if device.serial else None
        claim = self.keepers.get(device.uid) or (self.users.get(key) if key else None)
        return {"uid": device.uid, "model": device.model, "kind": device.kind, "state": device.state,
                "health": device.health, "serial": device.serial, "visible": key is not None, "claim": claim,
                "idle": device.state == "attached" and key is not None and claim is None}


def _of_resource(raw: Json) -> Device | None:
    spec, status = raw["spec"], raw.get("status") or {}
    uid = status.get("cdi_device_id")
    if not uid:
        return None
    leaving = bool(raw["metadata"].get("deletionTimestamp"))
    return Device(str(uid), str(spec.get("model", "")), str(spec.get("type", "gpu")),
                  state="detaching" if leaving else "attached", serial=status.get("device_id") or None)


def _pool_devices(raw: Json) -> list[str]:
    return [cohdi.pool_device(result["pool"], result["device"]) for result in claims.binding_results(raw)]


def _claim(raw: Json, keeps: bool) -> Json:
    """Return a claim. ``keeps`` means that it keeps devices of the pool (handover direct)."""
    binding = claims.binding_results(raw)
    state = claim_phase(raw) if binding else "bound"
    handover = "" if not binding else DIRECT if keeps or state == READY else RESCHEDULE
    return {"claim": _name(raw), "state": state, "handover": handover,
            "devices": len(claims.results(raw)), "pods": [str(c["name"]) for c in claims.consumers(raw)]}


def _name(claim: Json) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"


def _address(node: Json) -> str | None:
    found = {a.get("type"): a.get("address") for a in (node.get("status") or {}).get("addresses") or []}
    return t.cast("str | None", found.get("InternalIP") or None)


def _groups(variables: Mapping[str, t.Any]) -> list[str]:
    devices = variables["composable_devices"]
    facts = {
        "has_devices": bool(devices),
        "has_idle_gpu": any(d["idle"] and d["kind"] == "gpu" for d in devices),
        "waiting": any(c["state"] == PREPARING and c["pods"] for c in variables["composable_claims"]),
        "cordoned": variables["composable_cordoned"],
        "not_ready": not variables["composable_ready"],
        "unmapped": bool(variables["composable_problem"]),
        "unhealthy": variables["composable_health"] in ("Critical", "Warning"),
    }
    found = [name for name, holds in facts.items() if holds]
    if variables["composable_fabric"] is not None:
        found.append(group("fabric", variables["composable_fabric"]))
    return found + sorted({group("model", d["model"]) for d in devices if d["model"]})
