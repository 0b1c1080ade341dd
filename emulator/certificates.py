# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A certificate authority and a server certificate with DNS and IP names, made at the first start.

``authority.pem`` is always the current authority. Clients get ``ca.pem`` to trust. Both are the
same, unless the certificate was changed without a notice to clients.
"""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import typing as t
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .credentials import write_secret

_DAYS: t.Final = 3650
_EARLIER: t.Final = datetime.timedelta(hours=1)


def server_context(folder: Path, hosts: Iterable[str]) -> ssl.SSLContext:
    """Return the TLS context of a server.

    It makes ``ca.pem``, ``server.pem`` and ``server.key`` in ``folder`` if they are missing.
    """
    certificate, key = folder / "server.pem", folder / "server.key"
    if not (certificate.exists() and key.exists() and (folder / "ca.pem").exists()):
        make(folder, hosts)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


def renew(context: ssl.SSLContext, folder: Path, hosts: Iterable[str]) -> None:
    """Use another authority and certificate for new connections, without a notice to clients yet.
    """
    make(folder, hosts, publish=False)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")


def publish_authority(folder: Path) -> None:
    """Give clients the current authority."""
    (folder / "ca.pem").write_bytes((folder / "authority.pem").read_bytes())


def make(folder: Path, hosts: Iterable[str], *, publish: bool = True) -> None:
    """Make a new authority, and a server certificate signed by it.

    The authority's key is not kept.
    """
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _unused in range(2))
    authority = _authority(authority_key)
    server = _server(server_key, authority, authority_key, hosts)
    private = server_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_secret(folder / "server.key", private)
    (folder / "server.pem").write_bytes(server.public_bytes(serialization.Encoding.PEM))
    (folder / "authority.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    if publish:
        publish_authority(folder)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
        .serial_number(x509.random_serial_number()).not_valid_before(now - _EARLIER)
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = _name("composable.infra emulator CA")
    builder = _builder(name, name, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.add_extension(_usage(signs=True), critical=True).sign(key, hashes.SHA256())


def _server(
    key: ec.EllipticCurvePrivateKey, authority: x509.Certificate, signer: ec.EllipticCurvePrivateKey,
    hosts: Iterable[str],
) -> x509.Certificate:
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signs=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
        (x509.SubjectAlternativeName(_names(hosts)), False),
    ]
    builder = _builder(_name("composable.infra emulator"), authority.subject, key.public_key())
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(signer, hashes.SHA256())


def _names(hosts: Iterable[str]) -> list[x509.GeneralName]:
    names: dict[str, x509.GeneralName] = {}
    for host in ("localhost", socket.gethostname(), "127.0.0.1", "::1", *hosts):
        try:
            names[host] = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            names[host] = x509.DNSName(host)
    return list(names.values())


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs, key_cert_sign=signs, crl_sign=signs, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
        decipher_only=False,
    )
