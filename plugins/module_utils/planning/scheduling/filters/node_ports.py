# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host ports. As kube-scheduler's ``framework/plugins/nodeports``."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..snapshot import Json

Port = tuple[str, str, int]
"""Address, protocol and number of a host port."""
ANY_ADDRESS = "0.0.0.0"


def host_ports(pod: Json) -> tuple[Port, ...]:
    """Return host ports of a raw pod's containers and sidecars, which run as long as the pod."""
    spec = pod["spec"]
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    ports = [p for c in (*sidecars, *(spec.get("containers") or ())) for p in c.get("ports") or ()]
    return tuple((p.get("hostIP") or ANY_ADDRESS, p.get("protocol") or "TCP", p["hostPort"])
                 for p in ports if p.get("hostPort"))


def conflicts(port: Port, used: Iterable[Port]) -> bool:
    """Return whether a host port is in use. The address 0.0.0.0 conflicts with every address."""
    address, protocol, number = port
    return any(protocol == p and number == n and (a == address or ANY_ADDRESS in (a, address)) for a, p, n in used)


def filter_ports(ports: Iterable[Port], used: Collection[Port]) -> str:
    """Return why host ports of a pod are not free on a node, in kube-scheduler's words, empty if
    they are.
    """
    return "didn't have free ports for the requested pod ports" if any(conflicts(p, used) for p in ports) else ""
