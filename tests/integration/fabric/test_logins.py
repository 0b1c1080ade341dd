# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to log in and to get there over real sockets: sessions, basic, our own certificate, plain addresses, ports."""

from __future__ import annotations

import base64
import json
import typing as t
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ansible_collections.composable.infra.emulator import Emulator, simple_spec
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Unauthorized, Unavailable
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import Request
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.session import Session
from ansible_collections.composable.infra.tests.integration.fabric.conftest import MODEL, NODE_0, attached, logins
from ansible_collections.composable.infra.tests.integration.fabric.identity import identity
from ansible_collections.composable.infra.tests.integration.fabric.scripted import (
    Answer,
    Asked,
    ForwardProxy,
    ScriptedManager,
    login,
)

Scripted = Callable[..., ScriptedManager]
GET = Request("GET", "/redfish/v1/Systems", "list the systems")
SESSIONS = "/redfish/v1/SessionService/Sessions"


def redfish(manager: ScriptedManager, **options: t.Any) -> Session:
    given = {"manager": "redfish", "username": "user", "password": "p4ss-w0rd"}
    known = manager.options()
    where = {"endpoint": known["endpoint"], "ca_path": known["ca_path"]}
    return Session(FabricConfig.from_dict({**given, **where, **options}), lambda body: None)


def test_a_redfish_session_lives_from_the_first_call_to_the_end(scripted: Scripted) -> None:
    def script(asked: Asked) -> Answer:
        if asked.method == "POST":
            return Answer(201, headers={"X-Auth-Token": "t0ken", "Location": f"{SESSIONS}/1"})
        return Answer(body={"shown": asked.headers.get("x-auth-token")})

    manager = scripted(script)
    session = redfish(manager)
    assert session.call(GET).body == {"shown": "t0ken"}
    session.close()
    assert [(a.method, a.path) for a in manager.asked] == [
        ("POST", SESSIONS), ("GET", "/redfish/v1/Systems"), ("DELETE", f"{SESSIONS}/1"),
    ]
    assert manager.asked[-1].headers["x-auth-token"] == "t0ken"
    assert json.loads(manager.asked[0].body) == {"UserName": "user", "Password": "p4ss-w0rd"}


def test_basic_is_shown_with_every_request(scripted: Scripted) -> None:
    manager = scripted(lambda asked: Answer(body={}))
    session = redfish(manager, auth="basic")
    session.call(GET)
    session.close()
    assert manager.asked[0].authorization == "Basic " + base64.b64encode(b"user:p4ss-w0rd").decode()
    assert len(manager.asked) == 1


def own(files: tuple[Path, Path]) -> dict[str, str]:
    return {"client_cert_path": str(files[0]), "client_key_path": str(files[1])}


def test_our_own_certificate_opens_a_server_that_wants_one(scripted: Scripted, tmp_path: Path) -> None:
    ours = identity(tmp_path, "ours")
    manager = scripted(lambda asked: Answer(body={"ok": 1}), client_ca=ours[0])
    assert redfish(manager, auth="none", username=None, password=None, **own(ours)).call(GET).body == {"ok": 1}


@pytest.mark.parametrize("effect", [False, True])
def test_without_it_nothing_was_done_and_the_option_is_named(scripted: Scripted, tmp_path: Path, effect: bool) -> None:
    manager = scripted(lambda asked: Answer(body={}), client_ca=identity(tmp_path, "ours")[0])
    session = redfish(manager, auth="none", username=None, password=None)
    with pytest.raises(Unavailable, match=r"it requires a client certificate .*: set client_cert_path"):
        session.call(Request("POST" if effect else "GET", "/x", "change x", effect=effect))
    assert manager.asked == []


def test_a_certificate_that_is_not_accepted_is_named(scripted: Scripted, tmp_path: Path) -> None:
    manager = scripted(lambda asked: Answer(body={}), client_ca=identity(tmp_path, "ours")[0])
    other = identity(tmp_path, "other")
    session = redfish(manager, auth="none", username=None, password=None, **own(other))
    with pytest.raises(Unavailable, match=f"does not accept the certificate in client_cert_path {other[0]}"):
        session.call(GET)


def test_a_renewed_certificate_of_our_own_is_read_again(scripted: Scripted, tmp_path: Path) -> None:
    good, mounted = identity(tmp_path, "good"), identity(tmp_path, "mounted")
    manager = scripted(lambda asked: Answer(body={"ok": 1}), client_ca=good[0])
    session = redfish(manager, auth="none", username=None, password=None, **own(mounted))
    with pytest.raises(Unavailable):
        session.call(GET)
    for fresh, stale in zip(good, mounted, strict=True):
        stale.write_bytes(fresh.read_bytes())
    assert session.call(GET).body == {"ok": 1}


