# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulated FM on the wire, asked without the client under test: fields, statuses and codes as documented."""

from __future__ import annotations

import json
import ssl
import typing as t
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.fm.wire import attach_body, detach_body
from ansible_collections.composable.infra.tests.integration.fabric.conftest import (
    MODEL,
    NODE_0,
    NODE_1,
    OTHER,
    await_state,
)

MACHINES = "/fabric_manager/api/v1/machines"
CONDITION = {"column": "model", "operator": "eq", "value": MODEL}


@dataclass
class Raw:
    """Plain HTTPS with a token of its own."""

    emulator: Emulator
    token: str = ""

    def login(self, **form: str) -> tuple[int, t.Any]:
        told = {"grant_type": "password", **self.emulator.credentials, **form}
        path = f"/id_manager/realms/{told['realm']}/protocol/openid-connect/token"
        status, body = self.send("POST", path, urllib.parse.urlencode(told).encode())
        self.token = body.get("access_token", "")
        return status, body

    def ask(self, method: str, path: str, body: t.Any = None, **query: str) -> tuple[int, t.Any]:
        query = {"tenant_uuid": self.emulator.credentials["tenant"], **query}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        return self.send(method, f"{path}?{urllib.parse.urlencode(query)}", data)

    def send(self, method: str, path: str, data: bytes | None = None) -> tuple[int, t.Any]:
        request = urllib.request.Request(f"{self.emulator.url}{path}", data, method=method)
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        context = ssl.create_default_context(cafile=self.emulator.ca_path)
        try:
            with urllib.request.urlopen(request, context=context, timeout=30) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def attach(self, machine: str = NODE_0, model: str = MODEL) -> tuple[int, t.Any]:
        body = attach_body(self.emulator.credentials["tenant"], machine, model, "gpu")
        return self.ask("PATCH", f"{MACHINES}/{machine}/update", body)

    def detach(self, device: str, machine: str = NODE_0) -> tuple[int, t.Any]:
        body = detach_body(self.emulator.credentials["tenant"], machine, device, "gpu")
        return self.ask("DELETE", f"{MACHINES}/{machine}/update", body)


@pytest.fixture
def raw(emulator: Emulator) -> Raw:
    asking = Raw(emulator)
    assert asking.login()[0] == 200
    return asking


def code(answer: tuple[int, t.Any]) -> tuple[int, str]:
    status, body = answer
    assert body["status"] == status
    assert set(body["detail"]) == {"code", "message", "data"}
    return status, body["detail"]["code"]


def test_a_login_answers_like_keycloak(raw: Raw) -> None:
    status, body = raw.login()
    assert status == 200
    assert set(body) == {
        "access_token", "expires_in", "refresh_expires_in", "refresh_token", "token_type", "id_token",
        "not-before-policy", "session_state", "scope",
    }
    assert body["access_token"].count(".") == 2
    assert "=" not in body["access_token"]


@pytest.mark.parametrize(
    ("form", "status", "error"),
    [
        ({"password": "x"}, 401, "invalid_grant"),
        ({"username": "x"}, 401, "invalid_grant"),
        ({"username": "", "password": ""}, 401, "invalid_grant"),
        ({"client_id": "x"}, 401, "unauthorized_client"),
        ({"client_secret": ""}, 401, "unauthorized_client"),
        ({"realm": "x"}, 404, "Realm does not exist"),
        ({"grant_type": "code"}, 400, "unsupported_grant_type"),
    ],
)
def test_a_wrong_login_is_refused_like_keycloaks(raw: Raw, form: dict[str, str], status: int, error: str) -> None:
    answered, body = raw.login(**form)
    assert (answered, body["error"]) == (status, error)


def test_the_collection(raw: Raw) -> None:
    status, body = raw.ask("GET", MACHINES)
    assert status == 200
    first, *_unused, apart = body["data"]["machines"]
    assert set(first) == {"fabric_uuid", "fabric_id", "mach_uuid", "mach_id", "mach_name", "mach_owner", "resources"}
    assert (first["mach_uuid"], first["mach_name"], first["fabric_id"]) == (NODE_0, "node-0", 1)
    assert (apart["fabric_id"], apart["fabric_uuid"]) == (None, None)


def test_one_machine(raw: Raw) -> None:
    status, body = raw.ask("GET", f"{MACHINES}/{NODE_0}")
    assert status == 200
    (machine,) = body["data"]["machines"]
    assert (machine["mach_status"], machine["mach_op_status"]) == (15, "00")
    assert machine["tenant_uuid"] == raw.emulator.credentials["tenant"]
    assert {"mach_status_detail", "boot_ssd", "lanports"} <= set(machine)


def test_processors_and_memory_are_listed_among_the_resources(raw: Raw) -> None:
    _unused, body = raw.ask("GET", f"{MACHINES}/{NODE_0}")
    assert [r["res_type"] for r in body["data"]["machines"][0]["resources"]] == ["compute", "memory"]


