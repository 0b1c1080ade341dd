# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run as data: the size of the cluster, and the events with their times. The same scenario gives
the same run.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

Value: t.TypeAlias = "str | int | float"


@dataclass(frozen=True, slots=True)
class Step:
    """An event ``at`` a second of the run. ``kind`` is a key of workload.DO or faults.DO."""

    at: float
    kind: str
    with_: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        told = " ".join(f"{key}={value}" for key, value in self.with_.items())
        return f"{self.at:7.2f} {self.kind} {told}".rstrip()


@dataclass(frozen=True, slots=True)
class Scenario:
    """All parameters of a run. Times are in seconds.

    ``seed``: seed of everything that the steps leave open, mainly latencies. ``direct``: models
    with this handover. The plugin is then the node agents' own in all respects that a controller
    sees. ``wired``: the CDI Manager is reached by the shipped FM driver and HTTP. Only then it can
    give wrong answers. ``attach_timeout``, ``gone_node_power``: the settings. The CDI Manager
    reports no power state. ``queue``: quota of a Kueue in devices, 0 for none. Only with a Kueue the
    controllers serve ProvisioningRequests. ``queues``: ClusterQueues that share this quota.
    """

    seed: int
    nodes: int = 3
    fabrics: int = 1
    devices: Mapping[str, int] = field(default_factory=dict)
    replicas: int = 2
    asynchronous: bool = False
    taint_rules: bool = True
    agents_read_claims: bool = True
    attach: float = 1.0
    detach: float = 0.5
    hold: float = 5.0
    scan: float = 3.0
    lag: float = 0.02
    direct: tuple[str, ...] = ()
    wired: bool = False
    attach_timeout: float = 15.0
    gone_node_power: str = "assume_off"
    queue: int = 0
    queues: tuple[str, ...] = ("main",)
    steps: tuple[Step, ...] = ()

    def without(self, dropped: set[int]) -> Scenario:
        """Return the same scenario with fewer steps."""
        return replace(self, steps=tuple(step for n, step in enumerate(self.steps) if n not in dropped))

    def to_json(self) -> str:
        """Return a text from which the scenario can be repeated."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Scenario:
        """Read the text of ``to_json``."""
        data = json.loads(text)
        return Scenario(**{**data, "direct": tuple(data.get("direct", ())),
                           "queues": tuple(data.get("queues", ("main",))),
                           "steps": tuple(Step(**step) for step in data["steps"])})
