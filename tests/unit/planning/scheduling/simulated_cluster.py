# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster over time: devices are attached, pods are bound and end, idle devices return to the fabric.

It counts its devices itself, so that it notices when a plan promises one twice.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

from ansible_collections.composable.infra.plugins.module_utils.model.node import Node
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.parse_cache import ParseCache
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.plan import plan_placements
from ansible_collections.composable.infra.plugins.module_utils.planning.scheduling.snapshot import (
    GatedPod,
    IdleDevice,
    NodeFacts,
    Placement,
    SchedulingPlan,
    SchedulingSnapshot,
    Stock,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, H100, NOW, T4
from ansible_collections.composable.infra.tests.unit.planning.scheduling.cluster import (
    WAIT,
    Rules,
    device,
    make_snapshot,
    node,
)

MODELS = (A100, H100, T4)
EXCLUDING = ({A100, H100}, {T4, H100})
CPU = 8


@dataclass
class Device:
    """A device: on a node or free, used by a pod or resting since a step."""

    name: str
    model: str
    fabric: int
    entry: dict[str, object]
    node: str = ""
    user: str = ""
    ready: bool = True
    since: int = 0


@dataclass
class SimulatedCluster:
    """The cluster. ``rest``: steps until an idle device returns to its fabric."""

    nodes: dict[str, int]
    devices: list[Device]
    limit: int = 4
    rest: int = 2
    rules: Rules = WAIT
    step: int = 0
    waiting: dict[str, GatedPod] = field(default_factory=dict)
    placed: dict[str, Placement] = field(default_factory=dict)
    running: dict[str, tuple[GatedPod, str, int]] = field(default_factory=dict)
    served: dict[str, int] = field(default_factory=dict)
    cache: ParseCache = field(default_factory=ParseCache)
    said: dict[str, Node] = field(default_factory=dict)

    def snapshot(self) -> SchedulingSnapshot:
        """What the planner is shown."""
        free = Counter((u.model, u.fabric) for u in self.devices if not u.node)
        facts = [self._facts(name) for name in sorted(self.nodes)]
        return replace(make_snapshot(*facts, *self.waiting.values(), *self.placed.values(), free=dict(free)),
                       now=NOW + self.step)

    def _facts(self, name: str) -> NodeFacts:
        stock = {m: self._stock(name, m) for m in MODELS if any(u.node == name and u.model == m for u in self.devices)}
        pods = [pod.raw for pod, where, _end in self.running.values() if where == name]
        facts = node(name, *pods, stock=stock, fabric=self.nodes[name], default_limit=self.limit,
                     allocatable={"cpu": str(CPU)})
        return replace(facts, node=self.said.setdefault(name, facts.node))

    def _stock(self, name: str, model: str) -> Stock:
        mine = [u for u in self.devices if u.node == name and u.model == model]
        idle = [IdleDevice(u.name, u.entry) for u in mine if u.ready and not u.user]
        return Stock(tuple(idle), sum(not u.ready for u in mine), sum(bool(u.user) for u in mine), self.limit)

    def plan(self) -> SchedulingPlan:
        """Plan, check the plan against what there is, and remember it."""
        snapshot = self.snapshot()
        found = plan_placements(snapshot, self.rules, self.cache)
        assert found == plan_placements(snapshot, self.rules), "the cache changes the plan"
        self.placed.update({b.pod.name: b for b in found.placements})
        self.check(found)
        for each in found.releases:
            del self.waiting[each.pod.name]
        return found

    def check(self, found: SchedulingPlan) -> None:
        """No device twice, no limit passed, no model where it may not be, no cpu twice; groups whole."""
        needs: dict[str, Counter[str]] = {name: Counter() for name in self.nodes}
        for placement in self.placed.values():
            for models in placement.needs.values():
                needs[placement.node].update(models)
        fresh: Counter[tuple[str, int]] = Counter()
        for name, wanted in needs.items():
            fresh.update(self._check_node(name, wanted))
        for key, n in fresh.items():
            assert n <= sum((u.model, u.fabric) == key and not u.node for u in self.devices), f"{key} promised twice"
        names = [d for b in self.placed.values() for ds in b.devices.values() for d in ds]
        assert len(names) == len(set(names)), "an idle device is promised twice"
        self._check_groups(found)

    def _check_node(self, name: str, wanted: Counter[str]) -> Counter[tuple[str, int]]:
        mine = [u for u in self.devices if u.node == name]
        used = Counter(u.model for u in mine if u.user)
        assert all(used[m] + n <= self.limit for m, n in wanted.items()), f"{name} gets more than its limit"
        present = set(wanted) | {u.model for u in mine}
        assert not any(pair <= present for pair in EXCLUDING), f"{name} gets models that exclude each other"
        pods = sum(where == name for _pod, where, _end in self.running.values())
        assert pods + sum(b.node == name for b in self.placed.values()) <= CPU, f"{name} gets more pods than cpus"
        here = Counter(u.model for u in mine if not u.user)
        return Counter({(m, self.nodes[name]): max(0, n - here[m]) for m, n in wanted.items()})

    def _check_groups(self, found: SchedulingPlan) -> None:
        served = Counter(each.group for each in found.placements if each.group)
        for group, n in served.items():
            members = [p for p in self.waiting.values() if p.group and p.group.key == group]
            assert n == len(members), f"group {group} gets {n} of {len(members)}"

    def live(self, rng: random.Random, longest: int, shortest: int = 1) -> None:
        """A step: devices are attached, placed pods are bound, some pods end, idle devices return."""
        self.step += 1
        for name, placement in list(self.placed.items()):
            if self._arrived(placement):
                self.running[name] = (self.waiting.pop(name), placement.node, self.step + rng.randint(shortest,
                                                                                                      longest))
                self.served[name] = self.step
                del self.placed[name]
        for name, (_pod, _where, end) in list(self.running.items()):
            if end <= self.step:
                del self.running[name]
                for each in self.devices:
                    if each.user == name:
                        each.user, each.since = "", self.step
        promised = {d for b in self.placed.values() for ds in b.devices.values() for d in ds}
        for each in self.devices:
            if each.node and not each.user and each.name not in promised and self.step - each.since >= self.rest:
                each.node = ""

    def _arrived(self, placement: Placement) -> bool:
        """Give a placement its devices: named ones, idle ones, then free ones; a sound one always gets them."""
        named = {d for ds in placement.devices.values() for d in ds}
        for models in placement.needs.values():
            for model, n in models.items():
                reach = [u for u in self.devices if u.model == model and not u.user and u.node in ("", placement.node)
                         and u.fabric == self.nodes[placement.node] and (u.name in named or not self._named(u.name))]
                reach.sort(key=lambda u: (u.name not in named, not u.node, u.name))
                assert len(reach) >= n, f"{placement.pod.name} cannot be served on {placement.node}"
                for each in reach[:n]:
                    each.node, each.user = placement.node, placement.pod.name
        return True

    def _named(self, device: str) -> bool:
        return any(device in ds for b in self.placed.values() for ds in b.devices.values())


def random_cluster(rng: random.Random, rules: Rules = WAIT, nodes: int = 4, devices: int = 10, fabrics: int = 2,
                   models: tuple[str, ...] = MODELS) -> SimulatedCluster:
    """Nodes and devices at random."""
    places = {f"n{i}": 1 + i % fabrics for i in range(nodes)}
    made = []
    for i in range(devices):
        model = rng.choice(models)
        made.append(Device(f"u{i}", model, 1 + i % fabrics, device(i, model)))
    return SimulatedCluster(places, made, limit=rng.randint(2, 4), rest=rng.randint(0, 3), rules=rules)
