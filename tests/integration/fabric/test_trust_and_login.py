# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who we talk to and who we are: certificates, logins, tokens and their renewal."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import Emulator, certificates
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricManager
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import CREDENTIALS, FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import Missing, Unauthorized, Unavailable
from ansible_collections.composable.infra.plugins.module_utils.fabric.http import token
from ansible_collections.composable.infra.tests.integration.fabric.conftest import (
    MODEL,
    NODE_0,
    NODE_1,
    Client,
    logins,
    manager_calls,
)
from ansible_collections.composable.infra.tests.integration.fabric.scripted import (
    Answer,
    Asked,
    ScriptedManager,
    deadline,
    login,
)

Scripted = Callable[..., ScriptedManager]


@pytest.fixture
def other_authority(tmp_path: Path) -> Path:
    folder = tmp_path / "other"
    folder.mkdir()
    certificates.make(folder, [])
    return folder / "ca.pem"


def test_a_wrong_authority_says_what_to_set(client: Client, emulator: Emulator, other_authority: Path) -> None:
    with pytest.raises(Unavailable, match=r"not signed by the given CA.*other/ca.pem.*set ca_path or ca_pem") as caught:
        client(ca_path=str(other_authority)).machines()
    assert emulator.url in str(caught.value)
    assert caught.value.code == "certificate"
    assert emulator.log() == []


def test_the_systems_authorities_do_not_do_either(client: Client) -> None:
    with pytest.raises(Unavailable, match=r"system's trust store.*set ca_path or ca_pem"):
        client(ca_path=None).machines()


def test_an_authority_as_text_does(client: Client, emulator: Emulator) -> None:
    text = Path(emulator.ca_path).read_text(encoding="ascii")
    assert client(ca_path=None, ca_pem=text).machines()


def test_no_check_of_the_certificate_when_that_is_named(client: Client, other_authority: Path) -> None:
    assert client(ca_path=str(other_authority), validate_certs=False).machines()


def test_the_certificates_name_will_do_as_well_as_its_address(client: Client, emulator: Emulator) -> None:
    assert client(endpoint=emulator.url.replace("127.0.0.1", "localhost")).machines()


def test_a_certificate_for_another_address_is_refused(scripted: Scripted) -> None:
    manager = scripted(login, host="127.0.0.2")
    with pytest.raises(Unavailable, match=r"for another name.*Use one of its names in endpoint"):
        connect(FabricConfig.from_dict(manager.options())).machines()
    assert manager.asked == []


def test_a_replaced_authority_file_is_taken_up(client: Client, emulator: Emulator, other_authority: Path) -> None:
    fabric = client(ca_path=str(other_authority))
    with pytest.raises(Unavailable):
        fabric.machines()
    other_authority.write_bytes(Path(emulator.ca_path).read_bytes())
    assert fabric.machines()


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("username", "Invalid user credentials"),
        ("password", "Invalid user credentials"),
        ("client_id", "Invalid client"),
        ("client_secret", "Invalid client"),
        ("realm", "Realm does not exist"),
    ],
)
def test_a_wrong_credential_is_unauthorized_and_says_what_to_check(
    client: Client, emulator: Emulator, field: str, says: str
) -> None:
    fabric = client(**{field: "wr0ng-one"})
    with pytest.raises(Unauthorized, match=f"{says}.*Check username, password, client_id") as caught:
        fabric.machines()
    assert (field in ("password", "client_secret")) == ("wr0ng-one" not in str(caught.value))
    assert manager_calls(emulator) == []


def test_a_refused_login_is_not_hammered(
    client: Client, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token, "REFUSAL_PAUSE", 1000.0)
    fabric = client(password="wrong")

    def try_it(_number: int) -> bool:
        with pytest.raises(Unauthorized):
            fabric.machines()
        return True

    with ThreadPoolExecutor(20) as pool:
        assert all(pool.map(try_it, range(40)))
    assert logins(emulator) == 1


def test_a_mounted_secret_that_is_corrected_works_by_itself(
    tmp_path: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token, "REFUSAL_PAUSE", 0.2)
    folder = tmp_path / "secret"
    folder.mkdir()
    for key in CREDENTIALS:
        (folder / key).write_text(emulator.credentials[key], encoding="utf-8")
    (folder / "certificate").write_bytes(Path(emulator.ca_path).read_bytes())
    told = {"endpoint": emulator.url, "tenant": emulator.credentials["tenant"], "credentials_dir": str(folder)}
    fabric = connect(FabricConfig.from_dict(told))
    assert fabric.machines()
    (folder / "password").write_text("wrong", encoding="utf-8")
    emulator.set_tokens(revoke=True)
    with pytest.raises(Unauthorized):
        fabric.machines()
    (folder / "password").write_text(emulator.credentials["password"], encoding="utf-8")
    left = deadline()
    while True:
        try:
            assert fabric.machines()
            break
        except Unauthorized:
            assert left()
    fabric.close()


