# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A store's values are always those of its objects, whatever came, went, or could not be read."""

from __future__ import annotations

import random
import traceback
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.watch.typed_store import TypedStore

Json = dict[str, t.Any]


def obj(name: str, version: int, node: str = "n0", size: object = 1) -> Json:
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "spec": {"node": node, "size": size}}


def read(raw: Json) -> tuple[str, int]:
    """The value that the tests read: a size that is no number cannot be read."""
    return raw["metadata"]["name"], int(raw["spec"]["size"])


@pytest.fixture
def store() -> TypedStore[tuple[str, int]]:
    return TypedStore({"node": lambda raw: (raw["spec"]["node"],)}, read)


def test_each_object_is_read_once(store: TypedStore[tuple[str, int]]) -> None:
    store.upsert(obj("a", 1))
    assert store.value("a") is store.value("a")
    assert store.values("node", "n0") == [("a", 1)]
    store.upsert(obj("a", 2, "n1", 5))
    assert (store.value("a"), store.values("node", "n0"), store.values("node", "n1")) == (("a", 5), [], [("a", 5)])
    store.upsert(obj("a", 1))
    assert store.value("a") == ("a", 5), "an older version changes nothing"
    store.remove(obj("a", 3))
    assert store.value("a") is None
    assert list(store.each_value()) == []


def test_an_object_that_cannot_be_read_hides_no_other_and_is_not_forgotten(store: TypedStore[tuple[str, int]]) -> None:
    store.replace_all([obj("a", 1), obj("b", 1, size="many")])
    assert store.values("node", "n0") == [("a", 1)]
    assert store.value("b") is None
    assert store.each_value() == [("a", 1)]
    assert sorted(store.names_at("node", "n0")) == ["a", "b"]
    with pytest.raises(ValueError, match="many"):
        store.checked("node", "n0")
    store.upsert(obj("b", 2, size=7))
    assert sorted(store.checked("node", "n0")) == [("a", 1), ("b", 7)]


def test_an_error_that_is_raised_again_and_again_does_not_grow(store: TypedStore[tuple[str, int]]) -> None:
    store.upsert(obj("b", 1, size="many"))
    lengths = set()
    for _unused in range(3):
        with pytest.raises(ValueError, match="many") as caught:
            store.checked("node", "n0")
        lengths.add(len(traceback.extract_tb(caught.value.__traceback__)))
    assert len(lengths) == 1


def test_values_are_those_of_the_objects_after_any_history(rng: random.Random) -> None:
    store = TypedStore({"node": lambda raw: (raw["spec"]["node"],)}, read)
    for version in range(1, 400):
        made = obj(rng.choice("abcdef"), version, rng.choice(["n0", "n1"]), rng.choice([1, 2, "many"]))
        match rng.randrange(8):
            case 0:
                store.remove(made)
            case 1:
                store.replace_all([obj(name, version) for name in "abc"], str(version))
            case _:
                store.upsert(made)
        for node in ("n0", "n1"):
            readable = [raw for raw in store.by("node", node) if raw["spec"]["size"] != "many"]
            assert store.values("node", node) == [read(raw) for raw in readable]
        assert len(store.each_value()) == sum(raw["spec"]["size"] != "many" for raw in store.list())
