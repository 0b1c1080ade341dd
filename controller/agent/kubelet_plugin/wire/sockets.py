# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two gRPC servers of a plugin on Unix sockets.

The first registers the plugin, and the second serves the kubelet.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from . import registration_pb2
from .rpc import REGISTRATION, Method, service

_STOP_SECONDS = 1.0
# Each kubelet that listens for health keeps one thread.
_THREADS = 8


@dataclass(frozen=True, slots=True)
class Sockets:
    """The sockets of a driver.

    ``kubelet``: the kubelet's folder as both it and the plugin see it.
    """

    kubelet: Path
    driver: str

    @property
    def endpoint(self) -> Path:
        """The socket of the driver's services."""
        return self.kubelet / "plugins" / self.driver / "dra.sock"

    @property
    def registrar(self) -> Path:
        """The socket on which the kubelet registers the driver."""
        return self.kubelet / "plugins_registry" / f"{self.driver}-reg.sock"

    def are_there(self) -> bool:
        """Return whether both sockets exist."""
        return self.endpoint.is_socket() and self.registrar.is_socket()


class Registration:
    """Answer the kubelet's plugin watcher.

    ``services``: names of the services, as the kubelet compares them, such as "v1.DRAPlugin".
    ``on_registered`` is called when the kubelet has accepted the plugin.
    """

    def __init__(self, sockets: Sockets, services: Sequence[str], on_registered: Callable[[], None],
                 log: Callable[[str], None]) -> None:
        self._sockets, self._services, self._on_registered, self._log = sockets, services, on_registered, log

    def methods(self) -> dict[str, Method]:
        """Return the service's methods by name."""
        return {"GetInfo": self._info, "NotifyRegistrationStatus": self._notified}

    def _info(self, request: object, context: object) -> Any:
        return registration_pb2.PluginInfo(
            type="DRAPlugin", name=self._sockets.driver, endpoint=str(self._sockets.endpoint),
            supported_versions=list(self._services),
        )

    def _notified(self, status: Any, context: object) -> Any:
        if status.plugin_registered:
            self._log("Registered the DRA driver with the kubelet")
            self._on_registered()
        else:
            self._log(f"the kubelet refused the DRA driver: {status.error}")
        return registration_pb2.RegistrationStatusResponse()


@contextlib.contextmanager
def serving(sockets: Sockets, handlers: Sequence[grpc.GenericRpcHandler], registration: Registration) -> Iterator[None]:
    """Serve, and leave no socket behind.

    Raises OSError or RuntimeError when a socket cannot be made.
    """
    # The kubelet calls the endpoint as soon as it sees the registrar, so make the registrar last.
    with (
        _server(sockets.endpoint, handlers),
        _server(sockets.registrar, [service(f"{REGISTRATION}.Registration", registration.methods())]),
    ):
        yield


@contextlib.contextmanager
def _server(socket: Path, handlers: Sequence[grpc.GenericRpcHandler]) -> Iterator[None]:
    socket.parent.mkdir(parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=_THREADS))
    server.add_generic_rpc_handlers(tuple(handlers))
    server.add_insecure_port(f"unix://{socket}")
    server.start()
    try:
        yield
    finally:
        server.stop(_STOP_SECONDS).wait()
        socket.unlink(missing_ok=True)
