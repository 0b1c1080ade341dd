# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Template nodes, as protobuf for Cluster Autoscaler and as JSON for the planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ansible_collections.composable.infra.controller.autoscaler.wire import node_pb2
from ansible_collections.composable.infra.plugins.module_utils.model.node import Node
from ansible_collections.composable.infra.plugins.module_utils.model.value import Json
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.filters.dynamic_resources import (
    extended_resources,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.framework.quantity import (
    BadQuantity,
    amount,
)
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import Shape
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState

HOSTNAME = "kubernetes.io/hostname"


def template_node(name: str, shape: Shape, nodes: Iterable[Node], selector: Mapping[str, str] | None = None) -> Node:
    """Return a node of this shape.

    Values that the shape lacks are those of the largest of the real ``nodes``. Labels are those
    that all of these nodes have, those of the group's selector, and those of the shape.
    """
    there = list(nodes)
    offered = {"cpu": shape.cpu or _largest("cpu", there), "memory": shape.memory or _largest("memory", there),
               "pods": shape.pods, **{resource: str(n) for resource, n in shape.devices.items()}}
    offered = {resource: text for resource, text in offered.items() if text}
    labels = {**_common_labels(there), **(selector or {}), **shape.labels, HOSTNAME: name}
    return Node(name, labels=labels, taints=tuple(dict(taint) for taint in shape.taints), ready=True,
                allocatable=offered, capacity=offered)


def most_devices(state: ClusterState, nodes: Iterable[Node]) -> dict[str, int]:
    """Return the most devices that the fabrics may attach to one of these nodes, by extended
    resource.

    Only extended resources of a DeviceClass count. The limit is that of the node's label or
    ``max_devices_per_node``, and the number of devices that exist. A class that names models in its
    selectors, as CDI or product name, is served by these models, any other class by all.
    """
    classes, limits = {raw["metadata"]["name"]: raw for raw in state.classes.list()}, _limits(state, list(nodes))
    found = {resource: max((n for model, n in limits.items() if model in _models(state, classes[name])), default=0)
             for resource, name in extended_resources.classes_by_resource(classes).items()}
    return {resource: n for resource, n in found.items() if n}


def existing_devices(state: ClusterState, wanted: Mapping[str, int]) -> dict[str, int]:
    """Return the devices of a configured shape by extended resource, but no more than the fabrics
    have.

    A resource without a DeviceClass stays as it is. If devices could not be counted, all stay.
    """
    if state.snapshot is None or state.snapshot.problems:
        return {**wanted}
    classes = {raw["metadata"]["name"]: raw for raw in state.classes.list()}
    served, there = extended_resources.classes_by_resource(classes), _existing(state)
    most = {resource: sum(there[model] for model in _models(state, classes[name])) for resource, name in served.items()}
    found = {resource: min(n, most.get(resource, n)) for resource, n in wanted.items()}
    return {resource: n for resource, n in found.items() if n}


def _existing(state: ClusterState) -> Counter[str]:
    """Return the devices by model, free and attached."""
    found: Counter[str] = Counter()
    for (name, _fabric), n in (state.snapshot.free if state.snapshot else {}).items():
        found[name] += n
    for model in state.settings.models:
        found[model.cdi_model_name] += state.resources.count("model", model.cdi_model_name)
    return found


def _limits(state: ClusterState, nodes: list[Node]) -> dict[str, int]:
    """Return the most devices on one node, by model."""
    there = _existing(state)
    found = {}
    for model in state.settings.models:
        label = state.settings.label(f"{model.k8s_device_name}-size-max")
        said = [node.labels.get(label, "") for node in nodes]
        most = max((int(text) if text.isdecimal() else state.settings.max_devices_per_node for text in said), default=0)
        found[model.cdi_model_name] = min(most, there[model.cdi_model_name])
    return found


def _models(state: ClusterState, device_class: Json) -> set[str]:
    text = str((device_class.get("spec") or {}).get("selectors") or "")
    named = {model.cdi_model_name for model in state.settings.models
             if model.cdi_model_name in text or str(model.attributes["productName"]) in text}
    return named or {model.cdi_model_name for model in state.settings.models}


def marshalled(node: Node) -> bytes:
    """Return the node as v1.Node protobuf, without the prefix of the API server's storage.

    Source: ``k8s.io/api/core/v1``, generated.proto. Cluster Autoscaler 1.35 and later calls
    Unmarshal on it.
    """
    message = node_pb2.Node()
    message.metadata.name = node.name
    message.metadata.labels.update(node.labels)
    for taint in node.taints:
        message.spec.taints.add(key=taint["key"], value=taint.get("value", ""), effect=taint["effect"])
    for amounts, message_amounts in ((node.capacity, message.status.capacity),
                                     (node.allocatable, message.status.allocatable)):
        for resource, text in amounts.items():
            message_amounts[resource].string = text
    message.status.conditions.add(type="Ready", status="True" if node.ready else "False")
    content: bytes = message.SerializeToString()
    return content


def _largest(resource: str, nodes: Iterable[Node]) -> str:
    """Return the largest amount that a node offers, as it writes it. Empty if none can be read."""
    found = [str(node.allocatable.get(resource, "")) for node in nodes]
    return max((text for text in found if _amount(resource, text) >= 0), key=lambda text: _amount(resource, text),
               default="")


def _amount(resource: str, text: str) -> int:
    try:
        return amount(resource, text) if text else -1
    except BadQuantity:
        return -1


def _common_labels(nodes: Iterable[Node]) -> Mapping[str, str]:
    """Return the labels that all nodes have alike, without the hostname.

    The label of a fabric stays, because a claim from a fabric's pool fits only a template with it.
    """
    sets = [set(node.labels.items()) for node in nodes]
    return {key: text for key, text in (set.intersection(*sets) if sets else set()) if key != HOSTNAME}
