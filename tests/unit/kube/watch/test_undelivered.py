# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a listener was told last is known without a second copy of every object."""

from __future__ import annotations

import random
import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.watch.keys import version_of
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store

Json = dict[str, t.Any]
NAMES = ("a", "b", "c")


def obj(name: str, version: int) -> Json:
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": str(version)}}


@pytest.fixture
def store() -> Store:
    made = Store({}, trim=lambda raw: raw)
    made.note_told()
    return made


def told_version(store: Store, name: str) -> int | None:
    found = store.told(("ns", name))
    return None if found is None else version_of(found)


def test_it_agrees_with_a_copy_of_what_was_told(store: Store, rng: random.Random) -> None:
    told: dict[str, int] = {}
    for version in range(3, 400):
        name, step = rng.choice(NAMES), rng.randrange(4)
        if step == 0:
            store.upsert(obj(name, version))
        elif step == 1:
            store.remove(obj(name, version))
        elif step == 2:  # an event, at times of a version from before a write, and of 1 at least
            event = obj(name, version - rng.randrange(3))
            store.upsert(store.trimmed(event))
            store.tell(("ns", name), event)
            told[name] = version_of(event)
        else:
            store.remove(obj(name, version))
            store.tell(("ns", name), None)
            told.pop(name, None)
        assert {each: told_version(store, each) for each in NAMES} == {each: told.get(each) for each in NAMES}
        there = {each: None if (found := store.get(each, "ns")) is None else version_of(found) for each in NAMES}
        assert {name for _ns, name in store.undelivered()} == {n for n in NAMES if there[n] != told.get(n)}


def test_nothing_is_remembered_of_what_was_told(store: Store) -> None:
    for version in range(1, 50):
        store.upsert(obj(f"n{version}", version))
        store.tell(("ns", f"n{version}"), obj(f"n{version}", version))
    assert store._undelivered is not None
    assert store._undelivered._told == {}


def test_what_came_and_went_untold_is_forgotten(store: Store) -> None:
    store.upsert(obj("a", 1))
    store.upsert(obj("a", 2))
    assert store.undelivered() == {("ns", "a")}
    store.remove(obj("a", 3))
    assert store._undelivered is not None
    assert store._undelivered._told == {}


def test_without_a_listener_nothing_is_remembered() -> None:
    store = Store({}, trim=lambda raw: raw)
    store.upsert(obj("a", 1))
    assert store.told(("ns", "a")) is None
    assert store.undelivered() == set()
    store.note_told()
    assert store.undelivered() == {("ns", "a")}, "who listens from now on knows nothing yet"
