# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every wrong option is named with its value and what is allowed; no secret is ever shown."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.fabric.config import CREDENTIALS, FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import BadConfiguration

GIVEN: dict[str, t.Any] = {
    "endpoint": "https://fm.example.com:8443/",
    "tenant": "7E63FD31-0A5C-4D1B-9A52-C0DE00000001",
    "username": "user",
    "password": "p4ss-word-x",
    "realm": "composable",
    "client_id": "client",
    "client_secret": "s3cret-client-x",
}


def test_the_least_that_is_needed_gets_the_documented_defaults() -> None:
    config = FabricConfig.from_dict(GIVEN)
    assert config.endpoint == "https://fm.example.com:8443"
    assert config.tenant == "7e63fd31-0a5c-4d1b-9a52-c0de00000001"
    assert (config.manager, config.validate_certs, config.cluster) == ("fm", True, None)
    assert (config.connect_timeout, config.read_timeout, config.attach_timeout) == (5, 30, 180)


def test_none_counts_as_absent() -> None:
    assert FabricConfig.from_dict({**GIVEN, "ca_path": None, "read_timeout": None}).read_timeout == 30


@pytest.mark.parametrize("field", ["endpoint", "tenant", *CREDENTIALS])
def test_what_is_required_is_named(field: str) -> None:
    said = rf"^{field} is not set\. It is required for manager fm with auth password_grant$"
    with pytest.raises(BadConfiguration, match=said):
        FabricConfig.from_dict({key: value for key, value in GIVEN.items() if key != field})


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("endpoint", "http://fm.example.com", "https URL"),
        ("endpoint", "fm.example.com", "https URL"),
        ("endpoint", "https://", "https URL"),
        ("endpoint", "https://fm:99999", "https URL"),
        ("endpoint", "https://fm:0", "https URL"),
        ("endpoint", "https://fm/?a=b", "https URL"),
        ("endpoint", "https://fm/#a", "https URL"),
        ("tenant", "tenant-1", "UUID"),
        ("tenant", 7, "text"),
        ("username", "", "text"),
        ("username", "u" * 1000, "At most 999 bytes"),
        ("realm", "a\nb", "control characters"),
        ("ca_path", "", "text"),
        ("validate_certs", "no", "true or false"),
        ("connect_timeout", 0, "number of seconds"),
        ("read_timeout", "30", "number of seconds"),
        ("attach_timeout", True, "number of seconds"),
        ("attach_timeout", 86401, "number of seconds"),
        ("attach_timeout", float("nan"), "number of seconds"),
        ("credentials_dir", "/nonexistent/folder", "folder"),
    ],
)
def test_a_wrong_value_is_named(field: str, value: object, allowed: str) -> None:
    with pytest.raises(BadConfiguration) as caught:
        FabricConfig.from_dict({**GIVEN, field: value})
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")
    assert allowed in str(caught.value)


def test_999_bytes_are_accepted_and_counted_as_bytes() -> None:
    assert FabricConfig.from_dict({**GIVEN, "password": "p" * 999}).password == "p" * 999
    with pytest.raises(BadConfiguration, match="password: '1000 bytes'"):
        FabricConfig.from_dict({**GIVEN, "password": "ä" * 500})


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadConfiguration, match=r"^pasword: .*client_id, .*client_secret, .*password") as caught:
        FabricConfig.from_dict({**GIVEN, "pasword": "p4ss-word-x"})
    assert "p4ss-word-x" not in str(caught.value)


def test_a_user_or_password_in_the_endpoint_is_refused_and_not_shown() -> None:
    for endpoint in ("https://u:hidden@fm.example.com", "https://u:hidden@fm.example.com:abc"):
        with pytest.raises(BadConfiguration, match=r"^endpoint: ") as caught:
            FabricConfig.from_dict({**GIVEN, "endpoint": endpoint})
        assert "hidden" not in f"{caught.value} {caught.value.value}"


@pytest.mark.parametrize("field", ["password", "client_secret"])
@pytest.mark.parametrize("value", [12345678, ["12345678"], "12345678\n", "12345678" * 200])
def test_a_wrong_secret_is_not_shown(field: str, value: object) -> None:
    with pytest.raises(BadConfiguration) as caught:
        FabricConfig.from_dict({**GIVEN, field: value})
    assert "12345678" not in f"{caught.value} {caught.value!r} {caught.value.value}"


NEC: dict[str, t.Any] = {"manager": "nec", "endpoint": "http://nec:8080"}
REDFISH: dict[str, t.Any] = {"manager": "redfish", "endpoint": "https://rf", "username": "u", "password": "p"}
CM: dict[str, t.Any] = {**GIVEN, "manager": "cm", "cluster": "7E63FD31-0A5C-4D1B-9A52-C0DE0000C1C1"}


