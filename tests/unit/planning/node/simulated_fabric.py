# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manager and the hardware of the planners' simulator: what was ordered happens, whoever still listens."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Order:
    """An attach: when it takes effect (None: never), and what is answered when."""

    model: str
    effect: float | None
    answer: str
    answered: float
    device: str = ""


@dataclass
class SimulatedFabric:
    """Devices of each model, attached to the one node or free. An effect takes at most ``longest`` seconds.

    ``lingers``: the node's slice may show a device for a while after it was detached.
    """

    rng: random.Random
    sizes: Mapping[str, int]
    longest: float
    lingers: bool = False
    attached: dict[str, str] = field(default_factory=dict)
    orders: list[Order] = field(default_factory=list)
    leaving: dict[str, float] = field(default_factory=dict)
    shown: dict[str, float] = field(default_factory=dict)
    hidden: dict[str, float] = field(default_factory=dict)

    def attach(self, model: str, now: float, *, faults: bool) -> Order:
        """Order one device. The device is chosen now, so that what is promised can be counted."""
        free = sorted({f"{model[:4]}-{n}" for n in range(self.sizes[model])} - self._taken())
        kind = self.rng.choice(("lost", "nothing", "unavailable", "refused")) if self._fault(faults) else "attached"
        took = self.rng.uniform(0.1, self.longest * 0.9)
        if not free:
            kind = "refused"
        if kind in ("attached", "lost"):
            answered = now + took + self.rng.uniform(0.0, 2.0) if kind == "attached" else now + self.rng.uniform(0.1, 9)
            order = Order(model, now + took, kind, answered, self.rng.choice(free))
            self.orders.append(order)
            return order
        return Order(model, None, kind, now + self.rng.uniform(0.1, 1.0))

    def begin_detach(self, device: str, now: float, *, faults: bool) -> tuple[str, float]:
        """Order a detach: what is answered, and when. One that is not there is done."""
        when = now + self.rng.uniform(0.1, 2.0)
        lost = self._fault(faults)
        if device in self.attached and not (lost and self.rng.random() < 0.5):
            self.leaving[device] = when
        return ("lost" if lost else "detached"), when + self.rng.uniform(0.01, 1.0)

    def _fault(self, faults: bool) -> bool:
        return faults and self.rng.random() < 0.3

    def due(self) -> list[float]:
        """When something happens next."""
        return [o.effect for o in self.orders if o.effect is not None] + list(self.leaving.values())

    def happen(self, now: float, used: set[str]) -> None:
        """Let all that is due by now happen."""
        for order in [o for o in self.orders if o.effect is not None and o.effect <= now]:
            self.orders.remove(order)
            assert order.device not in self.attached
            self.attached[order.device] = order.model
            self.shown[order.device] = now + self.rng.choice((0.0, 0.5, 15.0))
            self.hidden.pop(order.device, None)
        for device in [d for d, when in self.leaving.items() if when <= now]:
            del self.leaving[device]
            assert device not in used, f"{device} was detached while a claim used it"
            del self.attached[device]
            self.hidden[device] = now + (self.rng.choice((0.0, 0.5, 5.0)) if self.lingers else 0.0)

    def visible(self, device: str, now: float) -> bool:
        """Whether the node's slice shows the device."""
        until = self.hidden.get(device, float("inf") if device in self.attached else 0.0)
        return self.shown.get(device, float("inf")) <= now < until

    def promised(self) -> Counter[str]:
        """Devices per model that are attached or on their way, without those that leave."""
        found = Counter(self.attached.values())
        found.update(o.model for o in self.orders)
        return found

    def _taken(self) -> set[str]:
        return {*self.attached, *(o.device for o in self.orders)}
