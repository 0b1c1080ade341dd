# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a pod asks of a node besides devices: resources and host ports, counted as NodeResourcesFit and NodePorts do."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from .quantity import amount
from .view import Json

Amounts = dict[str, int]
Port = tuple[str, str, int]
ANY_ADDRESS = "0.0.0.0"
INFEASIBLE = "Infeasible"


def requests(pod: Json) -> Amounts:
    """Effective requests of a pod: containers, init containers, sidecars, pod-level requests, overhead.

    A pod that runs counts with the largest of what is asked, granted and in effect (resize in place).
    Raises BadQuantity.
    """
    spec = pod["spec"]
    running = _sum(_effective(pod, c) for c in spec.get("containers") or ())
    peak = _init_peak(pod, running)
    running = _largest((running, peak))
    for name, value in _amounts((spec.get("resources") or {}).get("requests")).items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            running[name] = max(value, _pod_level(pod, name))
    return _sum((running, _amounts(spec.get("overhead"))))


def _init_peak(pod: Json, running: Amounts) -> Amounts:
    """The most that the init containers need one after the other; sidecars are added to what runs for ever."""
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
    asked = _amounts((container.get("resources") or {}).get("requests"))
    status = _status(pod, container["name"])
    if status is None or status.get("resources") is None:
        return asked
    found = [_amounts(status["resources"].get("requests")), _amounts(status.get("allocatedResources"))]
    return _largest([*found, *([] if _resize_infeasible(pod) else [asked])])


def _status(pod: Json, name: str) -> Json | None:
    status = pod.get("status") or {}
    both = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return next((s for s in both if s.get("name") == name), None)


def _pod_level(pod: Json, name: str) -> int:
    status = pod.get("status") or {}
    found = [_amounts((status.get("resources") or {}).get("requests")), _amounts(status.get("allocatedResources"))]
    return max(f.get(name, 0) for f in found)


def _resize_infeasible(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "PodResizePending" and c.get("reason") == INFEASIBLE for c in conditions)


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


def allocatable(node: Json) -> Amounts:
    """What the node offers. Raises BadQuantity."""
    return _amounts((node.get("status") or {}).get("allocatable"))


def host_ports(pod: Json) -> tuple[Port, ...]:
    """(address, protocol, port) that the pod binds on its node, of containers that run for ever."""
    spec = pod["spec"]
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    ports = [p for c in (*sidecars, *(spec.get("containers") or ())) for p in c.get("ports") or ()]
    return tuple((p.get("hostIP") or ANY_ADDRESS, p.get("protocol") or "TCP", p["hostPort"])
                 for p in ports if p.get("hostPort"))


def ports_clash(wanted: Port, taken: Iterable[Port]) -> bool:
    """Whether a host port is taken; the address that stands for all clashes with every address."""
    address, protocol, number = wanted
    return any(protocol == p and number == n and (a == address or ANY_ADDRESS in (a, address)) for a, p, n in taken)
