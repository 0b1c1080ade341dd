# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepare and Unprepare: the kubelet calls them before the first and after the last container of a
claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.composable.infra.controller.agent.kubelet_plugin.wire import dra_pb2
from ansible_collections.composable.infra.controller.agent.kubelet_plugin.wire.rpc import Method
from ansible_collections.composable.infra.lab.names import DRIVER
from ansible_collections.composable.infra.lab.real_nodes.plugin import specs
from ansible_collections.composable.infra.lab.real_nodes.plugin.devices import DeviceFiles, FoundGpu

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"


class Unprepared(Exception):
    """A claim cannot be prepared. The message becomes an event of its pod."""


class Driver:
    """The devices of the plugin's start, and the claims that use them.

    `files` knows which devices have their file. `read_claim` returns a ResourceClaim by its path
    from the API server.
    """

    def __init__(
        self,
        node: str,
        devices: Sequence[FoundGpu],
        files: DeviceFiles,
        folder: Path,
        read_claim: Callable[[str], Mapping[str, Any]],
        log: Callable[[str], None],
    ) -> None:
        self._node, self._folder, self._read_claim, self._log = node, folder, read_claim, log
        self._files = files
        self._devices = {specs.device_name(device): device for device in devices}

    def methods(self) -> dict[str, Method]:
        """Return the service's methods by name."""
        return {"NodePrepareResources": self.prepare_all, "NodeUnprepareResources": self.unprepare_all}

    def prepare_all(self, request: Any, context: object) -> Any:
        """Answer a NodePrepareResourcesRequest. A claim that fails has its error in the answer."""
        answer = dra_pb2.NodePrepareResourcesResponse()
        for claim in request.claims:
            try:
                found = self.prepare(claim.namespace, claim.name, claim.uid)
                answer.claims[claim.uid].devices.extend(found)
                self._log(f"claim {claim.namespace}/{claim.name} prepared: {', '.join(d.device_name for d in found)}")
            except Exception as error:
                # The kubelet shows any error on the pod and retries.
                answer.claims[claim.uid].error = f"{type(error).__name__}: {error}"
                self._log(f"claim {claim.namespace}/{claim.name} not prepared: {error}")
        return answer

    def unprepare_all(self, request: Any, context: object) -> Any:
        """Answer a NodeUnprepareResourcesRequest."""
        answer = dra_pb2.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            specs.remove(self._folder, claim.uid)
            answer.claims[claim.uid].SetInParent()
            self._log(f"claim {claim.namespace}/{claim.name} unprepared")
        return answer

    def prepare(self, namespace: str, name: str, uid: str) -> list[Any]:
        """Write the claim's spec and return its devices for the kubelet. Raise Unprepared. May be
        repeated."""
        claim = self._read_claim(CLAIMS.format(namespace=namespace, name=name))
        if claim["metadata"]["uid"] != uid:
            raise Unprepared(f"the claim {namespace}/{name} is another one by now")
        results = self._results(claim)
        devices = [self._devices[result["device"]] for result in results]
        for device in devices:
            if not self._files.has(device):
                # The vendor's message for a device that had no file when the plugin checked.
                raise Unprepared(f'invalid CDI Spec: failed add device "{uid}-{specs.device_name(device)}": '
                                 "invalid device, empty device edits")
        specs.write(self._folder, uid, devices)
        return [self._answer(uid, result) for result in results]

    def _results(self, claim: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        results = [it for it in allocation.get("devices", {}).get("results", []) if it["driver"] == DRIVER]
        if not results:
            raise Unprepared("the claim has no device of this driver")
        for result in results:
            if result["pool"] != self._node or result["device"] not in self._devices:
                name = f"{result['pool']}/{result['device']}"
                raise Unprepared(f"the device {name} was not there when the plugin started")
        return results

    @staticmethod
    def _answer(uid: str, result: Mapping[str, Any]) -> Any:
        return dra_pb2.Device(
            request_names=[result["request"]],
            pool_name=result["pool"],
            device_name=result["device"],
            cdi_device_ids=[specs.device_id(uid, result["device"])],
        )
