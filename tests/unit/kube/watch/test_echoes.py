# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a store has from a write comes back by the watch: it is told as an echo, and is in memory once."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import PODS, Object
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.reflector import Reflector
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store


def pod(version: str, phase: str = "Pending") -> Object:
    return {"metadata": {"name": "train", "namespace": "jobs", "uid": "u", "resourceVersion": version},
            "status": {"phase": phase}}


class Watched:
    """A reflector whose events the test gives, in place of its thread."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, Object, Object | None]] = []
        self.trimmed = 0
        self.store = Store({}, trim=self._trim)
        self.reflector = Reflector(t.cast(Client, None), PODS, self.store,
                                   lambda kind, obj, old: self.told.append(("change", kind, obj, old)),
                                   on_echo=lambda kind, obj, old: self.told.append(("echo", kind, obj, old)))

    def _trim(self, obj: Object) -> Object:
        self.trimmed += 1
        return obj

    def event(self, kind: str, obj: Object) -> tuple[str, str, Object, Object | None]:
        """What is told of an event."""
        self.reflector._take({"type": kind, "object": obj})
        return self.told[-1]


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_what_was_written_comes_back_as_an_echo_and_is_kept_once(watched: Watched) -> None:
    _how, _kind, first, _old = watched.event("ADDED", pod("1"))
    watched.store.upsert(pod("2"))
    trimmed = watched.trimmed
    how, kind, obj, old = watched.event("MODIFIED", pod("2"))
    assert (how, kind) == ("echo", "MODIFIED")
    assert obj is watched.store.get("train", "jobs")
    assert old == first, "the listener is told what it was told last, not what was written meanwhile"
    assert watched.trimmed == trimmed
    how, _kind, _obj, old = watched.event("MODIFIED", pod("3"))
    assert how == "change"
    assert old is obj


def test_what_was_created_comes_back_as_an_echo(watched: Watched) -> None:
    watched.store.upsert(pod("1"))
    how, kind, _obj, old = watched.event("ADDED", pod("1"))
    assert (how, kind, old) == ("echo", "ADDED", None)


def test_an_event_from_before_a_write_is_a_change(watched: Watched) -> None:
    watched.event("ADDED", pod("1"))
    watched.store.upsert(pod("3", "Running"))
    how, _kind, obj, _old = watched.event("MODIFIED", pod("2", "Pending"))
    assert how == "change"
    assert obj["metadata"]["resourceVersion"] == "2"
    kept = watched.store.get("train", "jobs")
    assert kept is not None
    assert kept["status"]["phase"] == "Running"


def test_objects_without_an_order_are_always_changes(watched: Watched) -> None:
    watched.store.upsert(pod("opaque"))
    assert watched.event("ADDED", pod("opaque"))[0] == "change"


def test_a_deletion_is_no_echo(watched: Watched) -> None:
    watched.event("ADDED", pod("1"))
    watched.store.upsert(pod("2"))
    assert watched.event("DELETED", pod("2"))[:2] == ("change", "DELETED")
    assert watched.store.get("train", "jobs") is None


def test_a_list_that_has_what_was_written_shares_it(watched: Watched) -> None:
    watched.store.upsert(pod("2"))
    watched.store.upsert(pod("2"))
    watched.reflector._take_list({("jobs", "train")}, "2")
    assert watched.told[-1][0] == "change", "after a list everything is looked at"
    assert watched.told[-1][2] is watched.store.get("train", "jobs")


def test_a_list_that_is_read_once_more_makes_no_second_copy(watched: Watched) -> None:
    watched.event("ADDED", pod("1"))
    first = watched.store.get("train", "jobs")
    watched.store.take_listed(pod("1"))
    assert watched.store.get("train", "jobs") is first
    watched.store.take_listed(pod("2"))
    kept = watched.store.get("train", "jobs")
    assert kept is not None
    assert kept["metadata"]["resourceVersion"] == "2"
