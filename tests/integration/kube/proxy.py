# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An HTTP proxy for tests: tunnels by CONNECT, plain requests by their whole URL, spoken to in clear or over TLS."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from urllib.parse import urlsplit

from ansible_collections.composable.infra.tests.integration.kube.certificates import Certificates

WAIT = 20.0


class Proxy:
    """``heads`` are the first lines and headers that arrived; the first ``refuse`` requests are answered 502."""

    def __init__(self, certificates: Certificates | None = None) -> None:
        self.heads: list[str] = []
        self.refuse = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._context = _context(certificates) if certificates else None
        self.port = int(self._listener.getsockname()[1])
        self.url = f"{'https' if certificates else 'http'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def asked(self) -> list[str]:
        """What each connection asked for."""
        return [head.split()[1] for head in self.heads]

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(WAIT)

    def _serve(self) -> None:
        while True:
            try:
                client, _unused = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connection, args=(client,), daemon=True).start()

    def _connection(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self._context:
                client = self._context.wrap_socket(client, server_side=True)
            with client:
                self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        head = client.recv(65536)
        self.heads.append(head.decode())
        if len(self.heads) <= self.refuse:
            client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            return
        method, target = head.decode().split()[:2]
        host, _unused, port = (target if method == "CONNECT" else urlsplit(target).netloc).rpartition(":")
        with socket.create_connection((host, int(port))) as server:
            if method == "CONNECT":
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                origin = f"http://{host}:{port}".encode()
                server.sendall(head.replace(origin, b"", 1))
            _pump(client, server)


def _pump(client: socket.socket, server: socket.socket) -> None:
    """Both directions in one thread: a TLS socket must not be used by two."""
    while True:
        pending = isinstance(client, ssl.SSLSocket) and client.pending()
        ready = [client] if pending else select.select([client, server], [], [])[0]
        for source in ready:
            data = source.recv(65536)
            if not data:
                return
            (server if source is client else client).sendall(data)


def _context(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server)
    return context
