# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The passes themselves: read a view, plan, carry out. One node, one pool or one request at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from ..fabric.errors import FabricError
from ..fabric.types import Fabric
from ..kube.errors import ApiError
from ..scaling import actions as act
from ..scaling.compose import plan_compose, request_status, uncertain
from ..scaling.scale import plan_device_labels, plan_fabric_label, plan_node
from ..scaling.view import NodeView
from . import publish, views
from .flights import Flights
from .narrator import Narrator
from .steering import Steering
from .world import World
from .writer import Writer

RETRY_SECONDS = 1.0
DETACH_RETRY_SECONDS = 3.0
TIDYING = (act.Touch, act.SetState)
Later = Callable[[tuple[str, ...], float], None]


class Passes:
    """Carries out one key at a time; ``later(key, when)`` makes an appointment."""

    def __init__(self, world: World, writer: Writer, fabric: Fabric, flights: Flights, steering: Steering,
                 narrator: Narrator, roles: frozenset[str], settle: float, later: Later) -> None:
        self.world, self.writer, self.fabric, self.flights = world, writer, fabric, flights
        self.steering, self.narrator, self.roles = steering, narrator, roles
        self.settle, self.later = settle, later
        self.verdicts: dict[str, tuple[act.Verdict, ...]] = {}
        self._io = ThreadPoolExecutor(32, thread_name_prefix="write")
        self._leaf = ThreadPoolExecutor(16, thread_name_prefix="hold")
        self._detach_after: dict[str, float] = {}

    def run(self, key: tuple[str, ...]) -> None:
        """Work on one key. An API error is told and the key is tried again later."""
        try:
            if key[0] == "node":
                self._node(key[1])
            elif key[0] == "pool" and "publisher" in self.roles:
                self._pool(key[1], int(key[2]))
            elif key[0] == "request" and "operator" in self.roles:
                self._request(key[1])
            elif key[0] == "tidy":
                self._tidy(key[1])
            self.narrator.once("/".join(key), "")
        except (ApiError, FabricError) as error:
            self.narrator.once("/".join(key), str(error))
            self.later(key, time.time() + RETRY_SECONDS)

    def stop(self) -> None:
        """Let the writing threads go."""
        self._io.shutdown(wait=False, cancel_futures=True)
        self._leaf.shutdown(wait=False, cancel_futures=True)

    def _node(self, name: str) -> None:
        view = self.world.node_view(name)
        if "publisher" in self.roles and self.world.snapshot is not None:
            self._carry(plan_fabric_label(view, self.world.settings))
        if "scaler" in self.roles:
            self._scale(view)
        if "operator" in self.roles and self.world.snapshot is not None:
            self._compose(name)

    def _tidy(self, name: str) -> None:
        """What nobody waits for: use stamps and the Online state."""
        view = self.world.node_view(name)
        todo: list[act.Action] = []
        if "scaler" in self.roles:
            todo += [a for a in plan_node(view, self.world.settings).actions if isinstance(a, TIDYING)]
        if "operator" in self.roles and self.world.snapshot is not None:
            todo += [a for a in plan_compose(view, self.settle).actions if isinstance(a, TIDYING)]
        self._carry(todo)

    def _urgent(self, view: NodeView, actions: Iterable[act.Action]) -> None:
        """Carry out what somebody waits for; the rest is left to a key of its own."""
        found = list(actions)
        self._carry(a for a in found if not isinstance(a, TIDYING))
        if any(isinstance(a, TIDYING) for a in found):
            self.later(("tidy", view.name), time.time())

    def _scale(self, view: NodeView) -> None:
        plan = plan_node(view, self.world.settings)
        self.verdicts[view.name] = plan.verdicts
        self._carry(plan_device_labels(view, self.world.settings))
        self._urgent(view, plan.actions)
        self._appoint(view.name, plan.wake_at)

    def _compose(self, name: str) -> None:
        view = self.world.node_view(name)
        if uncertain(view) and view.machine:
            found = self.fabric.machine(view.machine)
            view = self.world.node_view(name, {d.uid: d.model for d in found.devices})
        plan = plan_compose(view, self.settle)
        self._urgent(view, plan.actions)
        self._appoint(name, plan.wake_at)
        if view.blocked:
            self.later(("node", name), time.time() + RETRY_SECONDS)

    def _appoint(self, node: str, when: float | None) -> None:
        if when is not None:
            self.later(("node", node), when)

    def _pool(self, model: str, fabric: int) -> None:
        if plan := publish.run(self.world, self.writer, (model, fabric)):
            if not plan.empty:
                self.narrator.note("PoolPublished", plan.pool,
                                   f"{len(plan.devices)} devices, generation {plan.generation} ({plan.reason})")

    def _request(self, name: str) -> None:
        raw = self.world.requests.get(name)
        if raw is None:
            return
        spec = raw["spec"]["resource"]
        children = [views.resource_view(r, self.world.settings)
                    for r in self.world.resources.by("node", spec.get("target_node") or "")]
        view = self.world.node_view(spec.get("target_node") or "")
        error = view.blocked.get(spec["model"], "") or (view.problem if spec["size"] else "")
        mine = [c for c in children if c.request == name]
        self.writer.request_status(name, request_status(spec, mine, error))

    def _carry(self, actions: Iterable[act.Action]) -> None:
        """Carry out actions at the same time; the first error is raised after all have ended."""
        todo = list(actions)
        if len(todo) == 1:
            return self._one(todo[0])
        waiting: list[Future[None]] = [self._io.submit(self._one, a) for a in todo]
        errors = [e for f in waiting if (e := f.exception())]
        if errors:
            raise errors[0]

    def _one(self, action: act.Action) -> None:
        match action:
            case act.MarkClaim():
                self._mark(action)
            case act.SetSize():
                self.writer.set_size(action)
                self.narrator.note("SizeSet", action.request, f"{action.before or 0} -> {action.size}: {action.reason}")
            case act.LabelNode():
                self.writer.label_node(action)
            case act.Touch():
                self.writer.touch(action)
            case act.CreateResource():
                self.flights.create(action)
            case act.Attach():
                self.flights.attach(action)
            case act.Adopt():
                self.flights.adopt(action)
            case act.Detach():
                self._detach(action)
            case act.DeleteResource():
                self.writer.delete_resource(action.resource)
                self.narrator.note("Releasing", action.resource, action.reason)
            case act.Finish():
                self.writer.finish(action.resource)
            case act.FinishRequest():
                self.writer.finish_request(action.request)
            case act.SetState():
                self.writer.resource_status(action.resource, state=action.state, error=action.error)

    def _detach(self, action: act.Detach) -> None:
        """Detach now, or at its next turn: a refused detach is not tried again at once."""
        now = time.time()
        if self._detach_after.get(action.resource, 0.0) > now:
            return
        self._detach_after[action.resource] = now + DETACH_RETRY_SECONDS
        self.later(("node", action.node), now + DETACH_RETRY_SECONDS + 0.05)
        self.flights.detach(action)

    def _mark(self, action: act.MarkClaim) -> None:
        """Keep the devices for the claim, steer its pods, then let the scheduler know."""
        before = [self._leaf.submit(self.writer.hold, device, action.claim) for device in action.devices]
        if action.devices:
            for pod in action.pods:
                self.steering.set_course(pod, action.node, action.claim)
        for hold in before:
            hold.result()
        if self.writer.mark_claim(action):
            self.narrator.note(action.condition, f"{action.namespace}/{action.name}", action.reason)
            raw = self.world.claims.get(action.name, action.namespace)
            if raw and not action.devices:
                self.narrator.about_claim(raw, "AttachFailed", action.reason, "Warning")
