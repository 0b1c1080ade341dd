# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates: who they are for, who signed them, and who may read the keys."""

from __future__ import annotations

import base64
import ipaddress
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ansible_collections.composable.infra.lab.control_plane.certificates import SERVER_NAMES, Authority, Pair, write_key
from ansible_collections.composable.infra.lab.control_plane.kubeconfig import client_user, token_user, write_kubeconfig


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def values(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str | bytes]:
    return [attribute.value for attribute in certificate.subject.get_attributes_for_oid(oid)]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


def test_authority_may_sign_and_nothing_below_it_may(authority: Authority) -> None:
    ca = load(authority.certificate)
    leaf = load(authority.issue_client("someone", "someone").certificate)
    assert ca.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    leaf.verify_directly_issued_by(ca)


def test_keys_are_p256(authority: Authority) -> None:
    key = load_pem_private_key(authority.issue_client("curve", "u").key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(key.curve, ec.SECP256R1)


def test_client_certificate_carries_user_and_groups(authority: Authority) -> None:
    leaf = load(authority.issue_client("admin", "lab:admin", ("system:masters", "others")).certificate)
    usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert values(leaf, NameOID.COMMON_NAME) == ["lab:admin"]
    assert values(leaf, NameOID.ORGANIZATION_NAME) == ["system:masters", "others"]
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_server_certificate_has_dns_and_address_names(authority: Authority) -> None:
    leaf = load(authority.issue_server("kube-apiserver").certificate)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == list(SERVER_NAMES)
    assert ipaddress.ip_address("127.0.0.1") in names.get_values_for_type(x509.IPAddress)
    assert ipaddress.ip_address("10.0.0.1") in names.get_values_for_type(x509.IPAddress)


def test_one_authority_does_not_vouch_for_another(tmp_path: Path, authority: Authority) -> None:
    leaf = load(Authority(tmp_path).issue_client("x", "x").certificate)
    with pytest.raises(InvalidSignature):
        leaf.verify_directly_issued_by(load(authority.certificate))


def test_private_keys_are_readable_by_their_owner_only(tmp_path: Path, authority: Authority) -> None:
    for path in (authority.issue_client("k", "k").key, write_key(tmp_path / "service-account.key")):
        assert path.stat().st_mode & 0o777 == 0o600


def test_kubeconfig_is_self_contained_and_private(tmp_path: Path, authority: Authority) -> None:
    pair = authority.issue_client("dev", "dev")
    path = write_kubeconfig(
        tmp_path / "sub" / "config", "https://127.0.0.1:1", authority.certificate, "dev", client_user(pair)
    )
    document = yaml.safe_load(path.read_text())
    user = document["users"][0]["user"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert document["current-context"] == document["contexts"][0]["name"] == "dev@lab"
    assert base64.b64decode(user["client-key-data"]) == pair.key.read_bytes()
    assert "certificate-authority-data" in document["clusters"][0]["cluster"]


def test_token_user_holds_the_token() -> None:
    assert token_user("abc") == {"token": "abc"}
    assert Pair(Path("a"), Path("b")).key == Path("b")
