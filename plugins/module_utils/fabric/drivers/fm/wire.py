# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""FM's JSON without I/O. Absent fields are accepted unless a decision needs them."""

from __future__ import annotations

import typing as t

from ...api import Device, Machine
from ..shared.fsas import health
from ..shared.replies import Unreadable, about

# FM also lists the processors and memory modules of a machine. Only these kinds are composed.
COMPOSABLE: t.Final = frozenset({"gpu"})


def entries(body: t.Any) -> list[dict[str, t.Any]]:
    """Return the list ``data.machines`` of a reply, which may be empty. Raise Unreadable."""
    data = body.get("data") if isinstance(body, dict) else None
    found = data.get("machines") if isinstance(data, dict) else None
    if not isinstance(found, list):
        raise Unreadable("it has no data.machines")
    return [entry for entry in found if isinstance(entry, dict) and _text(entry.get("mach_uuid"))]


def entry_of(body: t.Any, uid: str) -> dict[str, t.Any] | None:
    """Return the entry of one machine, or None if the list is empty.

    Raise Unreadable if the list has only other machines.
    """
    found = entries(body)
    for entry in found:
        if str(entry["mach_uuid"]).casefold() == uid.casefold():
            return entry
    if found:
        about(uid, ", ".join(str(entry["mach_uuid"]) for entry in found), "machine")
    return None


def machine(entry: dict[str, t.Any]) -> Machine:
    """Return the machine of one entry of ``data.machines``."""
    uid, fabric = str(entry["mach_uuid"]), _integer(entry.get("fabric_id"))
    found = (device(resource, uid, fabric) for resource in _resources(entry))
    devices = tuple(d for d in found if d is not None and d.kind in COMPOSABLE)
    return Machine(uid, _text(entry.get("mach_name")) or uid, fabric, devices)


def device(resource: dict[str, t.Any], machine_uid: str, fabric: int | None) -> Device | None:
    """Return the device of one resource of a machine, or None without res_uuid."""
    uid = _text(resource.get("res_uuid"))
    if uid is None:
        return None
    return Device(
        uid=uid, model=_model(resource), kind=_text(resource.get("res_type")) or "", fabric=fabric,
        machine=machine_uid, state="attached", health=health(resource.get("res_op_status")),
        serial=_text(resource.get("res_serial_num")), name=_text(resource.get("res_name")),
    )


def attached(body: t.Any, machine_uid: str, model: str, kind: str) -> tuple[Device, str]:
    """Return the device that an attach reply names, and its raw ``res_op_status``.

    FM puts the new device first among the resources of the machine. If another kind or model is
    first, the new device is unknown. Raise Unreadable.
    """
    found = entry_of(body, machine_uid)
    if found is None:
        raise Unreadable("it names no machine")
    resources = _resources(found)
    new = device(resources[0], machine_uid, _integer(found.get("fabric_id"))) if resources else None
    if new is None:
        raise Unreadable("it names no new device")
    if new.kind != kind or new.model not in (model, ""):
        raise Unreadable(f"its first device is {new.kind} {new.model}, not {kind} {model}")
    return new, str(resources[0].get("res_op_status") or "")


def available(body: t.Any) -> int:
    """Return ``reserved_res_num_per_fabric``, the attachable devices. Raise Unreadable."""
    number = _integer(body.get("reserved_res_num_per_fabric")) if isinstance(body, dict) else None
    if number is None or number < 0:
        raise Unreadable("it has no reserved_res_num_per_fabric")
    return number


def attach_body(tenant: str, machine_uid: str, model: str, kind: str) -> dict[str, t.Any]:
    """Return the body of PATCH …/update for one device."""
    condition = [{"column": "model", "operator": "eq", "value": model}]
    return _update(tenant, machine_uid, {"res_type": kind, "res_spec": {"condition": condition}, "res_num": 1})


def detach_body(tenant: str, machine_uid: str, device_uid: str, kind: str) -> dict[str, t.Any]:
    """Return the body of DELETE …/update for one device."""
    return _update(tenant, machine_uid, {"res_type": kind, "res_uuid": device_uid, "res_num": 1})


def _update(tenant: str, machine_uid: str, leaf: dict[str, t.Any]) -> dict[str, t.Any]:
    machines = [{"mach_uuid": machine_uid, "resources": [{"res_specs": [leaf]}]}]
    return {"tenants": {"tenant_uuid": tenant, "machines": machines}}


def _resources(entry: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    found = entry.get("resources")
    return [r for r in found if isinstance(r, dict)] if isinstance(found, list) else []


def _model(resource: dict[str, t.Any]) -> str:
    spec = resource.get("res_spec")
    conditions = spec.get("condition") if isinstance(spec, dict) else None
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("column") == "model":
            return _text(condition.get("value")) or ""
    return ""


def _text(value: t.Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _integer(value: t.Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
