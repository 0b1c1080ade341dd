# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The store never goes back in time: not by a late event, a late write-through, or a list taken earlier."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.watch.keys import key_of, version_of
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store

Object = dict[str, Any]


def obj(name: str, version: int | str, node: str = "n0", namespace: str | None = "ns") -> Object:
    meta: Object = {"name": name, "resourceVersion": str(version)}
    if namespace:
        meta["namespace"] = namespace
    return {"metadata": meta, "spec": {"node": node}}


def nodes(item: Object) -> Iterable[str]:
    yield item["spec"]["node"]


@pytest.fixture
def store() -> Store:
    return Store({"node": nodes})


def names(items: Iterable[Object]) -> list[str]:
    return sorted(item["metadata"]["name"] for item in items)


def test_an_object_is_found_by_name_and_index(store: Store) -> None:
    first = obj("a", 1)
    assert store.upsert(first)
    assert store.get("a", "ns") is first
    assert store.get("a") is None
    assert store.at("node", "n0") == [first]
    assert store.at("node", "n1") == []
    assert store.list() == [first]
    assert len(store) == 1


def test_what_is_read_is_the_same_object_until_it_changes(store: Store) -> None:
    store.upsert(obj("a", 1))
    (before,) = store.at("node", "n0")
    assert not store.upsert(obj("a", 1))
    assert store.at("node", "n0")[0] is before
    assert store.stored("a", "ns") is before
    store.upsert(obj("a", 2))
    assert store.at("node", "n0")[0] is not before
    assert before["metadata"]["resourceVersion"] == "1"


def test_reading_one_by_one_gives_what_was_there_at_the_start(store: Store) -> None:
    for name in "abc":
        store.upsert(obj(name, 1))
    found = []
    for item in store.each():
        found.append(item["metadata"]["name"])
        store.remove(obj("c", 2))
    assert found == ["a", "b", "c"]
    assert (store.names(), store.all_keys()) == ({"a", "b"}, {("ns", "a"), ("ns", "b")})
    assert (store.count("node", "n0"), store.has("node", "n0"), store.has("node", "n1")) == (2, True, False)


def test_a_cluster_scoped_object_needs_no_namespace(store: Store) -> None:
    store.upsert(obj("a", 1, namespace=None))
    assert store.get("a") is not None


def test_an_unknown_index_is_an_error(store: Store) -> None:
    with pytest.raises(KeyError):
        store.at("colour", "red")


@pytest.mark.parametrize("version", [9, 10])
def test_what_is_not_newer_is_ignored(store: Store, version: int) -> None:
    store.upsert(obj("a", 10, "new"))
    assert not store.upsert(obj("a", version, "old"))
    assert store.at("node", "old") == []
    assert names(store.at("node", "new")) == ["a"]


def test_versions_are_numbers_not_text(store: Store) -> None:
    store.upsert(obj("a", 9))
    assert store.upsert(obj("a", 10))


def test_an_index_follows_a_change(store: Store) -> None:
    store.upsert(obj("a", 1, "n0"))
    store.upsert(obj("a", 2, "n1"))
    assert store.at("node", "n0") == []
    assert names(store.at("node", "n1")) == ["a"]


def test_a_late_write_through_does_not_bring_back_what_was_deleted(store: Store) -> None:
    store.upsert(obj("a", 5))
    assert store.remove(obj("a", 9))
    assert not store.upsert(obj("a", 8))
    assert len(store) == 0
    assert store.upsert(obj("a", 10))


def test_a_late_deletion_does_not_remove_the_successor(store: Store) -> None:
    store.upsert(obj("a", 20))
    assert not store.remove(obj("a", 15))
    assert store.get("a", "ns") is not None


def test_a_deletion_of_something_never_seen_is_remembered(store: Store) -> None:
    assert not store.remove(obj("a", 7))
    assert not store.upsert(obj("a", 6))


