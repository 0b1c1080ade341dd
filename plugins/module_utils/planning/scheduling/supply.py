# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find how a node can meet a demand: with idle devices, coming devices, and free devices of its
fabric.

This corresponds to ``Allocate`` of ``k8s.io/dynamic-resource-allocation/structured`` in
kube-scheduler.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from ..bar_room import BAR_ROOM, BarRoom
from ..settings import DeviceModel
from .cycle import CycleState, NodeState, Take
from .demand import Alternative, Demand, DeviceRequest
from .filters.dynamic_resources.catalogue import Catalogue
from .filters.dynamic_resources.devices import repels, shareable
from .filters.dynamic_resources.shared_place import SharedPlaces
from .snapshot import IdleDevice, Json
from .topology_distance import NEAREST, Distance, distance

MAX_STEPS = 256
"""Steps of the search on one node. An allocation that is not found by then counts as none."""
ModelTakes = tuple[tuple[str, Take], ...]
"""Devices for one request, by model."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a node cannot meet a demand. ``unresolvable``: not even when other pods return devices.

    As the codes Unschedulable and UnschedulableAndUnresolvable of kube-scheduler's
    ``framework.Status``.
    """

    reason: str
    unresolvable: bool = False


@dataclass(frozen=True, slots=True)
class RequestAllocation:
    """The devices for one request of the pod's claim number ``claim``."""

    claim: int
    takes: ModelTakes


@dataclass(frozen=True, slots=True)
class Allocation:
    """A way to meet a demand on a node. ``alternatives``: index of each request's alternative."""

    alternatives: tuple[int, ...]
    requests: tuple[RequestAllocation, ...]

    def takes(self) -> dict[str, Take]:
        """Return the devices by model."""
        found: dict[str, Take] = {}
        for request in self.requests:
            for model, take in request.takes:
                old = found.get(model, Take())
                found[model] = Take(old.idle + take.idle, old.coming + take.coming, old.fresh + take.fresh)
        return found

    @property
    def fresh(self) -> int:
        """Return the number of devices to attach."""
        return sum(take.fresh for request in self.requests for _model, take in request.takes)

    @property
    def coming(self) -> int:
        """Return the number of devices that are being attached already."""
        return sum(take.coming for request in self.requests for _model, take in request.takes)

    @property
    def distance(self) -> Distance:
        """Return the largest distance between idle devices of any one claim.

        Devices still to attach are ignored, since their place is unknown.
        """
        of_claims: dict[int, list[Json]] = {}
        for request in self.requests:
            for _model, take in request.takes:
                if take.idle:
                    of_claims.setdefault(request.claim, []).extend(device.device for device in take.idle)
        return max(map(distance, of_claims.values()), default=NEAREST)


class Supplier:
    """Finds allocations on the nodes of one cycle."""

    def __init__(self, state: CycleState, catalogue: Catalogue) -> None:
        self.state, self.catalogue = state, catalogue

    def allocate(self, node: NodeState, demand: Demand) -> Allocation | Rejection:
        """Return the best allocation of a demand on a node as it is now, or why there is none.

        Alternatives are tried in the order of the claims, as in kube-scheduler (KEP-4816). Within
        one choice of alternatives the allocation with the fewest attaches wins, then the one with
        the fewest coming devices. Nothing is reserved.
        """
        if node.facts.machine is None or node.facts.fabric is None:
            return Rejection("had no machine on a fabric of the CDI Manager", unresolvable=True)
        search = _Search(self, node, demand)
        for alternatives in itertools.product(*(range(len(r.alternatives)) for r in demand.requests)):
            if search.steps > MAX_STEPS:
                break
            requests = search.cheapest(alternatives)
            if search.undecided:
                return Rejection("had a device for which a selector gives no clear answer", unresolvable=True)
            if requests:
                return Allocation(alternatives, requests)
        return search.rejection()


