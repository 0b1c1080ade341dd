# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the lab waits for its API server, it says why the server is not ready."""

from __future__ import annotations

import ssl
import threading
import typing as t
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.api import Api, answers
from ansible_collections.composable.infra.lab.control_plane.certificates import Authority
from ansible_collections.composable.infra.lab.errors import LabError, NotYet
from ansible_collections.composable.infra.lab.processes.supervisor import Processes

FREE_PORT = "https://127.0.0.1:1"


class Handler(BaseHTTPRequestHandler):
    """Answer /readyz with 200, and all else with 500."""

    def do_GET(self) -> None:
        body = b"ok" if self.path == "/readyz" else b'{"message": "etcd is not ready"}'
        self.send_response(200 if self.path == "/readyz" else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: t.Any) -> None:
        """Stay silent."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def url(authority: Authority) -> Iterator[str]:
    """A server that stands in for the API server."""
    pair = authority.issue_server("kube-apiserver")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def api(url: str, authority: Authority) -> Api:
    return Api(url, authority.certificate, authority.issue_client("admin", "lab:admin"))


def test_ready(url: str, authority: Authority) -> None:
    assert api(url, authority).ready()
    assert answers(f"{url}/readyz")


def test_http_status(url: str, authority: Authority) -> None:
    with pytest.raises(NotYet, match=r"^HTTP status 500: GET /livez: etcd is not ready$"):
        api(url, authority).ready("/livez")
    with pytest.raises(NotYet, match="/livez: HTTP Error 500"):
        answers(f"{url}/livez")


def test_nobody_listens(authority: Authority) -> None:
    with pytest.raises(NotYet, match="Connection refused"):
        api(FREE_PORT, authority).ready()
    with pytest.raises(NotYet, match="Connection refused"):
        answers(FREE_PORT)


def test_a_bad_certificate_ends_the_wait_at_once(
    url: str, authority: Authority, tmp_path: Path
) -> None:
    stranger = Api(url, Authority(tmp_path).certificate, authority.issue_client("x", "x"))
    with pytest.raises(LabError, match="CERTIFICATE_VERIFY_FAILED: unable to get local issuer"):
        Processes(tmp_path / "lab").wait_until("a ready API server", stranger.ready, 3600)
