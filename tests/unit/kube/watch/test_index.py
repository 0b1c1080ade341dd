# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An index finds the keys of a place, however many they are and however it keeps them, in few bytes."""

from __future__ import annotations

import random
import tracemalloc
import typing as t
from collections.abc import Callable, Hashable, Iterable

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.watch.index import Index
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.keys import Key
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store

Object = dict[str, t.Any]
MANY = 40


def places(obj: Object) -> Iterable[Hashable]:
    return (obj["spec"]["place"],)


def key(number: int) -> Key:
    return "jobs", f"train-{number}"


def obj(name: str, place: Hashable, version: int = 1) -> Object:
    return {"metadata": {"name": name, "namespace": "jobs", "resourceVersion": str(version)}, "spec": {"place": place}}


def names(found: Iterable[Object]) -> list[str]:
    return [each["metadata"]["name"] for each in found]


@pytest.fixture
def index() -> Index:
    return Index(places)


class TestKeysOfAPlace:
    def test_there_are_none_at_first(self, index: Index) -> None:
        assert not index.at("a")
        index.discard("a", key(0))
        assert not index.at("a")

    @pytest.mark.parametrize("count", [1, 2, 16, 17, MANY])
    def test_they_are_in_the_order_in_which_they_came(self, index: Index, count: int) -> None:
        for number in range(count):
            index.add("a", key(number))
        assert list(index.at("a")) == [key(number) for number in range(count)]
        assert not index.at("b")

    @pytest.mark.parametrize("count", [1, 2, 16, 17, MANY])
    def test_one_that_comes_again_is_there_once(self, index: Index, count: int) -> None:
        for number in [*range(count), *range(count)]:
            index.add("a", key(number))
        assert len(index.at("a")) == count

    @pytest.mark.parametrize("count", [1, 2, 16, 17, MANY])
    def test_the_others_stay_when_one_goes(self, index: Index, count: int) -> None:
        for number in range(count):
            index.add("a", key(number))
        index.discard("a", key(0))
        index.discard("a", key(MANY + 1))
        assert list(index.at("a")) == [key(number) for number in range(1, count)]

    def test_a_key_may_be_at_several_places(self, index: Index) -> None:
        index.add("a", key(1))
        index.add("b", key(1))
        index.discard("a", key(1))
        assert not index.at("a")
        assert list(index.at("b")) == [key(1)]

    @pytest.mark.parametrize("seed", range(5))
    def test_after_any_changes_they_are_those_of_a_plain_table(self, index: Index, seed: int) -> None:
        chance, table = random.Random(seed), dict[str, dict[Key, None]]()
        for _change in range(2000):
            place, one = chance.choice("abc"), key(chance.randrange(MANY))
            if chance.random() < 0.5:
                index.add(place, one)
                table.setdefault(place, {})[one] = None
            else:
                index.discard(place, one)
                table.get(place, {}).pop(one, None)
        assert {place: list(index.at(place)) for place in "abc"} == {
            place: list(table.get(place, ())) for place in "abc"}


class TestPlaces:
    def test_those_where_something_is(self) -> None:
        index = Index(places)
        for place in ("a", ("driver", "pool"), 5.0):
            index.add(place, key(1))
        index.discard("a", key(1))
        assert set(index.places()) == {("driver", "pool"), 5.0}

    def test_the_name_of_a_node_is_in_memory_once(self) -> None:
        first, second = Index(places), Index(places)
        for index in (first, second):
            index.add("".join(["work", "er-1"]), key(1))
            index.add(("".join(["gpu.", "example"]), "".join(["work", "er-1"])), key(1))
        (name, pair), (same, same_pair) = first.places(), second.places()
        assert name is same
        assert t.cast("tuple[str, str]", pair)[1] is t.cast("tuple[str, str]", same_pair)[1] is name


def test_whether_a_place_has_something() -> None:
    store = Store({"place": places})
    assert not store.has("place", "a")
    store.upsert(obj("x", "a"))
    assert store.has("place", "a")
    store.remove(obj("x", "a", 2))
    assert not store.has("place", "a")


def taken(indexer: Callable[[Object], Iterable[Hashable]], found: list[tuple[Hashable, Key]]) -> float:
    """Bytes that an index needs for an entry, besides its place and its key."""
    index = Index(indexer)
    tracemalloc.start()
    for place, one in found:
        index.add(place, one)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size / len(found)


def test_the_few_keys_of_a_place_take_little() -> None:
    found: list[tuple[Hashable, Key]] = [(n // 10, key(n)) for n in range(10_000)]
    assert taken(places, found) < 25
