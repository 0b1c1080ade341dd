# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulated FM accepts what the client sends and names the field of everything else."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest

from ansible_collections.composable.infra.emulator.dialects.fm.body import attach_update, detach_update, queried_model
from ansible_collections.composable.infra.emulator.dialects.shared.fsas.errors import MALFORMED, FsasError
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.fm.wire import attach_body, detach_body
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.fsas import read_error

ATTACH = attach_body("t", "m", "A100", "gpu")
DETACH = detach_body("t", "m", "d", "gpu")
LEAF = ("tenants", "machines", 0, "resources", 0, "res_specs", 0)
AT = "tenants.machines[0].resources[0].res_specs[0]"
CONDITION = (*LEAF, "res_spec", "condition")


def changed(body: t.Any, path: tuple[str | int, ...], value: t.Any) -> t.Any:
    """A copy with ``value`` at ``path``; without the last key when ``value`` is Ellipsis."""
    body = copy.deepcopy(body)
    parent = body
    for key in path[:-1]:
        parent = parent[key]
    if value is ...:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return body


def refusal(error: FsasError) -> dict[str, str]:
    assert (error.status, error.code) == (400, MALFORMED)
    return t.cast(dict[str, str], json.loads(error.message))


def test_what_the_client_sends_is_understood() -> None:
    assert (attach_update(ATTACH, "t", "m").kind, attach_update(ATTACH, "t", "m").model) == ("gpu", "A100")
    assert (detach_update(DETACH, "t", "m").kind, detach_update(DETACH, "t", "m").uid) == ("gpu", "d")


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("tenants",), ..., "body.tenants"),
        (("tenants",), [], "tenants"),
        (("more",), 1, "body.more"),
        (("tenants", "tenant_uuid"), "other", "tenants.tenant_uuid"),
        (("tenants", "machines"), [], "tenants.machines"),
        (("tenants", "machines"), {}, "tenants.machines"),
        (("tenants", "machines"), [{}, {}], "tenants.machines"),
        (("tenants", "machines", 0, "mach_uuid"), "other", "tenants.machines[0].mach_uuid"),
        (("tenants", "machines", 0, "resources"), None, "tenants.machines[0].resources"),
        (LEAF, "x", AT),
        ((*LEAF, "res_type"), "", f"{AT}.res_type"),
        ((*LEAF, "res_num"), 2, f"{AT}.res_num"),
        ((*LEAF, "res_num"), True, f"{AT}.res_num"),
        ((*LEAF, "res_num"), ..., f"{AT}.res_num"),
        ((*LEAF, "res_uuid"), "d", f"{AT}.res_uuid"),
        (CONDITION, [], f"{AT}.res_spec.condition"),
        ((*CONDITION, 0, "column"), "name", f"{AT}.res_spec.condition[0].column"),
        ((*CONDITION, 0, "operator"), "ne", f"{AT}.res_spec.condition[0].operator"),
        ((*CONDITION, 0, "value"), 7, f"{AT}.res_spec.condition[0].value"),
    ],
)
def test_a_malformed_attach_is_named(path: tuple[str | int, ...], value: t.Any, field: str) -> None:
    with pytest.raises(FsasError) as caught:
        attach_update(changed(ATTACH, path, value), "t", "m")
    assert refusal(caught.value)["field"] == field


@pytest.mark.parametrize("value", [..., "", 7])
def test_a_detach_without_a_device_is_named(value: t.Any) -> None:
    with pytest.raises(FsasError) as caught:
        detach_update(changed(DETACH, (*LEAF, "res_uuid"), value), "t", "m")
    assert refusal(caught.value)["field"].endswith("res_specs[0].res_uuid")


def test_the_query_for_what_is_available() -> None:
    condition = json.dumps({"column": "model", "operator": "eq", "value": "A100"})
    assert queried_model({"res_type": "gpu", "condition": condition}) == ("gpu", "A100")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({}, "res_type"),
        ({"res_type": "gpu"}, "condition"),
        ({"res_type": "gpu", "condition": "model=A100"}, "condition"),
        ({"res_type": "gpu", "condition": "[]"}, "condition"),
        ({"res_type": "gpu", "condition": '{"column": "model", "operator": "eq"}'}, "condition.value"),
    ],
)
def test_a_malformed_query_is_named(query: dict[str, str], field: str) -> None:
    with pytest.raises(FsasError) as caught:
        queried_model(query)
    assert refusal(caught.value)["field"] == field


def test_the_client_reads_the_emulated_errors() -> None:
    reply = FsasError.malformed("res_type", "it is required").response()
    assert isinstance(reply.text, str)
    said = read_error(json.loads(reply.text))
    assert said is not None
    assert (said.code, said.message) == (MALFORMED, "field: res_type, reason: it is required")