def test_replace_all_names_what_changed(store: Store) -> None:
    for item in (obj("same", 1), obj("gone", 2), obj("changed", 3)):
        store.upsert(item)
    changed = store.replace_all([obj("same", 1), obj("changed", 8), obj("new", 9)], "10")
    assert changed == {("ns", "gone"), ("ns", "changed"), ("ns", "new")}
    assert names(store.list()) == ["changed", "new", "same"]
    assert names(store.at("node", "n0")) == ["changed", "new", "same"]


def test_replace_all_keeps_what_was_written_after_the_list_was_taken(store: Store) -> None:
    store.upsert(obj("fresh", 11))
    store.upsert(obj("patched", 12, "new"))
    assert store.replace_all([obj("patched", 4, "old")], "10") == set()
    assert names(store.list()) == ["fresh", "patched"]
    assert names(store.at("node", "new")) == ["patched"]


def test_replace_all_does_not_bring_back_what_was_deleted_after_the_list_was_taken(store: Store) -> None:
    store.upsert(obj("a", 5))
    store.remove(obj("a", 11))
    assert store.replace_all([obj("a", 5)], "10") == set()
    assert len(store) == 0


def test_what_a_list_lacks_stays_deleted_for_late_write_throughs(store: Store) -> None:
    store.upsert(obj("a", 5))
    store.replace_all([], "10")
    assert not store.upsert(obj("a", 9))


def test_replace_all_without_a_version_replaces_everything(store: Store) -> None:
    store.upsert(obj("a", 50))
    assert store.replace_all([obj("b", 1)]) == {("ns", "a"), ("ns", "b")}


@pytest.mark.parametrize("version", ["", "abc", "-3", "1.5"])
def test_versions_that_cannot_be_ordered_count_as_newer(store: Store, version: str) -> None:
    store.upsert(obj("a", 5, "old"))
    assert version_of(obj("a", version)) == -1
    assert store.upsert(obj("a", version, "new"))
    assert names(store.at("node", "new")) == ["a"]


def test_an_indexer_that_raises_leaves_out_one_object_of_one_index() -> None:
    store = Store({"node": nodes, "name": lambda item: (item["metadata"]["name"],)})
    broken = {"metadata": {"name": "broken", "resourceVersion": "1"}}
    assert store.upsert(broken)
    store.upsert(obj("fine", 2))
    assert store.at("name", "broken") == [broken]
    assert names(store.at("node", "n0")) == ["fine"]
    assert store.remove(broken)


def test_an_indexer_that_gives_a_key_twice_or_none() -> None:
    store = Store({"k": lambda item: ("x", "x") if item["metadata"]["name"] == "a" else ()})
    store.upsert(obj("a", 1))
    store.upsert(obj("b", 2))
    assert names(store.at("k", "x")) == ["a"]
    store.remove(obj("a", 3))
    assert store.at("k", "x") == []


def test_deletions_are_forgotten_one_day(store: Store) -> None:
    store.remove(obj("first", 1_000_000))
    for number in range(10_000):
        store.remove(obj(f"o{number}", number))
    assert store.upsert(obj("first", 1))
    assert not store.upsert(obj("o9999", 1))


def test_any_order_of_the_same_history_ends_the_same(rng: random.Random) -> None:
    history: list[tuple[str, Object]] = []
    final: dict[str, Object] = {}
    for version in range(1, 300):
        item = obj(f"o{rng.randrange(8)}", version, f"n{rng.randrange(4)}")
        name = item["metadata"]["name"]
        if rng.random() < 0.25:
            history.append(("remove", item))
            final.pop(name, None)
        else:
            history.append(("upsert", item))
            final[name] = item
    shuffled = history + rng.choices(history, k=100)
    rng.shuffle(shuffled)
    store = Store({"node": nodes})
    for action, item in shuffled:
        getattr(store, action)(item)
    assert {item["metadata"]["name"]: item for item in store.list()} == final
    for node in range(4):
        expected = [item for item in final.values() if item["spec"]["node"] == f"n{node}"]
        assert names(store.at("node", f"n{node}")) == names(expected)


