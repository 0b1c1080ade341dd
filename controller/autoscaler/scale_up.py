# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scale-ups of vertical groups.

A call of Cluster Autoscaler starts them, and they end in the background.

While the target is up, Cluster Autoscaler plans the pods onto an imagined node, and does not call
again. So the target rises within the call, and falls when the devices are in the slices. A failure
after the call is reported as an instance that could not be created, with our reason. Source:
Cluster Autoscaler 1.36.1, ``core/scaleup`` and ``clusterstate/clusterstate.go``.
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
NO_POD_WAITS = ("no pod waits for a device or a node. The provider attaches devices for pods only, and does not "
                "serve a ProvisioningRequest. Create the pods instead")
# Nodes on which a pod's devices may fail to come before its scale-up fails.
MOST_NODES = 8
# Seconds for which a failure is reported if Cluster Autoscaler does not react.
TOLD_SECONDS = 1800.0


@dataclass(slots=True)
class ScaleUp:
    """One call. Times are seconds since the epoch.

    ``delta``: requested nodes of the largest size. ``pods``: names of the pods that the call
    serves, by uid. ``orders``: orders of nodes that the call waits for. ``moves``: number of new
    plans by pod. ``why``: the problem of a pod, by uid. ``failed``: (code, class, reason) once the
    call cannot be served. ``ended``: when it failed.
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
        """Return the ids of the instances that could not be created."""
        return [f"composable-infra://{self.group}/{self.number}-{i}" for i in range(self.delta)] if self.failed else []


class ScaleUps:
    """The open calls. Thread-safe.

    ``options``: returns the nodes that can be added now. ``orders``: places orders of nodes.
    ``timeout``: seconds in which the devices and nodes of a call must come. ``judged_every``:
    seconds between two checks whether the chosen nodes still fit their pods.

    Only one call or step at a time decides and writes, under the lock. Readers need no lock,
    because the tuple of calls is replaced as a whole. So a slow API server delays no reader.
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
        """Continue the work of an earlier process.

        The pods of each vertical group count as one call.
        """
        with self._lock:
            for group in groups:
                left = {uid: uid for uid in self._view.asked(group) if self._view.is_waiting(uid)}
                if left and not self.target(group):
                    self._record(group, 1).pods.update(left)

    def target(self, group: str) -> int:
        """Return the target size of a group."""
        return sum(each.delta for each in self._open if each.group == group)

    def failed(self, group: str) -> list[tuple[str, str, int, str]]:
        """Return (id, code, class, reason) of each instance that could not be created."""
        return [(name, *failed) for each in self._open if each.group == group and (failed := each.failed)
                for name in each.instances()]

    def increase(self, group: str, delta: int) -> None:
        """Start to serve the waiting pods on the nodes of a group, or on new nodes.

        Raises Refused with all reasons if no pod can be served, and if no pod waits. Otherwise
        Cluster Autoscaler would report a ProvisioningRequest as provisioned, though nothing is
        attached. A repeated call finds nothing new to start and joins the open calls.
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
        # Log before the write, because the controller then attaches at once.
        for placement in plan.attaches:
            log.info("AttachDecided pod %s/%s: node %s: %s", placement.pod.namespace, placement.pod.name,
                     placement.node, placement.reason)
        self._writer.ask(plan.attaches, self._clock() + self._timeout)
        self._measurements.count("decisions_total", len(plan.attaches), decision="attach")
        self._measurements.count("decisions_total", sum(plan.nodes.values()), decision="node")
        self._measurements.count("decisions_total", len(plan.refused), decision="refuse")

    def drop(self, group: str, ids: Collection[str]) -> list[str]:
        """End the calls of failed instances that Cluster Autoscaler deletes.

        Return the unknown ids.
        """
        with self._lock:
            known = {name: each for each in self._open if each.group == group for name in each.instances()}
            for name in ids:
                if name in known:
                    self._end_one(known[name])
            return [name for name in ids if name not in known]

    def decrease(self, group: str, count: int) -> None:
        """End the oldest calls, because Cluster Autoscaler waits no longer.

        ``count``: number of instances. Raises Refused if it is more than the target.
        """
        with self._lock:
            if count > self.target(group):
                raise Refused(Kind.INVALID_ARGUMENT, f"cannot decrease group {group} by {count}: its target size "
                              f"is {self.target(group)}")
            for _unused in range(count):
                self._end_one(next(each for each in self._open if each.group == group))

    def _end_one(self, record: ScaleUp) -> None:
        record.delta -= 1
        if record.delta <= 0:
            self._close(record)
            self._withdraw_unshared(record)

    def _withdraw_unshared(self, record: ScaleUp) -> None:
        """Withdraw the devices and nodes of a call that no other call waits for."""
        self._withdraw_orders(record)
        others = {uid for each in self._open if not each.failed for uid in each.pods}
        self._writer.withdraw([uid for uid in record.pods if uid not in others])

    def _withdraw_orders(self, record: ScaleUp) -> None:
        wanted = {order for each in self._open if not each.failed for order in each.orders}
        self._orders.withdraw([order for order in record.orders if order not in wanted])

    def step(self) -> None:
        """Check the progress of each call. Raises ApiError if a write fails.

        The next step repeats it.
        """
        with self._lock:
            asked, misfits = self._look()
            provided = self._view.provided({node for node, _error in asked.values()}) - misfits
            for record in [each for each in self._open if not each.failed]:
                self._step(record, asked, provided)
            for record in [each for each in self._open if each.failed]:
                if self._clock() - record.ended > TOLD_SECONDS:
                    self._close(record)

    def _look(self) -> tuple[dict[str, tuple[str, str]], set[str]]:
        """Return (requests, misfits).

        Requests map the uid of a pod with a request for devices to its node, and why the node does
        not work, empty if it works. Misfits are the pods that no longer fit on their node. If no
        call waits for such a pod, its request is withdrawn, and the next call plans the pod.
        """
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
            log.info("ScaleUpFinished group %s: served %d pods after %.1f s", record.group, len(record.pods),
                     now - record.began)
            return
        self._move(record, {uid: asked[uid] for uid in left if uid in asked and asked[uid][1]})
        self._plan_again(record, {uid for uid in left if uid not in asked})
        if now - record.began >= self._timeout:
            self._fail(record, "Timeout", OTHER, f"the pods were not served within {self._timeout:g} s: "
                                                 f"{self._said(record, left)}")
        elif left and all(record.moves.get(uid, 0) >= MOST_NODES for uid in left):
            self._fail(record, "AttachFailed", OUT_OF_RESOURCES, self._said(record, left))
        elif any(order.why for order in record.orders) and not any(uid in asked for uid in left):
            self._fail(record, "NoNode", OUT_OF_RESOURCES, self._said(record, left))

    def _move(self, record: ScaleUp, broken: Mapping[str, tuple[str, str]]) -> None:
        """Withdraw the requests for pods with devices that cannot be attached, so that the pods are
        planned again.
        """
        for uid, (node, error) in broken.items():
            record.moves[uid] = record.moves.get(uid, 0) + 1
            record.why[uid] = f"pod {record.pods[uid]} on node {node}: {error}"
        if broken:
            self._writer.withdraw(broken)
            self._misfits = {uid: why for uid, why in self._misfits.items() if uid not in broken}

    def _plan_again(self, record: ScaleUp, uids: set[str]) -> None:
        """Plan pods without a node again. A node may have come, or a device may have returned."""
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
        return "; ".join(dict.fromkeys(told)) or f"waiting for devices for {', '.join(sorted(record.pods.values()))}"

    def serve_untriggered(self, since: float) -> int:
        """Attach devices for pods for which Cluster Autoscaler adds nothing.

        Return the number of pods.

        Serve only pods that need nothing but devices. ``since``: seconds since the epoch.
        """
        uids = self._view.not_triggered(since)
        with self._lock:
            waiting = self._view.waiting(uids) if uids else ()
            plan = self._view.plan(waiting, ()) if waiting else ScaleUpPlan()
            self._begin(ScaleUpPlan(attaches=plan.attaches))
            return len(plan.attaches)


def reasons(plan: ScaleUpPlan) -> str:
    """Return why no pod of a plan is served, in a sentence. Equal reasons are joined."""
    by_reason: dict[str, list[str]] = {}
    for pod, reason in plan.refused.items():
        by_reason.setdefault(reason, []).append(f"{pod.namespace}/{pod.name}")
    told = [f"{', '.join(sorted(names)[:3])}{' and other pods' if len(names) > 3 else ''}: {reason}"
            for reason, names in by_reason.items()]
    return "; ".join(told) or NO_POD_WAITS
