# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node, a fabric, a scheduler and an engine that may crash, driven by nothing but the two planners.

Time is a number that the test moves. What the engine knows only in memory (operations, blocks) is lost in a crash; what
the manager was asked for happens all the same. Every rule that must never be broken is asserted where it could be.
"""

from __future__ import annotations

import random
import typing as t
from collections import Counter
from dataclasses import dataclass, replace

from ansible_collections.composable.infra.plugins.module_utils.model.resource import NodeWork
from ansible_collections.composable.infra.plugins.module_utils.planning import actions as act
from ansible_collections.composable.infra.plugins.module_utils.planning.node.compose import plan_compose
from ansible_collections.composable.infra.plugins.module_utils.planning.node.scale import after, plan_scale
from ansible_collections.composable.infra.plugins.module_utils.planning.node.snapshot import (
    Claim,
    ComposabilityRequest,
    ComposableResource,
    NodeSnapshot,
    PodRef,
)
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, HANDOVER, NOW, T4, result, settings
from ansible_collections.composable.infra.tests.unit.planning.node.simulated_fabric import SimulatedFabric

ATTACH_DEADLINE, BLOCK = 10.0, 5.0
TIDYING = (act.SetSize, act.Touch, act.SetState)
SETTINGS = settings()


class Crash(Exception):
    """The engine's process ended in the middle of something."""


@dataclass
class SimulatedClaim:
    """A claim with its pod: ``pending``, ``preparing``, ``reschedule``, ``failed`` or ``using``."""

    uid: str
    models: tuple[str, ...]
    phase: str = "pending"
    since: float = 0.0
    devices: tuple[str, ...] = ()
    given: tuple[str, ...] = ()


@dataclass
class Operation:
    """One request to the manager, as the engine that made it remembers it."""

    resource: str
    answer: str
    due: float
    device: str = ""