@pytest.fixture
def cm(tmp_path: Path) -> t.Iterator[Emulator]:
    spec = simple_spec(["node-0"], {MODEL: 2}, attach=0.1, detach=0.1, managers=["cm"])
    with Emulator.run(spec, tmp_path / "cm") as running:
        yield running


def test_cm_and_the_fm_behind_it_share_one_login_and_a_revoked_token_is_renewed(cm: Emulator) -> None:
    fabric = connect(FabricConfig.from_dict(cm.fabric_config("cm")))
    fabric.attach(NODE_0, MODEL)
    assert fabric.snapshot([MODEL]).free == {(MODEL, 1): 1}
    assert logins(cm) == 1
    cm.set_tokens(revoke=True)
    fabric.attach(NODE_0, MODEL)
    assert logins(cm) == 2
    assert len(attached(cm)) == 2
    fabric.close()


@pytest.mark.parametrize("wrong", ["password", "client_secret", "tenant", "cluster"])
def test_cm_refuses_who_does_not_belong_there_and_nothing_happens(cm: Emulator, wrong: str) -> None:
    value = "00000000-0000-0000-0000-000000000001" if wrong in ("tenant", "cluster") else "wr0ng-and-secret"
    fabric = connect(FabricConfig.from_dict(cm.fabric_config("cm", **{wrong: value})))
    with pytest.raises(Exception, match=r"Check username, password|not found") as caught:
        fabric.attach(NODE_0, MODEL)
    assert isinstance(caught.value, Unauthorized) or wrong in ("tenant", "cluster")
    assert "wr0ng-and-secret" not in str(caught.value)
    assert attached(cm) == {}
    fabric.close()


def nec(tmp_path: Path, name: str) -> Emulator:
    spec = simple_spec(["node-0"], {MODEL: 2}, attach=0.1, detach=0.1, managers=["nec"])
    return Emulator.run(spec, tmp_path / name)


def test_nec_has_a_port_for_the_inventory_and_one_for_changes(tmp_path: Path) -> None:
    with nec(tmp_path, "inventory") as inventory, nec(tmp_path, "layouts") as layouts:
        given = inventory.fabric_config("nec", layout_endpoint=layouts.plain_url)
        fabric = connect(FabricConfig.from_dict(given))
        assert fabric.attach(NODE_0, MODEL).done
        assert {entry["path"] for entry in inventory.log()} == {"/cdim/api/v1/resources", "/cdim/api/v1/nodes"}
        assert all(entry["path"].startswith("/cdim/api/v1/layout-apply") for entry in layouts.log())
        assert len(attached(layouts)) == 1
        fabric.close()


def test_nec_lists_its_applies_on_pages(tmp_path: Path) -> None:
    with nec(tmp_path, "nec") as emulator:
        fabric = connect(FabricConfig.from_dict(emulator.fabric_config("nec")))
        for _unused in range(11):
            fabric.detach(NODE_0, fabric.attach(NODE_0, MODEL).devices[0].uid)
        fabric.close()
        pages = []
        for query in ("", "?offset=20", "?limit=3&offset=1"):
            with urllib.request.urlopen(f"{emulator.plain_url}/cdim/api/v1/layout-apply{query}") as reply:
                found = json.load(reply)
            pages.append((found["totalCount"], found["count"], len(found["applyResults"])))
        assert pages == [(22, 20, 20), (22, 2, 2), (22, 3, 3)]


def test_a_plain_address_is_reached_through_the_proxy_for_plain_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = ForwardProxy()
    try:
        with nec(tmp_path, "nec") as emulator:
            monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
            monkeypatch.setenv("http_proxy", f"http://{proxy.address}")
            where = f"http://cdim.test:{urlsplit(emulator.plain_url).port}"
            fabric = connect(FabricConfig.from_dict(emulator.fabric_config("nec", endpoint=where)))
            assert fabric.attach(NODE_0, MODEL).done
            assert proxy.urls[0].startswith(f"{where}/cdim/api/v1/")
            assert any(url.endswith("/layout-apply") for url in proxy.urls)
            fabric.close()
    finally:
        proxy.close()


def test_many_requests_are_paced(scripted: Scripted) -> None:
    manager = scripted(lambda asked: login(asked) if asked.is_login else Answer(body={}))
    session = redfish(manager, auth="basic", requests_per_second=1000.0)
    for _unused in range(5):
        session.call(GET)
    assert len(manager.asked) == 5
    session.close()
