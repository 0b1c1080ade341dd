# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The endpoints with TLS: a certificate of files that is renewed, one of its own making, and clients that stall."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import http.client
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509

from ansible_collections.composable.infra.controller import health as module
from ansible_collections.composable.infra.controller import serving_tls
from ansible_collections.composable.infra.controller.health import HealthServer
from ansible_collections.composable.infra.controller.metrics import PrometheusMetrics
from ansible_collections.composable.infra.controller.self_signed import self_signed
from ansible_collections.composable.infra.controller.serving_tls import (
    CertificateFiles,
    SelfSigned,
    ServingCertificate,
    add_tls_options,
    serving_certificate,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig

KEY = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGj\n-----END ENCRYPTED PRIVATE KEY-----\n"
Serve = Callable[[ServingCertificate | None], HealthServer]


class Running:
    """A process that goes on."""

    def ready(self) -> bool:
        return True

    def problems(self) -> list[str]:
        return []

    def stuck(self) -> str:
        return ""


@pytest.fixture
def serve() -> Iterator[Serve]:
    """``serve(certificate)``: endpoints on a free port."""
    made: list[HealthServer] = []

    def start(certificate: ServingCertificate | None) -> HealthServer:
        made.append(HealthServer("127.0.0.1:0", Running(), PrometheusMetrics(), dict, certificate=certificate))
        made[-1].start()
        return made[-1]

    yield start
    for each in made:
        each.stop()


def write(folder: Path, name: str = "localhost") -> tuple[Path, Path, bytes]:
    """A pair of files, and the certificate."""
    certificate, key = self_signed(name)
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)
    return folder / "tls.crt", folder / "tls.key", certificate


def get(server: HealthServer, path: str = "/metrics", trusted: bytes = b"") -> tuple[int, str]:
    """(status, body) over TLS, with the certificate checked where one is trusted."""
    context = ssl.create_default_context(cadata=trusted.decode() or None)
    if not trusted:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, port = server.address.rsplit(":", 1)
    connection = http.client.HTTPSConnection(host, int(port), timeout=10, context=context)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def shown(server: HealthServer) -> x509.Certificate:
    """The certificate that it shows."""
    host, port = server.address.rsplit(":", 1)
    return x509.load_pem_x509_certificate(ssl.get_server_certificate((host, int(port)), timeout=10).encode())


def test_files(tmp_path: Path, serve: Serve) -> None:
    certificate, key, pem = write(tmp_path)
    server = serve(CertificateFiles(str(certificate), str(key)))
    assert server.url == f"https://{server.address}"
    status, body = get(server, trusted=pem)
    assert (status, "composable_build_info" in body) == (200, True)


def test_a_client_that_trusts_another_is_refused_by_itself(tmp_path: Path, serve: Serve) -> None:
    certificate, key, _pem = write(tmp_path)
    server = serve(CertificateFiles(str(certificate), str(key)))
    with pytest.raises(ssl.SSLCertVerificationError):
        get(server, trusted=self_signed("localhost")[0])
    assert get(server, "/healthz")[0] == 200


def test_renewed_files_are_served_without_a_restart(tmp_path: Path, serve: Serve) -> None:
    certificate, key, first = write(tmp_path)
    server = serve(CertificateFiles(str(certificate), str(key)))
    assert get(server, trusted=first)[0] == 200
    _certificate, _key, second = write(tmp_path)
    assert get(server, trusted=second)[0] == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        get(server, trusted=first)


