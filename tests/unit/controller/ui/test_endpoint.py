# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page over HTTP: its files are for all, what it shows is for whom the API server permits, and nothing writes."""

from __future__ import annotations

import http.client
import json
import os
import re
import threading
import typing as t
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ansible_collections.composable.infra.controller import access as access_module
from ansible_collections.composable.infra.controller import health
from ansible_collections.composable.infra.controller.access import Access
from ansible_collections.composable.infra.controller.health import REFUSALS, HealthServer
from ansible_collections.composable.infra.controller.metrics import PrometheusMetrics
from ansible_collections.composable.infra.controller.ui.bundle import FOLDER, KINDS, bundle
from ansible_collections.composable.infra.controller.ui.endpoint import PAGE_HEADER, TOKEN_HEADER, Ui
from ansible_collections.composable.infra.controller.ui.stream import Broadcaster
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.sums import Place, Stored, Sum
from ansible_collections.composable.infra.tests.unit.controller.health_support import (
    FakeEngine,
)
from ansible_collections.composable.infra.tests.unit.controller.ui.conftest import Looked
from ansible_collections.composable.infra.tests.unit.controller.ui.whatif.bounded_support import (
    ECHO,
    Hanging,
    asking,
)
from ansible_collections.composable.infra.tests.unit.house.files import files, text
from ansible_collections.composable.infra.tests.unit.house.import_rules import file_of, imports
from ansible_collections.composable.infra.tests.unit.reconcile import objects

Json = dict[str, t.Any]


class Reviews:
    """An API server: ``admin`` may see everything, ``tenant`` may list claims in the namespace mine."""

    def __init__(self) -> None:
        self.asked: list[Json] = []

    def raw(self, method: str, path: str, body: Json) -> Json:
        spec = body["spec"]
        self.asked.append(spec)
        if "token" in spec:
            return {"status": {"authenticated": spec["token"] in ("admin", "tenant"),
                               "user": {"username": spec["token"]}}}
        whole = {"path": "/ui", "verb": "get"}
        own = {"namespace": "mine", "verb": "list", "group": "resource.k8s.io", "resource": "resourceclaims"}
        allowed = {"admin": spec.get("nonResourceAttributes") == whole, "tenant": spec.get("resourceAttributes") == own}
        return {"status": {"allowed": allowed[spec["user"]]}}


@pytest.fixture
def reviews() -> Reviews:
    """What is asked of the API server."""
    return Reviews()


@pytest.fixture
def server(looked: Looked, reviews: Reviews, monkeypatch: pytest.MonkeyPatch) -> Iterator[HealthServer]:
    """The endpoints with the page. Clients count as coming from elsewhere when they name the host so."""
    access = Access(t.cast(Client, reviews))
    ui = Ui(looked.view, looked.stories, access, REFUSALS, asking(ECHO), looked.insight())
    made = HealthServer("127.0.0.1:0", FakeEngine(), PrometheusMetrics(), dict, access, None, ui)
    made.start()
    yield made
    made.stop()


def get(server: HealthServer, path: str, **headers: str) -> http.client.HTTPResponse:
    """The answer, whatever its status."""
    host, _unused, port = server.address.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    return connection.getresponse()


def snapshot(server: HealthServer, query: str = "", **headers: str) -> Json:
    """All rows."""
    answer = get(server, f"/ui/snapshot{query}", **headers)
    assert answer.status == 200, answer.read()
    rows: Json = json.loads(answer.read())["rows"]
    return rows


INLINE = re.compile(r"<script(?![^>]*\ssrc=)|\son\w+=\"|\sstyle=\"|eval\(|innerHTML|document\.cookie")
ELSEWHERE: t.Final = {"Host": "fabric.example.com"}


def test_the_page_and_its_files_need_no_token(server: HealthServer) -> None:
    page = get(server, "/ui/", **ELSEWHERE)
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    for name in re.findall(r'(?:src|href)="([^"#]+)"', page.read().decode()):
        assert get(server, f"/ui/{name}", **ELSEWHERE).status == 200


@pytest.mark.parametrize("path", ["/", "/ui"])
def test_way_to_the_page_is_relative_so_that_a_prefix_before_it_stays(server: HealthServer, path: str) -> None:
    answer = get(server, path)
    assert (answer.status, answer.headers["Location"]) == (302, "ui/")


@pytest.mark.parametrize("path", ["/ui/", "/ui/main.js", "/ui/snapshot", "/ui/story?key=node/node-0", "/ui/waits",
                                  "/ui/changes", "/ui/nothing", "/ui/what-if", "/ui/history",
                                  "/ui/history?span=1y", "/ui/usage"])
