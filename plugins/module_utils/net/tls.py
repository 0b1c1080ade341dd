# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TLS context of a client, TLS inside TLS, and detection of a refused client certificate."""

from __future__ import annotations

import math
import re
import socket
import ssl
import time

# Alerts of a server that refuses or wants a client certificate. TLS 1.3 sends them after the
# handshake.
_OURS_REFUSED = re.compile(r"_ALERT_(?:BAD_CERTIFICATE|UNKNOWN_CA|\w*CERTIFICATE\w*)$")
_NO_PEM = "it must hold PEM certificates (-----BEGIN CERTIFICATE-----)"
_RECEIVE = 1 << 16


class BadAuthority(Exception):
    """The CA certificates cannot be used. The text says why."""


class BadClientCertificate(Exception):
    """The client's certificate and key cannot be used. The text says why."""


def client_context(
    *,
    ca_pem: str | None = None,
    ca_path: str | None = None,
    certificate_path: str | None = None,
    key_path: str | None = None,
    verify: bool = True,
) -> ssl.SSLContext:
    """Return a context that trusts only the given CA certificates, or the system's without any.

    It uses TLS 1.2 or newer. ``certificate_path`` and ``key_path`` are for a server that requests a
    certificate (mutual TLS). The key may be in the file of the certificate. ``verify`` checks the
    server's certificate and its name. Raise BadAuthority, BadClientCertificate, and
    FileNotFoundError for an absent ``ca_path``.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Go accepts CAs of older installers that strict mode refuses, and uses any given certificate as
    # a root.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if certificate_path:
        _identify(context, certificate_path, key_path)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca_pem is not None or ca_path is not None:
        _trust(context, ca_path, ca_pem)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def _identify(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    try:
        # Without a password here, OpenSSL asks on the terminal for that of an encrypted key.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or getattr(problem, "strerror", None) or "not PEM"
        raise BadClientCertificate(str(reason)) from None


def _trust(context: ssl.SSLContext, path: str | None, pem: str | None) -> None:
    try:
        context.load_verify_locations(cafile=path, cadata=pem)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and not isinstance(problem, ssl.SSLError) else None
        raise BadAuthority(reason or _NO_PEM) from None


def is_refused_by_server(error: BaseException) -> bool:
    """Return whether the server refused our certificate. Then it did not process the request."""
    return isinstance(error, ssl.SSLError) and bool(_OURS_REFUSED.search(error.reason or ""))


class TlsInTls:
    """A TLS connection inside another, to a server behind a proxy with TLS.

    The ssl module wraps only system sockets, so the inner connection uses two memory buffers. Its
    methods are those of ``http1.Wire``. ``socket`` is the outer socket.
    """

    def __init__(self, outer: ssl.SSLSocket, context: ssl.SSLContext, server_hostname: str) -> None:
        self.socket = outer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._inner = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_hostname)
        deadline = self._deadline()
        while True:
            try:
                self._inner.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                self._fill(deadline)
        self._flush()

    def recv(self, size: int, /) -> bytes:
        """Return some bytes, or none at the end."""
        deadline = self._deadline()
        while True:
            try:
                return self._inner.read(size)
            except ssl.SSLWantReadError:
                self._flush()
                self._fill(deadline)
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                # Like SSLSocket, accept an end without TLS's closing message, as many servers send
                # none.
                return b""

    def sendall(self, data: bytes, /) -> None:
        """Send all bytes, or raise OSError."""
        self._inner.write(data)
        self._flush()

    def settimeout(self, seconds: float, /) -> None:
        """Limit the wait of one call."""
        self.socket.settimeout(seconds)

    def fileno(self) -> int:
        """Return the descriptor of the TCP connection."""
        return self.socket.fileno()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def _flush(self) -> None:
        if self._outgoing.pending > 0:
            self.socket.sendall(self._outgoing.read())

    def _deadline(self) -> float:
        """Return the deadline of a call that begins now. As in ssl, limit the whole call."""
        seconds = self.socket.gettimeout()
        return math.inf if seconds is None else time.monotonic() + seconds

    def _fill(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise TimeoutError("the TLS record did not arrive completely in time")
        data = self.socket.recv(_RECEIVE)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()


def shutdown(wire: object) -> None:
    """End a connection from another thread, so that a blocked read returns.

    Raise OSError if it has ended already.
    """
    outer = wire.socket if isinstance(wire, TlsInTls) else wire
    if isinstance(outer, socket.socket):
        # SSLSocket's method would let its reader continue in plain text.
        socket.socket.shutdown(outer, socket.SHUT_RDWR)
