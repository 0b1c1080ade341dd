# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may read metrics and status, and that slow and many clients keep no probe from its answer."""

from __future__ import annotations

import json
import socket
import threading
import time
import typing as t
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.controller import access as module
from ansible_collections.composable.infra.controller import health
from ansible_collections.composable.infra.controller.access import Access, on_loopback
from ansible_collections.composable.infra.controller.health import HealthServer
from ansible_collections.composable.infra.controller.metrics import PrometheusMetrics
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import Unreachable
from ansible_collections.composable.infra.tests.unit.controller.health_support import (
    FakeEngine,
)

ELSEWHERE = "198.51.100.7"
GOOD = "Bearer good-token"


class FakeReviews:
    """An API server that knows two tokens, of which one may read."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, t.Any]]] = []
        self.down = False
        self.gate: threading.Event | None = None

    @property
    def client(self) -> Client:
        return t.cast(Client, self)

    def raw(self, method: str, path: str, body: dict[str, t.Any]) -> dict[str, t.Any]:
        self.asked.append((path, body["spec"]))
        if self.gate:
            self.gate.wait(10)
        if self.down:
            raise Unreachable("the API server does not answer")
        if path.endswith("/tokenreviews"):
            token = body["spec"]["token"]
            known = token in ("good-token", "other-token")
            return {"status": {"authenticated": known, "user": {"username": token, "groups": ["g"]}}}
        spec = body["spec"]
        return {"status": {"allowed": (spec["user"], spec["nonResourceAttributes"]) == (
            "good-token", {"path": "/metrics", "verb": "get"})}}


@pytest.fixture
def reviews() -> FakeReviews:
    return FakeReviews()


@pytest.mark.parametrize(("address", "local"), [
    ("127.0.0.1", True), ("::1", True), ("::ffff:127.0.0.1", True), ("127.9.9.9", True), (ELSEWHERE, False),
    ("::ffff:198.51.100.7", False), ("fe80::1%eth0", False)])
def test_loopback_is_known_in_all_its_forms(address: str, local: bool) -> None:
    assert on_loopback(address) is local


@pytest.mark.parametrize(("authorization", "path", "answer"), [
    ("", "/metrics", 401), ("Basic Z29vZA==", "/metrics", 401), ("Bearer ", "/metrics", 401),
    ("Bearer bad", "/metrics", 401), (GOOD, "/metrics", 200), ("bearer good-token", "/metrics", 200),
    (GOOD, "/status", 403), ("Bearer other-token", "/metrics", 403), ("Bearer " + "x" * 20000, "/metrics", 401)])
def test_token_and_permission_decide(reviews: FakeReviews, authorization: str, path: str, answer: int) -> None:
    assert Access(reviews.client).judge(ELSEWHERE, authorization, path) == answer


def test_loopback_needs_no_token_and_nobody_is_asked(reviews: FakeReviews) -> None:
    assert Access(reviews.client).judge("127.0.0.1", "", "/status") == 200
    assert reviews.asked == []


def test_without_an_api_server_nobody_else_is_let_in() -> None:
    assert Access().judge(ELSEWHERE, GOOD, "/metrics") == 401


def test_answers_are_kept_for_a_while_and_not_for_ever(reviews: FakeReviews) -> None:
    clock = [0.0]
    access = Access(reviews.client, lambda: clock[0])
    for _unused in range(5):
        assert access.judge(ELSEWHERE, GOOD, "/metrics") == 200
    assert len(reviews.asked) == 2
    clock[0] = module.PERMITTED_SECONDS + 1
    assert access.judge(ELSEWHERE, GOOD, "/metrics") == 200
    assert len(reviews.asked) == 4


def test_what_is_kept_is_bounded_and_holds_no_token(reviews: FakeReviews) -> None:
    access = Access(reviews.client)
    for number in range(module.REMEMBERED + 20):
        access.judge(ELSEWHERE, f"Bearer wrong-{number}", "/metrics")
    assert len(access._known) == module.REMEMBERED
    assert "wrong" not in str(access._known)


def test_an_api_server_that_does_not_answer_permits_nothing(reviews: FakeReviews) -> None:
    reviews.down = True
    access = Access(reviews.client)
    assert access.judge(ELSEWHERE, GOOD, "/metrics") == 503
    reviews.down = False
    assert access.judge(ELSEWHERE, GOOD, "/metrics") == 200


def test_reviews_at_the_same_time_are_bounded(reviews: FakeReviews) -> None:
    reviews.gate = threading.Event()
    access, answers = Access(reviews.client), list[int]()
    threads = [threading.Thread(target=lambda n=n: answers.append(access.judge(ELSEWHERE, f"Bearer {n}", "/metrics")))
               for n in range(12)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 10
    while len(answers) < 12 - module.AT_ONCE and time.monotonic() < deadline:
        time.sleep(0.01)
    assert answers == [503] * (12 - module.AT_ONCE)
    reviews.gate.set()
    for thread in threads:
        thread.join(10)
    assert len(reviews.asked) == module.AT_ONCE


@pytest.fixture
def server(reviews: FakeReviews, monkeypatch: pytest.MonkeyPatch) -> Iterator[HealthServer]:
    """A server to which every client seems to come from elsewhere."""
    monkeypatch.setattr(module, "on_loopback", lambda peer: False)
    engine, metrics = FakeEngine(troubles=["claim team-a/secret has trouble"]), PrometheusMetrics()
    metrics.ask(engine.gauges)
    made = HealthServer("127.0.0.1:0", engine, metrics, lambda: {"claims": {"team-a/secret": {}}},
                        Access(reviews.client))
    made.start()
    yield made
    made.stop()


def get(server: HealthServer, path: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://{server.address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/status", "/metrics", "/other/team-a/secret"])
def test_who_is_not_known_learns_of_no_claim(server: HealthServer, path: str) -> None:
    code, body = get(server, path)
    assert code == {"/healthz": 200, "/readyz": 200, "/status": 401, "/metrics": 401}.get(path, 404)
    assert "secret" not in body
    assert "composable_" not in body


def test_readiness_is_told_without_its_troubles(server: HealthServer) -> None:
    assert json.loads(get(server, "/readyz")[1]) == {"ready": True}


def test_who_may_read_reads(server: HealthServer) -> None:
    code, body = get(server, "/metrics", "good-token")
    assert (code, "composable_gated_pods" in body) == (200, True)
    assert get(server, "/status", "good-token")[0] == 403


def silent(server: HealthServer, said: bytes = b"GET /healthz HTTP/1.0\r\n") -> socket.socket:
    host, _unused, port = server.address.rpartition(":")
    made = socket.create_connection((host, int(port)), timeout=10)
    made.sendall(said)
    return made


def test_a_slow_client_is_ended(server: HealthServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "REQUEST_SECONDS", 0.3)
    with silent(server) as slow:
        began = time.monotonic()
        for _unused in range(200):  # a byte now and then: it is never silent for long
            try:
                slow.sendall(b"X")
            except OSError:
                break
            slow.settimeout(0.02)
            try:
                if slow.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() - began < 3.0


def test_many_silent_clients_keep_no_probe_from_its_answer(server: HealthServer, monkeypatch: pytest.MonkeyPatch
                                                           ) -> None:
    monkeypatch.setattr(health, "REQUEST_SECONDS", 60.0)
    crowd = [silent(server) for _unused in range(3 * health.CONNECTIONS)]
    try:
        assert get(server, "/healthz")[0] == 200
        assert threading.active_count() < 2 * health.CONNECTIONS + 20
    finally:
        for each in crowd:
            each.close()
