# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each way to log in above a link that answers as told: what is shown, renewed, given up, and never said."""

from __future__ import annotations

import base64
import json
import time
import typing as t
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    Changed,
    Refused,
    Unauthorized,
    Unavailable,
    Uncertain,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.http import endpoint as endpoints
from ansible_collections.composable.infra.plugins.module_utils.fabric.http import session as sessions
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import ErrorBody, Request
from ansible_collections.composable.infra.plugins.module_utils.net.backoff import Backoff
from ansible_collections.composable.infra.plugins.module_utils.net.client import Response
from ansible_collections.composable.infra.plugins.module_utils.net.errors import NoResponse
from ansible_collections.composable.infra.tests.unit.fabric.http.auth_support import (
    Connect,
    FakeClient,
    paths,
    reply,
)

PASSWORD = "p4ss-w0rd-x"
TOKEN = "session-t0ken"


def read_error(body: t.Any) -> ErrorBody | None:
    return ErrorBody(None, body["error"]) if isinstance(body, dict) and "error" in body else None


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Connect:
    def make(script: Callable[..., Response], **options: t.Any) -> sessions.Session:
        FakeClient.script, FakeClient.sent = staticmethod(script), []
        monkeypatch.setattr(endpoints, "HttpClient", FakeClient)
        monkeypatch.setattr(sessions, "BACKOFF", Backoff(0.0))
        given = {"manager": "redfish", "endpoint": "https://rf/base", "username": "user", "password": PASSWORD}
        return sessions.Session(FabricConfig.from_dict({**given, **options}), read_error)

    return make


GET = Request("GET", "/redfish/v1/Systems", "list the systems")


def opening(token: str = TOKEN, location: str = "https://rf/base/redfish/v1/SessionService/Sessions/7") -> Response:
    return reply(201, {"@odata.id": "/redfish/v1/SessionService/Sessions/8"}, X_Auth_Token=token, Location=location)


def test_a_session_is_opened_once_shown_and_deleted_at_the_end(connected: Connect) -> None:
    session = connected(lambda method, path, *_rest: opening() if method == "POST" else reply(200, {"Members": []}))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _n: session.call(GET).body, range(4))) == [{"Members": []}] * 4
    session.close()
    session.close()
    assert [m for m, _path in paths()] == ["POST", *["GET"] * 4, "DELETE"]
    method, path, headers, body = FakeClient.sent[0]
    assert (method, path) == ("POST", "/redfish/v1/SessionService/Sessions")
    assert "X-Auth-Token" not in headers
    assert json.loads(body or b"") == {"UserName": "user", "Password": PASSWORD}
    assert all(headers["X-Auth-Token"] == TOKEN for _m, _p, headers, _b in FakeClient.sent[1:])
    assert paths()[-1] == ("DELETE", "/redfish/v1/SessionService/Sessions/7")


@pytest.mark.parametrize(
    ("headers", "where"),
    [
        ({"Location": "/redfish/v1/SessionService/Sessions/3"}, "/redfish/v1/SessionService/Sessions/3"),
        ({}, "/redfish/v1/SessionService/Sessions/8"),
    ],
)
def test_a_sessions_place_is_told_in_either_form(connected: Connect, headers: dict[str, str], where: str) -> None:
    body = {"@odata.id": "/redfish/v1/SessionService/Sessions/8"}
    made = reply(201, body, X_Auth_Token=TOKEN, **headers)
    session = connected(lambda method, *_rest: made if method == "POST" else reply(200, {}))
    session.call(GET)
    session.close()
    assert paths()[-1] == ("DELETE", where)


