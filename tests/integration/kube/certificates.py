# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates for one test run: an authority, a server on loopback, a client, and a stranger's authority."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

INNER_NAME = "kubernetes.inner.test"
_SIGNS = x509.KeyUsage(
    key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False,
    key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files; ``stranger`` is an authority that signed none of the others."""

    ca: Path
    server: Path
    client: Path
    client_key: Path
    stranger: Path


def make_certificates(folder: Path) -> Certificates:
    authority = _Authority("test-ca")
    here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    sans = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.DNSName(INNER_NAME), here])
    server, client = authority.issue("kube-apiserver", sans), authority.issue("ann", None)
    return Certificates(
        ca=_write(folder / "ca.pem", authority.pem),
        server=_write(folder / "server.pem", server[0] + server[1]),
        client=_write(folder / "client.pem", client[0]),
        client_key=_write(folder / "client.key", client[1]),
        stranger=_write(folder / "stranger.pem", _Authority("stranger").pem),
    )


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


class _Authority:
    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        made = _builder(self._name, self._name, self._key.public_key())
        self.pem = (
            made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS, critical=True)
            .sign(self._key, hashes.SHA256())
            .public_bytes(Encoding.PEM)
        )

    def issue(self, name: str, sans: x509.SubjectAlternativeName | None) -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name), self._name, key.public_key())
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(signer, critical=False)
        if sans is not None:
            builder = builder.add_extension(sans, critical=False)
        pem = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        return pem, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )
