# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing but managed fields is ever lost, whatever the objects hold."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.client import managed_fields

TEXTS = ("a", "", "}]", '"', "\\", '\\"', '"managedFields":[{', ',"managedFields":[{}]', "[", "]", "{", "\n", "\u00e4")
FIELDS = {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, 'k:{"name":"x"}': {".": {}}}


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def managed(fields: Any = None) -> list[dict[str, Any]]:
    entry = {"manager": "kubectl", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields or FIELDS}
    return [entry, {**entry, "manager": "kubelet", "subresource": "status"}]


def test_managed_fields_are_cut_out_wherever_they_stand() -> None:
    for meta in (
        {"name": "n", "managedFields": managed()},
        {"managedFields": managed(), "name": "n"},
        {"labels": {"a": "b"}, "managedFields": managed(), "name": "n"},
        {"managedFields": managed()},
    ):
        spec = {"list": [1, {"x": [2]}]}
        text = compact({"metadata": meta, "spec": spec})
        wanted = {"metadata": {k: v for k, v in meta.items() if k != "managedFields"}, "spec": spec}
        assert b"managedFields" not in managed_fields.without_managed_fields(text)
        assert managed_fields.loads(text) == wanted


def test_every_item_of_a_list_is_lean() -> None:
    items = [{"metadata": {"name": str(n), "managedFields": managed()}, "spec": {}} for n in range(5)]
    found = managed_fields.loads(compact({"items": items}))
    assert found == {"items": [{"metadata": {"name": str(n)}, "spec": {}} for n in range(5)]}


@pytest.mark.parametrize(
    "meta",
    [
        {"managedFields": []},
        {"managedFields": [{"time": "no fields"}], "other": [{}]},
        {"managedFields": managed({"v:[1]": {}})},
        {"managedFields": managed({"v:\\": {}})},
        {"managedFields": managed({"v:}]": {}})},
        {"managedFields": managed({"nested": [{}]})},
        {"managedFields": "text"},
        {"managedFields": {"fieldsType": "FieldsV1", "x": [{}]}},
        {"managedFields": [[{"fieldsType": "FieldsV1"}]]},
    ],
)
def test_where_the_end_is_not_certain_the_field_stays(meta: dict[str, Any]) -> None:
    whole = {"items": [{"metadata": meta, "spec": {"fieldsType": "FieldsV1", "a": [{"b": "c"}]}}]}
    found = managed_fields.loads(compact(whole))
    assert found in (whole, {"items": [{"metadata": {k: v for k, v in meta.items() if k != "managedFields"},
                                        "spec": whole["items"][0]["spec"]}]})


def test_text_that_only_looks_like_managed_fields_stays() -> None:
    for text in ('"managedFields":[{"fieldsType":"FieldsV1"}]', 'x,"managedFields":[{"fieldsType":"FieldsV1"}]'):
        value = {"metadata": {"annotations": {"note": text, text: "key"}}}
        assert managed_fields.loads(compact(value)) == value


def grown(rng: random.Random, depth: int) -> Any:
    """Any JSON, with managed fields in unlikely places and texts full of traps."""
    kind = rng.randrange(5) if depth else 0
    if kind in (0, 1):
        return rng.choice((*TEXTS, 1, None, True))
    if kind == 2:
        return [grown(rng, depth - 1) for _unused in range(rng.randrange(4))]
    made = {rng.choice(TEXTS) + str(n): grown(rng, depth - 1) for n in range(rng.randrange(4))}
    if rng.random() < 0.5:
        made["managedFields"] = rng.choice((managed(), managed({rng.choice(TEXTS): {}}), [], grown(rng, depth - 1)))
    return dict(rng.sample([*made.items()], len(made)))


def stripped(value: Any) -> Any:
    """Without any list of managed fields, so that two decodings can be compared."""
    if isinstance(value, list):
        return [stripped(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {k: stripped(v) for k, v in value.items() if not (k == "managedFields" and is_managed(v))}


def is_managed(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) and "fieldsV1" in item for item in value)


def test_any_json_keeps_all_the_rest(rng: random.Random) -> None:
    cuts = 0
    for _unused in range(600):
        value = {"metadata": grown(rng, 5)}
        text = compact(value)
        found = managed_fields.loads(text)
        assert stripped(found) == stripped(value)
        cuts += found != value
    assert cuts > 40


def test_lines_are_decoded_together_or_up_to_the_bad_one() -> None:
    values = [{"metadata": {"name": str(n), "managedFields": managed()}} for n in range(4)]
    lines = [compact(value) for value in values]
    assert list(managed_fields.loads_lines(lines)) == [{"metadata": {"name": str(n)}} for n in range(4)]
    assert list(managed_fields.loads_lines([])) == []
    found = iter(managed_fields.loads_lines([*lines[:2], b'{"cut": ', lines[3]]))
    assert [next(found), next(found)] == [{"metadata": {"name": "0"}}, {"metadata": {"name": "1"}}]
    with pytest.raises(ValueError, match="Expecting value"):
        next(found)


@pytest.mark.parametrize("lines", [[b"1,2"], [b"[1", b"2]"], [b"\xff"]])
def test_lines_that_make_sense_only_together_are_refused(lines: list[bytes]) -> None:
    with pytest.raises(ValueError, match=r"Extra data|Expecting|decode"):
        list(managed_fields.loads_lines(lines))
