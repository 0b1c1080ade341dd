# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events and log lines of an object: bounded, without credentials, and of nobody else."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.controller.ui.past import records as records_module
from ansible_collections.composable.infra.controller.ui.past.records import (
    BUSY,
    MOST_CHARACTERS,
    MOST_EVENTS,
    MOST_LINES,
    NOT_FOR_ONE,
    NOT_PERMITTED,
    Records,
    cleaned,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden, Unreachable
from ansible_collections.composable.infra.plugins.module_utils.kube.times import format_time
from ansible_collections.composable.infra.tests.unit.controller.ui.conftest import EVERYTHING, MINE, Looked, elsewhere
from ansible_collections.composable.infra.tests.unit.reconcile import objects

Json = dict[str, t.Any]
CLAIM, NODE = "claim/mine/train", "node/node-0"


class Server:
    """An API server: ``told`` is what it answers, ``asked`` what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.told: Json | Exception = {"items": []}

    def raw(self, _method: str, path: str, query: Json, limits: object) -> Json:
        self.asked.append((path, query["fieldSelector"]))
        if isinstance(self.told, Exception):
            raise self.told
        return self.told


def event(at: float = 1000.0, **more: t.Any) -> Json:
    return {"reason": "R", "message": "m", "type": "Normal", "lastTimestamp": format_time(at), **more}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def history() -> list[Json]:
    return []


@pytest.fixture
def records(looked: Looked, server: Server, history: list[Json]) -> Records:
    waiting = elsewhere(objects.pod("train"), "mine")
    other = elsewhere(objects.pod("other"), "mine")
    looked.put(elsewhere(objects.claim("train", pods=["worker"]), "mine"), waiting, other)
    return Records(looked.bench.state, t.cast(Client, server), lambda: tuple(history))


def test_events_of_a_claim_are_those_of_its_pods_too(records: Records, server: Server) -> None:
    server.told = {"items": [event(1.0), event(3.0), event(2.0)]}
    found = records.of(CLAIM, EVERYTHING)["events"]
    assert server.asked == [
        ("/api/v1/namespaces/mine/events",
         "involvedObject.kind=ResourceClaim,involvedObject.name=train,involvedObject.uid=mine-train"),
        ("/api/v1/namespaces/mine/events",
         "involvedObject.kind=Pod,involvedObject.name=worker,involvedObject.uid=pod-worker"),
        ("/api/v1/namespaces/mine/events",
         "involvedObject.kind=Pod,involvedObject.name=train,involvedObject.uid=mine-train")]
    assert [each["at"] for each in found] == [3.0] * 3 + [2.0] * 3 + [1.0] * 3


def test_events_of_both_generations_have_time_and_count(records: Records, server: Server) -> None:
    old = event(5.0, count=7, source={"component": "kubelet"})
    new = {"reason": "R", "message": "m", "eventTime": "1970-01-01T00:00:03.000000Z", "reportingComponent": "scheduler",
           "series": {"count": 4, "lastObservedTime": "1970-01-01T00:00:09.000000Z"}}
    server.told = {"items": [old, new]}
    found = records.of(NODE, EVERYTHING)["events"]
    assert [(each["at"], each["count"], each["from"]) for each in found] == [(9.0, 4, "scheduler"), (5.0, 7, "kubelet")]


def test_events_and_lines_are_bounded(records: Records, server: Server, history: list[Json]) -> None:
    server.told = {"items": [event(float(number), message="x" * 5000) for number in range(200)]}
    history += [{"time": float(number), "type": "Normal", "reason": "R", "about": "mine/train", "message": "y" * 5000,
                 "claims": []} for number in range(200)]
    found = records.of(CLAIM, EVERYTHING)
    assert (len(found["events"]), len(found["log"])) == (MOST_EVENTS, MOST_LINES)
    assert (found["events"][0]["at"], found["log"][0]["at"]) == (199.0, 199.0)
    assert max(len(each["message"]) for each in (*found["events"], *found["log"])) == MOST_CHARACTERS + 1


@pytest.mark.parametrize(("said", "shown"), [
    ("pull https://me:hunter2@registry/x failed", "pull https://***@registry/x failed"),
    ("sent Authorization: Bearer eyJhbGciOi", "sent Authorization: Bearer ***"),
    ("GET /x?token=abc&a=1", "GET /x?token=***&a=1"),
    ("node node-0: no route to 10.0.0.1:443", "node node-0: no route to 10.0.0.1:443")])
def test_credentials_are_left_out(said: str, shown: str) -> None:
    assert cleaned(said) == shown


def test_a_namespace_gets_neither(records: Records, server: Server) -> None:
    assert records.of(CLAIM, MINE) == {"note": NOT_FOR_ONE}
    assert records.of("claim/yours/train", MINE) == {}
    assert records.of(NODE, MINE) == {}
    assert server.asked == []


@pytest.mark.parametrize(("error", "note"), [
    (Forbidden(403, "Forbidden", "no"), NOT_PERMITTED),
    (Unreachable("connection refused"), "The Events could not be read: connection refused")])
def test_what_cannot_be_read_is_said_and_the_log_is_there(records: Records, server: Server, history: list[Json],
                                                          error: Exception, note: str) -> None:
    server.told = error
    history.append({"time": 1.0, "type": "Warning", "reason": "R", "about": "node node-0", "message": "m",
                    "claims": []})
    found = records.of(NODE, EVERYTHING)
    assert found["note"] == note
    assert [each["message"] for each in found["log"]] == ["node node-0: m"]


def test_many_pages_ask_the_api_server_once(looked: Looked, server: Server) -> None:
    now = [100.0]
    found = Records(looked.bench.state, t.cast(Client, server), tuple, lambda: now[0])
    for _page in range(50):
        found.of(NODE, EVERYTHING)
    assert len(server.asked) == 1
    now[0] += records_module.KEEP_SECONDS
    found.of(NODE, EVERYTHING)
    assert len(server.asked) == 2


def test_no_more_requests_at_once_than_allowed(records: Records) -> None:
    for _turn in range(records_module.AT_ONCE):
        assert records._turns.acquire(blocking=False)
    assert records.of(NODE, EVERYTHING)["note"] == BUSY


def test_lines_of_a_node_are_those_of_its_devices_too(records: Records, history: list[Json]) -> None:
    entry = {"time": 1.0, "type": "Normal", "reason": "R", "message": "m", "claims": []}
    history += [{**entry, "about": "gpu-a", "node": "node-0"}, {**entry, "about": "node operations of node node-0"},
                {**entry, "about": "gpu-b", "node": "node-00"}, {**entry, "about": "mine/node-0-pod"}]
    assert [each["message"] for each in records.of(NODE, EVERYTHING)["log"]] == [
        "node operations of node node-0: m", "gpu-a: m"]


def test_unknown_objects_have_no_events(records: Records, server: Server) -> None:
    assert records.of("node/evil,involvedObject.name=x", EVERYTHING) == {"events": [], "log": []}
    assert server.asked == []
