# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The passes themselves: read a view, plan, carry out. One node, one pool or one request at a time."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from ..fabric.errors import FabricError
from ..fabric.types import Fabric
from ..kube.errors import ApiError
from ..scaling import actions as act
from ..scaling.compose import asks, plan_compose, request_status, uncertain
from ..scaling.demand import label_problems
from ..scaling.scale import after, plan_device_labels, plan_fabric_label, plan_node
from ..scaling.view import NodeView
from . import publish, views
from .flights import Flights
from .gating import KEY as GATES
from .gating import Gating
from .narrator import Narrator
from .nominations import KEY as NOMINATE
from .steering import Steering
from .triggers import Later
from .world import World
from .writer import Writer

RETRY_SECONDS = 1.0
DETACH_RETRY_SECONDS = 3.0
TIDY_SECONDS = 0.5
TIDYING = (act.Touch, act.SetState, act.SetSize)


class Passes:
    """Carries out one key at a time; ``later(key, when)`` makes an appointment."""

    def __init__(self, world: World, writer: Writer, fabric: Fabric, flights: Flights, steering: Steering,
                 gating: Gating, narrator: Narrator, roles: frozenset[str], settle: float, later: Later) -> None:
        self.world, self.writer, self.fabric, self.flights = world, writer, fabric, flights
        self.steering, self.gating, self.narrator, self.roles = steering, gating, narrator, roles
        self.settle, self.later = settle, later
        self.verdicts: dict[str, tuple[act.Verdict, ...]] = {}
        self._io = ThreadPoolExecutor(32, thread_name_prefix="write")
        self._detach_after: dict[str, float] = {}
        self._how = self._table()

    def run(self, key: tuple[str, ...]) -> None:
        """Work on one key. An API error is told and the key is tried again later."""
        try:
            if key[0] == "node":
                self._node(key[1])
            elif key[0] == "pool" and "publisher" in self.roles:
                self._pool(key[1], int(key[2]))
            elif key[0] == "request" and "operator" in self.roles:
                self._request(key[1])
            elif key == GATES and "scaler" in self.roles:
                self.gating.run()
            elif key == NOMINATE:
                self.gating.nominations.run()
            elif key[0] == "tidy":
                self._tidy(key[1])
            self.narrator.once("/".join(key), "")
        except (ApiError, FabricError) as error:
            self.narrator.once("/".join(key), str(error))
            self.later(key, time.time() + RETRY_SECONDS)

    def stop(self) -> None:
        """Let the writing threads go."""
        self._io.shutdown(wait=False, cancel_futures=True)

    def forget(self, resource: str) -> None:
        """A ComposableResource is gone."""
        self._detach_after.pop(resource, None)

    def _node(self, name: str) -> None:
        """Scale and compose from one picture: devices are asked for while the sizes are still being written."""
        keep_all, view = self.gating.unplanned(), self._view(name)
        scale = plan_node(view, self.world.settings) if "scaler" in self.roles else act.Plan()
        compose = self._compose(after(view, scale.actions))
        if asks(compose) and not uncertain(view):
            compose = self._compose(after(self.read_again(view), scale.actions))
        labels: list[act.Action] = []
        if "scaler" in self.roles:
            self.verdicts[name] = scale.verdicts
            self.narrator.once(f"labels of node {name}", "; ".join(label_problems(view, self.world.settings)))
            labels += plan_device_labels(view, self.world.settings)
        if "publisher" in self.roles and self.world.snapshot is not None:
            labels += plan_fabric_label(view, self.world.settings)
        for when in (scale.wake_at, compose.wake_at):
            if when is not None:
                self.later(("node", name), when)
        if view.blocked:
            self.later(("node", name), time.time() + RETRY_SECONDS)
        self._urgent(name, _kept([*labels, *scale.actions, *compose.actions], keep_all))

    def _view(self, name: str) -> NodeView:
        view = self.world.node_view(name)
        if "operator" in self.roles and uncertain(view) and view.machine:
            try:
                found = self.fabric.machine(view.machine)
            except FabricError as error:  # what needs no manager goes on
                self.narrator.once(f"machine {view.machine}", str(error))
                self.later(("node", name), time.time() + RETRY_SECONDS)
                return self.world.node_view(name, unread=True)
            self.narrator.once(f"machine {view.machine}", "")
            view = self.world.node_view(name, {d.uid: d.model for d in found.devices})
        return view

    def read_again(self, view: NodeView) -> NodeView:
        """The machine right before something is asked for: what others attached since the last look is theirs.

        A manager that does not answer this either will say so when it is asked.
        """
        try:
            found = self.fabric.machine(view.machine or "")
        except FabricError:
            return view
        return self.world.node_view(view.name, {d.uid: d.model for d in found.devices})

    def _compose(self, view: NodeView) -> act.Plan:
        """Nothing is asked of a manager whose machines were never seen."""
        if "operator" not in self.roles or self.world.snapshot is None:
            return act.Plan()
        return plan_compose(view, self.settle)

    def _urgent(self, node: str, actions: list[act.Action]) -> None:
        """Carry out what somebody waits for; the rest is left to a key of its own.

        Where somebody else composes, the size is what he waits for.
        """
        tidying = TIDYING if "operator" in self.roles else TIDYING[:-1]
        self._carry(a for a in actions if not isinstance(a, tidying))
        if any(isinstance(a, tidying) for a in actions) or self.world.unwritten_holds(node):
            self.later(("tidy", node), time.time() + TIDY_SECONDS)

    def _tidy(self, name: str) -> None:
        """What nobody waits for: sizes already acted on, holds, use stamps and the Online state."""
        keep_all, view = self.gating.unplanned(), self._view(name)
        scale = plan_node(view, self.world.settings) if "scaler" in self.roles else act.Plan()
        compose = self._compose(after(view, scale.actions))
        self._carry(a for a in _kept([*scale.actions, *compose.actions], keep_all) if isinstance(a, TIDYING))
        for resource, claim in self.world.unwritten_holds(name):
            self.writer.hold(resource, claim)

    def _pool(self, model: str, fabric: int) -> None:
        plan = publish.run(self.world, self.writer, (model, fabric))
        self.narrator.once("pools", self.world.pools_problem)
        if plan is not None and not plan.empty:
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
            self._one(todo[0])
            return
        waiting: list[Future[None]] = [self._io.submit(self._one, a) for a in todo]
        errors = [e for f in waiting if (e := f.exception())]
        if errors:
            raise errors[0]

    def _one(self, action: act.Action) -> None:
        self._how[type(action)](action)

    def _table(self) -> dict[type[act.Action], Callable[[t.Any], object]]:
        """How each kind of action is carried out."""
        return {
            act.MarkClaim: self._mark, act.SetSize: self._set_size, act.LabelNode: self.writer.label_node,
            act.Touch: self.writer.touch, act.CreateResource: self.flights.create, act.Attach: self.flights.attach,
            act.Adopt: self.flights.adopt, act.Resume: self.flights.resume, act.Detach: self._detach,
            act.DeleteResource: self._release,
            act.Finish: lambda a: self.writer.finish(a.resource),
            act.OpenGate: self.gating.open, act.Unbook: self.gating.unbook,
            act.FinishRequest: lambda a: self.writer.finish_request(a.request),
            act.SetState: lambda a: self.writer.resource_status(a.resource, state=a.state, error=a.error),
        }

    def _set_size(self, action: act.SetSize) -> None:
        self.writer.set_size(action)
        self.narrator.note("SizeSet", action.request, f"{action.before or 0} -> {action.size}: {action.reason}")

    def _release(self, action: act.DeleteResource) -> None:
        self.writer.delete_resource(action.resource)
        self.narrator.note("Releasing", action.resource, action.reason)

    def _detach(self, action: act.Detach) -> None:
        """Detach now, or at its next turn: a refused detach is not tried again at once.

        The turn is appointed at each pass: of two appointments of a node only the earlier one is kept.
        """
        now = time.time()
        turn = self._detach_after.get(action.resource, 0.0)
        if turn <= now:
            turn = self._detach_after[action.resource] = now + DETACH_RETRY_SECONDS
            self.flights.detach(action)
        self.later(("node", action.node), turn + 0.05)

    def _mark(self, action: act.MarkClaim) -> None:
        """Keep the devices for the claim, steer its pods, then let the scheduler know."""
        for device in action.devices:
            self.world.hold(device, action.claim)
        if action.devices:
            for pod in action.pods:
                self.steering.set_course(pod, action.node, action.claim)
        if self.writer.mark_claim(action):
            self.narrator.note(action.condition, f"{action.namespace}/{action.name}", action.reason)
            raw = self.world.claims.get(action.name, action.namespace)
            if raw and not action.devices:
                self.narrator.about_claim(raw, "AttachFailed", action.reason, "Warning")


def _kept(actions: list[act.Action], keep_all: bool) -> list[act.Action]:
    """While it is not known for whom devices were attached nothing is given up; asked before the node was looked at."""
    return [a for a in actions if not (keep_all and _shrinks(a))]


def _shrinks(action: act.Action) -> bool:
    return isinstance(action, act.DeleteResource) or (isinstance(action, act.SetSize)
                                                      and action.size < (action.before or 0))