def test_a_mounted_secret_is_renewed_by_a_link(tmp_path: Path, serve: Serve) -> None:
    """The kubelet makes a new folder and turns a link, as its atomic writer does."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first, second = (write(tmp_path / name)[2] for name in ("one", "two"))
    data = tmp_path / "..data"
    data.symlink_to("one")
    server = serve(CertificateFiles(str(data / "tls.crt"), str(data / "tls.key")))
    assert get(server, trusted=first)[0] == 200
    (tmp_path / "new").symlink_to("two")
    os.replace(tmp_path / "new", data)
    assert get(server, trusted=second)[0] == 200


@pytest.mark.parametrize("spoil", [lambda folder: (folder / "tls.key").write_bytes(self_signed("x")[1]),
                                   lambda folder: (folder / "tls.crt").write_text("half"),
                                   lambda folder: (folder / "tls.key").unlink()])
def test_a_pair_that_does_not_fit_leaves_the_old_one(tmp_path: Path, serve: Serve, spoil: Callable[[Path], object],
                                                     caplog: pytest.LogCaptureFixture) -> None:
    certificate, key, first = write(tmp_path)
    server = serve(CertificateFiles(str(certificate), str(key)))
    spoil(tmp_path)
    for _unused in range(3):
        assert get(server, trusted=first)[0] == 200
    assert len([record for record in caplog.records if "cannot be used" in record.message]) == 1
    _certificate, _key, second = write(tmp_path)
    assert get(server, trusted=second)[0] == 200


def test_one_of_its_own_making_is_renewed_before_it_ends(serve: Serve) -> None:
    now = [0.0]
    server = serve(SelfSigned(lambda: now[0]))
    first = shown(server)
    assert shown(server) == first
    left = first.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    assert left.total_seconds() > serving_tls.RENEW_SECONDS
    now[0] = serving_tls.RENEW_SECONDS
    assert shown(server) != first


def forbidden(*_args: object, **_more: object) -> None:
    raise OSError(30, "Read-only file system")


def target(descriptor: str) -> str:
    """What an open file is."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:
        return ""


def test_one_of_its_own_making_needs_no_file_and_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pods' root file system is read-only, also /tmp."""
    for name in ("TemporaryDirectory", "NamedTemporaryFile", "mkstemp", "mkdtemp"):
        monkeypatch.setattr(tempfile, name, forbidden)
    assert SelfSigned().context().minimum_version == ssl.TLSVersion.TLSv1_2
    assert not [name for name in os.listdir("/proc/self/fd") if "certificate" in target(name)]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
def test_old_protocols_are_refused(serve: Serve) -> None:
    server = serve(SelfSigned())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    host, port = server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 10) as plain, pytest.raises((ssl.SSLError, OSError)):
        context.wrap_socket(plain)


def test_plain_http_is_no_way_in(serve: Serve) -> None:
    server = serve(SelfSigned())
    host, port = server.address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request("GET", "/metrics")
    with pytest.raises((http.client.HTTPException, OSError)):
        connection.getresponse()
    connection.close()


def test_clients_that_stall_keep_nobody_else_out(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handshake that is never finished is on its own thread, and is ended."""
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.3)
    server = serve(SelfSigned())
    host, port = server.address.rsplit(":", 1)
    stalled = [socket.create_connection((host, int(port)), 10) for _unused in range(module.CONNECTIONS + 8)]
    stalled[0].sendall(b"\x16\x03\x01")
    assert get(server, "/healthz")[0] == 200
    for each in stalled:
        each.settimeout(10)
        with contextlib.suppress(ConnectionError):
            assert each.recv(1) == b""
        each.close()


def test_connections_leave_nothing_behind(serve: Serve) -> None:
    server = serve(SelfSigned())
    for _unused in range(8):
        assert get(server)[0] == 200
    deadline = time.monotonic() + 10
    while any("process_request_thread" in each.name for each in threading.enumerate()):
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    assert server._server._begun == {}


def options(*words: str) -> ServingCertificate | None:
    parser = argparse.ArgumentParser()
    add_tls_options(parser)
    return serving_certificate(parser.parse_args(words))


def test_no_tls_by_default() -> None:
    assert options() is None
    assert isinstance(options("--tls-self-signed"), SelfSigned)


@pytest.mark.parametrize(("words", "said"), [
    (["--tls-cert-file", "/none.crt"], "--tls-cert-file and --tls-private-key-file need each other"),
    (["--tls-private-key-file", "/none.key"], "--tls-cert-file and --tls-private-key-file need each other"),
    (["--tls-cert-file", "/none.crt", "--tls-private-key-file", "/none.key"], "cannot be used .*No such file"),
    (["--tls-self-signed", "--tls-cert-file", "/none.crt"], "--tls-self-signed cannot be used together with")])
def test_options_that_do_not_fit(words: list[str], said: str) -> None:
    with pytest.raises(BadConfig, match=said):
        options(*words)


def test_an_encrypted_key_is_not_asked_for_on_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "tls.crt").write_bytes(self_signed("x")[0])
    (tmp_path / "tls.key").write_text(KEY)
    with pytest.raises(BadConfig, match="cannot be used"):
        CertificateFiles(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))


def test_who_makes_no_certificate_does_not_load_the_library() -> None:
    code = ("import sys; import ansible_collections.composable.infra.controller.main; "
            "sys.exit('cryptography' in sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
