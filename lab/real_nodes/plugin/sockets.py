# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin's two gRPC servers on Unix sockets: one tells the kubelet of the plugin, the other one serves it."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc

from ansible_collections.composable.infra.lab.names import DRIVER
from ansible_collections.composable.infra.lab.real_nodes.plugin.rpc import (
    DRA,
    REGISTRATION,
    Method,
    message_class,
    service,
)

_STOP_SECONDS = 1.0


class Registration:
    """Answers the kubelet's plugin watcher. `on_registered` is called when the kubelet has accepted the plugin."""

    def __init__(self, endpoint: Path, on_registered: Callable[[], None], log: Callable[[str], None]) -> None:
        self._endpoint, self._on_registered, self._log = endpoint, on_registered, log

    def methods(self) -> dict[str, Method]:
        """The service's methods by name."""
        return {"GetInfo": self._info, "NotifyRegistrationStatus": self._notified}

    def _info(self, request: object, context: object) -> Any:
        return message_class(f"{REGISTRATION}.PluginInfo")(
            type="DRAPlugin", name=DRIVER, endpoint=str(self._endpoint), supported_versions=["v1.DRAPlugin"]
        )

    def _notified(self, status: Any, context: object) -> Any:
        if status.plugin_registered:
            self._log("registered with the kubelet")
            self._on_registered()
        else:
            self._log(f"the kubelet refuses this plugin: {status.error}")
        return message_class(f"{REGISTRATION}.RegistrationStatusResponse")()


@contextlib.contextmanager
def serving(kubelet: Path, dra: dict[str, Method], on_registered: Callable[[], None],
            log: Callable[[str], None]) -> Iterator[None]:
    """Serve below `kubelet`, its folder, and leave no socket behind."""
    endpoint = kubelet / "plugins" / DRIVER / "dra.sock"
    registrar = kubelet / "plugins_registry" / f"{DRIVER}-reg.sock"
    registration = Registration(endpoint, on_registered, log)
    # The kubelet calls the endpoint as soon as it sees the registrar, so that comes last.
    with (
        _server(endpoint, service(f"{DRA}.DRAPlugin", dra)),
        _server(registrar, service(f"{REGISTRATION}.Registration", registration.methods())),
    ):
        yield


@contextlib.contextmanager
def _server(socket: Path, handler: grpc.GenericRpcHandler) -> Iterator[None]:
    socket.parent.mkdir(parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"unix://{socket}")
    server.start()
    try:
        yield
    finally:
        server.stop(_STOP_SECONDS).wait()
        socket.unlink(missing_ok=True)
