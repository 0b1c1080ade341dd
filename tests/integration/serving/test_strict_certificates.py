# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every certificate that the project makes passes the strict verification of Python 3.13.

Python 3.13 switches `VERIFY_X509_STRICT` on by default. Older versions have the flag too, so each
handshake here sets it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.composable.infra.controller.self_signed import self_signed
from ansible_collections.composable.infra.emulator import certificates as emulated
from ansible_collections.composable.infra.lab.control_plane.certificates import Authority, Pair
from ansible_collections.composable.infra.lab.real_nodes import kubelet
from ansible_collections.composable.infra.lab.real_nodes.node import RealNode
from ansible_collections.composable.infra.tests.integration.fabric.identity import identity
from ansible_collections.composable.infra.tests.integration.kube.certificates import (
    make_certificates,
)
from ansible_collections.composable.infra.tests.unit.house.files import python_files, text

# The files that build certificates. Each has a case below.
MAKERS = {
    "controller/self_signed.py",
    "emulator/certificates.py",
    "lab/control_plane/certificates.py",
    "tests/integration/fabric/identity.py",
    "tests/integration/kube/certificates.py",
}


@dataclass(frozen=True, slots=True)
class Served:
    """A server's certificate, the authority that its clients trust, and a name that it is for."""

    pair: Pair
    trusted: Path
    name: str = "localhost"


@dataclass(frozen=True, slots=True)
class Shown:
    """A client's certificate, and the authority that servers trust."""

    pair: Pair
    trusted: Path


def lab(folder: Path) -> Served:
    authority = Authority(folder)
    return Served(authority.issue_server("kube-apiserver"), authority.certificate)


def front_proxy(folder: Path) -> Shown:
    authority = Authority(folder, "front-proxy-ca")
    return Shown(authority.issue_client("front-proxy", "front-proxy-client"), authority.certificate)


def real_node(folder: Path) -> tuple[Served, Shown]:
    node = RealNode("real-0", 7, folder / "lab")
    (node.folder / "config").mkdir(parents=True)
    pki = folder / "pki"
    authority = Authority(pki)
    kubelet.write_identity(node, authority, "https://127.0.0.1:1", "lab-x")

    def pair(name: str) -> Pair:
        return Pair(pki / f"{name}.crt", pki / f"{name}.key")

    served = Served(pair("kubelet-real-0-serving"), authority.certificate, node.address)
    return served, Shown(pair("kubelet-real-0"), authority.certificate)


def emulator(folder: Path) -> Served:
    emulated.make(folder, ["127.0.0.1"])
    return Served(Pair(folder / "server.pem", folder / "server.key"), folder / "ca.pem")


def controllers(folder: Path) -> Served:
    pair = Pair(folder / "tls.crt", folder / "tls.key")
    for path, content in zip((pair.certificate, pair.key), self_signed("localhost"), strict=True):
        path.write_bytes(content)
    return Served(pair, pair.certificate)


def kube_server(folder: Path) -> Served:
    made = make_certificates(folder)
    return Served(Pair(made.server, made.server), made.ca, "127.0.0.1")


def kube_client(folder: Path) -> Shown:
    made = make_certificates(folder)
    return Shown(Pair(made.client, made.client_key), made.ca)


def manager_client(folder: Path) -> Shown:
    pair = Pair(*identity(folder, "ours"))
    return Shown(pair, pair.certificate)


SERVERS: list[Callable[[Path], Served]] = [
    lab, emulator, controllers, kube_server, lambda folder: real_node(folder)[0],
]
CLIENTS: list[Callable[[Path], Shown]] = [
    front_proxy, kube_client, manager_client, lambda folder: real_node(folder)[1],
]


def client_context(trusted: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(trusted))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def server_context(pair: Pair, client_ca: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    if client_ca:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    """Shake hands in memory until both sides are done. Raises ssl.SSLError of the side that refuses."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(down, up, server_hostname=name),
             server.wrap_bio(up, down, server_side=True)]
    for _turn in range(4):
        for side in list(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                continue
    assert not sides


@pytest.mark.parametrize("make", SERVERS)
def test_server_certificate(make: Callable[[Path], Served], tmp_path: Path) -> None:
    served = make(tmp_path)
    handshake(client_context(served.trusted), server_context(served.pair), served.name)


@pytest.mark.parametrize("make", CLIENTS)
def test_client_certificate(make: Callable[[Path], Shown], tmp_path: Path) -> None:
    shown = make(tmp_path)
    server = lab(tmp_path / "server")
    client = client_context(server.trusted)
    client.load_cert_chain(shown.pair.certificate, shown.pair.key)
    handshake(client, server_context(server.pair, shown.trusted), server.name)


def test_every_maker_has_a_case() -> None:
    this = Path(__file__).name
    builders = (path for path in python_files() if path.name != this)
    assert {str(path) for path in builders if "CertificateBuilder" in text(path)} == MAKERS
