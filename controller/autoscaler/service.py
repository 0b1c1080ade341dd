# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cluster Autoscaler's gRPC calls. The docstrings say how Cluster Autoscaler uses each answer.

Source: its tag cluster-autoscaler-1.36.1, ``cloudprovider/externalgrpc`` and ``clusterstate``.
"""

from __future__ import annotations

import functools
import logging
import typing as t
from collections.abc import Callable

import grpc

from ansible_collections.composable.infra.controller.autoscaler.errors import Kind, Refused
from ansible_collections.composable.infra.controller.autoscaler.measurements import Measurements
from ansible_collections.composable.infra.controller.autoscaler.provider import Provider
from ansible_collections.composable.infra.controller.autoscaler.template import marshalled
from ansible_collections.composable.infra.controller.autoscaler.wire import externalgrpc_pb2
from ansible_collections.composable.infra.controller.autoscaler.wire.rpc import Method
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError

log = logging.getLogger("composable.infra")
# Cluster Autoscaler asks for the label once. A node with the label but without a GPU is never
# ready, so no node has it.
NO_LABEL = "composable.infra/label-of-no-node"
RUNNING, CREATING, DELETING = 1, 2, 3


class ProviderService:
    """Answer calls.

    A refusal ends with a status code and our reason, which Cluster Autoscaler's events show.
    """

    def __init__(self, provider: Provider, measurements: Measurements) -> None:
        self._provider, self._measurements = provider, measurements

    def methods(self) -> dict[str, Method]:
        """Return the service's methods by name."""
        found: dict[str, Callable[[t.Any], t.Any]] = {
            "NodeGroups": self._node_groups, "NodeGroupForNode": self._node_group_for_node,
            "GPULabel": lambda _request: _answer("GPULabel", label=NO_LABEL),
            "GetAvailableGPUTypes": lambda _request: _answer("GetAvailableGPUTypes"),
            "Cleanup": lambda _request: _answer("Cleanup"), "Refresh": self._refresh,
            "NodeGroupTargetSize": self._target_size, "NodeGroupIncreaseSize": self._increase,
            "NodeGroupDeleteNodes": self._delete, "NodeGroupDecreaseTargetSize": self._decrease,
            "NodeGroupNodes": self._nodes, "NodeGroupTemplateNodeInfo": self._template}
        return {name: functools.partial(self._call, name, method) for name, method in found.items()}

    def _call(self, name: str, method: Callable[[t.Any], t.Any], request: t.Any, context: t.Any) -> t.Any:
        try:
            answer = method(request)
        except Refused as error:
            self._end(context, name, error.kind, str(error))
        except ApiError as error:
            self._end(context, name, Kind.UNAVAILABLE, str(error))
        except Exception as error:
            log.exception("the call %s of Cluster Autoscaler failed", name)
            self._measurements.count("requests_total", code="INTERNAL")
            context.abort(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")
        self._measurements.count("requests_total", code="OK")
        return answer

    def _end(self, context: t.Any, name: str, kind: Kind, reason: str) -> t.NoReturn:
        log.warning("Refused the call %s of Cluster Autoscaler: %s", name, reason)
        self._measurements.count("requests_total", code=kind.name)
        context.abort(grpc.StatusCode[kind.name], reason)
        raise AssertionError("abort raises")

    def _refresh(self, _request: t.Any) -> t.Any:
        """Refresh.

        An error ends Cluster Autoscaler's loop, so it decides nothing until the cluster was read.
        """
        self._provider.refresh()
        return _answer("Refresh")

    def _node_groups(self, _request: t.Any) -> t.Any:
        return _answer("NodeGroups", nodeGroups=[_group(*each) for each in self._provider.groups()])

    def _node_group_for_node(self, request: t.Any) -> t.Any:
        """Return a node's group. An empty id means no group. A vertical group is never returned."""
        found = self._provider.group_of(request.node.name)
        return _answer("NodeGroupForNode", nodeGroup=_group(*found) if found else _group("", 0, 0, ""))

    def _target_size(self, request: t.Any) -> t.Any:
        return _answer("NodeGroupTargetSize", targetSize=self._provider.target_size(request.id))

    def _increase(self, request: t.Any) -> t.Any:
        self._provider.increase(request.id, request.delta)
        return _answer("NodeGroupIncreaseSize")

    def _decrease(self, request: t.Any) -> t.Any:
        self._provider.decrease(request.id, request.delta)
        return _answer("NodeGroupDecreaseTargetSize")

    def _delete(self, request: t.Any) -> t.Any:
        self._provider.delete(request.id, [(node.name, node.providerID) for node in request.nodes])
        return _answer("NodeGroupDeleteNodes")

    def _nodes(self, request: t.Any) -> t.Any:
        answer = _answer("NodeGroupNodes")
        for name, leaving in self._provider.running(request.id):
            answer.instances.add(id=name).status.instanceState = DELETING if leaving else RUNNING
        for name, code, kind, reason in self._provider.failed(request.id):
            status = answer.instances.add(id=name).status
            status.instanceState = CREATING
            status.errorInfo.errorCode, status.errorInfo.errorMessage = code, reason
            status.errorInfo.instanceErrorClass = kind
        return answer

    def _template(self, request: t.Any) -> t.Any:
        return _answer("NodeGroupTemplateNodeInfo", nodeBytes=marshalled(self._provider.template(request.id)))


def _answer(method: str, **fields: t.Any) -> t.Any:
    return getattr(externalgrpc_pb2, f"{method}Response")(**fields)


def _group(name: str, least: int, most: int, said: str) -> t.Any:
    return externalgrpc_pb2.NodeGroup(id=name, minSize=least, maxSize=most, debug=said)
