# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse bodies and queries of FM requests.

The check is strict, so that a client that drifts from the format fails here first.
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass

from ..shared.fsas.errors import FsasError

_CONDITION: t.Final = ("column", "operator", "value")


@dataclass(frozen=True, slots=True)
class UpdateBody:
    """The one resource that an update names, as a model to attach or a uid to detach."""

    kind: str
    model: str = ""
    uid: str = ""


def attach_update(body: t.Any, tenant: str, machine_uid: str) -> UpdateBody:
    """Parse ``res_specs[0]`` of a PATCH …/update. Raises FsasError."""
    leaf, where = _leaf(body, tenant, machine_uid, ("res_type", "res_spec", "res_num"))
    spec = _mapping(leaf["res_spec"], f"{where}.res_spec", ("condition",))
    condition = _only(spec["condition"], f"{where}.res_spec.condition")
    return UpdateBody(_text(leaf, "res_type", where), model=model_of(condition, f"{where}.res_spec.condition[0]"))


def detach_update(body: t.Any, tenant: str, machine_uid: str) -> UpdateBody:
    """Parse ``res_specs[0]`` of a DELETE …/update. Raises FsasError."""
    leaf, where = _leaf(body, tenant, machine_uid, ("res_type", "res_uuid", "res_num"))
    return UpdateBody(_text(leaf, "res_type", where), uid=_text(leaf, "res_uuid", where))


def queried_model(query: t.Mapping[str, str]) -> tuple[str, str]:
    """Return ``res_type`` and the model of ``condition``, which is JSON text. Raises FsasError."""
    if not query.get("res_type"):
        raise FsasError.malformed("res_type", "it is required")
    try:
        condition = json.loads(query.get("condition", ""))
    except ValueError:
        raise FsasError.malformed("condition", "it must be JSON") from None
    return query["res_type"], model_of(condition, "condition")


def model_of(condition: t.Any, where: str) -> str:
    """Return the value of ``{"column": "model", "operator": "eq", "value": …}``.

    Raises FsasError.
    """
    found = _mapping(condition, where, _CONDITION)
    for key, wanted in (("column", "model"), ("operator", "eq")):
        if found[key] != wanted:
            raise FsasError.malformed(f"{where}.{key}", f"it must be {wanted}")
    return _text(found, "value", where)


def _leaf(
    body: t.Any, tenant: str, machine_uid: str, keys: tuple[str, ...]
) -> tuple[dict[str, t.Any], str]:
    tenants = _mapping(_mapping(body, "body", ("tenants",))["tenants"], "tenants", ("tenant_uuid", "machines"))
    _equals(tenants, "tenant_uuid", tenant, "tenants")
    where = "tenants.machines"
    machine = _mapping(_only(tenants["machines"], where), f"{where}[0]", ("mach_uuid", "resources"))
    _equals(machine, "mach_uuid", machine_uid, f"{where}[0]")
    where += "[0].resources"
    resource = _mapping(_only(machine["resources"], where), f"{where}[0]", ("res_specs",))
    where += "[0].res_specs"
    leaf = _mapping(_only(resource["res_specs"], where), f"{where}[0]", keys)
    if leaf["res_num"] != 1 or isinstance(leaf["res_num"], bool):
        raise FsasError.malformed(f"{where}[0].res_num", "it must be 1")
    return leaf, f"{where}[0]"


def _mapping(value: t.Any, where: str, keys: tuple[str, ...]) -> dict[str, t.Any]:
    if not isinstance(value, dict):
        raise FsasError.malformed(where, "it must be an object")
    for key in keys:
        if key not in value:
            raise FsasError.malformed(f"{where}.{key}", "it is required")
    for key in value:
        if key not in keys:
            raise FsasError.malformed(f"{where}.{key}", "it is not a known field")
    return value


def _only(value: t.Any, where: str) -> t.Any:
    if not isinstance(value, list) or len(value) != 1:
        raise FsasError.malformed(where, "it must be a list with one entry")
    return value[0]


def _text(mapping: dict[str, t.Any], key: str, where: str) -> str:
    value = mapping[key]
    if not isinstance(value, str) or not value:
        raise FsasError.malformed(f"{where}.{key}", "it must be a text and not empty")
    return value


def _equals(mapping: dict[str, t.Any], key: str, wanted: str, where: str) -> None:
    if mapping[key] != wanted:
        raise FsasError.malformed(f"{where}.{key}", "it differs from the request's path or query")