def test_a_session_that_ended_is_opened_anew_once(connected: Connect) -> None:
    tokens = iter(["one", "two"])

    def script(method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        if method == "POST":
            return opening(next(tokens))
        return reply(200, {"ok": 1}) if headers["X-Auth-Token"] == "two" else reply(401, {"error": "ended"})

    session = connected(script)
    assert session.call(GET).body == {"ok": 1}
    assert [m for m, _path in paths()] == ["POST", "GET", "POST", "GET"]


def test_a_session_that_is_refused_names_the_user_and_what_to_check(connected: Connect) -> None:
    session = connected(lambda *_rest: reply(401, {"error": f"bad password {PASSWORD}"}))
    said = r"as user 'user': bad password \*+\. Check username and password$"
    with pytest.raises(Unauthorized, match=said) as caught:
        session.call(GET)
    assert PASSWORD not in f"{caught.value} {caught.value.detail}"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reply(201, {}), Unavailable), (reply(503, {"error": "starting"}), Unavailable),
        (reply(404, None), Unavailable), (reply(429, {"error": "slow"}), Busy), (reply(500, None), Unavailable),
        (reply(409, {"error": "not now"}), Busy), (reply(423, {"error": "locked"}), Busy),
    ],
)
def test_a_session_that_cannot_be_opened_is_told_by_class(
    connected: Connect, answer: Response, error: type[Exception]
) -> None:
    with pytest.raises(error, match="cannot open a session at the CDI Manager"):
        connected(lambda *_rest: answer).call(GET)


def test_closing_never_fails_and_asks_nothing_when_nothing_was_opened(connected: Connect) -> None:
    def script(method: str, *_rest: t.Any) -> Response:
        if method == "DELETE":
            raise NoResponse(ConnectionResetError("gone"), sent=True)
        return opening() if method == "POST" else reply(200, {})

    connected(script).close()
    assert FakeClient.sent == []
    session = connected(script)
    session.call(GET)
    session.close()
    assert paths()[-1][0] == "DELETE"


def test_basic_shows_user_and_password_and_is_not_repeated_when_they_are_wrong(connected: Connect) -> None:
    session = connected(lambda *_rest: reply(401, {"error": "no"}), auth="basic")
    with pytest.raises(Unauthorized, match="no"):
        session.call(GET)
    assert len(FakeClient.sent) == 1
    kind, _space, value = FakeClient.sent[0][2]["Authorization"].partition(" ")
    assert (kind, base64.b64decode(value).decode()) == ("Basic", f"user:{PASSWORD}")


