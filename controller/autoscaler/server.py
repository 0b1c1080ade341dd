# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gRPC server. It uses TLS with client certificates, or plaintext if an option requests it."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path

import grpc

from ansible_collections.composable.infra.controller.autoscaler.service import ProviderService
from ansible_collections.composable.infra.controller.autoscaler.wire.rpc import SERVICE, service
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig

THREADS = 8
STOP_SECONDS = 2.0


class Certificates:
    """The files of the server's certificate and key, and of the CA of its clients.

    They are read again after a change.

    Raises BadConfig if they cannot be read at the start.
    """

    def __init__(self, certificate: str, key: str, client_ca: str) -> None:
        self._files = {"--tls-cert-file": certificate, "--tls-private-key-file": key, "--client-ca-file": client_ca}
        self._last = self._read()

    def credentials(self) -> grpc.ServerCredentials:
        """Return credentials that require and verify client certificates.

        Renewed files take effect at the next connection.
        """
        found: grpc.ServerCredentials = grpc.dynamic_ssl_server_credentials(
            self._configuration(), self._renewed, require_client_authentication=True)
        return found

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        certificate, key, client_ca = self._last
        found: grpc.ServerCertificateConfiguration = grpc.ssl_server_certificate_configuration(
            [(key, certificate)], root_certificates=client_ca)
        return found

    def _renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the new configuration, None to keep the current one.

        Files that are being replaced are read again at the next connection.
        """
        try:
            found = self._read()
        except BadConfig:
            return None
        if found == self._last:
            return None
        self._last = found
        return self._configuration()

    def _read(self) -> tuple[bytes, bytes, bytes]:
        found = []
        for option, path in self._files.items():
            try:
                found.append(Path(path).read_bytes())
            except OSError as error:
                raise BadConfig(f"{option}: {path!r} cannot be read: {error.strerror}") from None
        certificate, key, client_ca = found
        return certificate, key, client_ca


class Server:
    """The server. ``port``: the port on which it listens.

    Raises BadConfig if the address cannot be used.
    """

    def __init__(self, address: str, answers: ProviderService, certificates: Certificates | None) -> None:
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(THREADS, "grpc"),
                                   handlers=[service(SERVICE, answers.methods())],
                                   options=[("grpc.so_reuseport", 0)])
        try:
            self.port = (self._server.add_secure_port(address, certificates.credentials()) if certificates
                         else self._server.add_insecure_port(address))
        except RuntimeError:
            raise BadConfig(f"--address: cannot listen on {address!r}") from None

    def start(self) -> None:
        """Start to answer."""
        self._server.start()

    def stop(self) -> None:
        """Stop. Calls in flight may take STOP_SECONDS more."""
        self._server.stop(STOP_SECONDS).wait()
