# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resources that a pod requests. As kube-scheduler's ``framework/plugins/noderesources``
(NodeResourcesFit).

Requests are summed as ``k8s.io/component-helpers/resource`` sums them, with ``UseStatusResources``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from ....model.node import Node
from ..framework.quantity import amount
from ..snapshot import Json

Amounts = dict[str, int]
"""Whole units by name of the resource, thousandths for CPU."""
INFEASIBLE = "Infeasible"


def requests(pod: Json) -> Amounts:
    """Return the effective requests of a raw pod: containers, init containers, sidecars, pod-level
    requests, overhead.

    A running pod counts with the largest of the requested, allocated and actual amounts (in-place
    resize, KEP-1287). Raise BadQuantity.
    """
    spec = pod["spec"]
    running = _sum(_effective(pod, c) for c in spec.get("containers") or ())
    running = _largest((running, _init_peak(pod, running)))
    for name, value in _amounts((spec.get("resources") or {}).get("requests")).items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            running[name] = max(value, _pod_level(pod, name))
    return _sum((running, _amounts(spec.get("overhead"))))


def _init_peak(pod: Json, running: Amounts) -> Amounts:
    """Return the most that the init containers need one after the other. Add sidecars to
    ``running``.
    """
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod["spec"].get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            own = _effective(pod, container)
            _add(running, own)
            _add(sidecars, own)
            now = dict(sidecars)
        else:
            now = _sum((sidecars, _amounts((container.get("resources") or {}).get("requests"))))
        for name, value in now.items():
            peak[name] = max(peak.get(name, 0), value)
    return peak


def _effective(pod: Json, container: Json) -> Amounts:
    """Return the requests of one container. A resize that can never be done does not count."""
    requested = _amounts((container.get("resources") or {}).get("requests"))
    pod_status = pod.get("status") or {}
    statuses = (*(pod_status.get("containerStatuses") or ()), *(pod_status.get("initContainerStatuses") or ()))
    status = next((each for each in statuses if each.get("name") == container["name"]), None)
    if status is None or status.get("resources") is None:
        return requested
    actual = [_amounts(status["resources"].get("requests")), _amounts(status.get("allocatedResources"))]
    infeasible = any(c.get("type") == "PodResizePending" and c.get("reason") == INFEASIBLE
                     for c in pod_status.get("conditions") or ())
    return _largest(actual if infeasible else [*actual, requested])


def _pod_level(pod: Json, name: str) -> int:
    status = pod.get("status") or {}
    found = [_amounts((status.get("resources") or {}).get("requests")), _amounts(status.get("allocatedResources"))]
    return max(f.get(name, 0) for f in found)


def _amounts(listed: Mapping[str, t.Any] | None) -> Amounts:
    return {name: amount(name, str(value)) for name, value in (listed or {}).items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _sum(several: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for each in several:
        _add(total, each)
    return total


def _largest(several: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for each in several:
        for name, value in each.items():
            total[name] = max(total.get(name, 0), value)
    return total


def allocatable(node: Node) -> Amounts:
    """Return the amounts that the node offers. Raise BadQuantity."""
    return _amounts(node.allocatable)


def filter_resources(requested: Amounts, used: Amounts, pods: int, offered: Amounts,
                     extended: frozenset[str] = frozenset()) -> str:
    """Return why a node lacks room for one more pod, in kube-scheduler's words, empty if it has
    room.

    ``requested``: amounts of the pod. ``used``, ``pods``: requests and number of the pods on the
    node. ``offered``: allocatable amounts. ``extended``: resources of the pod that devices serve.
    If a device plugin offers such a resource, kube-scheduler uses the plugin, and a device would be
    attached in vain.
    """
    if pods + 1 > offered.get("pods", 0):
        return "Too many pods"
    for name, value in requested.items():
        if name in extended:
            if offered.get(name):
                return f"served {name} by a device plugin"
        elif value and value > offered.get(name, 0) - used.get(name, 0):
            return f"Insufficient {name}"
    return ""
