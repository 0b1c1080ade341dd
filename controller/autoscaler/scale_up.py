# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Cluster Autoscaler asked of a vertical group: begun within its call, finished in the background, told as it
understands it.

It packs the pods onto an imagined node while the target is up, and asks no second time; so the target goes up within
the call and comes down when the devices are in the slices. What fails after the call is an instance that could not be
created, with our reason. Source: Cluster Autoscaler 1.36.1, ``core/scaleup`` and ``clusterstate/clusterstate.go``.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ansible_collections.composable.infra.controller.autoscaler.errors import Kind, Refused
from ansible_collections.composable.infra.controller.autoscaler.measurements import Measurements
from ansible_collections.composable.infra.controller.autoscaler.protocols import Asking, View
from ansible_collections.composable.infra.controller.autoscaler.providers.orders import NodeOrders, Order
from ansible_collections.composable.infra.plugins.module_utils.planning.autoscaling.scale_up import (
    NodeOption,
    ScaleUpPlan,
)

log = logging.getLogger("composable.infra")
OUT_OF_RESOURCES, OTHER = 1, 99
NOBODY = ("no pod waits for a device or a node. A ProvisioningRequest is not served, since devices are attached for "
          "pods; create the pods instead")
# Nodes on which a pod's devices may fail to come before its scale-up fails.
MOST_NODES = 8
# Seconds for which what failed is told when nobody takes notice.
TOLD_SECONDS = 1800.0


@dataclass(slots=True)
class ScaleUp:
    """One call. ``delta``: maximum-spec nodes that it asked for; ``pods``: names of the pods that it serves, by uid.

    ``orders``: of nodes that it waits for; ``moves``: how often a pod was planned anew; ``why``: what stands in the way
    of a pod. ``failed``: (code, class, reason) once it cannot be served; ``ended``: when that was. Times are seconds
    since the epoch.
    """

    number: int
    group: str
    delta: int
    began: float
    pods: dict[str, str] = field(default_factory=dict)
    orders: list[Order] = field(default_factory=list)
    moves: dict[str, int] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    failed: tuple[str, int, str] | None = None
    ended: float = 0.0

    def instances(self) -> list[str]:
        """Ids of the instances that could not be created."""
        return [f"composable-infra://{self.group}/{self.number}-{i}" for i in range(self.delta)] if self.failed else []


