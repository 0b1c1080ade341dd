# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for a simulated node's kubelet with a DRA driver: it registers the driver and prepares
no claim.

It follows `k8s.io/kubernetes` 1.36, pkg/kubelet/pluginmanager. It finds the socket in the registry,
asks for the driver, and confirms the registration. The pods of kwok do not depend on this. Real
nodes have a real kubelet.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import grpc

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.wire import registration_pb2, rpc
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.wire.rpc import REGISTRATION

_LOOK_SECONDS = 0.2


def register_always(folder: Path, driver: str, stop: threading.Event) -> None:
    """Register the plugin of `driver` in a thread, whenever its socket in the kubelet's `folder`
    has changed."""
    threading.Thread(target=_watch, args=(folder, driver, stop), daemon=True).start()


def _watch(folder: Path, driver: str, stop: threading.Event) -> None:
    known, socket = 0, folder / "plugins_registry" / f"{driver}-reg.sock"
    while not stop.wait(_LOOK_SECONDS):
        with contextlib.suppress(OSError, grpc.RpcError, grpc.FutureTimeoutError):
            if (found := socket.stat().st_ino) != known:
                _register(socket)
                known = found


def _register(socket: Path) -> None:
    with grpc.insecure_channel(f"unix://{socket}") as channel:
        grpc.channel_ready_future(channel).result(5.0)
        rpc.call(channel, f"{REGISTRATION}.Registration/GetInfo", registration_pb2.InfoRequest())
        told = registration_pb2.RegistrationStatus(plugin_registered=True)
        rpc.call(channel, f"{REGISTRATION}.Registration/NotifyRegistrationStatus", told)
