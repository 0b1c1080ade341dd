# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A store's values are always those of its objects, whatever came, went, or could not be read."""

from __future__ import annotations

import random
import traceback
import typing as t
from dataclasses import dataclass, field

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.watch.value_store import ValueStore
from ansible_collections.composable.infra.plugins.module_utils.model.value import Unreadable, Value

Json = dict[str, t.Any]


@dataclass(frozen=True, slots=True)
class Sized(Value):
    """A value with the size of an object."""

    name: str
    size: int
    node: str = field(default="", compare=False)
    version: str = field(default="", compare=False)
    namespace: str = ""

    def as_object(self) -> Json:
        return obj(self.name, int(self.version), self.node, self.size)


def obj(name: str, version: int, node: str = "n0", size: object = 1) -> Json:
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "spec": {"node": node, "size": size}}


def read(raw: Json) -> Sized:
    """The value that the tests read: a size that is no number cannot be read."""
    meta, spec = raw["metadata"], raw["spec"]
    return Sized(meta["name"], int(spec["size"]), spec["node"], meta["resourceVersion"])


@pytest.fixture
def store() -> ValueStore[Sized]:
    return ValueStore({"node": lambda found: (found.node,), "size": lambda found: (found.size,)}, read,
                      {"node": lambda raw: (raw["spec"]["node"],)})


def test_each_object_is_read_once(store: ValueStore[Sized]) -> None:
    store.upsert(obj("a", 1))
    assert store.value("a") is store.value("a")
    assert store.values("node", "n0") == [Sized("a", 1)]
    store.upsert(obj("a", 2, "n1", 5))
    assert store.value("a") == Sized("a", 5)
    assert (store.values("node", "n0"), store.values("node", "n1")) == ([], [Sized("a", 5)])
    store.upsert(obj("a", 1))
    assert store.value("a") == Sized("a", 5), "an older version changes nothing"
    store.remove(obj("a", 3))
    assert store.value("a") is None
    assert store.each_value() == []


def test_an_object_that_cannot_be_read_hides_no_other_and_is_not_forgotten(store: ValueStore[Sized]) -> None:
    store.replace_all([obj("a", 1), obj("b", 1, size="many")])
    assert store.values("node", "n0") == [Sized("a", 1)]
    assert store.value("b") is None
    assert store.each_value() == [Sized("a", 1)]
    assert sorted(store.names_at("node", "n0")) == ["a", "b"]
    assert store.unreadable() == ["b"]
    assert store.keys("size") == (1,), "an index that needs a value does not find it"
    for read_again in (lambda: store.checked("node", "n0"), lambda: store.checked_value("b")):
        with pytest.raises(ValueError, match="many"):
            read_again()
    store.upsert(obj("b", 2, size=7))
    assert store.checked("node", "n0") == [Sized("a", 1), Sized("b", 7)]
    assert (store.checked_value("b"), store.checked_value("c")) == (Sized("b", 7), None)


def test_store_gives_the_object_of_each_value_and_of_what_cannot_be_read(store: ValueStore[Sized]) -> None:
    objects = [obj("a", 1), obj("b", 1, size="many")]
    store.replace_all([obj("a", 1), obj("b", 1, size="many")])
    assert store.list() == objects
    assert isinstance(store.stored("b"), Unreadable)
    assert store.trimmed(store.stored("b")) is store.stored("b")


def test_an_error_that_is_raised_again_and_again_does_not_grow(store: ValueStore[Sized]) -> None:
    store.upsert(obj("b", 1, size="many"))
    lengths = set()
    for _unused in range(3):
        with pytest.raises(ValueError, match="many") as caught:
            store.checked("node", "n0")
        lengths.add(len(traceback.extract_tb(caught.value.__traceback__)))
    assert len(lengths) == 1


def test_values_are_those_of_the_objects_after_any_history(store: ValueStore[Sized], rng: random.Random) -> None:
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
            there = [raw for raw in store.list() if raw["spec"]["node"] == node]
            readable = [read(raw) for raw in there if raw["spec"]["size"] != "many"]
            assert sorted(store.names_at("node", node)) == sorted(raw["metadata"]["name"] for raw in there)
            assert sorted(store.values("node", node), key=lambda each: each.name) == sorted(
                readable, key=lambda each: each.name)
        assert len(store.each_value()) == sum(raw["spec"]["size"] != "many" for raw in store.list())
