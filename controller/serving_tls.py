# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The certificate of an endpoint that serves TLS, from files or self-signed.

Files are read again when they change, as cert-manager and the kubelet change them. If a new pair
does not fit, the previous certificate stays in use. A self-signed certificate encrypts the
connection, but a client cannot verify the server by it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable

from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig

log = logging.getLogger("composable.infra")
# A self-signed certificate is valid for 30 days. Replace it after so many seconds.
RENEW_SECONDS = 20 * 86400.0


def add_tls_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the certificate, with the names that Kubernetes' own components use."""
    parser.add_argument("--tls-cert-file", metavar="PATH",
                        help="certificate, with its chain, to serve --listen with TLS. A changed file is read again")
    parser.add_argument("--tls-private-key-file", metavar="PATH", help="private key of that certificate")
    parser.add_argument("--tls-self-signed", action="store_true",
                        help="serve --listen with TLS and a self-signed certificate, which is renewed every 20 days")


def serving_certificate(args: argparse.Namespace) -> ServingCertificate | None:
    """Return the certificate of the options, None for no TLS.

    Raises BadConfig if the options exclude each other or the files are unusable.
    """
    files = (args.tls_cert_file, args.tls_private_key_file)
    if args.tls_self_signed and any(files):
        raise BadConfig("--tls-self-signed cannot be used together with --tls-cert-file and --tls-private-key-file")
    if args.tls_self_signed:
        return SelfSigned()
    if any(files) and not all(files):
        raise BadConfig("--tls-cert-file and --tls-private-key-file need each other. Set both")
    return CertificateFiles(*files) if all(files) else None


class ServingCertificate:
    """A certificate and its TLS context. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for a new connection, with the current certificate."""
        with self._lock:
            if self._context is None or self._is_outdated():
                self._context = self._renewed() or self._context
            assert self._context is not None
            return self._context

    def _is_outdated(self) -> bool:
        """Return whether there is a newer certificate, or a newer one is due."""
        raise NotImplementedError

    def _renewed(self) -> ssl.SSLContext | None:
        """Return a new context, None to keep the previous one."""
        raise NotImplementedError


class CertificateFiles(ServingCertificate):
    """A certificate from two files. Raises BadConfig if they cannot be used at the start."""

    def __init__(self, certificate: str, key: str) -> None:
        super().__init__()
        self._files = (certificate, key)
        self._seen = self._stamp()
        try:
            self._context = _loaded(certificate, key)
        except (OSError, ValueError) as error:
            raise BadConfig(f"--tls-cert-file: {certificate!r} cannot be used with --tls-private-key-file {key!r}: "
                            f"{_why(error)}") from None

    def _is_outdated(self) -> bool:
        return self._stamp() != self._seen

    def _renewed(self) -> ssl.SSLContext | None:
        """Read the files.

        They are replaced one after the other, so a pair that does not fit is read again at the next
        change.
        """
        self._seen = self._stamp()
        try:
            found = _loaded(*self._files)
        except (OSError, ValueError) as error:
            log.warning("the certificate %s has changed, but cannot be used: %s. The previous certificate stays in use",
                        self._files[0], _why(error))
            return None
        log.info("Read the certificate %s again", self._files[0])
        return found

    def _stamp(self) -> tuple[tuple[int, int, int], ...]:
        found = []
        for path in self._files:
            with contextlib.suppress(OSError):
                stat = os.stat(path)
                found.append((stat.st_mtime_ns, stat.st_ino, stat.st_size))
        return tuple(found)


class SelfSigned(ServingCertificate):
    """A self-signed certificate in memory, renewed before it expires.

    ``clock``: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._made = clock, 0.0

    def _is_outdated(self) -> bool:
        return self._clock() - self._made >= RENEW_SECONDS

    def _renewed(self) -> ssl.SSLContext | None:
        self._made = self._clock()
        # Import it only here, since the library takes some 10 MiB.
        make = importlib.import_module("ansible_collections.composable.infra.controller.self_signed").self_signed
        certificate, key = make(socket.gethostname())
        # ssl reads files only, and a pod may have no writable folder. This file is in memory and
        # private.
        with os.fdopen(os.memfd_create("certificate"), "wb") as file:
            file.write(key + certificate)
            file.flush()
            return _loaded(f"/proc/self/fd/{file.fileno()}", None)


def _loaded(certificate: str, key: str | None) -> ssl.SSLContext:
    """Return a TLS context. Raises OSError (ssl.SSLError among them) or ValueError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Without a password, ssl would prompt for the key's password on the terminal.
    context.load_cert_chain(certificate, key, password="")
    return context


def _why(error: Exception) -> str:
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)
