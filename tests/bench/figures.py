# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run is of, and what it gives."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Scenario:
    """``pods`` pods of ``gpus`` devices each on ``nodes`` nodes; F = ``attach`` and ``announce`` in seconds.

    ``spread``: pods are pinned to nodes in turn; ``policy``: allocation_policy, by which ours chooses nodes;
    ``twice``: the first burst of the fresh control plane is a run of its own, with the devices returned after it.
    ``direct``: that handover, with the node agents' own driver; a second burst then meets the idle devices of
    the first.
    """

    name: str
    pods: int
    nodes: int
    attach: float
    gpus: int = 1
    announce: float = 0.05
    spread: bool = False
    gated: bool = False
    alone: bool = False
    twice: bool = False
    policy: str = "samenode"
    direct: bool = False


@dataclass(slots=True)
class Figures:
    """Seconds; hops as lists over claims, ``total`` from the first claim created to the last pod bound.

    Gated: ``asked`` counts from the pod's creation, ``conditioned`` is from the device seen to the gate removed,
    ``scheduler`` from there to the pod Running, ``ran`` from the device seen to the pod Running. ``node_found``: from
    the last attach to the last device that the node has bound and touched; ``plugin_restart``: from there to the last
    device in a slice. ``rate`` is pods per second from the first to the last binding; ``alone`` and ``alone_total`` are
    rate and total of the scheduler with the same pods and claims when their devices are there already. ``overhead`` is
    the total without F and the node's share (these two), ``first_overhead`` that of the burst before. ``loop_seconds``:
    ten million additions in Python at that time. Direct: ``conditioned`` counts from the device touched, ``scheduler``
    from the condition to the binding, and ``alone_total`` is the burst that meets idle devices. ``writes``: how long
    the API server took for each write of the scheduler meanwhile; one of ours lies between allocation and request.
    ``cpu_seconds``: processor time of the controller in the burst; ``others``: that of all else by name.
    """

    scenario: Scenario
    total: float = 0.0
    asked: list[float] = field(default_factory=list)
    conditioned: list[float] = field(default_factory=list)
    scheduler: list[float] = field(default_factory=list)
    ran: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    node_found: float = 0.0
    plugin_restart: float = 0.0
    overhead: float = 0.0
    first_overhead: float = 0.0
    rate: float = 0.0
    alone: float = 0.0
    alone_total: float = 0.0
    at_home: int = 0
    loop_seconds: float = 0.0
    cpu_seconds: float = 0.0
    rss_mib: float = 0.0
    others: dict[str, float] = field(default_factory=dict)


def quantiles(values: list[float]) -> dict[str, float]:
    """p50, p99 and max, in milliseconds."""
    ordered = sorted(values)
    at = min(len(ordered) - 1, round(0.99 * (len(ordered) - 1)))
    return {"p50": 1000 * statistics.median(ordered), "p99": 1000 * ordered[at], "max": 1000 * ordered[-1]}
