# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node, a fabric, a scheduler and an engine that may crash, driven by nothing but the two planners.

Time is a number that the test moves. What the engine knows only in memory (flights, blocks) is lost in a crash; what
the manager was asked for happens all the same. Every rule that must never be broken is asserted where it could be.
"""

from __future__ import annotations

import random
import typing as t
from collections import Counter
from dataclasses import dataclass, replace

from ansible_collections.composable.infra.plugins.module_utils.scaling import actions as act
from ansible_collections.composable.infra.plugins.module_utils.scaling.compose import plan_compose
from ansible_collections.composable.infra.plugins.module_utils.scaling.scale import after, plan_node
from ansible_collections.composable.infra.plugins.module_utils.scaling.view import (
    Claim,
    NodeView,
    PodRef,
    Request,
    Resource,
)
from ansible_collections.composable.infra.tests.unit.scaling.builders import A100, HANDOVER, NOW, T4, result, settings
from ansible_collections.composable.infra.tests.unit.scaling.simulated_fabric import SimulatedFabric

SETTLE, BLOCK = 10.0, 5.0
TIDYING = (act.SetSize, act.Touch, act.SetState)
SETTINGS = settings()


class Crash(Exception):
    """The engine's process ended in the middle of something."""


@dataclass
class Wish:
    """A claim with its pod: ``pending``, ``preparing``, ``reschedule``, ``failed`` or ``using``."""

    uid: str
    models: tuple[str, ...]
    phase: str = "pending"
    since: float = 0.0
    devices: tuple[str, ...] = ()
    given: tuple[str, ...] = ()


@dataclass
class Flight:
    """One request to the manager, as the engine that made it remembers it."""

    resource: str
    answer: str
    due: float
    device: str = ""


