# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin's pods as a watch tells of them, and the appointments that follow."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from ansible_collections.composable.infra.lab.api import Api
from ansible_collections.composable.infra.lab.hardware.plugin import daemonset
from ansible_collections.composable.infra.lab.hardware.plugin.appointments import Appointments
from ansible_collections.composable.infra.lab.hardware.plugin.pods import PodWatcher, running_on
from ansible_collections.composable.infra.lab.hardware.run import Beginnings


def pod(uid: str, node: str = "node-0", phase: str = "Running", deleted: bool = False) -> dict[str, Any]:
    metadata = {"uid": uid, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}


@pytest.fixture
def seen() -> list[tuple[str, str | None]]:
    return []


@pytest.fixture
def watcher(seen: list[tuple[str, str | None]]) -> PodWatcher:
    return PodWatcher(cast(Api, None), lambda node, uid: seen.append((node, uid)), lambda line: None)


@pytest.mark.parametrize(("body", "node"), [
    (pod("a"), "node-0"), (pod("a", phase="Pending"), None), (pod("a", deleted=True), None),
    ({"metadata": {"uid": "a"}, "spec": {}, "status": {"phase": "Running"}}, None),
])
def test_which_pod_runs(body: dict[str, Any], node: str | None) -> None:
    assert running_on(body) == node


def test_pod_begins_once_and_ends_once(watcher: PodWatcher, seen: list[tuple[str, str | None]]) -> None:
    for kind, body in (("ADDED", pod("a", phase="Pending")), ("MODIFIED", pod("a")), ("MODIFIED", pod("a")),
                       ("MODIFIED", pod("a", deleted=True)), ("DELETED", pod("a"))):
        watcher.see(kind, body)
    assert seen == [("node-0", "a"), ("node-0", None)]


def test_end_of_a_pod_after_its_successor_began_changes_nothing(
    watcher: PodWatcher, seen: list[tuple[str, str | None]]
) -> None:
    watcher.see("ADDED", pod("a"))
    watcher.see("ADDED", pod("b"))
    watcher.see("DELETED", pod("a"))
    assert seen == [("node-0", "a"), ("node-0", "b")]


def test_new_list_tells_what_was_missed(watcher: PodWatcher, seen: list[tuple[str, str | None]]) -> None:
    watcher.take({"a": "node-0", "b": "node-1"})
    seen.clear()
    watcher.take({"c": "node-0", "b": "node-1"})
    assert seen == [("node-0", None), ("node-0", "c")]


def test_objects_are_those_of_the_vendors_chart() -> None:
    namespace, account, daemon_set = daemonset.documents()
    template = daemon_set["spec"]["template"]
    assert namespace["metadata"]["name"] == daemon_set["metadata"]["namespace"] == "dra-driver-nvidia-gpu"
    assert daemon_set["metadata"]["name"] == "dra-driver-nvidia-gpu-kubelet-plugin"
    assert template["metadata"]["labels"] == daemon_set["spec"]["selector"]["matchLabels"]
    assert template["metadata"]["labels"] == {"app.kubernetes.io/name": "dra-driver-nvidia-gpu",
                                              "dra-driver-nvidia-gpu-component": "kubelet-plugin"}
    assert template["spec"]["serviceAccountName"] == account["metadata"]["name"]


def test_node_is_looked_at_when_it_is_due_and_not_before() -> None:
    looks, done = list[str](), threading.Event()

    def look(node: str) -> None:
        looks.append(node)
        if node == "late":
            done.set()

    appointments = Appointments(look, 1)
    appointments.start()
    appointments.make("late", 0.1)
    appointments.make("soon", 0.02)
    appointments.make("now")
    assert done.wait(10)
    assert looks == ["now", "soon", "late"]


def test_all_parts_must_begin_and_it_is_told_once() -> None:
    told: list[None] = []
    beginnings = Beginnings(("fabric", "plugins"), lambda: told.append(None))
    beginnings.begun("fabric")
    beginnings.begun("fabric")
    assert not told
    beginnings.begun("plugins")
    beginnings.begun("plugins")
    assert len(told) == 1
