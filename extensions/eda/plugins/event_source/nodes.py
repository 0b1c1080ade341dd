# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Event source that reports pods without a node, and nodes that are not needed, for jobs that order
nodes.

Each event starts a job, so events are limited. Pods that become due together share one event. A pod
that no node can serve starts few jobs and delays no other pod.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import sys
import threading
import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

DOCUMENTATION = r"""
---
short_description: Watch pods that find no node, and nodes that are not needed
description:
  - Watches pods that request devices with a ResourceClaim or an extended resource of a DeviceClass
    and that the scheduler could not place. Emits an event C(unschedulable) for pods that have
    waited for a while. Pods with a gate or a nominated node do not count.
  - Watches nodes with the soft taint C(DeletionCandidateOfClusterAutoscaler) of Cluster Autoscaler. Emits an event
    C(node_unneeded) for those that have had it for a while, the one that had it first at the beginning. A node that
    Cluster Autoscaler deletes itself does not count.
  - Leaves out a pod that no new node can serve. A new node is judged by the nodes that are watched, without their pods
    and without taints that pass. ResourceClaims of a pod are not judged.
  - Reports a pod again O(retry) seconds after its own last event, and O(max_tries) times at most. Events
    C(unschedulable) are O(interval) seconds apart or more.
  - Emits no further event C(node_unneeded) until the first node of the last one is gone or needed,
    or O(retry) is over. The nodes that have been first less often are first in the next event.
  - Lists 100 pods or nodes in an event at most.
  - Reads only. Never returns.
  - Connects to the API server as the modules do, with the options of M(composable.infra.claim_condition).
extends_documentation_fragment:
  - composable.infra.cluster
  - composable.infra.cluster.login
options:
  unschedulable_after:
    description:
      - Seconds for which a pod must have waited. It should be longer than an attach takes, so that no node is ordered
        for a pod that a device serves.
    type: float
    default: 60
  unneeded_after:
    description:
      - Seconds for which a node must have been unneeded. It should be shorter than C(--scale-down-unneeded-time) of
        Cluster Autoscaler, unless that cannot delete the nodes.
    type: float
    default: 300
  retry:
    description:
      - Seconds after which a pod or a node is reported again. It should be longer than the time to
        add a node.
    type: float
    default: 1800
  interval:
    description: Least number of seconds between two events C(unschedulable). Pods that become due meanwhile share one.
    type: float
    default: 60
  max_orders:
    description: Most events of each kind within O(retry) seconds.
    type: int
    default: 10
  max_tries:
    description:
      - How often a pod is reported, and how often a node is the first of an event. After that the source is silent
        about it until it no longer waits.
    type: int
    default: 3
  max_devices:
    description:
      - Most devices that a new node can have. A pod that requests more of an extended resource is not reported.
    type: int
    default: 50
  node_selector:
    description: Label selector of the nodes that are watched, such as those of one group. If not set, all are.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Order nodes
  hosts: localhost
  sources:
    - composable.infra.nodes:
        kubeconfig: /etc/composable-infra/kubeconfig
        node_selector: node-role.example.com/gpu=true
  rules:
    - name: Add a node
      condition: event.unschedulable is defined
      action:
        run_job_template:
          name: Composable nodes
          organization: Composable infrastructure
          job_args:
            extra_vars: {node_action: add, node_group: gpu, node_count: 1}
"""

DEFAULTS = {"unschedulable_after": 60.0, "unneeded_after": 300.0, "retry": 1800.0, "interval": 60.0}
COUNTS = {"max_orders": 10, "max_tries": 3, "max_devices": 50}
OTHERS = (*COUNTS, "node_selector")
MOST_LISTED = 100
"""Most pods or nodes in one event. AWX keeps the event among the variables of the job."""
UNSCHEDULABLE, NODE_UNNEEDED = "unschedulable", "node_unneeded"
# Source: Cluster Autoscaler 1.36.1, utils/taints/taints.go. The value is when the taint was set, in
# seconds since the epoch.
CANDIDATE, DELETED = "DeletionCandidateOfClusterAutoscaler", "ToBeDeletedByClusterAutoscaler"
_KUBE = "ansible_collections.composable.infra.plugins.module_utils.kube"
_SHARED = "ansible_collections.composable.infra.plugins.module_utils.event_source"
_AUTOSCALING = "ansible_collections.composable.infra.plugins.module_utils.planning.autoscaling"
Json = dict[str, t.Any]
_log = logging.getLogger(__name__)