class _Search:
    """The search on one node, request by request."""

    def __init__(self, supplier: Supplier, node: NodeState, demand: Demand) -> None:
        self.state, self.catalogue, self.node, self.demand = supplier.state, supplier.catalogue, node, demand
        self.present = node.present_models()
        self.undecided = False
        self.rejections: list[Rejection] = []
        self.found: tuple[RequestAllocation, ...] = ()
        self.cost: tuple[int, int] | None = None
        self.steps = 0

    def cheapest(self, alternatives: tuple[int, ...]) -> tuple[RequestAllocation, ...]:
        """Return the best allocation of these alternatives, empty if there is none."""
        self.found, self.cost = (), None
        self._extend(alternatives, ())
        return self.found

    def rejection(self) -> Rejection:
        """Return the first rejection that returned devices could resolve, unless one request is
        unresolvable.
        """
        resolvable = next((each for each in self.rejections if not each.unresolvable), None)
        first = self.rejections[0] if self.rejections else Rejection("had no device that fits")
        unresolvable = self._unresolvable_request() if len(self.demand.requests) > 1 else None
        return unresolvable or resolvable or first

    def _unresolvable_request(self) -> Rejection | None:
        """Return why one of several requests cannot be met even alone on the node, None if each
        can.
        """
        for request in self.demand.requests:
            self.rejections = []
            met = any(self._candidates(alternative, ()) for alternative in request.alternatives)
            if not met and all(each.unresolvable for each in self.rejections):
                return next(iter(self.rejections), None)
        return None

    def _extend(self, alternatives: tuple[int, ...], allocated: tuple[RequestAllocation, ...]) -> None:
        """Allocate the next request in every way, and keep the cheapest whole allocation."""
        if len(allocated) == len(alternatives):
            allocation = Allocation(alternatives, allocated)
            cost = (allocation.fresh, allocation.coming)
            if self.cost is None or cost < self.cost:
                self.found, self.cost = allocated, cost
            return
        request = self.demand.requests[len(allocated)]
        for takes in self._candidates(request.alternatives[alternatives[len(allocated)]], allocated):
            self.steps += 1
            if self.steps > MAX_STEPS or self.cost == (0, 0):
                return
            self._extend(alternatives, (*allocated, RequestAllocation(request.claim, takes)))

    def _candidates(self, alternative: Alternative, allocated: tuple[RequestAllocation, ...]) -> list[ModelTakes]:
        """Return ways to meet one request, cheapest first: with each model alone, and with several
        models.
        """
        taken, found = Allocation((), allocated).takes(), list[ModelTakes]()
        if alternative.shared:
            return self._sharing(self.demand.requests[len(allocated)], allocated, taken)
        with_idle = {m for m, s in self.node.facts.stock.items() if s.idle and m in self.catalogue.usable}
        models = sorted({*alternative.models, *(m for m in with_idle if self._idle(alternative, m, Take()))})
        for model in models:
            take = self._take(alternative, model, alternative.count, taken)
            if isinstance(take, Take):
                found.append(((model, take),))
            else:
                self.rejections.append(take)
        if len(models) > 1 and alternative.count > 1 and (mixed := self._mixed(alternative, models, taken)):
            found.append(mixed)
        return sorted(found, key=_cost) if len(found) > 1 else found

    def _sharing(self, request: DeviceRequest, allocated: tuple[RequestAllocation, ...],
                 taken: dict[str, Take]) -> list[ModelTakes]:
        """Return ways to meet a request with devices that share a place with each other and with
        earlier ones.
        """
        places = SharedPlaces(self.demand.requests, [each.takes for each in allocated], self.node.facts.places,
                              self.catalogue, self.node.facts.driver)
        found: list[ModelTakes] = []
        for model in request.alternatives[0].models:
            ways = self._ways_to_share(request, model, places, taken)
            if isinstance(ways, Rejection):
                self.rejections.append(ways)
            else:
                found += [((model, take),) for take in ways]
        return found

    def _ways_to_share(self, request: DeviceRequest, model: str, places: SharedPlaces,
                       taken: dict[str, Take]) -> list[Take] | Rejection:
        """Return idle devices that share the place, else idle and attachable devices that do.

        Devices can be attached for this only if all attached devices have the same place.
        """
        alternative, before = request.alternatives[0], taken.get(model, Take())
        count = alternative.count
        if rejection := self._place_rejection(model, before, count, taken):
            return rejection
        groups = places.groups(request, model, self._idle(alternative, model, before))
        if ways := [Take(tuple(devices[:count])) for devices in groups.values() if len(devices) >= count]:
            return ways
        if alternative.attachable and not self._fits_once_attached(alternative, model):
            return self._other_driver(model)
        values = places.to_come(request, model) if alternative.attachable else None
        if values is None:
            names = ", ".join(name for _number, name in alternative.shared)
            return Rejection(f"had no {count} idle devices that share {names} (only attached devices show it)",
                             unresolvable=True)
        idle = tuple(groups.get(values, ()))
        coming = min(count - len(idle), max(0, self.node.stock(model).coming - before.coming))
        fresh = count - len(idle) - coming
        rejection = self._attach_rejection(model, before, count, fresh, taken) if fresh else None
        return rejection or [Take(idle, coming, fresh)]

    def _take(self, alternative: Alternative, model: str, count: int, taken: dict[str, Take]) -> Take | Rejection:
        """Return ``count`` devices of one model, or why there are too few. ``taken``: by earlier
        requests.
        """
        before, stock = taken.get(model, Take()), self.node.stock(model)
        if rejection := self._place_rejection(model, before, count, taken):
            return rejection
        idle = self._idle(alternative, model, before)[:count]
        if model not in alternative.models or not alternative.attachable:
            few = Rejection(f"had no idle {model} that fits", not alternative.attachable)
            return Take(tuple(idle)) if len(idle) == count else few
        if len(idle) < count and not self._fits_once_attached(alternative, model):
            return self._other_driver(model)
        coming = min(count - len(idle), max(0, stock.coming - before.coming))
        fresh = count - len(idle) - coming
        if not fresh:
            return Take(tuple(idle), coming)
        return self._attach_rejection(model, before, count, fresh, taken) or Take(tuple(idle), coming, fresh)

    def _driver(self, model: str) -> str:
        """Return the DRA driver by which the node will publish an attached device of the model."""
        return self.catalogue.models[model].driver_on(self.node.facts.driver)

    def _fits_once_attached(self, alternative: Alternative, model: str) -> bool:
        """Return whether the selectors accept a device of the model with the driver of the node."""
        alone = not self.catalogue.models[model].other_driver_names
        return alone or self.catalogue.model_satisfies(model, alternative.expressions, self._driver(model)) is True

    def _other_driver(self, model: str) -> Rejection:
        return Rejection(f"shows {model} by the driver {self._driver(model)}, which the selectors do not accept",
                         unresolvable=True)

    def _place_rejection(self, model: str, before: Take, count: int, taken: dict[str, Take]) -> Rejection | None:
        """Return why the node cannot use ``count`` more devices from any source, None if it can."""
        stock = self.node.stock(model)
        if stock.bound + before.count + count > stock.limit:
            return Rejection(f"may have only {stock.limit} x {model}", before.count + count > stock.limit)
        if other := self._excluding_model(model, set(taken)):
            return Rejection(f"had {other}, which cannot share a machine with {model}", other in taken)
        return None

    def _attach_rejection(self, model: str, before: Take, count: int, fresh: int,
                          taken: Mapping[str, Take]) -> Rejection | None:
        """Return why ``fresh`` devices cannot be attached, None if they can."""
        if model in self.node.facts.blocked:
            return Rejection(f"could not attach {model}: {self.node.facts.blocked[model]}")
        if rejection := self._bar_rejection(model, before.count + count, fresh, taken):
            return rejection
        fabric, total = self.node.facts.fabric, self.state.total(self.node, model)
        if before.count + count > total:
            return Rejection(f"had only {total} x {model} in total on fabric {fabric}", unresolvable=True)
        if fresh + before.fresh > self.state.available(self.node, model):
            return Rejection(f"had no free {model} on fabric {fabric}")
        return None

    def _bar_rejection(self, model: str, count: int, fresh: int, taken: Mapping[str, Take]) -> Rejection | None:
        """Return a rejection if there is no room for the memory windows of ``fresh`` devices.

        ``count``: all devices of the model that the pod would have.
        """
        if BAR_ROOM not in self.node.facts.places:
            return None
        room = BarRoom.of(self.node.facts.places, self.catalogue.models.values())
        lack = room.lack(model, fresh, self.node.devices(taken))
        return Rejection(f"had {lack}", room.never(model, count)) if lack else None

    def _idle(self, alternative: Alternative, model: str, before: Take) -> list[IdleDevice]:
        """Return idle devices of a model that meet the request and that no earlier request took."""
        taken = {device.name for device in before.idle}
        return [device for device in self.node.stock(model).idle
                if device.name not in taken and self._fits(alternative, model, device)]

    def _fits(self, alternative: Alternative, model: str, device: IdleDevice) -> bool:
        """Return whether an idle device meets the request: taints, selectors, shared attributes."""
        if shareable(device.device) or repels(device.device, alternative.raw_tolerations):
            return False
        answer = self.catalogue.device_satisfies(device, model, alternative.expressions)
        if answer is None:
            self.undecided = True
        if not answer or not alternative.matched_attributes:
            return bool(answer)
        expected = self.catalogue.expected(alternative.models[0], self._driver(alternative.models[0]))
        return all(self.catalogue.attribute(device, model, name) == expected.find("attributes", name)
                   for name in alternative.matched_attributes)

    def _excluding_model(self, model: str, chosen: set[str]) -> str:
        """Return a model, present or chosen before, that cannot share a machine with this one,
        empty for none.
        """
        for other in sorted(chosen) + sorted(self.present):
            row = self.catalogue.models.get(other)
            if row and other != model and excludes(row, self.catalogue.models[model]):
                return other
        return ""

    def _mixed(self, alternative: Alternative, models: list[str], taken: dict[str, Take]) -> ModelTakes:
        """Return devices of several models for one request, those without an attach first. Empty if
        too few.
        """
        found: dict[str, Take] = {}
        left = alternative.count
        for without_attach, model in itertools.product((True, False), models):
            before = found.get(model, Take())
            others = {**{m: take for m, take in found.items() if m != model}, **taken}
            for count in range(left, -1, -1):
                take = self._take(alternative, model, before.count + count, others)
                if isinstance(take, Take) and not (without_attach and take.fresh):
                    found[model], left = take, left - count
                    break
        return () if left else tuple((model, take) for model, take in found.items() if take.count)


def _cost(takes: ModelTakes) -> tuple[int, int]:
    return sum(take.fresh for _model, take in takes), sum(take.coming for _model, take in takes)


def excludes(one: DeviceModel, other: DeviceModel) -> bool:
    """Return whether two models cannot share a machine. Either row of ``device_info`` may exclude
    the other.
    """
    return other.index in one.cannot_coexist_with or one.index in other.cannot_coexist_with
