# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts that are alike are kept once, a part that is not like another stays what it is, and what is kept is bounded."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.watch.parts import (
    SharedParts,
    Trimmed,
    interned,
    metadata,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store


def part(**more: t.Any) -> dict[str, t.Any]:
    """A new one, as a decoder makes it."""
    found: dict[str, t.Any] = json.loads(json.dumps({"cpu": "4", "list": [1, None, {"a": True}], **more}))
    return found


def test_equal_parts_become_one() -> None:
    shared = SharedParts()
    first = part()
    assert shared(first) is first
    assert shared(part()) is first
    assert len(shared) == 1


@pytest.mark.parametrize(("one", "other"), [({"a": 1}, {"a": True}), ({"a": 1}, {"a": 1.0}), ({"a": 0}, {"a": False}),
                                            ({"a": []}, {"a": {}}), ({"a": None}, {}), ("a", "b"), ({}, [])])
def test_parts_that_differ_stay_two(one: t.Any, other: t.Any) -> None:
    shared = SharedParts()
    shared(one)
    found = shared(other)
    assert found == other
    assert json.dumps(found) == json.dumps(other)


def test_what_came_once_is_forgotten_and_what_is_alike_stays() -> None:
    shared = SharedParts(size=10)
    alike = shared(part())
    for number in range(1000):
        shared({"unique": number})
        assert shared(part()) is alike
        assert len(shared) <= 20


def test_a_part_of_another_kind_is_left_alone() -> None:
    strange = {"a": object()}
    with pytest.raises(ValueError, match="unmarshallable"):
        SharedParts()(strange)
    store = Store({}, trim=lambda obj: {"metadata": obj["metadata"], "spec": SharedParts()(obj["spec"])})
    store.upsert({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": strange})
    found = store.get("a")
    assert found is not None
    assert found["spec"] is strange


def test_an_object_is_trimmed_once() -> None:
    calls = []

    def trim(obj: dict[str, t.Any]) -> dict[str, t.Any]:
        calls.append(obj)
        return {"metadata": metadata(obj)}

    store = Store({}, trim=trim)
    kept: t.Any = store.trimmed({"metadata": {"name": "a", "resourceVersion": "1", "selfLink": "x"}, "spec": {}})
    store.replace_all([kept], "1")
    assert store.get("a") is kept
    assert kept == {"metadata": {"name": "a", "resourceVersion": "1"}}
    assert isinstance(kept, Trimmed)
    assert len(calls) == 1


def test_texts_of_interned_parts_are_in_memory_once() -> None:
    first, second = (interned(part(zone="rack-" + "7" * 3)) for _unused in range(2))
    assert first == second == part(zone="rack-777")
    assert first is not second
    assert first["zone"] is second["zone"]
    assert all(a is b for a, b in zip(first, second, strict=True))