class ScaleUps:
    """All calls that are not finished. Thread-safe. ``options``: which nodes can be added now; ``orders``: of whom they
    are ordered. ``timeout``: seconds in which what a call began must come. ``judged_every``: seconds between two looks
    whether the nodes that were chosen still suit their pods.

    One call or step at a time decides and writes, under the lock. Whoever only reads takes no lock: the tuple of calls
    is replaced whole, so a slow API server delays no reader.
    """

    judged_every = 2.0

    def __init__(self, view: View, writer: Asking, options: Callable[[], tuple[NodeOption, ...]],
                 orders: NodeOrders, timeout: float, measurements: Measurements,
                 clock: Callable[[], float] = time.time) -> None:
        self._view, self._writer, self._options, self._orders = view, writer, options, orders
        self._timeout, self._measurements, self._clock = timeout, measurements, clock
        self._open: tuple[ScaleUp, ...] = ()
        self._count, self._lock = 0, threading.RLock()
        self._misfits: dict[str, str] = {}
        self._judged = -math.inf

    def resume(self, groups: Iterable[str]) -> None:
        """Go on with what an earlier process wrote down: the pods of each vertical group count as one call."""
        with self._lock:
            for group in groups:
                left = {uid: uid for uid in self._view.asked(group) if self._view.is_waiting(uid)}
                if left and not self.target(group):
                    self._record(group, 1).pods.update(left)

    def target(self, group: str) -> int:
        """The target size of a group."""
        return sum(each.delta for each in self._open if each.group == group)

    def failed(self, group: str) -> list[tuple[str, str, int, str]]:
        """(id, code, class, reason) of each instance that could not be created."""
        return [(name, *failed) for each in self._open if each.group == group and (failed := each.failed)
                for name in each.instances()]

    def increase(self, group: str, delta: int) -> None:
        """Begin to serve the pods that wait, by the nodes that the group stands for.

        Raises Refused, with the reasons of all of them, when none can be served, and when no pod waits. Otherwise
        Cluster Autoscaler would tell a ProvisioningRequest that it is provisioned, and nothing would be attached.

        A call that comes again finds nothing left to begin and joins what is under way.
        """
        with self._lock:
            self._view.require_ready()
            waiting = self._view.waiting()
            plan = self._view.plan(waiting, self._options(), group)
            names = {pod.ref.uid: f"{pod.ref.namespace}/{pod.ref.name}" for pod in waiting}
            began = [each.pod.uid for each in plan.attaches]
            began += [pod.uid for pod in (*plan.on_new_nodes, *plan.waiting)]
            under_way = [each for each in self._open if each.group == group and not each.failed]
            if not (began or under_way or self._view.asked(group)):
                self._measurements.count("calls_total", result="refused")
                raise Refused(Kind.RESOURCE_EXHAUSTED, reasons(plan))
            self._begin(plan)
            record = self._record(group, delta)
            record.pods.update({uid: names[uid] for uid in began})
            record.pods.update({uid: record.pods.get(uid, uid) for uid in self._view.asked(group)})
            record.pods.update({uid: name for each in under_way for uid, name in each.pods.items()})
            self._measurements.count("calls_total", result="begun")
            record.orders += [order for each in under_way for order in each.orders if not order.why]
            record.orders += [self._orders.decide(node_group, n) for node_group, n in plan.nodes.items()]

    def _record(self, group: str, delta: int) -> ScaleUp:
        self._count += 1
        record = ScaleUp(self._count, group, delta, self._clock())
        self._open = (*self._open, record)
        return record

    def _close(self, record: ScaleUp) -> None:
        self._open = tuple(each for each in self._open if each is not record)

    def _begin(self, plan: ScaleUpPlan) -> None:
        for placement in plan.attaches:  # told before it is written, since the controller attaches at once then
            log.info("AttachDecided pod %s/%s: node %s: %s", placement.pod.namespace, placement.pod.name,
                     placement.node, placement.reason)
        self._writer.ask(plan.attaches, self._clock() + self._timeout)
        self._measurements.count("decisions_total", len(plan.attaches), decision="attach")
        self._measurements.count("decisions_total", sum(plan.nodes.values()), decision="node")
        self._measurements.count("decisions_total", len(plan.refused), decision="refuse")

    def drop(self, group: str, ids: Collection[str]) -> list[str]:
        """Cluster Autoscaler deletes instances that could not be created; the ids that are none of these."""
        with self._lock:
            known = {name: each for each in self._open if each.group == group for name in each.instances()}
            for name in ids:
                if name in known:
                    self._end_one(known[name])
            return [name for name in ids if name not in known]

    def decrease(self, group: str, count: int) -> None:
        """Cluster Autoscaler waits no longer: the oldest calls end. Raises Refused for more than were asked."""
        with self._lock:
            if count > self.target(group):
                raise Refused(Kind.INVALID_ARGUMENT, f"group {group} has a target of {self.target(group)}")
            for _unused in range(count):
                self._end_one(next(each for each in self._open if each.group == group))

    def _end_one(self, record: ScaleUp) -> None:
        record.delta -= 1
        if record.delta <= 0:
            self._close(record)
            self._withdraw_unshared(record)

    def _withdraw_unshared(self, record: ScaleUp) -> None:
        """Devices and nodes that another call waits for, too, stay wanted."""
        self._withdraw_orders(record)
        others = {uid for each in self._open if not each.failed for uid in each.pods}
        self._writer.withdraw([uid for uid in record.pods if uid not in others])

    def _withdraw_orders(self, record: ScaleUp) -> None:
        wanted = {order for each in self._open if not each.failed for order in each.orders}
        self._orders.withdraw([order for order in record.orders if order not in wanted])

    def step(self) -> None:
        """Look how far each call is. Raises ApiError when something could not be written; the next step does it."""
        with self._lock:
            asked, misfits = self._look()
            provided = self._view.provided({node for node, _error in asked.values()}) - misfits
            for record in [each for each in self._open if not each.failed]:
                self._step(record, asked, provided)
            for record in [each for each in self._open if each.failed]:
                if self._clock() - record.ended > TOLD_SECONDS:
                    self._close(record)

    def _look(self) -> tuple[dict[str, tuple[str, str]], set[str]]:
        """By uid of a pod that devices were asked for: its node, and why that will not do. And which of them the node
        has no room for any more: where no call waits for such a pod, it waits for the next one."""
        asked = self._view.asked()
        if self._clock() - self._judged >= self.judged_every:
            self._judged = self._clock()
            self._misfits = self._view.misfits({uid: node for uid, (node, _error) in asked.items()})
        asked |= {uid: (asked[uid][0], why) for uid, why in self._misfits.items() if uid in asked}
        waited_for = {uid for each in self._open if not each.failed for uid in each.pods}
        strays = self._misfits.keys() & asked.keys() - waited_for
        if strays:
            self._writer.withdraw(strays)
        return {uid: each for uid, each in asked.items() if uid not in strays}, set(self._misfits)

    def _step(self, record: ScaleUp, asked: Mapping[str, tuple[str, str]], provided: set[str]) -> None:
        now = self._clock()
        left = {uid for uid in record.pods if self._view.is_waiting(uid) and uid not in provided}
        if not left:
            self._close(record)
            self._withdraw_orders(record)
            self._measurements.observe("serve_seconds", now - record.began)
            log.info("ScaleUpFinished group %s: %d pods after %.1f s", record.group, len(record.pods),
                     now - record.began)
            return
        self._move(record, {uid: asked[uid] for uid in left if uid in asked and asked[uid][1]})
        self._plan_again(record, {uid for uid in left if uid not in asked})
        if now - record.began >= self._timeout:
            self._fail(record, "Timeout", OTHER, f"not served within {self._timeout:g} s: {self._said(record, left)}")
        elif left and all(record.moves.get(uid, 0) >= MOST_NODES for uid in left):
            self._fail(record, "AttachFailed", OUT_OF_RESOURCES, self._said(record, left))
        elif any(order.why for order in record.orders) and not any(uid in asked for uid in left):
            self._fail(record, "NoNode", OUT_OF_RESOURCES, self._said(record, left))

    def _move(self, record: ScaleUp, broken: Mapping[str, tuple[str, str]]) -> None:
        """Pods whose devices cannot be attached where they were asked for are planned anew."""
        for uid, (node, error) in broken.items():
            record.moves[uid] = record.moves.get(uid, 0) + 1
            record.why[uid] = f"pod {record.pods[uid]} on node {node}: {error}"
        if broken:
            self._writer.withdraw(broken)
            self._misfits = {uid: why for uid, why in self._misfits.items() if uid not in broken}

    def _plan_again(self, record: ScaleUp, uids: set[str]) -> None:
        """A node that was ordered may have come, and a device may have come back."""
        waiting = self._view.waiting(uids) if uids else ()
        plan = self._view.plan(waiting, self._options(), record.group) if waiting else ScaleUpPlan()
        if plan.attaches:
            self._begin(ScaleUpPlan(attaches=plan.attaches))
        record.why.update({pod.uid: f"pod {pod.namespace}/{pod.name}: {said}" for pod, said in plan.refused.items()})

    def _fail(self, record: ScaleUp, code: str, kind: int, reason: str) -> None:
        record.failed, record.ended = (code, kind, reason), self._clock()
        self._withdraw_unshared(record)
        self._measurements.count("failures_total", reason=code)
        log.warning("ScaleUpFailed group %s: %s", record.group, reason)

    @staticmethod
    def _said(record: ScaleUp, left: Collection[str]) -> str:
        told = [record.why[key] for key in (*left, *record.why) if key in record.why]
        told += [f"group {order.group}: {order.why}" for order in record.orders if order.why]
        return "; ".join(dict.fromkeys(told)) or f"waiting for devices of {', '.join(sorted(record.pods.values()))}"

    def serve_untriggered(self, since: float) -> int:
        """Pods that Cluster Autoscaler adds nothing for get devices where that alone serves them; how many did."""
        uids = self._view.not_triggered(since)
        with self._lock:
            waiting = self._view.waiting(uids) if uids else ()
            plan = self._view.plan(waiting, ()) if waiting else ScaleUpPlan()
            self._begin(ScaleUpPlan(attaches=plan.attaches))
            return len(plan.attaches)


def reasons(plan: ScaleUpPlan) -> str:
    """Why no pod of a plan is served, in a sentence; equal reasons are told once."""
    by_reason: dict[str, list[str]] = {}
    for pod, reason in plan.refused.items():
        by_reason.setdefault(reason, []).append(f"{pod.namespace}/{pod.name}")
    told = [f"{', '.join(sorted(names)[:3])}{' and others' if len(names) > 3 else ''}: {reason}"
            for reason, names in by_reason.items()]
    return "; ".join(told) or NOBODY
