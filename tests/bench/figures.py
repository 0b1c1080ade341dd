# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parameters of a run, and its figures."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Scenario:
    """``pods`` pods of ``gpus`` devices each on ``nodes`` nodes. F is ``attach``. Times are in
    seconds.

    ``announce``: seconds of the vendor's plugin. ``spread``: pods are pinned to nodes in turn.
    ``policy``: allocation_policy of the controllers. ``twice``: the first burst of the fresh
    control plane is a separate run, and its devices are returned. ``direct``: this handover, with
    the node agents' own driver. A second burst then uses the idle devices of the first.
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
    """Seconds. Steps are lists over claims. ``total`` is from the first claim created to the last
    pod bound.

    Gated: ``asked`` is from the pod's creation, ``conditioned`` from the visible device to the
    removed gate, ``scheduler`` from there to the running pod, ``ran`` from the visible device to
    the running pod. ``node_found`` is from the last attach to the last device that the node has
    bound and touched. ``plugin_restart`` is from there to the last device in a slice.

    Direct: ``conditioned`` is from the touched device, ``scheduler`` from the condition to the
    binding, and ``alone_total`` is the burst that uses idle devices.

    ``rate``: pods per second from the first to the last binding. ``alone``, ``alone_total``: rate
    and total of kube-scheduler with the same pods and claims, if their devices are attached
    already. ``overhead``: the total without F and the node's share (these two). ``first_overhead``:
    that of the first burst. ``loop_seconds``: ten million additions in Python at that time.
    ``writes``: duration of each write of kube-scheduler in the meantime. One write of the
    controllers is between allocation and request. ``cpu_seconds``: processor time of the controller
    in the burst. ``others``: that of other processes by name.
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
    """Return p50, p99 and max, in milliseconds."""
    ordered = sorted(values)
    at = min(len(ordered) - 1, round(0.99 * (len(ordered) - 1)))
    return {"p50": 1000 * statistics.median(ordered), "p99": 1000 * ordered[at], "max": 1000 * ordered[-1]}
