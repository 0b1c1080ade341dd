# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster that lives: what is planned is attached and bound, pods end, devices rest and return to the fabric.

It keeps its own books, apart from the planner's, so that a device that is promised twice is noticed.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

from ansible_collections.composable.infra.plugins.module_utils.scaling.gating.memo import Memo
from ansible_collections.composable.infra.plugins.module_utils.scaling.gating.plan import plan_gates
from ansible_collections.composable.infra.plugins.module_utils.scaling.gating.view import (
    Booking,
    GatedPod,
    GatePlan,
    GateView,
    IdleDevice,
    NodeFacts,
    Stock,
)
from ansible_collections.composable.infra.tests.unit.scaling.builders import A100, H100, NOW, T4
from ansible_collections.composable.infra.tests.unit.scaling.gating.cluster import WAIT, Raw, Rules, device, node, view

MODELS = (A100, H100, T4)
EXCLUDING = ({A100, H100}, {T4, H100})
CPU = 8


@dataclass
class Unit:
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
class Living:
    """The cluster. ``rest``: steps until an idle device returns to its fabric."""

    nodes: dict[str, int]
    units: list[Unit]
    limit: int = 4
    rest: int = 2
    rules: Rules = WAIT
    step: int = 0
    waiting: dict[str, GatedPod] = field(default_factory=dict)
    booked: dict[str, Booking] = field(default_factory=dict)
    running: dict[str, tuple[GatedPod, str, int]] = field(default_factory=dict)
    served: dict[str, int] = field(default_factory=dict)
    memo: Memo = field(default_factory=Memo)
    raws: dict[str, Raw] = field(default_factory=dict)

    def picture(self) -> GateView:
        """What the planner is shown."""
        free = Counter((u.model, u.fabric) for u in self.units if not u.node)
        facts = [self._facts(name) for name in sorted(self.nodes)]
        return replace(view(*facts, *self.waiting.values(), *self.booked.values(), free=dict(free)),
                       now=NOW + self.step)

    def _facts(self, name: str) -> NodeFacts:
        stock = {m: self._stock(name, m) for m in MODELS if any(u.node == name and u.model == m for u in self.units)}
        pods = [pod.raw for pod, where, _end in self.running.values() if where == name]
        facts = node(name, *pods, stock=stock, fabric=self.nodes[name], default_limit=self.limit,
                     allocatable={"cpu": str(CPU)})
        return replace(facts, raw=self.raws.setdefault(name, facts.raw))

    def _stock(self, name: str, model: str) -> Stock:
        mine = [u for u in self.units if u.node == name and u.model == model]
        idle = [IdleDevice(u.name, u.entry) for u in mine if u.ready and not u.user]
        return Stock(tuple(idle), sum(not u.ready for u in mine), sum(bool(u.user) for u in mine), self.limit)

    def plan(self) -> GatePlan:
        """Plan, check the plan against the books, and book it."""
        picture = self.picture()
        found = plan_gates(picture, self.rules, self.memo)
        assert found == plan_gates(picture, self.rules), "what is remembered changes the plan"
        self.booked.update({b.pod.name: b for b in found.bookings})
        self.check(found)
        for each in found.releases:
            del self.waiting[each.pod.name]
        return found

    def check(self, found: GatePlan) -> None:
        """No device twice, no limit passed, no model where it may not be, no cpu twice; groups whole."""
        needs: dict[str, Counter[str]] = {name: Counter() for name in self.nodes}
        for booking in self.booked.values():
            for models in booking.needs.values():
                needs[booking.node].update(models)
        fresh: Counter[tuple[str, int]] = Counter()
        for name, wanted in needs.items():
            fresh.update(self._check_node(name, wanted))
        for key, n in fresh.items():
            assert n <= sum((u.model, u.fabric) == key and not u.node for u in self.units), f"{key} promised twice"
        names = [d for b in self.booked.values() for ds in b.devices.values() for d in ds]
        assert len(names) == len(set(names)), "an idle device is promised twice"
        self._check_groups(found)

    def _check_node(self, name: str, wanted: Counter[str]) -> Counter[tuple[str, int]]:
        mine = [u for u in self.units if u.node == name]
        used = Counter(u.model for u in mine if u.user)
        assert all(used[m] + n <= self.limit for m, n in wanted.items()), f"{name} gets more than its limit"
        present = set(wanted) | {u.model for u in mine}
        assert not any(pair <= present for pair in EXCLUDING), f"{name} gets models that exclude each other"
        pods = sum(where == name for _pod, where, _end in self.running.values())
        assert pods + sum(b.node == name for b in self.booked.values()) <= CPU, f"{name} gets more pods than cpus"
        here = Counter(u.model for u in mine if not u.user)
        return Counter({(m, self.nodes[name]): max(0, n - here[m]) for m, n in wanted.items()})

    def _check_groups(self, found: GatePlan) -> None:
        served = Counter(b.group for b in found.bookings if b.group)
        for group, n in served.items():
            members = [p for p in self.waiting.values() if p.group and p.group.key == group]
            assert n == len(members), f"group {group} gets {n} of {len(members)}"

    def live(self, rng: random.Random, longest: int, shortest: int = 1) -> None:
        """A step: attaches arrive, booked pods are bound, some pods end, rested devices return."""
        self.step += 1
        for name, booking in list(self.booked.items()):
            if self._arrived(booking):
                self.running[name] = (self.waiting.pop(name), booking.node, self.step + rng.randint(shortest, longest))
                self.served[name] = self.step
                del self.booked[name]
        for name, (_pod, _where, end) in list(self.running.items()):
            if end <= self.step:
                del self.running[name]
                for unit in self.units:
                    if unit.user == name:
                        unit.user, unit.since = "", self.step
        promised = {d for b in self.booked.values() for ds in b.devices.values() for d in ds}
        for unit in self.units:
            if unit.node and not unit.user and unit.name not in promised and self.step - unit.since >= self.rest:
                unit.node = ""

    def _arrived(self, booking: Booking) -> bool:
        """Give the booking its devices: named ones, idle ones, then free ones; a sound booking always gets them."""
        named = {d for ds in booking.devices.values() for d in ds}
        for models in booking.needs.values():
            for model, n in models.items():
                reach = [u for u in self.units if u.model == model and not u.user and u.node in ("", booking.node)
                         and u.fabric == self.nodes[booking.node] and (u.name in named or not self._named(u.name))]
                reach.sort(key=lambda u: (u.name not in named, not u.node, u.name))
                assert len(reach) >= n, f"{booking.pod.name} cannot be served on {booking.node}"
                for unit in reach[:n]:
                    unit.node, unit.user = booking.node, booking.pod.name
        return True

    def _named(self, unit: str) -> bool:
        return any(unit in ds for b in self.booked.values() for ds in b.devices.values())


def cluster(rng: random.Random, rules: Rules = WAIT, nodes: int = 4, units: int = 10, fabrics: int = 2,
            models: tuple[str, ...] = MODELS) -> Living:
    """Nodes and devices at random."""
    places = {f"n{i}": 1 + i % fabrics for i in range(nodes)}
    made = []
    for i in range(units):
        model = rng.choice(models)
        made.append(Unit(f"u{i}", model, 1 + i % fabrics, device(i, model)))
    return Living(places, made, limit=rng.randint(2, 4), rest=rng.randint(0, 3), rules=rules)
