# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health endpoints, on a made-up engine."""

from __future__ import annotations

import json
import socket
import typing as t
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.controller.health import HealthServer, status
from ansible_collections.composable.infra.controller.metrics import PrometheusMetrics
from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.tests.unit.controller.health_support import (
    FakeEngine,
)

SHARED = FakeEngine()


@pytest.fixture
def engine() -> FakeEngine:
    """The engine behind the server, ready and without troubles."""
    SHARED.is_ready, SHARED.troubles, SHARED.reasons, SHARED.stuck_at = True, [], [], ""
    return SHARED


def listening(listen: str, engine: FakeEngine) -> HealthServer:
    """A server for the engine."""
    metrics = PrometheusMetrics()
    metrics.ask(engine.gauges)
    return HealthServer(listen, engine, metrics, lambda: status(t.cast(ControllerManager, engine)))


@pytest.fixture(scope="module")
def running() -> Iterator[HealthServer]:
    """A server on a free port of loopback, one for all tests: its stop takes a moment."""
    made = listening("127.0.0.1:0", SHARED)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def server(running: HealthServer, engine: FakeEngine) -> HealthServer:
    """The server, its engine as new."""
    return running


def get(server: HealthServer, path: str, **headers: str) -> tuple[int, dict[str, t.Any]]:
    """Status and body."""
    request = urllib.request.Request(f"http://{server.address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_process_is_alive(server: HealthServer) -> None:
    assert get(server, "/healthz") == (200, {"ok": True})


def test_engine_whose_workers_are_stuck_is_not_alive(server: HealthServer, engine: FakeEngine) -> None:
    engine.stuck_at = "all 8 workers have worked on one key for 300 s: node default/secret"
    assert get(server, "/healthz") == (500, {"ok": False})


def test_engine_that_is_ready(server: HealthServer) -> None:
    assert get(server, "/readyz") == (200, {"ready": True, "troubles": []})


def test_engine_that_is_not_ready_is_alive_all_the_same(server: HealthServer, engine: FakeEngine) -> None:
    engine.is_ready, engine.troubles = False, ["the API server does not answer"]
    assert get(server, "/readyz") == (503, {"ready": False, "troubles": ["the API server does not answer"]})
    assert get(server, "/healthz")[0] == 200


def test_status_tells_what_claims_wait_for(server: HealthServer, engine: FakeEngine) -> None:
    engine.reasons = [WaitReason("ns/a", "1 x A100", 5.0, {"node": "node-0", "devices": ("gpu-a",)}),
                      WaitReason("ns/b", "1 x T4", 6.0, {})]
    engine.troubles = ["a trouble"]
    assert get(server, "/status") == (200, {
        "ready": True, "troubles": ["a trouble"], "fabric_poll_age_seconds": None,
        "claims": {"ns/a": {"waits_for": "1 x A100", "evidence": {"node": "node-0", "devices": ["gpu-a"]}},
                   "ns/b": {"waits_for": "1 x T4", "evidence": {}}}})


@pytest.mark.parametrize("path", ["/status", "/metrics"])
def test_name_from_elsewhere_that_leads_to_loopback_needs_a_token(server: HealthServer, path: str) -> None:
    """A web page could have its own name lead here and read the answer: DNS rebinding."""
    assert get(server, path, Host="page.example.com:8080")[0] == 401
    assert get(server, path, Host="")[0] == 401


def test_who_names_it_otherwise_learns_no_troubles(server: HealthServer, engine: FakeEngine) -> None:
    engine.troubles = ["claim team-a/secret has trouble"]
    assert get(server, "/readyz", Host="page.example.com") == (200, {"ready": True})


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:8080"])
def test_loopback_is_named_so(server: HealthServer, host: str) -> None:
    assert get(server, "/status", Host=host)[0] == 200


def test_status_of_an_idle_engine(engine: FakeEngine) -> None:
    assert status(t.cast(ControllerManager, engine)) == {"ready": True, "troubles": [], "fabric_poll_age_seconds": None,
                                                          "claims": {}}


def test_other_paths_name_those_that_are_served(server: HealthServer) -> None:
    code, body = get(server, "/metric")
    assert code == 404
    assert body == {"error": "this path is not served. Try /healthz, /readyz, /metrics or /status"}


def test_metrics_are_text(server: HealthServer) -> None:
    with urllib.request.build_opener().open(f"http://{server.address}/metrics") as reply:
        assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert b"\ncomposable_gated_pods 3.0\n" in reply.read()


def test_query_does_not_matter(server: HealthServer) -> None:
    assert get(server, "/healthz?verbose")[0] == 200


def test_only_get_is_answered(server: HealthServer) -> None:
    request = urllib.request.Request(f"http://{server.address}/healthz", b"x")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=10)
    with caught.value:
        assert caught.value.code == 501


def test_probes_are_not_logged(server: HealthServer, capsys: pytest.CaptureFixture[str]) -> None:
    get(server, "/healthz")
    assert capsys.readouterr().err == ""


def test_many_are_answered_while_one_is_slow(server: HealthServer) -> None:
    host, _unused, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as silent:
        silent.sendall(b"GET /healthz HTTP/1.0\r\n")
        assert get(server, "/healthz")[0] == 200


def test_stop_frees_the_port(engine: FakeEngine) -> None:
    first = listening("127.0.0.1:0", engine)
    first.start()
    first.stop()
    again = listening(first.address, engine)
    again.stop()


def test_stop_without_a_start(engine: FakeEngine) -> None:
    listening("127.0.0.1:0", engine).stop()


@pytest.mark.parametrize("listen", ["", "8080", ":8080", "localhost", "localhost:", "127.0.0.1:-1", "127.0.0.1:65536",
                                    "127.0.0.1:http", "127.0.0.1:80 80"])
def test_unusable_address_is_refused(engine: FakeEngine, listen: str) -> None:
    with pytest.raises(BadConfig) as caught:
        listening(listen, engine)
    assert str(caught.value) == f"--listen: {listen!r} is not allowed. It must be HOST:PORT with a port from 0 to 65535"


def test_port_that_is_taken_is_named(engine: FakeEngine, server: HealthServer) -> None:
    with pytest.raises(BadConfig) as caught:
        listening(server.address, engine)
    assert str(caught.value) == f"--listen: cannot listen on {server.address!r}: Address already in use"


def test_address_of_somebody_else_is_named(engine: FakeEngine) -> None:
    with pytest.raises(BadConfig, match=r"^--listen: cannot listen on '192\.0\.2\.1:0': "):
        listening("192.0.2.1:0", engine)


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_ipv6(engine: FakeEngine) -> None:
    server = listening("[::1]:0", engine)
    server.start()
    try:
        assert get(server, "/healthz")[0] == 200
    finally:
        server.stop()
