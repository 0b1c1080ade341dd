# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How an API server changes an object by the patches of the engine, on plain JSON."""

from __future__ import annotations

import typing as t

Json = dict[str, t.Any]


def merged(old: t.Any, patch: t.Any) -> t.Any:
    """Apply a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = merged(new.get(key), value)
    return new


def strategic(old: Json, patch: Json) -> Json:
    """Apply a strategic merge patch, for the lists that the engine sends.

    Scheduling gates are merged by name, conditions by type, and finalizers as a set.
    """
    body = {key: dict(value) if isinstance(value, dict) else value for key, value in patch.items()}
    gates = body.get("spec", {}).pop("schedulingGates", [])
    finalizers = body.get("metadata", {}).pop("finalizers", [])
    told = body.get("status", {}).pop("conditions", [])
    new: Json = merged(old, body)
    if gates:
        gone = {gate["name"] for gate in gates if gate.get("$patch") == "delete"}
        left = [gate for gate in new["spec"].get("schedulingGates") or [] if gate["name"] not in gone]
        new["spec"] = merged(new["spec"], {"schedulingGates": left or None})
    if told:
        had = new["status"].get("conditions") or []
        by_type = {condition["type"]: condition for condition in [*had, *told]}
        new["status"] = {**new["status"], "conditions": [*by_type.values()]}
    if finalizers:
        had = new["metadata"].get("finalizers") or []
        new["metadata"] = {**new["metadata"], "finalizers": [*had, *(f for f in finalizers if f not in had)]}
    return new


def applied(old: Json, body: Json) -> Json:
    """Apply the status of a ResourceClaim (server-side apply) by one field manager.

    Devices are a list by their names, and the conditions of each a list by type.
    """
    status = dict(old.get("status") or {})
    devices = {_name(entry): entry for entry in status.get("devices") or []}
    for entry in body.get("status", {}).get("devices") or []:
        before = devices.get(_name(entry), {})
        conditions = {c["type"]: c for c in [*(before.get("conditions") or []), *(entry.get("conditions") or [])]}
        devices[_name(entry)] = {**before, **entry, "conditions": list(conditions.values())}
    return {**old, "status": {**status, "devices": list(devices.values())}}


def _name(entry: Json) -> tuple[str, str, str]:
    return entry["driver"], entry["pool"], entry["device"]


def of_allocation(claim: Json) -> Json:
    """Return a ResourceClaim without states of devices that it is no longer allocated, as the API
    server does.
    """
    status = claim.get("status") or {}
    if not status.get("devices"):
        return claim
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    names = {_name(result) for result in results}
    left = [entry for entry in status["devices"] if _name(entry) in names]
    return {**claim, "status": merged(status, {"devices": left or None})}