@pytest.mark.parametrize(
    ("given", "auth"),
    [
        (GIVEN, "password_grant"), (CM, "password_grant"), (NEC, "none"), (REDFISH, "session"),
        ({**REDFISH, "auth": "basic"}, "basic"), ({"manager": "sunfish", "endpoint": "http://sf"}, "none"),
        ({**REDFISH, "manager": "sunfish", "auth": "session"}, "session"),
    ],
)
def test_each_manager_has_its_way_to_log_in(given: dict[str, t.Any], auth: str) -> None:
    assert FabricConfig.from_dict(given).auth == auth


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({**GIVEN, "manager": "xm"}, "manager: 'xm' is not allowed. Allowed are fm, cm, nec, sunfish, redfish, or"),
        ({**GIVEN, "manager": 7}, "manager: 7 is not allowed. Allowed are fm, cm"),
        ({**GIVEN, "auth": "basic"}, "auth: 'basic' is not allowed. Allowed are password_grant for manager fm"),
        ({**NEC, "auth": "session"}, "auth: 'session' is not allowed. Allowed are none for manager nec"),
        ({**CM, "cluster": None}, "cluster is not set. It is required"),
        ({**CM, "cluster": "one"}, "cluster: 'one' is not allowed. It must be a UUID"),
        ({**REDFISH, "username": None}, "username is not set. It is required"),
        ({**REDFISH, "endpoint": "http://rf"}, "endpoint: 'http://rf' is not allowed. It must be an https URL"),
        ({**NEC, "endpoint": "ftp://nec"}, "endpoint: 'ftp://nec' is not allowed. It must be an http or https URL"),
        ({**NEC, "layout_endpoint": "nec"}, "layout_endpoint: 'nec' is not allowed. It must be an http or https URL"),
        ({**GIVEN, "layout_endpoint": "https://x"}, "layout_endpoint: 'https://x' is not allowed. Manager fm with"),
        ({**NEC, "tenant": "t"}, "tenant: 't' is not allowed. Manager nec with auth none does not use it"),
        ({**NEC, "password": "hidden"}, "password: '…' is not allowed. Manager nec with auth none does not use it"),
        ({**REDFISH, "realm": "r"}, "realm: 'r' is not allowed. Manager redfish with auth session does not use it"),
        (
            {**REDFISH, "manager": "sunfish", "auth": "basic", "endpoint": "http://sf"},
            "auth: 'basic' is not allowed. Passwords are sent over https only",
        ),
        ({**NEC, "client_cert_path": "/c"}, "client_cert_path: '/c' is not allowed. It needs https"),
        ({**GIVEN, "client_key_path": "/k"}, "client_key_path: '/k' is not allowed. Set client_cert_path too"),
        ({**GIVEN, "requests_per_second": 0}, "requests_per_second: 0 is not allowed. It must be a number above 0"),
        ({**GIVEN, "requests_per_second": True}, "requests_per_second: True is not allowed"),
    ],
)
def test_a_wrong_combination_is_one_message_with_option_value_and_what_is_allowed(
    given: dict[str, t.Any], message: str
) -> None:
    with pytest.raises(BadConfiguration) as caught:
        FabricConfig.from_dict(given)
    assert str(caught.value).startswith(message)
    assert "hidden" not in f"{caught.value!r} {caught.value.value}"


def test_a_mounted_secret_gives_only_what_the_login_needs(secret: Path) -> None:
    given = {"manager": "redfish", "endpoint": "https://rf", "credentials_dir": str(secret)}
    config = FabricConfig.from_dict(given)
    assert (config.username, config.realm, config.client_secret) == ("username-of-secret", "", "")
    assert FabricConfig.from_dict({**NEC, "credentials_dir": str(secret)}).password == ""


def test_repr_hides_secrets() -> None:
    shown = repr(FabricConfig.from_dict({**GIVEN, "ca_pem": "-----BEGIN x"}))
    assert "fm.example.com" in shown
    for secret in (GIVEN["password"], GIVEN["client_secret"], "BEGIN"):
        assert secret not in shown


def test_one_authority_only() -> None:
    with pytest.raises(BadConfiguration, match="Set ca_path or ca_pem, not both"):
        FabricConfig.from_dict({**GIVEN, "ca_path": "/ca", "ca_pem": "PEM"})


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    for key in CREDENTIALS:
        (tmp_path / key).write_text(f"{key}-of-secret\n", encoding="utf-8")
    (tmp_path / "certificate").write_text("PEM of secret\n", encoding="utf-8")
    return tmp_path


def test_a_mounted_secret_fills_what_is_absent(secret: Path) -> None:
    given = {"endpoint": GIVEN["endpoint"], "tenant": GIVEN["tenant"], "username": "mine"}
    config = FabricConfig.from_dict({**given, "credentials_dir": str(secret)})
    assert config.username == "mine"
    assert (config.password, config.realm, config.ca_pem) == (
        "password-of-secret", "realm-of-secret", "PEM of secret",
    )


def test_a_given_authority_wins_over_the_secret(secret: Path) -> None:
    config = FabricConfig.from_dict({**GIVEN, "credentials_dir": str(secret), "ca_path": "/my/ca"})
    assert (config.ca_path, config.ca_pem) == ("/my/ca", None)


def test_a_renewed_secret_is_read_again(secret: Path) -> None:
    config = FabricConfig.from_dict(
        {"endpoint": GIVEN["endpoint"], "tenant": GIVEN["tenant"], "credentials_dir": str(secret)}
    )
    (secret / "password").write_text("new", encoding="utf-8")
    assert config.refreshed().password == "new"
    assert config.password == "password-of-secret"


def test_without_a_secret_refreshing_changes_nothing() -> None:
    config = FabricConfig.from_dict(GIVEN)
    assert config.refreshed() is config


def test_a_secret_file_that_is_no_text_is_named(secret: Path) -> None:
    (secret / "realm").write_bytes(b"\xff\xfe")
    with pytest.raises(BadConfiguration, match=r"credentials_dir: .*realm"):
        FabricConfig.from_dict({**GIVEN, "realm": None, "credentials_dir": str(secret)})
