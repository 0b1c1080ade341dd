# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever happens to the connection, the store ends up equal to the server and the listener hears each change once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABILITY_REQUESTS,
    NODES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.reflector import Reflector
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.tests.integration.kube.api_server import (
    WAIT,
    FakeApi,
    Hangup,
    Reply,
    Stream,
    status,
)
from ansible_collections.composable.infra.tests.integration.kube.certificates import Certificates

Object = dict[str, Any]
LIST, WATCH = "GET /api/v1/nodes", "WATCH /api/v1/nodes"
CHECK = "CHECK /api/v1/nodes"
Change = tuple[str, str, str, str | None]


def node(name: str, version: int, **more: Any) -> Object:
    meta = {"name": name, "resourceVersion": str(version)} | more
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta}


def listed(version: int, *items: Object) -> Object:
    return {"items": list(items), "metadata": {"resourceVersion": str(version)}}


def event(type_: str, name: str, version: int) -> Object:
    return {"type": type_, "object": node(name, version)}


def bookmark(version: int) -> Object:
    return {"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": str(version)}}}


class Bench:
    """A reflector under test and what its listener heard: (type, name, version, version of old)."""

    def __init__(self, client: Client, resource: ApiResource, **options: Any) -> None:
        self.heard: queue.SimpleQueue[Change] = queue.SimpleQueue()
        self.store = Store({})
        self.fail_on: str | None = None
        chosen: dict[str, Any] = {"longest_delay": 0.02} | options
        self.reflector = Reflector(client, resource, self.store, self._on_change, **chosen)

    def _on_change(self, type_: str, obj: Object, old: Object | None) -> None:
        meta = obj["metadata"]
        before = old["metadata"]["resourceVersion"] if old else None
        self.heard.put((type_, meta["name"], meta["resourceVersion"], before))
        if meta["name"] == self.fail_on:
            raise RuntimeError("listener")

    def hear(self, count: int) -> list[Change]:
        return [self.heard.get(timeout=WAIT) for _unused in range(count)]

    def start(self) -> Bench:
        self.reflector.start()
        assert self.reflector.synced.wait(WAIT)
        return self

    def well(self) -> bool:
        """Wait until no error is told."""
        ticks = threading.Event()
        return any(self.reflector.last_error is None or ticks.wait(0.01) for _unused in range(1000))

    def names(self) -> dict[str, str]:
        return {o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in self.store.list()}


Build = Callable[..., Bench]


@pytest.fixture
def build(client: Client) -> Iterator[Build]:
    made: list[Bench] = []

    def new(resource: ApiResource = NODES, **options: Any) -> Bench:
        made.append(Bench(client, resource, **options))
        return made[-1]

    yield new
    for bench in made:
        bench.reflector.stop()


def asked_from(api: FakeApi, count: int) -> list[str]:
    return [request.query["resourceVersion"] for request in api.wait_for(WATCH, count)]


def test_the_first_list_is_reported_before_synced(api: FakeApi, build: Build) -> None:
    api.on(LIST, listed(10, node("a", 3), node("b", 4)))
    bench = build().start()
    assert bench.hear(2) == [("ADDED", "a", "3", None), ("ADDED", "b", "4", None)]
    assert bench.names() == {"a": "3", "b": "4"}
    assert bench.reflector.last_error is None
    assert asked_from(api, 1) == ["10"]


def test_changes_are_reported_with_what_was_there_before(api: FakeApi, build: Build) -> None:
    stream = Stream().send(event("ADDED", "b", 11), event("MODIFIED", "a", 12), event("DELETED", "b", 13))
    api.on(LIST, listed(10, node("a", 3)))
    api.on(WATCH, stream)
    bench = build().start()
    assert bench.hear(4)[1:] == [
        ("ADDED", "b", "11", None),
        ("MODIFIED", "a", "12", "3"),
        ("DELETED", "b", "13", "11"),
    ]
    assert bench.names() == {"a": "12"}


def test_selectors_go_into_list_and_watch(api: FakeApi, build: Build) -> None:
    api.on(LIST, listed(10))
    build(label_selector="a=b", field_selector="c=d").start()
    for request in (api.sent(LIST)[0], api.wait_for(WATCH)[0]):
        assert (request.query["labelSelector"], request.query["fieldSelector"]) == ("a=b", "c=d")


