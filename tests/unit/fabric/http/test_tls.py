# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is trusted, and what a failed handshake tells the user to set."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ansible_collections.composable.infra.emulator import certificates
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import BadConfiguration
from ansible_collections.composable.infra.plugins.module_utils.fabric.http import tls
from ansible_collections.composable.infra.plugins.module_utils.net.tls import is_refused_by_server


def config(**more: object) -> FabricConfig:
    keys = ("username", "password", "realm", "client_id", "client_secret")
    given = {"endpoint": "https://fm", "tenant": "7e63fd31-0a5c-4d1b-9a52-c0de00000001", **dict.fromkeys(keys, "x")}
    return FabricConfig.from_dict({**given, **more})


def test_certificates_and_names_are_checked_unless_that_is_switched_off_by_name() -> None:
    context = tls.context(config())
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    context = tls.context(config(validate_certs=False))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


def test_a_missing_authority_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"^ca_path: .*absent\.pem.* The file does not exist"):
        tls.context(config(ca_path=str(tmp_path / "absent.pem")))


def test_a_folder_as_authority_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"^ca_path: "):
        tls.context(config(ca_path=str(tmp_path)))


@pytest.mark.parametrize("text", ["no certificate", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"])
def test_an_authority_that_is_no_pem_is_named_and_not_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadConfiguration, match=r"^ca_pem: '<PEM text>' .*BEGIN CERTIFICATE"):
        tls.context(config(ca_pem=text))
    (tmp_path / "ca.pem").write_text(text, encoding="utf-8")
    with pytest.raises(BadConfiguration, match=r"^ca_path: .*ca\.pem"):
        tls.context(config(ca_path=str(tmp_path / "ca.pem")))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """``server.pem`` and ``server.key`` of somebody."""
    certificates.make(tmp_path, [])
    return tmp_path


def test_our_own_certificate_is_read_with_its_key(own: Path) -> None:
    tls.context(config(client_cert_path=str(own / "server.pem"), client_key_path=str(own / "server.key")))
    both = own / "both.pem"
    both.write_bytes((own / "server.pem").read_bytes() + (own / "server.key").read_bytes())
    tls.context(config(client_cert_path=str(both)))


@pytest.mark.parametrize(
    ("certificate", "key", "field", "words"),
    [
        ("absent.pem", "server.key", "client_cert_path", "The file does not exist"),
        ("server.pem", "absent.key", "client_key_path", "The file does not exist"),
        ("server.key", "server.key", "client_cert_path", "It must be a PEM certificate with its private key"),
        ("server.pem", None, "client_cert_path", "It must be a PEM certificate with its private key"),
        ("server.pem", "other.key", "client_cert_path", "It must be a PEM certificate with its private key"),
        ("server.pem", "locked.key", "client_cert_path", "not encrypted"),
    ],
)
def test_our_own_certificate_that_cannot_be_used_is_named(
    own: Path, certificate: str, key: str | None, field: str, words: str
) -> None:
    made = ec.generate_private_key(ec.SECP256R1())
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    (own / "other.key").write_bytes(made.private_bytes(*form, serialization.NoEncryption()))
    (own / "locked.key").write_bytes(made.private_bytes(*form, serialization.BestAvailableEncryption(b"x" * 8)))
    given = {"client_cert_path": str(own / certificate), "client_key_path": str(own / key) if key else None}
    with pytest.raises(BadConfiguration, match=words) as caught:
        tls.context(config(**given))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", True), ("SSLV3_ALERT_BAD_CERTIFICATE", True),
        ("TLSV1_ALERT_UNKNOWN_CA", True), ("SSLV3_ALERT_CERTIFICATE_EXPIRED", True),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", False), ("WRONG_VERSION_NUMBER", False), ("", False),
    ],
)
def test_a_server_that_does_not_accept_us_is_told_from_one_that_we_do_not_accept(reason: str, ours: bool) -> None:
    error = ssl.SSLError(1, "[SSL] alert")
    error.reason = reason
    assert is_refused_by_server(error) is ours
    if ours:
        assert "set client_cert_path and client_key_path" in tls.explain(error, config())
        shown = tls.explain(error, config(client_cert_path="/my/own.pem"))
        assert "does not accept the certificate in client_cert_path /my/own.pem" in shown


def failure(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("failed")
    error.verify_code, error.verify_message = code, "words of OpenSSL"
    return error


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (18, "not signed by the given CA"),
        (20, "set ca_path or ca_pem"),
        (10, "renew it, or correct the clock"),
        (62, "Use one of its names in endpoint"),
        (64, "Use one of its names in endpoint"),
        (7, "was not accepted"),
    ],
)
def test_a_refused_certificate_says_what_to_set(code: int, words: str) -> None:
    assert words in tls.explain(failure(code), config())


def test_the_trust_in_force_is_named() -> None:
    assert "ca_path /my/ca.pem" in tls.explain(failure(20), config(ca_path="/my/ca.pem"))
    assert "(ca_pem)" in tls.explain(failure(20), config(ca_pem="x"))
    assert "system's trust store" in tls.explain(failure(20), config())


def test_a_server_without_tls_is_told_from_a_bad_certificate() -> None:
    error = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    error.reason = "WRONG_VERSION_NUMBER"
    assert "does not speak TLS" in tls.explain(error, config())