def test_one_login_serves_many_calls(fabric: FabricManager, emulator: Emulator) -> None:
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda _unused: fabric.machines(), range(100)))
    assert logins(emulator) == 1


def test_short_lived_tokens_are_renewed_on_the_way(fabric: FabricManager, emulator: Emulator) -> None:
    emulator.set_tokens(lifetime=1)
    left = deadline()
    while logins(emulator) < 3:
        fabric.machine(NODE_0)
        assert left()
    assert {entry["status"] for entry in manager_calls(emulator)} <= {200, 401}


def test_a_refused_token_is_renewed_once_for_all_threads(fabric: FabricManager, emulator: Emulator) -> None:
    fabric.machines()
    emulator.set_tokens(revoke=True)
    with ThreadPoolExecutor(30) as pool:
        assert all(pool.map(lambda _unused: fabric.machines(), range(30)))
    assert logins(emulator) == 2


def test_an_attach_with_a_refused_token_is_repeated_and_attaches_one(fabric: FabricManager, emulator: Emulator) -> None:
    fabric.machines()
    emulator.set_tokens(revoke=True)
    assert fabric.attach(NODE_0, MODEL).done
    assert len(fabric.machine(NODE_0).devices) == 1
    assert [e["status"] for e in manager_calls(emulator) if e["method"] == "PATCH"] == [401, 200]


def test_a_token_that_is_refused_again_ends_the_call(scripted: Scripted) -> None:
    refusal = {"status": 401, "detail": {"code": "E020101", "message": "no rights", "data": {}}}
    manager = scripted(lambda asked: login(asked) if asked.is_login else Answer(401, refusal))
    fabric = connect(FabricConfig.from_dict(manager.options()))
    with pytest.raises(Unauthorized, match=r"list the machines.*401: no rights \[E020101\]"):
        fabric.machines()
    assert len(manager.calls) == 2


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (Answer(body={"access_token": "opaque"}), Unauthorized, "not a JWT"),
        (Answer(body={"token": "x"}), Unavailable, "holds no access_token"),
        (Answer(body=[]), Unavailable, "holds no access_token"),
        (Answer(body=b"<html>"), Unavailable, "holds no access_token"),
        (Answer(status=404, body=b"<html>not here"), Unavailable, "Check endpoint"),
        (Answer(status=500, body=b"oops"), Unavailable, "answered 500"),
        (Answer(status=400, body={"error": "invalid_grant", "error_description": "Account disabled"}),
         Unauthorized, "Account disabled"),
    ],
)
def test_an_identity_service_that_answers_otherwise(
    scripted: Scripted, answer: Answer, error: type[Exception], says: str
) -> None:
    fabric = connect(FabricConfig.from_dict(scripted(lambda _unused: answer).options()))
    with pytest.raises(error, match=says):
        fabric.machines()


def test_the_login_is_a_password_grant_percent_encoded(scripted: Scripted) -> None:
    def script(asked: Asked) -> Answer:
        return login(asked) if asked.is_login else Answer(body={"data": {"machines": []}})

    manager = scripted(script)
    connect(FabricConfig.from_dict(manager.options(realm="a b/c"))).machines()
    asked = manager.asked[0]
    assert (asked.method, asked.path) == ("POST", "/id_manager/realms/a%20b%2Fc/protocol/openid-connect/token")
    assert asked.body.decode() == (
        "client_id=client&client_secret=cl1ent-s3cret-of-mine&username=user&password=p4ss%2Fw+rd%2B0f%26mine"
        "&scope=openid&response_type=id_token+token&grant_type=password"
    )


def test_the_servers_certificate_has_names_and_addresses(emulator: Emulator) -> None:
    host, port = emulator.url.removeprefix("https://").split(":")
    context = ssl.create_default_context(cafile=emulator.ca_path)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with socket.create_connection((host, int(port))) as raw, context.wrap_socket(raw, server_hostname=host) as tls:
        certificate = tls.getpeercert()
    assert certificate is not None
    names = {value for pair in certificate["subjectAltName"] for value in pair[1:]}
    assert {"localhost", "127.0.0.1"} <= names


def test_a_machine_unknown_to_the_tenant_is_no_matter_of_login(fabric: FabricManager) -> None:
    fabric.attach(NODE_1, MODEL)
    with pytest.raises(Missing):
        fabric.machine("nobody")
