# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a certificate authority for each lab and a certificate for each component.

Each component is a separate user of the API server, so that RBAC is tested as in a real cluster.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
SERVER_ADDRESSES = ("127.0.0.1", "::1", "10.0.0.1")
_LIFETIME = datetime.timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Pair:
    """Paths of a certificate and its private key (PEM). Only the owner can read the key."""

    certificate: Path
    key: Path


class Authority:
    """A new ECDSA P-256 certificate authority that writes into one folder."""

    def __init__(self, folder: Path, file_name: str = "ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(f"composable-infra-lab-{file_name}", ())
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs=True), critical=True)
        self.certificate = folder / f"{file_name}.crt"
        _write(self.certificate, _pem(builder.sign(self._key, hashes.SHA256())), 0o644)

    def issue_server(
        self, name: str, names: Sequence[str] = SERVER_NAMES, addresses: Sequence[str] = SERVER_ADDRESSES
    ) -> Pair:
        """Issue a serving certificate for DNS `names` and IP `addresses`."""
        alternative: list[x509.GeneralName] = [x509.DNSName(entry) for entry in names]
        alternative += [x509.IPAddress(ipaddress.ip_address(entry)) for entry in addresses]
        return self._issue(name, _subject(name, ()), ExtendedKeyUsageOID.SERVER_AUTH, alternative)

    def issue_client(self, file_name: str, user: str, groups: Sequence[str] = ()) -> Pair:
        """Issue a client certificate. The API server reads CN as the user and each O as a group."""
        return self._issue(file_name, _subject(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def _issue(
        self,
        file_name: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        alternative: Sequence[x509.GeneralName],
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._name, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs=False), critical=True)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(signer, critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if alternative:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternative), critical=False)
        pair = Pair(self.folder / f"{file_name}.crt", self.folder / f"{file_name}.key")
        _write(pair.certificate, _pem(builder.sign(self._key, hashes.SHA256())), 0o644)
        write_key(pair.key, key)
        return pair


def write_key(path: Path, key: ec.EllipticCurvePrivateKey | None = None) -> Path:
    """Write `key` as PEM for its owner only. Without `key`, write a new one, as for service account
    tokens."""
    private = key or ec.generate_private_key(ec.SECP256R1())
    text = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    _write(path, text, 0o600)
    return path


def _subject(user: str, groups: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    # Begin a minute ago, because clocks of containers on one machine can differ.
    builder = builder.not_valid_before(now - datetime.timedelta(minutes=1)).not_valid_after(now + _LIFETIME)
    # Since 3.13 Python refuses certificates without key identifiers.
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    return builder.serial_number(x509.random_serial_number())


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(content)
