# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the server-side apply body that sets binding conditions (KEP-5007) on an allocated claim.

The body has the claim's UID and resourceVersion as preconditions. A condition is therefore written
only to the allocation for which it was decided. If the claim has changed, the API server answers
Conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..api_resources import CLAIMS, Object

MESSAGE_LIMIT = 32768
_KEYS = ("driver", "pool", "device", "shareID")


def device_conditions(
    claim: Object,
    type_: str,
    status: str,
    reason: str,
    message: str,
    now: str,
    results: Callable[[Object], bool] | None = None,
) -> Object:
    """Return the body for ``Client.apply(CLAIMS, ..., subresource="status")`` with one condition on
    a claim's devices.

    ``claim``: the claim for which the condition was decided. ``type_``, ``status`` ("True",
    "False", "Unknown"), ``reason``, ``message``: as in metav1.Condition. ``now`` (RFC 3339,
    seconds): becomes lastTransitionTime if the status changes. ``results``: selects among the
    allocation results with binding conditions (default: all).

    Existing binding conditions of those devices are repeated, because apply removes the fields that
    its manager no longer names. Raise ValueError if there is nothing to write.
    """
    new = {"type": type_, "status": status, "reason": reason, "message": message[:MESSAGE_LIMIT]}
    devices: dict[tuple[Any, ...], Object] = {}
    for result in _bound(claim):
        wanted = results is None or results(result)
        conditions = _merged(_present(claim, result), new, now) if wanted else _present(claim, result)
        if conditions:
            named = {name: result[name] for name in _KEYS if result.get(name)}
            devices[_key(result)] = {**named, "conditions": conditions}
    if not devices:
        raise ValueError("no allocated device of the claim has binding conditions")
    return _body(claim, list(devices.values()))


def already_set(claim: Object, type_: str, status: str = "True") -> bool:
    """Return whether every result with binding conditions has the condition with this status.

    Return False if there are no such results.
    """
    bound = _bound(claim)
    return bool(bound) and all(
        any(c.get("type") == type_ and c.get("status") == status for c in _conditions(claim, result))
        for result in bound
    )


def _body(claim: Object, devices: list[Object]) -> Object:
    meta = claim["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion")
    return {
        "apiVersion": CLAIMS.group_version,
        "kind": CLAIMS.kind,
        "metadata": {name: meta[name] for name in kept if meta.get(name)},
        "status": {"devices": devices},
    }


def _bound(claim: Object) -> list[Object]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or []
    return [result for result in results if result.get("bindingConditions")]


def _key(device: Object) -> tuple[Any, ...]:
    return tuple(device.get(name) or None for name in _KEYS)


def _conditions(claim: Object, result: Object) -> list[Object]:
    for device in (claim.get("status") or {}).get("devices") or []:
        if _key(device) == _key(result):
            return list(device.get("conditions") or [])
    return []


def _present(claim: Object, result: Object) -> list[Object]:
    ours = {*result["bindingConditions"], *(result.get("bindingFailureConditions") or [])}
    return [condition for condition in _conditions(claim, result) if condition.get("type") in ours]


def _merged(present: list[Object], new: Object, now: str) -> list[Object]:
    old = next((condition for condition in present if condition["type"] == new["type"]), {})
    since = old.get("lastTransitionTime") if old.get("status") == new["status"] else None
    new = new | {"lastTransitionTime": since or now}
    if not old:
        return [*present, new]
    # Keep its place. Another order would be a change, and a write, to the API server.
    return [new if condition is old else condition for condition in present]