def _load(name: str) -> t.Any:
    """Import a module of the collection.

    Sources are run by path, so the collection's root is found here.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        here = Path(__file__)
        roots = [path.parents[7] for path in (here.absolute(), here.resolve()) if len(path.parents) > 7]
        sys.path += [str(root) for root in roots if (root / "ansible_collections" / "composable").is_dir()]
        return importlib.import_module(name)


@dataclass(slots=True)
class Limits:
    """How often jobs may be started. Times are in seconds.

    ``after``: how long a pod or node must have waited. ``retry``: how long after its event it is
    reported again. ``interval``: least time between two events. ``max_orders``: most events within
    ``retry``. ``max_tries``: how often the same pod or node is reported.
    """

    after: float
    retry: float
    interval: float = 0.0
    max_orders: int = COUNTS["max_orders"]
    max_tries: int = COUNTS["max_tries"]


@dataclass(slots=True)
class Waiting:
    """A pod or a node that waits.

    ``found``: its entry in an event. ``since``: when it began to wait. ``due``: when it is reported
    next. ``tries``: how often it was reported.
    """

    found: Json
    since: float
    due: float
    tries: int = 0


@dataclass(slots=True)
class Pending:
    """The pods, or the nodes, that wait for an order, by uid.

    ``one_by_one``: an order is only for the first entry of an event, and no event follows while
    that entry waits. Otherwise an order is for all entries.
    """

    limits: Limits
    one_by_one: bool = False
    _waiting: dict[str, Waiting] = field(default_factory=dict)
    _ordered: str = ""
    _events: list[float] = field(default_factory=list)

    def put(self, uid: str, found: Json, now: float) -> None:
        """Note that a pod or node waits, since now if it did not wait before."""
        if uid in self._waiting:
            self._waiting[uid].found = found
        else:
            self._waiting[uid] = Waiting(found, now, now + self.limits.after)

    def drop(self, uid: str) -> None:
        """Note that a pod or node does not wait, or no longer."""
        self._waiting.pop(uid, None)

    def next_time(self) -> float:
        """Return when the next event is due."""
        when = min((each.due for each in self._waiting.values() if each.tries < self.limits.max_tries),
                   default=float("inf"))
        if not self._events:
            return when
        apart = self.limits.retry if self._ordered in self._waiting else self.limits.interval
        when = max(when, self._events[-1] + apart)
        full = len(self._events) >= self.limits.max_orders
        return max(when, self._events[-self.limits.max_orders] + self.limits.retry) if full else when

    def listed(self, now: float, order: t.Callable[[Json], t.Any],
               why_not: t.Callable[[str], str] = lambda uid: "") -> tuple[list[Json], int]:
        """Return the entries of an event, in an order, and how many more are due.

        Count the event as an order.

        ``why_not``: returns why a job would not help the pod or node with this uid, empty if it
        may. It is called again for the same uid after ``retry``.
        """
        due = sorted((each.tries if self.one_by_one else 0, order(each.found) if self.one_by_one else each.since, uid)
                     for uid, each in self._waiting.items()
                     if each.due <= now and each.tries < self.limits.max_tries)
        uids = [uid for _tries, _key, uid in due]
        chosen = self._useful(uids, now, why_not)
        if not chosen:
            return [], 0
        for uid in chosen[:1] if self.one_by_one else chosen:
            self._waiting[uid].tries += 1
            self._waiting[uid].due = now + self.limits.retry
        self._ordered = chosen[0] if self.one_by_one else ""
        self._events = [*self._events, now][-self.limits.max_orders:]
        found = [self._waiting[uid].found for uid in chosen]
        more = sum(self._waiting[uid].due <= now for uid in uids if uid not in set(chosen))
        return found if self.one_by_one else sorted(found, key=order), more

    def _useful(self, uids: list[str], now: float, why_not: t.Callable[[str], str]) -> list[str]:
        """Return the first of these that a job may help, at most MOST_LISTED."""
        found: list[str] = []
        for uid in uids:
            if len(found) == MOST_LISTED:
                break
            if reason := why_not(uid):
                self._waiting[uid].due = now + self.limits.retry
                _log.warning("Ordered no node for %s: %s", self._waiting[uid].found, reason)
            else:
                found.append(uid)
        return found


class Watcher:
    """The waiting pods and nodes, and when the next event is due.

    The reflectors' threads write, and the event loop reads. ``waits``: returns whether a raw pod
    waits for a node. ``asks``: returns whether it requests devices. ``why_not``: returns why no new
    node can serve it, empty if one may.
    """

    def __init__(self, times: dict[str, float], wake: t.Callable[[], object], waits: t.Callable[[Json], bool],
                 asks: t.Callable[[Json], bool], why_not: t.Callable[[Json], str] = lambda pod: "",
                 counts: dict[str, int] | None = None) -> None:
        self._wake, self._waits, self._asks, self._lock = wake, waits, asks, threading.RLock()
        self._why_not, self._unplaced = why_not, dict[str, Json]()
        counts = {**COUNTS, **(counts or {})}
        orders, tries = counts["max_orders"], counts["max_tries"]
        pods = Limits(times["unschedulable_after"], times["retry"], times["interval"], orders, tries)
        nodes = Limits(times["unneeded_after"], times["retry"], 0.0, orders, tries)
        self._pending = {UNSCHEDULABLE: Pending(pods), NODE_UNNEEDED: Pending(nodes, one_by_one=True)}

    def pod_changed(self, kind: str, pod: Json, _old: Json | None) -> None:
        """Note that a pod found no node, or has a node, or is gone."""
        uid = pod["metadata"]["uid"]
        with self._lock:
            self._unplaced.pop(uid, None)
            if kind != "DELETED" and self._waits(pod):
                self._unplaced[uid] = pod
            self._judge(uid)
        self._wake()

    def classes_changed(self, _kind: str, _device_class: Json, _old: Json | None) -> None:
        """Judge the pods again after a change of a DeviceClass, since their requests may be for
        devices now.
        """
        with self._lock:
            for uid in self._unplaced:
                self._judge(uid)
        self._wake()

    def _judge(self, uid: str) -> None:
        pending, pod = self._pending[UNSCHEDULABLE], self._unplaced.get(uid)
        if pod is None or not self._asks(pod):
            pending.drop(uid)
            return
        meta = pod["metadata"]
        pending.put(uid, {"uid": uid, "namespace": meta["namespace"], "name": meta["name"]}, time.monotonic())

    def node_changed(self, kind: str, node: Json, _old: Json | None) -> None:
        """Note that a node is not needed, or is needed, or is gone."""
        meta, pending = node["metadata"], self._pending[NODE_UNNEEDED]
        taints = {taint.get("key"): taint for taint in (node.get("spec") or {}).get("taints") or ()}
        with self._lock:
            if kind == "DELETED" or CANDIDATE not in taints or DELETED in taints:
                pending.drop(meta["uid"])
            else:
                found = {"uid": meta["uid"], "name": meta["name"], "since": _since(taints[CANDIDATE])}
                pending.put(meta["uid"], found, time.monotonic())
        self._wake()

    def due(self, now: float) -> str:
        """Return which event is due now, empty if none is."""
        with self._lock:
            return next((name for name, each in self._pending.items() if each.next_time() <= now), "")

    def next_time(self) -> float:
        """Return when, by the monotonic clock, an event is due without a change."""
        with self._lock:
            return min(each.next_time() for each in self._pending.values())

    def event(self, reason: str, now: float) -> Json:
        """Return the event and count it as an order. Return nothing if no job would help."""
        with self._lock:
            if reason == UNSCHEDULABLE:
                pods = self._unplaced
                found, more = self._pending[reason].listed(now, _by_name, lambda uid: self._why_not(pods[uid]))
            else:
                found, more = self._pending[reason].listed(now, _by_age)
        said: Json = {"waiting" if reason == UNSCHEDULABLE else "nodes": found, **({"more": more} if more else {})}
        return {reason: said} if found else {}


def _by_name(pod: Json) -> tuple[str, str]:
    return pod["namespace"], pod["name"]


def _by_age(node: Json) -> tuple[int, str]:
    return node["since"], node["name"]


def _since(taint: Json) -> int:
    """Return when the taint was set, in seconds since the epoch, 0 if it does not say."""
    value = str(taint.get("value") or "")
    return int(value) if value.isascii() and value.isdigit() else 0


async def main(queue: asyncio.Queue[t.Any], args: Json) -> None:
    """Watch until cancelled. Raises ValueError for unusable options."""
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    shared = _load(_SHARED)
    times, counts = shared.seconds(args, DEFAULTS, OTHERS), shared.counts(args, COUNTS)
    client = _load(f"{_KUBE}.client.verbs").Client(shared.connection(args, os.environ), pool=4)
    classes = _load(f"{_KUBE}.watch.store").Store({})
    group = _load(f"{_KUBE}.watch.store").Store({}, trim=_load(f"{_KUBE}.objects.nodes").trimmed)
    watcher = Watcher(times, lambda: loop.call_soon_threadsafe(woken.set), _waits, lambda pod: _asks(pod, classes),
                      lambda pod: _why_not(pod, group, classes, counts["max_devices"]), counts)
    watches = _watches(client, watcher, classes, group, str(args.get("node_selector") or "") or None)
    await shared.run(queue, watcher, woken, watches, [each.synced for each in watches])


def _watches(client: t.Any, watcher: Watcher, classes: t.Any, group: t.Any, selector: str | None) -> list[t.Any]:
    """Return the watches of DeviceClasses, of pods without a node, and of nodes."""
    resource, reflector = _load(f"{_KUBE}.api_resources"), _load(f"{_KUBE}.watch.reflector").Reflector
    store = _load(f"{_KUBE}.watch.store").Store
    pods = _load(f"{_KUBE}.objects.pods")
    return [reflector(client, resource.DEVICE_CLASSES, classes, watcher.classes_changed),
            reflector(client, resource.PODS, store({}, trim=pods.trimmed), watcher.pod_changed,
                      field_selector="spec.nodeName="),
            reflector(client, resource.NODES, group, watcher.node_changed, selector)]


def _waits(pod: Json) -> bool:
    """Return whether the scheduler found no node for a pod, and no gate, nomination or end applies.
    """
    pods = _load(f"{_KUBE}.objects.pods")
    gated = (pod.get("spec") or {}).get("schedulingGates")
    return bool(pods.unschedulable(pod)) and not (gated or pods.node(pod) or pods.ended(pod))


def _asks(pod: Json, classes: t.Any) -> bool:
    """Return whether a pod requests devices, as the provider of Cluster Autoscaler judges it."""
    scale_up = _load(f"{_AUTOSCALING}.scale_up")
    return bool(scale_up.asks_for_devices(pod, _by_class(classes)))


def _why_not(pod: Json, group: t.Any, classes: t.Any, most: int) -> str:
    """Return why no new node of the group can serve a raw pod, empty if one may."""
    read = _load(f"{_KUBE}.objects.nodes").read
    nodes = [read(raw) for raw in group.list()]
    return str(_load(f"{_AUTOSCALING}.new_node").why_no_new_node(pod, nodes, _by_class(classes), most))


def _by_class(classes: t.Any) -> dict[str, Json]:
    return {each["metadata"]["name"]: each for each in classes.list()}
