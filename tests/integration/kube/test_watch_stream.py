# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A watch hands on each event at once, ends when it should, and says why it ended."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES, PODS
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import (
    ApiError,
    Forbidden,
    Gone,
    Unreachable,
)
from ansible_collections.composable.infra.tests.integration.kube.api_server import FakeApi, Stream, status

WATCH = "WATCH /api/v1/nodes"


def event(type_: str, name: str = "n0", version: int = 1) -> dict[str, Any]:
    return {"type": type_, "object": {"metadata": {"name": name, "resourceVersion": str(version)}}}


def test_what_is_asked_for(api: FakeApi, client: Client) -> None:
    api.on("WATCH /api/v1/namespaces/ns/pods", Stream().end())
    list(client.watch(PODS, "77", "ns", "a=b", "spec.nodeName=", timeout=12.9))
    assert api.requests[0].query == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "12",
        "resourceVersion": "77",
        "labelSelector": "a=b",
        "fieldSelector": "spec.nodeName=",
    }


def test_each_event_comes_at_once(api: FakeApi, client: Client) -> None:
    stream = Stream()
    api.on(WATCH, stream)
    watch = client.watch(NODES, "1")
    for number, type_ in enumerate(("ADDED", "MODIFIED", "BOOKMARK", "DELETED")):
        stream.send(event(type_, version=number))
        assert next(watch) == event(type_, version=number)
    stream.end()
    assert list(watch) == []


def test_events_may_be_cut_anywhere_into_chunks(api: FakeApi, client: Client) -> None:
    raw = b'{"type": "ADDED", "object": {"note": "\xc3\xa4"}}\n{"type": "DELETED", "object": {}}\n\n'
    stream = Stream().send(*(raw[at : at + 1] for at in range(len(raw)))).end()
    api.on(WATCH, stream, Stream().send(raw * 3).end())
    events = [{"type": "ADDED", "object": {"note": "\u00e4"}}, {"type": "DELETED", "object": {}}]
    assert list(client.watch(NODES, "1")) == events
    assert list(client.watch(NODES, "1")) == events * 3


def test_a_large_event(api: FakeApi, client: Client) -> None:
    large = event("ADDED", "n" * 1_000_000)
    api.on(WATCH, Stream().send(large).end())
    assert list(client.watch(NODES, "1")) == [large]


def test_a_refused_watch_raises(api: FakeApi, client: Client) -> None:
    api.on(WATCH, status(403, "Forbidden"))
    with pytest.raises(Forbidden, match="Forbidden says the server"):
        next(client.watch(NODES, "1"))


def test_a_version_that_is_too_old_raises_gone(api: FakeApi, client: Client) -> None:
    error = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
    api.on(WATCH, status(410, "Expired"), Stream().send(event("ADDED"), error))
    with pytest.raises(Gone):
        next(client.watch(NODES, "1"))
    watch = client.watch(NODES, "1")
    assert next(watch)["type"] == "ADDED"
    with pytest.raises(Gone, match="too old"):
        next(watch)


def test_another_error_event_raises_its_class(api: FakeApi, client: Client) -> None:
    api.on(WATCH, Stream().send({"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd"}}))
    with pytest.raises(ApiError, match="etcd") as raised:
        next(client.watch(NODES, "1"))
    assert raised.value.status == 500


def test_a_cut_connection_raises(api: FakeApi, client: Client) -> None:
    api.on(WATCH, Stream().send(event("ADDED")).cut())
    watch = client.watch(NODES, "1")
    next(watch)
    with pytest.raises(Unreachable, match="no answer from"):
        next(watch)


@pytest.mark.parametrize("raw", [b'{"type": "ADD', b"[]\n", b"{}\n", b'"text"\n'])
def test_half_an_event_raises(api: FakeApi, client: Client, raw: bytes) -> None:
    api.on(WATCH, Stream().send(raw).end())
    with pytest.raises(Unreachable, match="in the middle of an event"):
        next(client.watch(NODES, "1"))


def test_a_dead_connection_is_found_by_its_silence(api: FakeApi, client: Client) -> None:
    stream = Stream().send(event("ADDED"))
    api.on(WATCH, stream)
    watch = client.watch(NODES, "1", silence=0.3)
    next(watch)
    with pytest.raises(Unreachable, match="no complete answer within"):
        next(watch)


def test_close_ends_a_blocked_watch(api: FakeApi, client: Client) -> None:
    stream = Stream().send(event("ADDED"))
    api.on(WATCH, stream)
    watch = client.watch(NODES, "1", silence=600)
    seen: list[object] = []
    first = threading.Event()

    def read() -> None:
        for item in watch:
            seen.append(item)
            first.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert first.wait(20)
    watch.close()
    thread.join(20)
    assert not thread.is_alive()
    assert len(seen) == 1


def test_close_while_it_opens_ends_it(api: FakeApi, client: Client) -> None:
    gate, seen = threading.Event(), list[object]()
    api.on(WATCH, Stream(gate).send(event("ADDED")))
    watch = client.watch(NODES, "1")
    thread = threading.Thread(target=lambda: seen.extend(watch))
    thread.start()
    api.wait_for(WATCH)
    watch.close()
    gate.set()
    thread.join(20)
    assert not thread.is_alive()
    assert seen == []


def test_close_before_the_first_event_and_twice(api: FakeApi, client: Client) -> None:
    watch = client.watch(NODES, "1")
    watch.close()
    watch.close()
    assert list(watch) == []
    assert api.requests == []


def test_close_does_not_disturb_requests(api: FakeApi, client: Client) -> None:
    api.on("GET /api/v1/nodes/n0", {"metadata": {}})
    for _unused in range(20):
        api.on(WATCH, Stream().send(event("ADDED")))
        watch = client.watch(NODES, "1")
        next(watch)
        watch.close()
        assert client.get(NODES, "n0") == {"metadata": {}}


def test_a_watch_left_unread_is_closed_with_its_client(api: FakeApi, client: Client) -> None:
    stream = Stream().send(event("ADDED"))
    api.on(WATCH, stream)
    watch = client.watch(NODES, "1")
    next(watch)
    watch.close()
    client.close()
    assert list(watch) == []