def test_managed_fields_are_left_out(api: FakeApi, build: Build) -> None:
    api.on(LIST, listed(10, node("a", 3, managedFields=[{"manager": "x"}])))
    api.on(WATCH, Stream().send({"type": "ADDED", "object": node("b", 11, managedFields=[{}])}))
    bench = build().start()
    bench.hear(2)
    assert all("managedFields" not in item["metadata"] for item in bench.store.list())


def test_only_what_the_store_keeps_is_told(api: FakeApi, client: Client) -> None:
    heard: queue.SimpleQueue[Object] = queue.SimpleQueue()
    store = Store({}, lambda obj: {"metadata": obj["metadata"]})
    large = {"type": "ADDED", "object": {**node("b", 11), "spec": {"large": "x"}}}
    api.on(LIST, listed(10, {**node("a", 3), "spec": {}}))
    api.on(WATCH, Stream().send(large))
    reflector = Reflector(client, NODES, store, lambda kind, obj, old: heard.put(obj))
    reflector.start()
    try:
        told = [heard.get(timeout=WAIT) for _unused in range(2)]
    finally:
        reflector.stop()
    assert told == [{"metadata": node("a", 3)["metadata"]}, {"metadata": node("b", 11)["metadata"]}]
    assert all(item in store.list() for item in told)


def test_after_the_servers_timeout_it_resumes(api: FakeApi, build: Build) -> None:
    api.on(LIST, listed(10))
    api.on(WATCH, Stream().send(event("ADDED", "a", 11)).end(), Stream().send(event("ADDED", "b", 12)))
    bench = build().start()
    bench.hear(2)
    assert asked_from(api, 2) == ["10", "11"]
    assert bench.reflector.relists == 1


def test_after_a_lost_connection_it_resumes_from_the_last_event(api: FakeApi, build: Build) -> None:
    api.on(LIST, listed(10))
    api.on(WATCH, Stream().send(event("ADDED", "a", 11)).cut(), Hangup(), Stream().send(event("ADDED", "b", 12)))
    bench = build().start()
    assert bench.hear(2) == [("ADDED", "a", "11", None), ("ADDED", "b", "12", None)]
    assert asked_from(api, 3) == ["10", "11", "11"]
    assert bench.reflector.relists == 1


def test_a_bookmark_moves_the_place_to_resume_from(api: FakeApi, build: Build) -> None:
    api.on(LIST, listed(10))
    api.on(WATCH, Stream().send(bookmark(50)).cut())
    bench = build().start()
    assert asked_from(api, 2) == ["10", "50"]
    assert bench.heard.empty()


def test_a_dead_connection_is_found_and_replaced(api: FakeApi, build: Build) -> None:
    dead = Stream().send(event("ADDED", "a", 11))
    api.on(LIST, listed(10))
    api.on(WATCH, dead, Stream().send(event("ADDED", "b", 12)))
    bench = build(silence=0.3).start()
    assert bench.hear(2)[1] == ("ADDED", "b", "12", None)
    assert asked_from(api, 2) == ["10", "11"]


def test_half_an_event_is_asked_for_again(api: FakeApi, build: Build) -> None:
    api.on(LIST, listed(10))
    api.on(WATCH, Stream().send(b'{"type": "ADDED", "obj').end(), Stream().send(event("ADDED", "a", 11)))
    bench = build().start()
    assert bench.hear(1) == [("ADDED", "a", "11", None)]
    assert asked_from(api, 2) == ["10", "10"]


TOO_OLD = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


@pytest.mark.parametrize("trouble", [status(410, "Expired"), Stream().send(TOO_OLD)], ids=["answer", "event"])
def test_after_410_it_lists_again_and_reports_what_was_missed(
    api: FakeApi, build: Build, trouble: Reply | Stream
) -> None:
    after = listed(90, node("same", 4), node("changed", 80), node("new", 81))
    api.on(LIST, listed(10, node("gone", 3), node("same", 4), node("changed", 5)), after)
    api.on(WATCH, trouble, Stream().send(event("MODIFIED", "new", 91)))
    bench = build().start()
    bench.hear(3)
    assert bench.hear(4) == [
        ("DELETED", "gone", "3", "3"),
        ("MODIFIED", "changed", "80", "5"),
        ("ADDED", "new", "81", None),
        ("MODIFIED", "new", "91", "81"),
    ]
    assert bench.names() == {"same": "4", "changed": "80", "new": "91"}
    assert asked_from(api, 2) == ["10", "90"]
    assert (bench.reflector.relists, bench.reflector.restarts) == (2, 1)
    assert bench.reflector.last_error is None


