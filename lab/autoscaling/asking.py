# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the stand-in for Cluster Autoscaler on a real control plane, one loop a second in a
thread."""

from __future__ import annotations

import threading
import typing as t

import grpc

from ansible_collections.composable.infra.lab.autoscaling.processes import SERVER_NAME, Certificates
from ansible_collections.composable.infra.lab.autoscaling.stand_in import AutoscalerStandIn, LoopEnded, Times
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CLAIMS, NODES, PODS, SLICES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError

Json = dict[str, t.Any]
SCAN_SECONDS = 1.0


class ClusterView:
    """The cluster for the stand-in, read again at each call."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def nodes(self) -> list[Json]:
        """Return all nodes."""
        return self._client.list(NODES).items

    def pods(self) -> list[Json]:
        """Return all pods."""
        return self._client.list(PODS).items

    def slices(self) -> list[Json]:
        """Return all ResourceSlices."""
        return self._client.list(SLICES).items

    def claims(self) -> list[Json]:
        """Return all ResourceClaims."""
        return self._client.list(CLAIMS).items

    def patch_node(self, name: str, body: Json) -> None:
        """Merge-patch a node."""
        self._client.merge_patch(NODES, name, body)

    def evict(self, namespace: str, name: str) -> None:
        """Evict a pod through the API that respects PodDisruptionBudgets."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        self._client.raw("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)


class Asking:
    """Calls a provider until ``stop``. ``text()`` returns its log, like that of a process."""

    name = "stand-in"

    def __init__(self, client: Client, port: int, certificates: Certificates, times: Times) -> None:
        credentials = grpc.ssl_channel_credentials(
            certificates.ca.read_bytes(), certificates.client.key.read_bytes(),
            certificates.client.certificate.read_bytes())
        self._channel = grpc.secure_channel(f"{SERVER_NAME}:{port}", credentials)
        self.stand_in = AutoscalerStandIn(self._channel, ClusterView(client), times)
        self._ended: list[str] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(SCAN_SECONDS):
            try:
                self.stand_in.loop()
            except (LoopEnded, ApiError) as error:
                self._ended.append(f"loop ended: {error}")
            except Exception as error:
                self._ended.append(f"a fault of the stand-in: {type(error).__name__}: {error}")

    def text(self) -> str:
        """Return its log: events, and errors that ended a loop."""
        told = [f"{reason} {about}: {message}" for reason, about, message in list(self.stand_in.events)]
        return "\n".join([*told, *self._ended])

    def stop(self) -> int:
        """End the thread after the current loop, and close the connection. Return 0, like a
        process."""
        self._stopped.set()
        self._thread.join(30)
        self._channel.close()
        return 0