def test_basic_reads_a_renewed_secret_when_the_old_one_is_refused(connected: Connect, tmp_path: Path) -> None:
    for name, text in (("username", "user"), ("password", "old")):
        (tmp_path / name).write_text(text, encoding="utf-8")

    def script(method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        (tmp_path / "password").write_text("new", encoding="utf-8")
        good = base64.b64encode(b"user:new").decode()
        return reply(200, {"ok": 1}) if headers["Authorization"].endswith(good) else reply(401, {"error": "no"})

    secret = {"credentials_dir": str(tmp_path), "username": None, "password": None}
    session = connected(script, auth="basic", **secret)
    assert session.call(GET).body == {"ok": 1}
    assert session.call(GET).body == {"ok": 1}
    assert len(FakeClient.sent) == 3


def test_none_shows_nothing(connected: Connect) -> None:
    nobody = {"manager": "nec", "endpoint": "http://nec", "username": None, "password": None}
    session = connected(lambda *_rest: reply(200, {}), **nobody)
    session.call(GET)
    session.close()
    assert FakeClient.sent[0][2] == {}
    assert len(FakeClient.sent) == 1


def test_an_exchange_has_status_headers_and_body(connected: Connect) -> None:
    session = connected(lambda *_rest: reply(202, None, Location="/task/1", ETag='"7"'), auth="basic")
    answer = session.call(Request("PATCH", "/x", "change x", body={"a": 1}, reads=False, headers={"If-Match": '"6"'}))
    assert (answer.status, answer.body) == (202, None)
    assert (answer.headers["location"], answer.headers["etag"]) == ("/task/1", '"7"')
    sent = FakeClient.sent[0]
    assert (sent[2]["If-Match"], sent[2]["Content-Type"], sent[3]) == ('"6"', "application/json", b'{"a":1}')


def test_a_body_that_is_not_asked_for_is_given_where_it_is_json(connected: Connect) -> None:
    session = connected(lambda *_rest: reply(200, {"Id": "1"}), auth="basic")
    request = Request("POST", "/x", "make x", reads=False, effect=True)
    assert session.call(request).body == {"Id": "1"}


def test_a_page_of_a_gateway_is_no_success_of_a_change(connected: Connect) -> None:
    page = Response(200, {"content-type": "text/html"}, b"<html>Welcome</html>")
    session = connected(lambda *_rest: page, auth="basic")
    with pytest.raises(Uncertain, match="may have taken effect"):
        session.call(Request("DELETE", "/x", "detach x", reads=False, effect=True))
    assert len(FakeClient.sent) == 1


@pytest.mark.parametrize("status", [412, 428])
def test_a_lost_compare_and_swap_did_nothing_and_is_not_repeated(connected: Connect, status: int) -> None:
    session = connected(lambda *_rest: reply(status, {"error": "ETag differs"}), auth="basic")
    with pytest.raises(Changed, match="ETag differs"):
        session.call(Request("PATCH", "/x", "change x", effect=True))
    assert len(FakeClient.sent) == 1


def test_a_retry_after_is_honoured_for_changes_too_and_ends(
    connected: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    session = connected(lambda *_rest: reply(429, {"error": "slow"}, Retry_After="2"), auth="basic")
    with pytest.raises(Busy) as caught:
        session.call(Request("POST", "/x", "make x", effect=True))
    assert caught.value.retry_after == 2
    assert len(FakeClient.sent) == 3
    assert all(2 <= pause <= 2.2 for pause in pauses)


@pytest.mark.parametrize(
    ("effect", "sent", "error", "times"),
    [(True, True, Uncertain, 1), (True, False, Unavailable, 3), (False, True, Unavailable, 3)],
)
def test_only_what_is_safe_to_repeat_is_repeated(
    connected: Connect, effect: bool, sent: bool, error: type[Exception], times: int
) -> None:
    def script(*_rest: t.Any) -> Response:
        raise NoResponse(ConnectionResetError("the connection broke"), sent=sent)

    with pytest.raises(error):
        connected(script, auth="basic").call(Request("POST", "/x", "make x", effect=effect))
    assert len(FakeClient.sent) == times


def test_secrets_are_blanked_in_what_the_manager_says(connected: Connect) -> None:
    shown = base64.b64encode(f"user:{PASSWORD}".encode()).decode()
    session = connected(lambda *_rest: reply(400, {"error": f"{PASSWORD} {shown}"}), auth="basic")
    with pytest.raises(Refused) as caught:
        session.call(GET)
    assert PASSWORD not in str(caught.value)
    assert shown not in str(caught.value)


def test_another_endpoint_keeps_the_login(connected: Connect) -> None:
    connected(lambda *_rest: reply(200, {}), auth="basic")
    config = FabricConfig.from_dict({
        "manager": "nec", "endpoint": "http://one:8080", "layout_endpoint": "http://two:8081/",
    })
    session = sessions.Session(config, read_error, config.layout_endpoint)
    assert session._endpoint.address == "http://two:8081"
    assert session.call(GET).body == {}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_requests_are_paced_evenly_over_all_threads() -> None:
    clock = Clock()
    pace = endpoints.Pace(10.0, clock)
    assert [round(pace.turn(), 6) for _unused in range(4)] == [0, 0.1, 0.2, 0.3]
    clock.now += 5
    assert pace.turn() == 0
    assert endpoints.Pace(None, clock).turn() == 0
    assert [endpoints.Pace(None, clock).turn() for _unused in range(3)] == [0, 0, 0]


def test_a_paced_session_waits_its_turn(connected: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    session = connected(lambda *_rest: reply(200, {}), auth="basic", requests_per_second=0.5)
    for _unused in range(3):
        session.call(GET)
    assert len(waited) == 2
    assert waited[0] <= 2 <= waited[1] <= 4