def test_an_unexpected_event_makes_it_list_again(api: FakeApi, build: Build) -> None:
    api.on(LIST, listed(10), listed(20, node("a", 15)))
    api.on(WATCH, Stream().send({"type": "ADDED", "object": {"metadata": {}}}))
    bench = build().start()
    assert bench.hear(1) == [("ADDED", "a", "15", None)]
    assert asked_from(api, 2) == ["10", "20"]


def test_a_listener_that_raises_is_told_the_next_change(api: FakeApi, build: Build) -> None:
    api.on(LIST, listed(10, node("bad", 3), node("good", 4)))
    api.on(WATCH, Stream().send(event("MODIFIED", "bad", 11), event("MODIFIED", "good", 12)))
    bench = build()
    bench.fail_on = "bad"
    bench.start()
    assert [change[1] for change in bench.hear(4)] == ["bad", "good", "bad", "good"]
    assert len(api.sent(WATCH)) == 1


def test_a_write_through_does_not_hide_the_change_from_the_listener(api: FakeApi, build: Build) -> None:
    stream = Stream()
    api.on(LIST, listed(10, node("a", 3)))
    api.on(WATCH, stream)
    bench = build().start()
    bench.hear(1)
    assert bench.store.upsert(node("a", 11))
    stream.send(event("MODIFIED", "a", 11))
    assert bench.hear(1) == [("MODIFIED", "a", "11", "3")]


def test_a_late_event_does_not_undo_a_write_through(api: FakeApi, build: Build) -> None:
    stream = Stream()
    api.on(LIST, listed(10, node("a", 3)))
    api.on(WATCH, stream)
    bench = build().start()
    bench.hear(1)
    bench.store.upsert(node("a", 12))
    stream.send(event("MODIFIED", "a", 11))
    bench.hear(1)
    assert bench.names() == {"a": "12"}


def test_a_refusal_is_told_until_it_is_over(api: FakeApi, build: Build) -> None:
    api.on(LIST, status(403, "Forbidden"))
    bench = build()
    bench.reflector.start()
    api.wait_for(LIST, 3)
    assert bench.reflector.last_error == "Forbidden says the server"
    assert not bench.reflector.synced.is_set()
    api.on(LIST, listed(10, node("a", 3)))
    assert bench.reflector.synced.wait(WAIT)
    assert bench.reflector.last_error is None


def test_it_is_well_again_as_soon_as_the_watch_is_open(api: FakeApi, build: Build) -> None:
    refused, opened = Stream(), Stream()
    api.on(LIST, listed(10))
    api.on(WATCH, refused, status(403, "Forbidden"), opened)
    bench = build(longest_delay=0.3).start()
    assert refused.opened.wait(WAIT)
    refused.cut()
    api.wait_for(WATCH, 2)
    assert opened.opened.wait(WAIT)
    assert bench.well()


def test_a_missing_crd_is_named_and_waited_for(api: FakeApi, build: Build) -> None:
    path = COMPOSABILITY_REQUESTS.path()
    bench = build(COMPOSABILITY_REQUESTS)
    bench.reflector.start()
    api.wait_for(f"GET {path}", 2)
    assert "CRD" in (bench.reflector.last_error or "")
    api.on(f"GET {path}", listed(10))
    assert bench.reflector.synced.wait(WAIT)


def test_a_throttled_watch_is_opened_later(api: FakeApi, build: Build) -> None:
    api.on(LIST, listed(10))
    throttled = Reply(status(429).body, 429, {"Retry-After": "0"})
    api.on(WATCH, throttled, Stream().send(event("ADDED", "a", 11)))
    assert build().start().hear(1) == [("ADDED", "a", "11", None)]


def test_the_api_server_goes_and_comes_back(
    api: FakeApi, build: Build, certificates: Certificates
) -> None:
    api.on(LIST, listed(10, node("a", 3)))
    bench = build().start()
    api.wait_for(WATCH)
    port = api.port
    api.stop()
    back = FakeApi(certificates, port)
    try:
        back.on(WATCH, status(410, "Expired"))
        back.on(LIST, listed(20, node("b", 15)))
        assert bench.hear(3)[1:] == [("DELETED", "a", "3", "3"), ("ADDED", "b", "15", None)]
    finally:
        bench.reflector.stop()
        back.stop()