def test_an_attach_answers_with_the_new_resource_first(raw: Raw) -> None:
    found = []
    for _unused in range(2):
        status, body = raw.attach()
        assert status == 200
        resources = body["data"]["machines"][0]["resources"]
        found.append(resources[0]["res_uuid"])
    assert resources[0] == {
        "res_uuid": found[1], "res_name": resources[0]["res_name"], "res_type": "gpu", "res_status": 4,
        "res_op_status": "00", "res_serial_num": resources[0]["res_serial_num"], "res_spec": {"condition": [CONDITION]},
    }
    assert found[0] != found[1]
    assert found[0] in {r["res_uuid"] for r in resources[1:]}


@pytest.mark.parametrize(
    ("health", "op_status"), [("OK", "00"), ("Warning", "10"), ("Critical", "20"), ("Unknown", "")]
)
def test_the_operation_status_tells_the_health(raw: Raw, health: str, op_status: str) -> None:
    device = next(d["uid"] for d in raw.emulator.state()["devices"] if d["model"] == OTHER)
    raw.emulator.set_health(device, health)
    _unused, body = raw.attach(model=OTHER)
    assert body["data"]["machines"][0]["resources"][0]["res_op_status"] == op_status


def test_what_is_available(raw: Raw) -> None:
    def available() -> tuple[int, t.Any]:
        path = f"{MACHINES}/{NODE_1}/available-reserved-resources"
        return raw.ask("GET", path, res_type="gpu", condition=json.dumps(CONDITION))

    status, body = available()
    assert (status, body["fabric_id"], body["reserved_res_num_per_fabric"]) == (200, 1, 4)
    raw.attach()
    assert available()[1]["reserved_res_num_per_fabric"] == 3


def test_codes_of_what_is_unknown(raw: Raw) -> None:
    assert code(raw.ask("GET", MACHINES, tenant_uuid="x")) == (404, "E020401")
    assert code(raw.ask("GET", f"{MACHINES}/x")) == (404, "E020402")
    assert code(raw.attach("x")) == (404, "E020402")
    assert code(raw.detach("x")) == (404, "E020403")
    assert code(raw.attach(model="x")) == (404, "E020404")


def test_a_device_of_another_machine_is_not_detached(raw: Raw) -> None:
    _unused, body = raw.attach(NODE_0)
    device = body["data"]["machines"][0]["resources"][0]["res_uuid"]
    assert code(raw.detach(device, NODE_1)) == (404, "E020403")
    assert raw.detach(device, NODE_0)[0] == 200


def test_a_device_that_is_being_detached_is_busy(raw: Raw) -> None:
    _unused, body = raw.attach()
    device = body["data"]["machines"][0]["resources"][0]["res_uuid"]
    raw.emulator.set_timing(detach=1000)
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(raw.detach, device)
        await_state(raw.emulator, "detaching")
        assert code(raw.detach(device)) == (409, "E020901")
        _unused, body = raw.ask("GET", f"{MACHINES}/{NODE_0}")
        assert device in {r["res_uuid"] for r in body["data"]["machines"][0]["resources"]}
        raw.emulator.kill()
        assert under_way.exception() is not None


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", [], {"tenants": {}}])
def test_a_malformed_change_is_refused_and_changes_nothing(raw: Raw, body: t.Any) -> None:
    for method in ("PATCH", "DELETE"):
        assert code(raw.ask(method, f"{MACHINES}/{NODE_0}/update", body)) == (400, "E020001")
    assert {d["state"] for d in raw.emulator.state()["devices"]} == {"free"}


def test_malformed_queries(raw: Raw) -> None:
    path = f"{MACHINES}/{NODE_0}/available-reserved-resources"
    assert code(raw.ask("GET", path)) == (400, "E020001")
    assert code(raw.ask("GET", path, res_type="gpu", condition="x")) == (400, "E020001")
    assert code(raw.send("GET", MACHINES)) == (400, "E020001")


def test_no_call_without_a_token_that_is_valid(raw: Raw) -> None:
    good = raw.token
    for bad in ("", "x", good[:-2] + "xx", good + "x"):
        raw.token = bad
        for answer in (raw.ask("GET", MACHINES), raw.ask("GET", f"{MACHINES}/{NODE_0}"), raw.attach(), raw.detach("d")):
            assert code(answer) == (401, "E020101")
    raw.token = good
    assert raw.ask("GET", MACHINES)[0] == 200


def test_a_token_that_has_expired_is_refused(raw: Raw) -> None:
    raw.emulator.set_tokens(lifetime=0.001)
    raw.login()
    while (answer := raw.ask("GET", MACHINES))[0] == 200:
        pass
    assert code(answer) == (401, "E020101")
    assert answer[1]["detail"]["message"] == "the token has expired"
