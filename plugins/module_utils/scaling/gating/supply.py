# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a node can serve a demand: with what is idle there, what is coming, and what the fabric still has."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from ..settings import DeviceModel
from .demand import Alternative, Demand, tolerations_of
from .devices import Catalogue, refused, shared
from .state import NodeState, State, Take
from .view import IdleDevice

MOST_STEPS = 256
"""Of the search on one node; what is not found by then is not there for us."""


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a node cannot serve a demand; ``lasting``: not even when devices become free."""

    text: str
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """What one request gets: devices of one or several models."""

    claim: int
    takes: tuple[tuple[str, Take], ...]


@dataclass(frozen=True, slots=True)
class Option:
    """A way to serve a demand on a node. ``rank``: which alternative of each request; fewer is what the pod prefers."""

    rank: tuple[int, ...]
    parts: tuple[Part, ...]

    def takes(self) -> dict[str, Take]:
        """Devices by model."""
        found: dict[str, Take] = {}
        for part in self.parts:
            for model, take in part.takes:
                old = found.get(model, Take())
                found[model] = Take(old.idle + take.idle, old.coming + take.coming, old.fresh + take.fresh)
        return found

    @property
    def fresh(self) -> int:
        """Devices to be attached."""
        return sum(take.fresh for part in self.parts for _model, take in part.takes)

    @property
    def coming(self) -> int:
        """Devices on their way already."""
        return sum(take.coming for part in self.parts for _model, take in part.takes)


class Supplier:
    """Finds options; knows the models and what selectors say of them."""

    def __init__(self, state: State, catalogue: Catalogue) -> None:
        self.state, self.catalogue = state, catalogue

    def option(self, node: NodeState, demand: Demand) -> Option | Objection:
        """The best way to serve the demand on the node, or why there is none."""
        if node.facts.machine is None or node.facts.fabric is None:
            return Objection("had no machine on a fabric of the CDI Manager", lasting=True)
        search = _Search(self, node, demand)
        ways = itertools.product(*(range(len(w.alternatives)) for w in demand.wants))
        for way in ways:
            parts = search.best(way)
            if search.doubt:
                return Objection(search.doubt, lasting=True)
            if parts:
                return Option(way, parts)
        return search.objection()


class _Search:
    """The search on one node; options of one way are compared by attaches, then by coming devices."""

    def __init__(self, supplier: Supplier, node: NodeState, demand: Demand) -> None:
        self.state, self.catalogue, self.node, self.demand = supplier.state, supplier.catalogue, node, demand
        self.present = node.present()
        self.doubt = ""
        self.objections: list[Objection] = []
        self.found: tuple[Part, ...] = ()
        self.cost: tuple[int, int] | None = None
        self.steps = 0

    def best(self, way: tuple[int, ...]) -> tuple[Part, ...]:
        self.found, self.cost = (), None
        self._extend(way, ())
        return self.found

    def objection(self) -> Objection:
        """Of all that was in the way the thing that may pass, unless one request alone is hopeless."""
        passing = next((o for o in self.objections if not o.lasting), None)
        first = self.objections[0] if self.objections else Objection("had no device that fits")
        hopeless = self._hopeless() if len(self.demand.wants) > 1 else None
        return hopeless or passing or first

    def _hopeless(self) -> Objection | None:
        """Why one of several requests cannot be met even when it has the node for itself, None when each can."""
        for want in self.demand.wants:
            self.objections = []
            if not any(self._fills(ask, ()) for ask in want.alternatives) and all(o.lasting for o in self.objections):
                return next(iter(self.objections), None)
        return None

    def _extend(self, way: tuple[int, ...], parts: tuple[Part, ...]) -> None:
        if len(parts) == len(way):
            option = Option(way, parts)
            cost = (option.fresh, option.coming)
            if self.cost is None or cost < self.cost:
                self.found, self.cost = parts, cost
            return
        want = self.demand.wants[len(parts)]
        for takes in self._fills(want.alternatives[way[len(parts)]], parts):
            self.steps += 1
            if self.steps > MOST_STEPS or self.cost == (0, 0):
                return
            self._extend(way, (*parts, Part(want.claim, takes)))

    def _fills(self, ask: Alternative, parts: tuple[Part, ...]) -> list[tuple[tuple[str, Take], ...]]:
        """Ways to satisfy one request, cheapest first: each model alone, and a mixture that begins with what is there.
        """
        taken, found = Option((), parts).takes(), list[tuple[tuple[str, Take], ...]]()
        models = self._candidates(ask)
        for model in models:
            take = self._fill(ask, model, ask.count, taken)
            if isinstance(take, Take):
                found.append(((model, take),))
            else:
                self.objections.append(take)
        if len(models) > 1 and ask.count > 1 and (mixed := self._mixture(ask, models, taken)):
            found.append(mixed)
        return sorted(found, key=_cost) if len(found) > 1 else found

    def _candidates(self, ask: Alternative) -> list[str]:
        here = {m for m, s in self.node.facts.stock.items() if s.idle and m in self.catalogue.usable}
        return sorted({*ask.models, *(m for m in here if self._idle(ask, m, Take()))})

    def _fill(self, ask: Alternative, model: str, count: int, taken: dict[str, Take]) -> Take | Objection:
        """``count`` devices of one model, or why they cannot be had."""
        before, shelf = taken.get(model, Take()), self.node.shelf(model)
        if shelf.bound + before.count + count > shelf.limit:
            return Objection(f"may hold only {shelf.limit} x {model}", lasting=before.count + count > shelf.limit)
        if other := self._clash(model, set(taken)):
            return Objection(f"had {other}, which {model} cannot be together with", lasting=other in taken)
        idle = self._idle(ask, model, before)[:count]
        if model not in ask.models:
            return Take(tuple(idle)) if len(idle) == count else Objection(f"had no idle {model} that fits")
        coming = min(count - len(idle), max(0, shelf.coming - before.coming))
        fresh = count - len(idle) - coming
        if not fresh:
            return Take(tuple(idle), coming)
        return self._attach(model, before, count, fresh) or Take(tuple(idle), coming, fresh)

    def _attach(self, model: str, before: Take, count: int, fresh: int) -> Objection | None:
        """What keeps devices from being attached."""
        if model in self.node.facts.blocked:
            return Objection(f"had {model} refused: {self.node.facts.blocked[model]}")
        fabric, total = self.node.facts.fabric, self.state.total(self.node, model)
        if before.count + count > total:
            return Objection(f"had only {total} x {model} on fabric {fabric} in all", lasting=True)
        if fresh + before.fresh > self.state.available(self.node, model):
            return Objection(f"had no free {model} on fabric {fabric}")
        return None

    def _idle(self, ask: Alternative, model: str, before: Take) -> list[IdleDevice]:
        """Idle devices of a model that the request may get and nobody before it took."""
        taken = {d.name for d in before.idle}
        return [d for d in self.node.shelf(model).idle if d.name not in taken and self._suits(ask, model, d)]

    def _suits(self, ask: Alternative, model: str, device: IdleDevice) -> bool:
        if shared(device.device) or refused(device.device, tolerations_of(ask)):
            return False
        answer = self.catalogue.fits_device(device.device, model, ask.expressions)
        if answer is None:
            self.doubt = "had a device on which a selector cannot be judged"
        if answer and ask.alike:
            here, wanted = self.catalogue.facts_of(device.device, model), self.catalogue.facts(ask.models[0])
            return all(here.find("attributes", a) == wanted.find("attributes", a) for a in ask.alike)
        return bool(answer)

    def _clash(self, model: str, chosen: set[str]) -> str:
        """A model that is here, or was chosen before, and cannot share a machine with this one; either may say so."""
        for other in sorted(chosen) + sorted(self.present):
            row = self.catalogue.models.get(other)
            if row and other != model and excludes(row, self.catalogue.models[model]):
                return other
        return ""

    def _mixture(self, ask: Alternative, models: list[str],
                 taken: dict[str, Take]) -> tuple[tuple[str, Take], ...]:
        """Devices of several models for one request, first what is at hand of each; empty when there are too few."""
        found: dict[str, Take] = {}
        left = ask.count
        for at_hand, model in itertools.product((True, False), models):
            had, others = found.get(model, Take()), {**{m: take for m, take in found.items() if m != model}, **taken}
            for count in range(left, -1, -1):
                take = self._fill(ask, model, had.count + count, others)
                if isinstance(take, Take) and not (at_hand and take.fresh):
                    found[model], left = take, left - count
                    break
        return () if left else tuple((m, take) for m, take in found.items() if take.count)


def _cost(takes: tuple[tuple[str, Take], ...]) -> tuple[int, int]:
    return sum(take.fresh for _model, take in takes), sum(take.coming for _model, take in takes)


def excludes(one: DeviceModel, other: DeviceModel) -> bool:
    """Whether two models cannot share a machine; either row may say so."""
    return other.index in one.cannot_coexist_with or one.index in other.cannot_coexist_with