def test_stop_ends_a_silent_watch(api: FakeApi, build: Build) -> None:
    stream = Stream()
    api.on(LIST, listed(10))
    api.on(WATCH, stream)
    bench = build(silence=600).start()
    assert stream.opened.wait(WAIT)
    bench.reflector.stop(timeout=WAIT)
    assert not bench.reflector.alive
    assert bench.reflector.last_error is None


def test_stop_ends_a_wait(api: FakeApi, build: Build) -> None:
    api.on(LIST, Reply(status(429).body, 429, {"Retry-After": "0"}), status(403, "Forbidden"))
    bench = build(longest_delay=600)
    bench.reflector.start()
    api.wait_for(LIST, 2)
    bench.reflector.stop(timeout=WAIT)
    assert not bench.reflector.alive


def test_stop_from_the_listener(api: FakeApi, client: Client) -> None:
    api.on(LIST, listed(10, node("a", 3)))
    reflector = Reflector(client, NODES, Store({}), lambda *change: reflector.stop())
    reflector.start()
    assert reflector.join(WAIT)
    assert api.sent(WATCH) == []


def test_stop_before_start(build: Build) -> None:
    build().reflector.stop()


END = {"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {
    "resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}}}}
# As API servers answer without the feature gate WatchList, and with an etcd that is too old for it.
UNSERVED = status(422, "Invalid")
OLD_ETCD = {"type": "ERROR", "object": {"kind": "Status", "code": 500, "reason": "InternalError", "message": "off"}}


def test_a_streamed_list_is_the_watch_that_continues_it(api: FakeApi, build: Build) -> None:
    stream = Stream().send(event("ADDED", "a", 5), event("ADDED", "b", 6), event("ADDED", "c", 6), bookmark(6),
                           event("DELETED", "c", 7))
    api.on(WATCH, stream)
    bench = build(streaming=True)
    bench.reflector.start()
    assert stream.opened.wait(WAIT)
    assert not bench.reflector.synced.is_set(), "a list is none before its end"
    stream.send(END, event("MODIFIED", "b", 8))
    assert bench.hear(3) == [("ADDED", "a", "5", None), ("ADDED", "b", "6", None), ("MODIFIED", "b", "8", "6")]
    assert bench.reflector.synced.is_set()
    assert bench.names() == {"a": "5", "b": "8"}
    (asked,) = api.sent(WATCH)
    assert (asked.query["sendInitialEvents"], asked.query["resourceVersionMatch"]) == ("true", "NotOlderThan")
    assert "resourceVersion" not in asked.query
    assert api.sent(LIST) == []


def test_after_a_streamed_list_it_resumes_from_the_last_event(api: FakeApi, build: Build) -> None:
    api.on(WATCH, Stream().send(END, event("ADDED", "a", 8)).end(), Stream().send(event("MODIFIED", "a", 9)))
    bench = build(streaming=True).start()
    assert bench.hear(2) == [("ADDED", "a", "8", None), ("MODIFIED", "a", "9", "8")]
    again = api.wait_for(WATCH, 2)[1]
    assert again.query["resourceVersion"] == "8"
    assert "sendInitialEvents" not in again.query


@pytest.mark.parametrize("refusal", [UNSERVED, Stream().send(OLD_ETCD)], ids=["answer", "event"])
def test_a_server_without_streamed_lists_is_asked_once(api: FakeApi, build: Build, refusal: Reply | Stream) -> None:
    api.on(WATCH, refusal, Stream().send(TOO_OLD), Stream())
    api.on(LIST, listed(5, node("a", 5)), listed(9, node("a", 9)))
    bench = build(streaming=True).start()
    assert bench.hear(2) == [("ADDED", "a", "5", None), ("MODIFIED", "a", "9", "5")]
    assert ["sendInitialEvents" in request.query for request in api.wait_for(WATCH, 3)] == [True, False, False]


@pytest.mark.parametrize("end", [Stream.end, Stream.cut])
def test_a_streamed_list_without_its_end_is_none(api: FakeApi, build: Build, end: Callable[[Stream], Stream]) -> None:
    api.on(WATCH, end(Stream().send(event("ADDED", "a", 5))), Stream().send(END, event("ADDED", "b", 8)))
    api.on(LIST, listed(7))
    bench = build(streaming=True).start()
    assert bench.hear(1) == [("ADDED", "b", "8", None)]
    assert bench.names() == {"b": "8"}


BEFORE = listed(500, node("changed", 480), node("gone", 490), node("same", 20), node("twin", 240))
AFTER = listed(250, node("back", 210), node("changed", 230), node("same", 20), node("twin", 240))
TOLD = [("DELETED", "gone", "490", "490"), ("ADDED", "back", "210", None), ("MODIFIED", "changed", "230", "480"),
        ("MODIFIED", "same", "20", "20"), ("MODIFIED", "twin", "240", "240")]


def lost(stream: Stream) -> Stream:
    """A watch that is as silent as one of the future, on a connection that the client gives up."""
    return stream


@pytest.mark.parametrize("ends", [Stream.end, Stream.cut, lost])
def test_a_store_of_the_future_becomes_the_restored_one(
    api: FakeApi, build: Build, ends: Callable[[Stream], Stream]
) -> None:
    """etcd was restored: versions went back. A version may be that of another content now, so each object is told."""
    watch, after = Stream(), Stream()
    api.on(LIST, BEFORE, AFTER)
    api.on(WATCH, watch, after)
    bench = build(silence=0.5 if ends is lost else 90.0).start()
    bench.hear(4)
    api.wait_for(WATCH)
    api.newest = 250
    ends(watch)
    assert bench.hear(5) == TOLD
    assert bench.names() == {"back": "210", "changed": "230", "same": "20", "twin": "240"}
    after.send(event("MODIFIED", "changed", 251), event("ADDED", "gone", 252))
    assert bench.hear(2) == [("MODIFIED", "changed", "251", "230"), ("ADDED", "gone", "252", None)]
    (check,) = api.sent(CHECK)
    assert (check.query["limit"], check.query["resourceVersion"]) == ("1", "500")
    assert bench.reflector.last_error is None


def test_a_streamed_list_replaces_a_store_of_the_future(api: FakeApi, build: Build) -> None:
    begin = Stream().send(event("ADDED", "changed", 480), event("ADDED", "gone", 490), END, bookmark(500))
    again = Stream().send(event("ADDED", "changed", 6), END)
    api.on(WATCH, begin, again)
    bench = build(streaming=True).start()
    assert [change[:3] for change in bench.hear(2)] == [("ADDED", "changed", "480"), ("ADDED", "gone", "490")]
    api.newest = 250
    begin.cut()
    assert bench.hear(2) == [("DELETED", "gone", "490", "490"), ("MODIFIED", "changed", "6", "480")]
    assert bench.names() == {"changed": "6"}


def test_after_410_a_list_is_the_truth_about_objects_that_went_back(api: FakeApi, build: Build) -> None:
    """etcd was restored with a bumped revision: the server is ahead of us, and old objects have their old versions."""
    api.on(LIST, listed(500, node("changed", 480)), listed(9000, node("changed", 230)))
    api.on(WATCH, status(410, "Expired"), Stream().send(event("MODIFIED", "changed", 9001)))
    bench = build().start()
    assert bench.hear(3)[1:] == [("MODIFIED", "changed", "230", "480"), ("MODIFIED", "changed", "9001", "230")]


def test_a_server_that_cannot_say_whether_it_is_behind_is_asked_again(api: FakeApi, build: Build) -> None:
    api.on(LIST, listed(10))
    api.on(CHECK, status(500), Reply(listed(10)))
    api.on(WATCH, Stream().end(), Stream().send(event("ADDED", "a", 11)))
    bench = build().start()
    assert bench.hear(1) == [("ADDED", "a", "11", None)]
    assert len(api.sent(CHECK)) == 2
    assert len(api.sent(LIST)) == 1


def test_a_list_is_taken_anew_when_it_is_asked_for(api: FakeApi, build: Build) -> None:
    """As by a standby that begins to lead."""
    api.on(LIST, listed(10, node("a", 3), node("b", 4)), listed(12, node("a", 3), node("b", 2)))
    bench = build().start()
    bench.hear(2)
    api.wait_for(WATCH)
    bench.reflector.relist()
    assert bench.reflector.synced.wait(WAIT)
    assert bench.reflector.relists == 2
    assert bench.hear(1) == [("MODIFIED", "b", "2", "4")]
    api.wait_for(WATCH, 2)
    assert bench.reflector.last_error is None
