# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trust: the TLS context of a client, TLS inside TLS, and whether a server did not accept our certificate."""

from __future__ import annotations

import math
import re
import socket
import ssl
import time

# What a server says that does not accept our certificate, or wanted one; in TLS 1.3 after the handshake.
_OURS_REFUSED = re.compile(r"_ALERT_(?:BAD_CERTIFICATE|UNKNOWN_CA|\w*CERTIFICATE\w*)$")
_NO_PEM = "it must hold PEM certificates (-----BEGIN CERTIFICATE-----)"
_RECEIVE = 1 << 16


class BadAuthority(Exception):
    """The CA certificates cannot be used; the text says why."""


class BadClientCertificate(Exception):
    """Our own certificate and its key cannot be used; the text says why."""


def client_context(
    *,
    ca_pem: str | None = None,
    ca_path: str | None = None,
    certificate_path: str | None = None,
    key_path: str | None = None,
    verify: bool = True,
) -> ssl.SSLContext:
    """A context that trusts the given CA certificates only, the system's where none are given; TLS 1.2 or newer.

    ``certificate_path``, ``key_path``: what we show a server that asks for a certificate (mutual TLS); the key may be
    in the certificate's file. ``verify``: check the server's certificate and its name. Raises BadAuthority,
    BadClientCertificate, and FileNotFoundError for a ``ca_path`` that is absent.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Go accepts the authorities of older installers that strict mode refuses, and takes any given one for a root.
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
        # An encrypted key would be asked for on the terminal without a password here.
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
    """Whether the server did not accept our certificate: then it has not looked at the request either."""
    return isinstance(error, ssl.SSLError) and bool(_OURS_REFUSED.search(error.reason or ""))


class TlsInTls:
    """A TLS connection through another: to a server behind a proxy that is spoken to over TLS itself.

    The ssl module wraps sockets of the system only, so the inner connection goes through two buffers of memory. Its
    methods are those of a socket that ``http1.Wire`` names; ``socket`` is the outer one.
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
        """Some bytes; none at the end."""
        deadline = self._deadline()
        while True:
            try:
                return self._inner.read(size)
            except ssl.SSLWantReadError:
                self._flush()
                self._fill(deadline)
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                # As SSLSocket has it: many servers end without TLS's own goodbye.
                return b""

    def sendall(self, data: bytes, /) -> None:
        """All bytes, or an error."""
        self._inner.write(data)
        self._flush()

    def settimeout(self, seconds: float, /) -> None:
        """The longest wait of one call."""
        self.socket.settimeout(seconds)

    def fileno(self) -> int:
        """Of the TCP connection."""
        return self.socket.fileno()

    def close(self) -> None:
        """Give it up."""
        self.socket.close()

    def _flush(self) -> None:
        if self._outgoing.pending > 0:
            self.socket.sendall(self._outgoing.read())

    def _deadline(self) -> float:
        """When a call that begins now must have ended, as a socket of the ssl module has it: not only each packet."""
        seconds = self.socket.gettimeout()
        return math.inf if seconds is None else time.monotonic() + seconds

    def _fill(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise TimeoutError("the record was not complete in time")
        data = self.socket.recv(_RECEIVE)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()


def shutdown(wire: object) -> None:
    """End a connection from another thread: a blocked read returns. Raises OSError when it has ended already."""
    outer = wire.socket if isinstance(wire, TlsInTls) else wire
    if isinstance(outer, socket.socket):
        # Not the method of SSLSocket, which would let its reader go on in plain text.
        socket.socket.shutdown(outer, socket.SHUT_RDWR)