def test_every_answer_tells_browsers_what_they_may_do(server: HealthServer, path: str) -> None:
    headers = get(server, path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src", "img-src")} == {"'self'"}
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
    assert headers["Set-Cookie"] is None


def test_file_that_the_browser_has_is_not_sent_again(server: HealthServer) -> None:
    tag = get(server, "/ui/main.js").headers["ETag"]
    assert get(server, "/ui/main.js", If_None_Match=tag).status == 304


@pytest.mark.parametrize("path", ["/ui/../health.py", "/ui/%2e%2e/health.py", "/ui/__init__.py", "/ui//etc/passwd",
                                  "/ui/main.js/"])
def test_no_path_leads_anywhere_else(server: HealthServer, path: str) -> None:
    assert get(server, path).status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(server: HealthServer, method: str) -> None:
    host, _unused, port = server.address.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request(method, "/ui/snapshot", body="{}")
    assert connection.getresponse().status == 501


def test_loopback_sees_everything(server: HealthServer) -> None:
    assert "node/node-0" in snapshot(server)


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:8080"])
def test_loopback_is_named_so(server: HealthServer, host: str) -> None:
    assert get(server, "/ui/snapshot", Host=host).status == 200


@pytest.mark.parametrize("path", ["/ui/snapshot", "/ui/changes", "/ui/story?key=node/node-0", "/ui/waits",
                                  "/ui/snapshot?namespace=mine", "/ui/history", "/ui/usage",
                                  "/ui/what-if?change=hold&seconds=5"])
def test_name_from_elsewhere_that_leads_to_loopback_needs_a_token(server: HealthServer, path: str) -> None:
    answer = get(server, path, **ELSEWHERE)
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert get(server, path, **ELSEWHERE, Authorization="Bearer nobody").status == 401


@pytest.mark.parametrize("header", ["Authorization", TOKEN_HEADER])
def test_token_of_who_may_see_everything(server: HealthServer, header: str) -> None:
    value = "Bearer admin" if header == "Authorization" else "admin"
    assert "node/node-0" in snapshot(server, **ELSEWHERE, **{header: value})


def test_token_of_a_tenant_shows_its_namespace_only(server: HealthServer, looked: Looked) -> None:
    own, theirs = objects.claim("train", objects.local_result()), objects.claim("other", objects.local_result())
    own["metadata"] |= {"namespace": "mine", "uid": "u1"}
    theirs["metadata"] |= {"namespace": "rival", "uid": "u2"}
    looked.put(own, theirs)
    tenant = {**ELSEWHERE, TOKEN_HEADER: "tenant"}
    assert get(server, "/ui/snapshot", **tenant).status == 403
    assert get(server, "/ui/snapshot?namespace=rival", **tenant).status == 403
    assert get(server, "/ui/changes?namespace=rival", **tenant).status == 403
    assert get(server, "/ui/story?namespace=rival&key=claim/rival/other", **tenant).status == 403
    assert get(server, "/ui/story?namespace=mine&key=claim/rival/other", **tenant).status == 404
    assert get(server, "/ui/story?namespace=mine&key=node/node-0", **tenant).status == 404
    looked.view.refresh()
    found = snapshot(server, "?namespace=mine", **tenant)
    assert sorted(found) == ["claim/mine/train", "fabric/1", "process"]


def test_answer_about_one_namespace_is_not_taken_for_another(server: HealthServer, reviews: Reviews) -> None:
    tenant = {**ELSEWHERE, TOKEN_HEADER: "tenant"}
    assert [get(server, f"/ui/snapshot?namespace={each}", **tenant).status for each in ("mine", "rival", "mine")] == [
        200, 403, 200]
    assert len([spec for spec in reviews.asked if "token" in spec]) == 2


@pytest.mark.parametrize("namespace", ["Mine", "a/b", "-", "x" * 64, "*"])
def test_namespace_that_is_none(server: HealthServer, namespace: str) -> None:
    answer = get(server, f"/ui/snapshot?namespace={namespace}")
    assert answer.status == 400
    assert "must be the name of a namespace" in answer.read().decode()


def test_history_is_that_of_the_asked_span(server: HealthServer) -> None:
    found = json.loads(get(server, "/ui/history?span=7d").read())
    assert (found["source"], found["span"], found["step_s"]) == ("memory", "7d", 3600.0)
    answer = get(server, "/ui/history?span=1y")
    assert (answer.status, answer.read()) == (
        400, b"span: '1y' is not allowed. It must be one of 1h, 24h, 7d, 30d\n")


def test_history_is_shown_to_a_tenant_for_its_namespace_only(server: HealthServer) -> None:
    tenant = {**ELSEWHERE, TOKEN_HEADER: "tenant"}
    assert get(server, "/ui/history", **tenant).status == 403
    assert get(server, "/ui/history?namespace=rival", **tenant).status == 403
    assert get(server, "/ui/history?namespace=mine", **tenant).status == 200


def test_usage_is_shown_to_a_tenant_for_its_namespace_only(server: HealthServer, looked: Looked) -> None:
    hour = 500_000 * 3600
    looked.stored = Stored({Place(hour, 3600, name, "a100", ""): Sum(3600.0) for name in ("mine", "rival")},
                           float(hour), hour + 3600.0)
    tenant = {**ELSEWHERE, TOKEN_HEADER: "tenant"}
    assert get(server, "/ui/usage", **tenant).status == 403
    assert get(server, "/ui/usage?namespace=rival", **tenant).status == 403
    answer = json.loads(get(server, "/ui/usage?namespace=mine", **tenant).read())
    assert [row["namespace"] for row in answer["rows"]] == ["mine"]
    assert answer["totals"][0]["gpu_hours"] == 2.0


def test_usage_as_csv_is_a_file(server: HealthServer) -> None:
    answer = get(server, "/ui/usage?format=csv")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/csv; charset=utf-8")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="usage.csv"'
    assert answer.read().decode().strip() == "namespace,model,label,gpu_hours,idle_gpu_hours,cost,currency,attaches"
    assert get(server, "/ui/usage?by=pod").status == 400


def test_changes_come_over_the_same_connection(server: HealthServer, looked: Looked) -> None:
    position = json.loads(get(server, "/ui/snapshot").read())["at"]
    answer = get(server, f"/ui/changes?since={position}")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    assert answer.readline().startswith(b"id: ")
    looked.put(objects.claim("train", objects.local_result()))
    lines = iter(answer.readline, b"")
    data = next(line for line in lines if b"claim/default/train" in line)
    assert data.startswith(b"data: {")
    answer.close()


def test_stream_outlives_the_time_that_a_request_may_take(
        server: HealthServer, looked: Looked, monkeypatch: pytest.MonkeyPatch) -> None:
    position = json.loads(get(server, "/ui/snapshot").read())["at"]
    answer = get(server, f"/ui/changes?since={position}")
    assert answer.readline()
    monkeypatch.setattr(health, "REQUEST_SECONDS", 0.0)
    monkeypatch.setattr(health, "CONNECTIONS", 0)
    looked.put(objects.claim("train", objects.local_result()))
    assert any(b"claim/default/train" in line for line in iter(answer.readline, b""))
    answer.close()


def test_answer_that_takes_us_long_is_given_all_the_same(
        server: HealthServer, looked: Looked, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of 5,000 nodes may on a busy machine."""
    asked, go = threading.Event(), threading.Event()
    snapshot = looked.view.snapshot

    def slow(*args: t.Any) -> t.Any:
        asked.set()
        go.wait(10)
        return snapshot(*args)

    monkeypatch.setattr(looked.view, "snapshot", slow)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(get, server, "/ui/snapshot")
        assert asked.wait(10)
        monkeypatch.setattr(health, "REQUEST_SECONDS", 0.0)
        server._server.service_actions()
        monkeypatch.setattr(health, "REQUEST_SECONDS", 60.0)
        go.set()
        assert answer.result().status == 200


def test_too_many_pages_are_told_so(server: HealthServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broadcaster, "full_for", lambda self, scope: True)
    assert get(server, "/ui/changes").status == 503


def test_long_answers_are_packed_where_the_browser_unpacks(server: HealthServer, looked: Looked) -> None:
    for number in range(20):
        looked.put(objects.claim(f"claim-{number}", objects.local_result()))
    looked.view.refresh()
    plain = get(server, "/ui/snapshot").read()
    packed = get(server, "/ui/snapshot", Accept_Encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert len(packed.read()) < len(plain) / 3


HOLD = "/ui/what-if?change=hold&seconds=60"
FROM_THE_PAGE: t.Final = {PAGE_HEADER: "1"}


def test_what_if_is_answered_by_a_process_of_its_own(server: HealthServer) -> None:
    answer = get(server, HOLD, **FROM_THE_PAGE)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert json.loads(json.loads(answer.read())["read"])["changes"][0]["settings"] == {"device_no_removal_duration": 60}


def test_what_if_outlives_the_time_that_a_request_may_take(
        server: HealthServer, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, lock = os.pipe()
    asked = asking(f"open('/proc/{os.getpid()}/fd/{gate}').read(); print('[1]')")
    monkeypatch.setattr(server._ui, "_what_if", asked)
    answer = get(server, HOLD, **FROM_THE_PAGE)
    while not asked.busy:
        threading.Event().wait(0.01)
    monkeypatch.setattr(health, "REQUEST_SECONDS", 0.0)
    server._server.service_actions()
    os.close(lock)
    assert json.loads(answer.read()) == [1]
    os.close(gate)


def test_one_what_if_at_a_time(server: HealthServer, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = Hanging()
    monkeypatch.setattr(server._ui, "_what_if", hanging.asked)
    assert get(server, HOLD, **FROM_THE_PAGE).status == 503
    hanging.page.close()
    assert hanging.ended()


def test_other_sites_cannot_have_anything_asked(server: HealthServer) -> None:
    """Their pages reach loopback too. A header of ours makes the browser ask first, by a method that is refused."""
    answer = get(server, HOLD, Origin="https://example.com", Sec_Fetch_Site="cross-site")
    assert answer.status == 400
    assert PAGE_HEADER in answer.read().decode()
    host, _unused, port = server.address.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request("OPTIONS", HOLD, headers={"Origin": "https://example.com",
                                                 "Access-Control-Request-Headers": PAGE_HEADER})
    refused = connection.getresponse()
    assert (refused.status, refused.headers["Access-Control-Allow-Origin"]) == (501, None)


def test_who_sees_one_namespace_asks_nothing_about_the_cluster(server: HealthServer) -> None:
    tenant = {**ELSEWHERE, **FROM_THE_PAGE, TOKEN_HEADER: "tenant"}
    assert get(server, HOLD, **tenant).status == 403
    own = get(server, f"{HOLD}&namespace=mine", **tenant)
    assert own.status == 403
    assert "only for users who may see everything" in own.read().decode()
    assert get(server, HOLD, **{**tenant, TOKEN_HEADER: "admin"}).status == 200


@pytest.mark.parametrize("query", ["", "?change=lose_node&node=node-0", "?change=hold&seconds=99999999", "?change=hold",
                                   "?change=hold&seconds=5&capture=/etc/passwd"])
def test_question_that_is_out_of_bounds_is_refused(server: HealthServer, query: str) -> None:
    answer = get(server, f"/ui/what-if{query}", **FROM_THE_PAGE)
    assert answer.status == 400
    assert answer.read()


def test_without_what_if_it_is_not_served(server: HealthServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server._ui, "_what_if", None)
    assert get(server, HOLD, **FROM_THE_PAGE).status == 404


def test_without_the_page_there_is_nothing_at_its_address() -> None:
    made = HealthServer("127.0.0.1:0", FakeEngine(), PrometheusMetrics(), dict)
    made.start()
    assert [get(made, path).status for path in ("/", "/ui/", "/ui/snapshot")] == [404, 404, 404]
    made.stop()


def test_api_server_that_is_away_lets_nobody_in(server: HealthServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "AT_ONCE", 0)
    monkeypatch.setattr(Access, "_ask", lambda *unused: 503)
    assert get(server, "/ui/snapshot", **ELSEWHERE, Authorization="Bearer admin").status == 503


def test_files_hold_nothing_from_elsewhere_and_nothing_inline() -> None:
    for name, found in bundle().items():
        content = found.data.decode()
        foreign = [each for each in re.findall(r"https?://[^\s\"')]+", content)
                   if not each.startswith(("https://www.gnu.org/licenses/", "http://www.w3.org/2000/svg"))]
        assert foreign == [], name
        assert not INLINE.search(content), name


def test_addresses_in_the_files_are_relative() -> None:
    for name, found in bundle().items():
        assert not re.search(r'(?:src|href|from|url\()\s*=?\s*"/', found.data.decode()), name


def test_all_files_of_the_folder_are_served() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(bundle()) - {""}
    assert {path.suffix for path in FOLDER.iterdir()} == set(KINDS)


def test_what_answers_for_the_page_reaches_nothing_that_writes() -> None:
    """Read-only by construction: the parts that answer never import a writer, an engine or a driver's changes."""
    sources = {str(path): text(path) for path in files(".py") if path.parts[0] in ("controller", "plugins")}
    reached = set[str]()

    def used(path: str) -> set[str]:
        found = {file_of(name, sources) for _line, name in imports(path, sources[path])}
        return {each for each in found if each is not None}

    waiting = [f"controller/ui/{name}.py" for name in (
        "view", "stream", "story", "scope", "read_rows", "bundle", "whatif/bounded", "whatif/question")]
    assert not {path for each in waiting for path in used(each) if "/kube/client/" in path}
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            waiting += used(path)
    changing = re.compile("writer|oneshot|controller_manager|/drivers/|operations")
    assert [path for path in reached if changing.search(path)] == []
    assert "plugins/module_utils/reconcile/state/cluster_state.py" in reached