class Simulator:
    """One history of one node.

    ``faults``: replies are lost and the engine crashes. ``lingers``: detached devices stay visible for a while.
    The node's hands work on their own: they take their time, and crash with nobody.
    """

    def __init__(self, rng: random.Random, *, faults: bool = True, lingers: bool = False) -> None:
        self.rng, self.faults = rng, faults
        self.now = NOW
        self.fabric = SimulatedFabric(rng, {A100: 8, T4: 8}, ATTACH_DEADLINE, lingers)
        self.claims: dict[str, SimulatedClaim] = {}
        self.resources: dict[str, ComposableResource] = {}
        self.requests: dict[str, ComposabilityRequest] = {}
        self.operations: dict[str, Operation] = {}
        self.blocked: dict[str, float] = {}
        self.holds: dict[str, tuple[str, float]] = {}
        # Of the node: who was asked to leave, which devices are on the bus, and when the next step is done.
        self.asked: set[str] = set()
        self.tainted: set[str] = set()
        self.on_bus: set[str] = set()
        self.steps: dict[str, float] = {}
        self.crashes = 0
        self.count = 0

    # The engine

    def view(self) -> NodeSnapshot:
        """What the planners are shown."""
        attached = self.fabric.attached
        owned = {r.device_uid for r in self.resources.values() if r.device_uid}
        return NodeSnapshot(
            "node-0", self.now, machine="machine-0", fabric=1, claims=tuple(self._claims()),
            resources=tuple(self._seen(r) for r in self.resources.values()), requests=tuple(self.requests.values()),
            attached=dict(attached), owned=frozenset(owned & attached.keys()),
            blocked={m: "no" for m, until in self.blocked.items() if until > self.now})

    def _claims(self) -> list[Claim]:
        return [Claim(c.uid, "default", c.uid, c.phase, c.since, (PodRef("default", c.uid, c.uid),),
                      tuple(result(m, i) for i, m in enumerate(c.models)))
                for c in self.claims.values() if c.phase in ("preparing", "reschedule", "failed")]

    def _seen(self, resource: ComposableResource) -> ComposableResource:
        user = next((c.uid for c in self.claims.values() if resource.device_uid in c.devices), "")
        prepared = resource.device_uid in self.on_bus
        visible = bool(resource.serial) and self.fabric.visible(resource.serial, self.now)
        visible = visible and (prepared or not resource.device_uid)
        work = NodeWork(asked=resource.name in self.asked, prepared=prepared,
                        removed=bool(resource.device_uid) and resource.name in self.asked and not prepared)
        held_for, since = self._held(resource, bool(user))
        busy = resource.name in self.operations
        return replace(resource, busy=busy, visible=visible, usable=visible, tainted=resource.name in self.tainted,
                       node_work=work, used_by=user,
                       held_for=held_for, held_since=since, hold_alive=self._hold_alive(held_for, since))

    def _held(self, resource: ComposableResource, used: bool) -> tuple[str, float]:
        if used:
            self.holds.pop(resource.name, None)
        return self.holds.get(resource.name) or (resource.held_for, resource.held_since)

    def _hold_alive(self, uid: str, since: float) -> bool:
        claim = self.claims.get(uid)
        if claim is None:
            return False
        return claim.phase == "reschedule" or (claim.phase == "pending" and self.now - since < HANDOVER)

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
        """Scale and compose from one snapshot, as if the sizes were written."""
        view = self.view()
        scale = plan_scale(view, SETTINGS)
        return [*scale.actions, *plan_compose(after(view, scale.actions), ATTACH_DEADLINE).actions]

    def _tidy(self) -> None:
        for action in self._planned():
            if isinstance(action, TIDYING):
                self._carry(action)
        for name, (uid, _unused) in list(self.holds.items()):
            if name in self.resources and self.resources[name].held_for != uid:
                self._maybe_crash()
                self._change(name, held_for=uid, held_since=self.now, last_used=self.now)

    def crash(self) -> None:
        """All that is only in memory is gone: operations, blocks, and holds that were not written yet."""
        self.crashes += 1
        self.operations.clear()
        self.blocked.clear()
        self.holds.clear()
        for claim in self.claims.values():
            held = {r.name for r in self.resources.values() if r.held_for == claim.uid}
            claim.given = tuple(n for n in claim.given if n in held)

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
                self.requests[action.request] = ComposabilityRequest(action.request, action.request, action.model,
                                                                     action.size)
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
            case act.AskRelease() | act.WithdrawRelease():
                self._ask_node(action)
            case act.TaintDevice():
                self.tainted.add(action.resource)
            case act.Detach():
                self._detach(action)
            case act.Finish():
                assert not self.resources[action.resource].device_uid
                del self.resources[action.resource]
                self.asked.discard(action.resource)
            case act.SetState():
                self._change(action.resource, state=action.state, error=action.error)
            case _unused:
                raise AssertionError(f"unexpected {action}")

    def _change(self, name: str, **changes: t.Any) -> None:
        self.resources[name] = replace(self.resources[name], **changes)

    def _mark(self, action: act.MarkClaim) -> None:
        claim = self.claims[action.claim]
        assert claim.phase == "preparing", "a claim is marked twice"
        for name in action.devices:
            device = self._seen(self.resources[name])
            assert device.visible, "a device is handed over before the node shows it"
            assert not device.used_by, "a device is handed over that is in use"
            assert not self._given(name, claim), "a device is handed over twice"
            self.holds[name] = (action.claim, self.now)
        self._maybe_crash()
        claim.phase = "reschedule" if action.devices else "failed"
        claim.given = action.devices
        if action.devices:
            assert Counter(claim.models) == Counter(self.resources[n].model for n in action.devices)

    def _given(self, name: str, to: SimulatedClaim) -> bool:
        return any(name in c.given for c in self.claims.values() if c is not to and c.phase == "reschedule")

    def _create(self, action: act.CreateResource) -> None:
        self.count += 1
        name = f"gpu-{self.count}"
        self.resources[name] = ComposableResource(name, name, action.request, action.model, "node-0", "", self.now,
                                                  machine=action.machine)
        self._intend(name, action.present)
        self._ask(name, action.model)

    def _intend(self, name: str, present: tuple[str, ...]) -> None:
        self._change(name, asked=self.now, present=frozenset(present))
        self._maybe_crash()

    def _ask(self, name: str, model: str) -> None:
        assert name not in self.operations, "a resource is asked for twice at once"
        order = self.fabric.attach(model, self.now, faults=self.faults)
        self.operations[name] = Operation(name, order.answer, order.answered, order.device)

    def _own(self, name: str, device: str) -> None:
        owners = [r.name for r in self.resources.values() if r.device_uid == device]
        assert not owners, f"device {device} belongs to {owners} and to {name}"
        assert not self.resources[name].device_uid, f"{name} gets a second device"
        self._change(name, device_uid=device, serial=device, state="Attaching")
        self._begin_step(name)

    def _ask_node(self, action: act.AskRelease | act.WithdrawRelease) -> None:
        if isinstance(action, act.WithdrawRelease):
            self.asked.discard(action.resource)
        elif self.resources[action.resource].device_uid not in self._used():
            self.asked.add(action.resource)
        self._begin_step(action.resource)

    def _begin_step(self, name: str) -> None:
        self.steps[name] = self.now + self.rng.uniform(0.1, 3)

    def _step(self, name: str) -> None:
        """The node lets a device go that no claim uses, or brings it up."""
        del self.steps[name]
        device = self.resources[name].device_uid if name in self.resources else ""
        if device and name in self.asked and device not in self._used():
            self.on_bus.discard(device)
        elif device and name not in self.asked:
            self.on_bus.add(device)
        elif device:
            self._begin_step(name)

    def _detach(self, action: act.Detach) -> None:
        if action.device in self._used():
            return
        assert action.device not in self.on_bus, "a device is detached that the node has not let go"
        answer, when = self.fabric.begin_detach(action.device, self.now, faults=self.faults)
        self.operations[action.resource] = Operation(action.resource, answer, when, action.device)

    def _used(self) -> set[str]:
        return {d for c in self.claims.values() for d in c.devices}

    # Time

    def advance(self, seconds: float) -> None:
        """Let time pass; what is due happens in its order."""
        end = self.now + seconds
        while (due := min(self._due(), default=end)) < end:
            self.now = max(self.now, due)
            for name in [name for name, when in self.steps.items() if when <= self.now]:
                self._step(name)
            self.fabric.happen(self.now, self._used())
            for operation in [o for o in self.operations.values() if o.due <= self.now]:
                self._finish(operation)
            self.check()
        self.now = end

    def _due(self) -> list[float]:
        return [*(o.due for o in self.operations.values()), *self.steps.values(), *self.fabric.due()]

    def _finish(self, operation: Operation) -> None:
        del self.operations[operation.resource]
        model = self.resources[operation.resource].model
        if operation.answer == "attached":
            if all(r.device_uid != operation.device for r in self.resources.values()):
                self._own(operation.resource, operation.device)
        elif operation.answer == "detached":
            self._change(operation.resource, state="Deleting", device_uid="", serial=operation.device)
        elif operation.answer == "refused":
            self.blocked[model] = self.now + BLOCK
            self._change(operation.resource, asked=0.0)
        elif operation.answer == "unavailable" and not self.resources[operation.resource].deleting:
            self._change(operation.resource, asked=self.now)
            self._ask(operation.resource, model)

    def check(self) -> None:
        """No device is attached, or still coming, beyond what resources account for; none is in use and gone."""
        accounted = Counter(r.model for r in self.resources.values() if r.state != "Deleting")
        accounted.update(r.model for r in self.resources.values() if r.state == "Deleting" and r.device_uid)
        for model, number in self.fabric.promised().items():
            assert number <= accounted[model], f"{number} x {model} attached, {accounted[model]} accounted for"
        assert self._used() <= self.fabric.attached.keys(), "a device was taken from a claim"