def test_threads_do_not_lose_anything(store: Store) -> None:
    def fill(thread: int) -> None:
        for number in range(200):
            store.upsert(obj(f"t{thread}-{number}", number + 1, f"n{number % 3}"))
            store.at("node", "n0")

    threads = [threading.Thread(target=fill, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store) == 1600
    assert sum(len(store.at("node", f"n{number}")) for number in range(3)) == 1600


def test_managed_fields_are_left_out(store: Store) -> None:
    item = obj("a", 1)
    item["metadata"]["managedFields"] = [{"manager": "x"}]
    store.upsert(item)
    assert store.list() == [obj("a", 1)]
    assert store.trimmed({"metadata": {"managedFields": []}}) == {"metadata": {}}


def test_what_is_kept_of_an_object_can_be_chosen() -> None:
    store = Store({"node": nodes}, lambda item: {"metadata": item["metadata"], "spec": {"node": item["spec"]["node"]}})
    item = {**obj("a", 1), "status": {"large": "x"}}
    assert store.upsert(item)
    assert store.get("a", "ns") == obj("a", 1)
    assert store.at("node", "n0") == [obj("a", 1)]
    assert store.replace_all([{**obj("a", 2), "status": {}}, {**obj("b", 2), "status": {}}], "3")
    assert sorted(store.list(), key=key_of) == [obj("a", 2), obj("b", 2)]


def test_an_object_that_cannot_be_trimmed_is_kept_whole() -> None:
    store = Store({}, lambda item: {"metadata": item["metadata"], "spec": item["spec"]})
    odd = {"metadata": {"name": "odd", "resourceVersion": "1"}}
    assert store.upsert(odd)
    assert store.get("odd") == odd


def test_key_of_an_object() -> None:
    assert key_of(obj("a", 1)) == ("ns", "a")
    assert key_of(obj("a", 1, namespace=None)) == ("", "a")


def rewound(store: Store, *, restored: bool) -> None:
    """The store had a at 30, b at 20, and a c that was deleted at 25 when a list began."""
    store.upsert(obj("a", 30))
    store.upsert(obj("b", 20))
    store.upsert(obj("c", 24))
    store.remove(obj("c", 25))
    store.rewind(restored=restored)


@pytest.mark.parametrize("restored", [False, True])
def test_a_list_after_a_restore_is_the_truth(store: Store, restored: bool) -> None:
    rewound(store, restored=restored)
    keys = {store.take(obj("a", 10, "n1")), store.take(obj("c", 11))}
    assert store.retain(keys, "12") == {("ns", "b")}
    assert {item["metadata"]["name"]: version_of(item) for item in store.list()} == {"a": 10, "c": 11}
    assert names(store.at("node", "n1")) == ["a"]
    assert store.upsert(obj("b", 13)), "what was dropped may be made again"
    assert store.upsert(obj("a", 13))


def test_a_version_may_be_that_of_another_content_after_a_restore(store: Store) -> None:
    rewound(store, restored=True)
    store.take(obj("b", 20, "n1"))
    assert names(store.at("node", "n1")) == ["b"]


def test_the_same_version_is_the_same_object_where_nothing_was_restored(store: Store) -> None:
    rewound(store, restored=False)
    kept = store.get("b", "ns")
    store.take(obj("b", 20))
    assert store.get("b", "ns") is kept


def test_what_is_written_through_while_a_list_is_taken_stays(store: Store) -> None:
    rewound(store, restored=False)
    assert store.upsert(obj("a", 31, "n2"))
    store.take(obj("a", 30))
    store.retain({("ns", "a")}, "30")
    assert names(store.at("node", "n2")) == ["a"]


def test_versions_count_again_after_the_list(store: Store) -> None:
    rewound(store, restored=True)
    store.take(obj("a", 10))
    store.retain({("ns", "a")}, "12")
    store.take(obj("a", 9, "n1"))
    assert store.at("node", "n1") == []
