# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the kubelet's side of plugins, over real gRPC sockets: it is no kubelet.

As k8s.io/kubernetes 1.36, pkg/kubelet/pluginmanager and pkg/kubelet/cm/dra do it: it looks for sockets in the registry,
asks each for its driver, connects to the endpoint that it is told, says that it is registered, and watches health. A
start deletes the ResourceSlices of its node. Calls that answer for a claim not at all fail, as they do there.
"""

from __future__ import annotations

import contextlib
import threading
import typing as t
from pathlib import Path

import grpc

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.wire import (
    dra_pb2,
    health_pb2,
    registration_pb2,
    rpc,
)
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.wire.rpc import (
    DRA,
    HEALTH,
    REGISTRATION,
)

HEALTH_METHOD = f"{HEALTH}.DRAResourceHealth/NodeWatchResources"


class KubeletStandIn:
    """A context manager; ``folder`` is the kubelet's. ``dra``: package of the service that it asks for."""

    def __init__(self, folder: Path, health: str = "v1alpha1.DRAResourceHealth", dra: str = DRA) -> None:
        self._folder, self._health_service, self._service = folder, health, f"{dra}.DRAPlugin"
        self._channels, self._watches = contextlib.ExitStack(), list[threading.Thread]()
        self._endpoint: t.Any = None
        self.info: t.Any = None
        self.health: list[dict[str, tuple[int, str]]] = []
        self.told = threading.Condition()

    def __enter__(self) -> KubeletStandIn:
        return self

    def __exit__(self, *_unused: object) -> None:
        self._channels.close()
        for watch in self._watches:
            watch.join(10.0)

    def register(self, driver: str, seconds: float = 10.0) -> None:
        """Register the plugin, once its socket is there and answers."""
        channel = self._channel(self._folder / "plugins_registry" / f"{driver}-reg.sock")
        grpc.channel_ready_future(channel).result(seconds)
        question = registration_pb2.InfoRequest()
        self.info = rpc.call(channel, f"{REGISTRATION}.Registration/GetInfo", question)
        assert self.info.type == "DRAPlugin"
        assert self._service.removeprefix("k8s.io.kubelet.pkg.apis.dra.") in self.info.supported_versions
        self._endpoint = self._channel(Path(self.info.endpoint))
        status = registration_pb2.RegistrationStatus(plugin_registered=True)
        rpc.call(channel, f"{REGISTRATION}.Registration/NotifyRegistrationStatus", status)
        if self._health_service in self.info.supported_versions:
            watch = threading.Thread(target=self._watch, daemon=True)
            watch.start()
            self._watches.append(watch)

    def prepare(self, uid: str, name: str, namespace: str = "default") -> t.Any:
        """The answer for one claim: its ``devices`` or its ``error``."""
        return self._ask("NodePrepareResources", uid, name, namespace)

    def unprepare(self, uid: str, name: str, namespace: str = "default") -> t.Any:
        """The answer for one claim."""
        return self._ask("NodeUnprepareResources", uid, name, namespace)

    def _ask(self, method: str, uid: str, name: str, namespace: str) -> t.Any:
        claim = dra_pb2.Claim(namespace=namespace, uid=uid, name=name)
        request = getattr(dra_pb2, f"{method}Request")(claims=[claim])
        answer = rpc.call(self._endpoint, f"{DRA}.DRAPlugin/{method}", request, served_as=self._service)
        assert uid in answer.claims, "the kubelet calls again for a claim without an answer"
        return answer.claims[uid]

    def _watch(self) -> None:
        request = health_pb2.NodeWatchResourcesRequest()
        with contextlib.suppress(grpc.RpcError, ValueError):
            for answer in rpc.call_stream(self._endpoint, HEALTH_METHOD, request, self._health_service):
                with self.told:
                    self.health.append({d.device.device_name: (d.health, d.message) for d in answer.devices})
                    self.told.notify_all()

    def _channel(self, socket: Path) -> grpc.Channel:
        channel: grpc.Channel = self._channels.enter_context(grpc.insecure_channel(f"unix://{socket}"))
        return channel
