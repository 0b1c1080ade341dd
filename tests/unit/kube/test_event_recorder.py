# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An event reaches its object once, repeats are counted, and the one who tells never waits and never fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Forbidden, NotFound
from ansible_collections.composable.infra.plugins.module_utils.kube.event_recorder import (
    QUEUED,
    REMEMBERED,
    Recorder,
    reference,
)

Object = dict[str, Any]
CLAIM: Object = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "ns", "uid": "u-1", "resourceVersion": "7", "labels": {"a": "b"}},
    "status": {},
}
NODE: Object = {"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": "u-2"}


class FakeEvents:
    """Answers Client.raw; ``gate`` holds requests back while it is clear."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Object]] = []
        self.fail: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.asked = threading.Event()

    def raw(self, method: str, path: str, body: Object, **ignored: Any) -> Object:
        self.asked.set()
        self.gate.wait(30)
        self.calls.append((method, path, body))
        failure = self.fail
        if failure is not None:
            self.fail = None
            raise failure
        return body


class Clock:
    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> FakeEvents:
    return FakeEvents()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(server: FakeEvents, clock: Clock) -> Iterator[Recorder]:
    made = Recorder(cast(Client, server), "composable.infra/scaler", "node-7", clock=clock, pace=0, delay=0)
    yield made
    server.gate.set()
    assert made.close()


def test_body_of_an_event(server: FakeEvents, recorder: Recorder) -> None:
    recorder.event(CLAIM, "Attaching", "asked for a GPU", related=NODE)
    assert recorder.flush()
    [(method, path, body)] = server.calls
    assert (method, path) == ("POST", "/api/v1/namespaces/ns/events")
    name = body["metadata"].pop("name")
    assert name.startswith("c.")
    assert int(name.removeprefix("c."), 16) >= 0
    assert body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "ns"},
        "involvedObject": {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "namespace": "ns",
            "name": "c",
            "uid": "u-1",
            "resourceVersion": "7",
        },
        "reason": "Attaching",
        "message": "asked for a GPU",
        "type": "Normal",
        "count": 1,
        "firstTimestamp": "2023-11-14T22:13:20Z",
        "lastTimestamp": "2023-11-14T22:13:20Z",
        "source": {"component": "composable.infra/scaler"},
        "reportingComponent": "composable.infra/scaler",
        "reportingInstance": "node-7",
        "related": NODE,
    }


def test_a_cluster_scoped_object_has_its_events_in_default(server: FakeEvents, recorder: Recorder) -> None:
    recorder.event(NODE, "Shrunk", "m", "Warning")
    assert recorder.flush()
    assert server.calls[0][1] == "/api/v1/namespaces/default/events"
    assert server.calls[0][2]["type"] == "Warning"


def test_a_repeat_raises_the_count(server: FakeEvents, recorder: Recorder, clock: Clock) -> None:
    for _unused in range(3):
        recorder.event(CLAIM, "Attaching", "m")
        clock.now += 599
    assert recorder.flush()
    name = server.calls[0][2]["metadata"]["name"]
    patch = f"/api/v1/namespaces/ns/events/{name}"
    assert [(method, path) for method, path, _unused in server.calls[1:]] == [("PATCH", patch), ("PATCH", patch)]
    assert server.calls[2][2] == {"count": 3, "lastTimestamp": "2023-11-14T22:33:18Z"}


def test_a_newer_resource_version_is_still_the_same_event(server: FakeEvents, recorder: Recorder) -> None:
    recorder.event(CLAIM, "Attaching", "m")
    recorder.event({**CLAIM, "metadata": {**CLAIM["metadata"], "resourceVersion": "8"}}, "Attaching", "m")
    assert recorder.flush()
    assert [method for method, _path, _body in server.calls] == ["POST", "PATCH"]


@pytest.mark.parametrize(
    ("regarding", "reason", "message"),
    [
        (CLAIM, "Attached", "m"),
        (CLAIM, "Attaching", "other"),
        (NODE, "Attaching", "m"),
        ({**CLAIM, "metadata": {**CLAIM["metadata"], "uid": "u-9"}}, "Attaching", "m"),
    ],
)
def test_another_event_is_another_object(
    server: FakeEvents, recorder: Recorder, regarding: Object, reason: str, message: str
) -> None:
    recorder.event(CLAIM, "Attaching", "m")
    recorder.event(regarding, reason, message)
    assert recorder.flush()
    assert [method for method, _path, _body in server.calls] == ["POST", "POST"]


def test_after_ten_quiet_minutes_it_is_a_new_object(
    server: FakeEvents, recorder: Recorder, clock: Clock
) -> None:
    recorder.event(CLAIM, "Attaching", "m")
    clock.now += 600
    recorder.event(CLAIM, "Attaching", "m")
    assert recorder.flush()
    assert [method for method, _path, _body in server.calls] == ["POST", "POST"]


def test_an_event_that_the_server_forgot_is_created_again(server: FakeEvents, recorder: Recorder) -> None:
    recorder.event(CLAIM, "Attaching", "m")
    assert recorder.flush()
    server.fail = NotFound(404, "NotFound", "expired")
    recorder.event(CLAIM, "Attaching", "m")
    assert recorder.flush()
    assert [method for method, _path, _body in server.calls] == ["POST", "PATCH", "POST"]
    assert recorder.failed == 0


@pytest.mark.parametrize("failure", [Forbidden(403, "Forbidden", "not allowed"), RuntimeError("odd")])
def test_a_refused_event_is_counted_and_the_next_one_sent(
    server: FakeEvents, recorder: Recorder, failure: Exception
) -> None:
    server.fail = failure
    recorder.event(CLAIM, "Attaching", "m")
    recorder.event(CLAIM, "Attached", "m")
    assert recorder.flush()
    assert recorder.failed == 1
    assert str(failure) in (recorder.last_error or "")
    assert len(server.calls) == 2


def test_a_full_queue_drops_and_counts(server: FakeEvents, recorder: Recorder) -> None:
    server.gate.clear()
    recorder.event(CLAIM, "Attaching", "on its way")
    assert server.asked.wait(20)
    for number in range(QUEUED + 5):
        recorder.event(CLAIM, "Attaching", str(number))
    assert recorder.dropped == 5
    assert not recorder.flush(0)
    server.gate.set()
    assert recorder.flush(30)
    assert len(server.calls) == QUEUED + 1


def test_the_oldest_events_are_forgotten(server: FakeEvents, recorder: Recorder) -> None:
    for number in (*range(REMEMBERED + 1), REMEMBERED, 0):
        recorder.event(CLAIM, "Attaching", str(number))
        assert number % 1000 or recorder.flush(30)
    assert recorder.flush(30)
    assert [method for method, _path, _body in server.calls[-3:]] == ["POST", "PATCH", "POST"]


def test_events_of_the_past_are_not_remembered(server: FakeEvents, recorder: Recorder, clock: Clock) -> None:
    for number in range(50):
        recorder.event(CLAIM, "Attaching", str(number))
    clock.now += 300
    recorder.event(CLAIM, "Attaching", "0")
    assert recorder.flush()
    assert recorder.remembered == 50
    clock.now += 300
    recorder.event(CLAIM, "Attaching", "new")
    assert recorder.flush()
    assert recorder.remembered == 2
    recorder.event(CLAIM, "Attaching", "0")
    assert recorder.flush()
    assert server.calls[-1][2]["count"] == 3


def test_a_long_message_is_cut(server: FakeEvents, recorder: Recorder) -> None:
    recorder.event(CLAIM, "Attaching", "x" * 5000)
    assert recorder.flush()
    assert len(server.calls[0][2]["message"]) == 1024


def test_event_leaves_its_delay_to_those_who_wait(server: FakeEvents) -> None:
    recorder = Recorder(cast(Client, server), "c", "i", delay=0.2)
    told = time.time()
    recorder.event(CLAIM, "Attaching", "m")
    assert recorder.flush()
    assert (time.time() >= told + 0.2, len(server.calls)) == (True, 1)
    assert recorder.close()


def test_close_sends_what_is_queued_and_takes_no_more(server: FakeEvents) -> None:
    recorder = Recorder(cast(Client, server), "c", "i")
    recorder.event(CLAIM, "Attaching", "m")
    assert recorder.close()
    recorder.event(CLAIM, "Attaching", "late")
    assert (len(server.calls), recorder.dropped) == (1, 1)


def test_close_does_not_wait_for_a_hanging_server(server: FakeEvents) -> None:
    recorder = Recorder(cast(Client, server), "c", "i")
    server.gate.clear()
    recorder.event(CLAIM, "Attaching", "m")
    assert not recorder.close(timeout=0)
    server.gate.set()


def test_reference_of_an_object_and_of_a_reference() -> None:
    expected = {"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": "u-2"}
    assert reference(NODE) == expected
    assert reference({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0", "uid": "u-2"}}) == expected
    assert reference({**NODE, "secret": "x"}) == expected
