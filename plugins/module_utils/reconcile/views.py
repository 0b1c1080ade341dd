# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Raw JSON of the cluster and the snapshot of the fabric become the frozen views that the planners read."""

from __future__ import annotations

import typing as t

from ..fabric.types import FabricSnapshot
from ..kube import claims, cro, slices
from ..kube.times import parse_time
from ..scaling.demand import FAILED, PREPARING, READY, RESCHEDULE
from ..scaling.pools import READY_CONDITION, SliceView
from ..scaling.scale import FAILED_CONDITION, RESCHEDULE_CONDITION
from ..scaling.settings import Settings
from ..scaling.view import Claim, PodRef, PoolResult, Request, Resource

Json = dict[str, t.Any]
PROVIDER_PREFIX = "fsas-cdi://"


def claim_view(raw: Json, settings: Settings) -> Claim | None:
    """A claim that holds pool devices for a pod; None for any other claim."""
    binding = claims.binding_results(raw)
    consumers = claims.consumers(raw)
    ours = [r for r in binding if r["driver"] in settings.drivers or settings.of_pool(r["pool"])]
    if not ours or not consumers:
        return None
    meta = raw["metadata"]
    return Claim(meta["uid"], meta["namespace"], meta["name"], claim_phase(raw), claims.allocated_at(raw),
                 tuple(PodRef(meta["namespace"], c["name"], c["uid"]) for c in consumers),
                 tuple(_result(r, settings) for r in ours))


def claim_phase(raw: Json) -> str:
    """CoHDI's state of a claim: the worst of its pool devices."""
    types = [FAILED_CONDITION, RESCHEDULE_CONDITION, READY_CONDITION]
    found = [claims.condition(raw, r, types) for r in claims.binding_results(raw)]
    if FAILED_CONDITION in found:
        return FAILED
    if RESCHEDULE_CONDITION in found:
        return RESCHEDULE
    return READY if found and all(f == READY_CONDITION for f in found) else PREPARING


def _result(result: Json, settings: Settings) -> PoolResult:
    of_pool = settings.of_pool(result["pool"])
    model, fabric = of_pool if of_pool and of_pool[0].driver_name == result["driver"] else (None, None)
    return PoolResult(result["driver"], result["pool"], result["device"], model, fabric)


def request_view(raw: Json) -> Request:
    """A ComposabilityRequest."""
    spec = raw["spec"]["resource"]
    return Request(raw["metadata"]["name"], raw["metadata"]["uid"], spec["model"], int(spec["size"]),
                   bool(raw["metadata"].get("deletionTimestamp")), bool(spec.get("force_detach")))


def resource_view(raw: Json, settings: Settings, seen_used: float = 0.0, **seen: t.Any) -> Resource:
    """A ComposableResource; ``seen`` adds what its own object does not say (visible, used_by, busy, held)."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    machine, asked, present = cro.read_intent(raw)
    return Resource(
        name=meta["name"], uid=meta["uid"], request=(meta.get("labels") or {}).get(cro.MANAGED_BY, ""),
        model=spec["model"], node=spec["target_node"], state=status.get("state", ""),
        created=parse_time(meta.get("creationTimestamp")),
        device_uid=status.get("cdi_device_id", ""), serial=status.get("device_id", ""),
        error=status.get("error", ""), deleting=bool(meta.get("deletionTimestamp")),
        force_detach=bool(spec.get("force_detach")),
        delete_first=cro.annotation(raw, settings.label(cro.DELETE_FIRST)) == "true",
        last_used=max(seen_used, parse_time(cro.annotation(raw, settings.label(cro.LAST_USED)))),
        in_use=cro.annotation(raw, cro.IN_USE) == "true",
        machine=machine, asked=asked, present=present,
        operation=cro.annotation(raw, cro.OPERATION), **seen)


def slice_view(raw: Json) -> SliceView:
    """A slice of a pool."""
    pool = raw["spec"]["pool"]
    return SliceView(raw["metadata"]["name"], int(pool["generation"]), int(pool["resourceSliceCount"]),
                     tuple(d["name"] for d in slices.devices(raw)), raw["spec"])


def machine_of(node: Json | None, snapshot: FabricSnapshot | None) -> tuple[str | None, int | None, str]:
    """(machine uid, fabric id, problem) of a node by its providerID, ``fsas-cdi://<machine uid>``.

    While the CDI Manager was never reached a well-formed providerID is believed.
    """
    if node is None:
        return None, None, "the cluster has no such node"
    provider = str((node.get("spec") or {}).get("providerID") or "")
    uid = provider.removeprefix(PROVIDER_PREFIX).rpartition("/")[2]
    if not provider.startswith(PROVIDER_PREFIX) or not uid:
        return None, None, f"its providerID is {provider or 'empty'!r}, not {PROVIDER_PREFIX}<machine uuid>"
    if snapshot is None:
        return uid, None, ""
    machine = snapshot.machines.get(uid)
    if machine is None:
        return None, None, f"the CDI Manager knows no machine {uid} (from its providerID)"
    if machine.fabric is None:
        return None, None, f"machine {uid} is on no fabric"
    return uid, machine.fabric, ""


def attached_models(snapshot: FabricSnapshot | None, machine: str | None) -> dict[str, str] | None:
    """Device uid to model of all that the last snapshot shows on a machine, None when it is unknown."""
    found = snapshot.machines.get(machine) if snapshot and machine else None
    return {d.uid: d.model for d in found.devices} if found else None