class Simulator:
    """One history of one node.

    ``faults``: replies are lost and the engine crashes. ``lingers``: detached devices stay visible for a while.
    """

    def __init__(self, rng: random.Random, *, faults: bool = True, lingers: bool = False) -> None:
        self.rng, self.faults = rng, faults
        self.now = NOW
        self.fabric = SimulatedFabric(rng, {A100: 8, T4: 8}, SETTLE, lingers)
        self.wishes: dict[str, Wish] = {}
        self.resources: dict[str, Resource] = {}
        self.requests: dict[str, Request] = {}
        self.flights: dict[str, Flight] = {}
        self.blocked: dict[str, float] = {}
        self.holds: dict[str, tuple[str, float]] = {}
        self.crashes = 0
        self.count = 0

    # The engine

    def view(self) -> NodeView:
        """What the planners are shown."""
        attached = self.fabric.attached
        owned = {r.device_uid for r in self.resources.values() if r.device_uid}
        return NodeView(
            "node-0", self.now, machine="machine-0", fabric=1, claims=tuple(self._claims()),
            resources=tuple(self._seen(r) for r in self.resources.values()), requests=tuple(self.requests.values()),
            attached=dict(attached), owned=frozenset(owned & attached.keys()),
            blocked={m: "no" for m, until in self.blocked.items() if until > self.now})

    def _claims(self) -> list[Claim]:
        return [Claim(w.uid, "default", w.uid, w.phase, w.since, (PodRef("default", w.uid, w.uid),),
                      tuple(result(m, i) for i, m in enumerate(w.models)))
                for w in self.wishes.values() if w.phase in ("preparing", "reschedule", "failed")]

    def _seen(self, resource: Resource) -> Resource:
        user = next((w.uid for w in self.wishes.values() if resource.device_uid in w.devices), "")
        visible = bool(resource.serial) and self.fabric.visible(resource.serial, self.now)
        held_for, since = self._held(resource, bool(user))
        return replace(resource, busy=resource.name in self.flights, visible=visible, used_by=user, held_for=held_for,
                       held_since=since, hold_alive=self._hold_alive(held_for, since))

    def _held(self, resource: Resource, used: bool) -> tuple[str, float]:
        if used:
            self.holds.pop(resource.name, None)
        return self.holds.get(resource.name) or (resource.held_for, resource.held_since)

    def _hold_alive(self, uid: str, since: float) -> bool:
        wish = self.wishes.get(uid)
        if wish is None:
            return False
        return wish.phase == "reschedule" or (wish.phase == "pending" and self.now - since < HANDOVER)

    def run_pass(self) -> None:
        """One pass over the node, and often the tidying that follows it."""
        try:
            for action in self._planned():
                if not isinstance(action, TIDYING):
                    self._carry(action)
            if not self.faults or self.rng.random() < 0.7:
                self._tidy()
        except Crash:
            self.crash()

    def _planned(self) -> list[act.Action]:
        """Scale and compose from one picture, as if the sizes were written."""
        view = self.view()
        scale = plan_node(view, SETTINGS)
        return [*scale.actions, *plan_compose(after(view, scale.actions), SETTLE).actions]

    def _tidy(self) -> None:
        for action in self._planned():
            if isinstance(action, TIDYING):
                self._carry(action)
        for name, (uid, _unused) in list(self.holds.items()):
            if name in self.resources and self.resources[name].held_for != uid:
                self._maybe_crash()
                self._change(name, held_for=uid, held_since=self.now, last_used=self.now)

    def crash(self) -> None:
        """All that is only in memory is gone: flights, blocks, and holds that were not written yet."""
        self.crashes += 1
        self.flights.clear()
        self.blocked.clear()
        self.holds.clear()
        for wish in self.wishes.values():
            wish.given = tuple(n for n in wish.given if n in self.resources
                               and self.resources[n].held_for == wish.uid)

    def _maybe_crash(self) -> None:
        if self.faults and self.rng.random() < 0.03:
            raise Crash

    def _carry(self, action: act.Action) -> None:
        self._maybe_crash()
        if isinstance(action, (act.SetSize, act.MarkClaim, act.Touch)):
            self._scale(action)
        else:
            self._compose(action)

    def _scale(self, action: act.SetSize | act.MarkClaim | act.Touch) -> None:
        match action:
            case act.SetSize():
                self.requests[action.request] = Request(action.request, action.request, action.model, action.size)
            case act.MarkClaim():
                self._mark(action)
            case act.Touch():
                self._change(action.resource, in_use=action.in_use, last_used=self.now, held_for="", held_since=0.0)

    def _compose(self, action: act.Action) -> None:
        match action:
            case act.CreateResource():
                self._create(action)
            case act.Attach():
                self._intend(action.resource, action.present)
                self._ask(action.resource, action.model)
            case act.Adopt():
                self._own(action.resource, action.device)
            case act.DeleteResource():
                self._change(action.resource, deleting=True)
            case act.Detach():
                self._detach(action)
            case act.Finish():
                assert not self.resources[action.resource].device_uid
                del self.resources[action.resource]
            case act.SetState():
                self._change(action.resource, state=action.state, error=action.error)
            case _unused:
                raise AssertionError(f"unexpected {action}")

    def _change(self, name: str, **changes: t.Any) -> None:
        self.resources[name] = replace(self.resources[name], **changes)

    def _mark(self, action: act.MarkClaim) -> None:
        wish = self.wishes[action.claim]
        assert wish.phase == "preparing", "a claim is marked twice"
        for name in action.devices:
            device = self._seen(self.resources[name])
            assert device.visible, "a device is handed over before the node shows it"
            assert not device.used_by, "a device is handed over that is in use"
            assert not self._given(name, wish), "a device is handed over twice"
            self.holds[name] = (action.claim, self.now)
        self._maybe_crash()
        wish.phase = "reschedule" if action.devices else "failed"
        wish.given = action.devices
        if action.devices:
            assert Counter(wish.models) == Counter(self.resources[n].model for n in action.devices)

    def _given(self, name: str, to: Wish) -> bool:
        return any(name in w.given for w in self.wishes.values() if w is not to and w.phase == "reschedule")

    def _create(self, action: act.CreateResource) -> None:
        self.count += 1
        name = f"gpu-{self.count}"
        self.resources[name] = Resource(name, name, action.request, action.model, "node-0", "", self.now,
                                        machine=action.machine)
        self._intend(name, action.present)
        self._ask(name, action.model)

    def _intend(self, name: str, present: tuple[str, ...]) -> None:
        self._change(name, asked=self.now, present=frozenset(present))
        self._maybe_crash()

    def _ask(self, name: str, model: str) -> None:
        assert name not in self.flights, "a resource is asked for twice at once"
        order = self.fabric.attach(model, self.now, faults=self.faults)
        self.flights[name] = Flight(name, order.answer, order.answered, order.device)

    def _own(self, name: str, device: str) -> None:
        owners = [r.name for r in self.resources.values() if r.device_uid == device]
        assert not owners, f"device {device} belongs to {owners} and to {name}"
        assert not self.resources[name].device_uid, f"{name} gets a second device"
        self._change(name, device_uid=device, serial=device, state="Attaching")

    def _detach(self, action: act.Detach) -> None:
        if action.device in self._used():
            return
        answer, when = self.fabric.begin_detach(action.device, self.now, faults=self.faults)
        self.flights[action.resource] = Flight(action.resource, answer, when, action.device)

    def _used(self) -> set[str]:
        return {d for w in self.wishes.values() for d in w.devices}

    # Time

    def advance(self, seconds: float) -> None:
        """Let time pass; what is due happens in its order."""
        end = self.now + seconds
        while (due := min([f.due for f in self.flights.values()] + self.fabric.due(), default=end)) < end:
            self.now = max(self.now, due)
            self.fabric.happen(self.now, self._used())
            for flight in [f for f in self.flights.values() if f.due <= self.now]:
                self._land(flight)
            self.check()
        self.now = end

    def _land(self, flight: Flight) -> None:
        del self.flights[flight.resource]
        model = self.resources[flight.resource].model
        if flight.answer == "attached":
            if all(r.device_uid != flight.device for r in self.resources.values()):
                self._own(flight.resource, flight.device)
        elif flight.answer == "detached":
            self._change(flight.resource, state="Deleting", device_uid="", serial=flight.device)
        elif flight.answer == "refused":
            self.blocked[model] = self.now + BLOCK
            self._change(flight.resource, asked=0.0)
        elif flight.answer == "unavailable" and not self.resources[flight.resource].deleting:
            self._change(flight.resource, asked=self.now)
            self._ask(flight.resource, model)

    def check(self) -> None:
        """No device is attached, or still coming, beyond what resources account for; none is in use and gone."""
        accounted = Counter(r.model for r in self.resources.values() if r.state != "Deleting")
        accounted.update(r.model for r in self.resources.values() if r.state == "Deleting" and r.device_uid)
        for model, number in self.fabric.promised().items():
            assert number <= accounted[model], f"{number} x {model} attached, {accounted[model]} accounted for"
        assert self._used() <= self.fabric.attached.keys(), "a device was taken from a claim"
