# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Event source that reports ResourceClaims waiting for devices of the fabric.

The collection's own reflector watches on threads of its own, so that nothing here blocks the event
loop. An event only reports that there is work. The action reads the state again, so a lost or
doubled event costs nothing.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import threading
import time
import typing as t
from pathlib import Path

DOCUMENTATION = r"""
---
short_description: Watch ResourceClaims that wait for devices of a composable fabric
description:
  - Lists and watches ResourceClaims, and emits one event for all claims that began to wait since the last event.
  - Also emits an event at the start, when devices were released and their hold time is over, while claims continue to
    wait, and at a regular interval. So a lost event costs time and nothing else.
  - Lists 100 claims and pods in an event at most. The number of the others is in C(more).
  - Pods with the scheduling gate C(composable.infra/devices) count as waiting, too. While the
    source runs it renews the GateLease C(composable-infra-gates), so that the admission policy
    gates new pods.
  - Resumes a watch that was interrupted, lists again when the API server no longer has the version to resume from
    (410), and never returns.
  - Connects to the API server as the modules do, with the options of M(composable.infra.claim_condition).
extends_documentation_fragment:
  - composable.infra.cluster
  - composable.infra.cluster.login
options:
  config_path:
    description:
      - File with the configuration that the rulebook's actions use. The source fails at its start when the file cannot
        be used.
      - Leave it out where the actions use none.
    type: path
  settle:
    description: Seconds without a further claim after which an event is emitted.
    type: float
    default: 0.05
  gather:
    description: Longest time in seconds that a claim waits for its event while more claims are
      created.
    type: float
    default: 1
  interval:
    description:
      - Minimum number of seconds between two events. Claims that are created meanwhile share an
        event.
      - If an event starts a job, set it to about the duration of a job.
    type: float
    default: 1
  retry:
    description: Seconds after which another event is emitted for claims that still wait.
    type: float
    default: 30
  resync:
    description: Seconds between two events when nothing happens.
    type: float
    default: 300
  release_after:
    description:
      - Seconds after the release of a device after which an event is emitted, so that idle devices are returned.
      - Set it to the configuration's device_no_removal_duration.
    type: float
    default: 600
  served_within:
    description:
      - Seconds after the first event about a gated pod in which a pass must choose a node for the
        pod or release it. After that time, new pods are not gated until a pass has done so.
      - Set it to 86400 where the configuration has C(unserved=wait).
    type: float
    default: 180
  gates:
    description: Whether events are emitted for gated pods, and new pods are gated.
    type: bool
    default: true
  lease_namespace:
    description: Namespace of the GateLease C(composable-infra-gates).
    type: str
    default: composable-infra
"""

EXAMPLES = r"""
- name: Attach GPUs for waiting claims
  hosts: localhost
  sources:
    - composable.infra.claims:
        kubeconfig: /etc/composable-infra/kubeconfig
  rules:
    - name: Serve all waiting claims
      condition: event.claims is defined
      action:
        run_module:
          name: composable.infra.scale
          module_args:
            config_path: /etc/composable-infra/config.yml
"""

DEFAULTS = {"settle": 0.05, "gather": 1.0, "interval": 1.0, "retry": 30.0, "resync": 300.0, "release_after": 600.0,
            "served_within": 180.0}
MOST_LISTED = 100
"""Most claims and pods in one event. AWX keeps the event among the variables of the job."""
OTHERS = ("config_path", "gates", "lease_namespace")
_KUBE = "ansible_collections.composable.infra.plugins.module_utils.kube"
_CONFIG = "ansible_collections.composable.infra.plugins.module_utils.reconcile.config"
_SHARED = "ansible_collections.composable.infra.plugins.module_utils.event_source"


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


def _kube(name: str) -> t.Any:
    """Import a module of the collection's Kubernetes layer."""
    return _load(f"{_KUBE}.{name}")


def _numbers(args: dict[str, t.Any]) -> dict[str, float]:
    """Check and return the timing options.

    Raises ValueError with the option, its value and the allowed values.
    """
    found: dict[str, float] = _load(_SHARED).seconds(args, DEFAULTS, OTHERS)
    if str(args.get("gates", True)).lower() not in ("true", "false"):
        raise ValueError(f"gates: {args['gates']!r} is not usable: must be true or false")
    return found


def _check_config(args: dict[str, t.Any]) -> None:
    """Raise ValueError if the actions could not use the configuration.

    They would fail at each event.
    """
    if "config_path" not in args:
        return
    if not args["config_path"]:
        raise ValueError("config_path: is missing: name the file with the configuration")
    loader = _load(_CONFIG)
    try:
        loader.EngineConfig.load(str(args["config_path"]))
    except loader.BadConfig as error:
        raise ValueError(f"config_path: {error}") from None


def _gates(args: dict[str, t.Any]) -> bool:
    """Return whether gated pods are reported. Rulebooks may give the option as a text."""
    return str(args.get("gates", True)).lower() == "true"


class Watcher:
    """The waiting claims and pods, and when the next event is due.

    The reflector's thread writes, and the event loop reads. ``times``: the timing options, in
    seconds. ``wake``: called after a change. ``claims``: the module for ResourceClaims. ``held``:
    returns whether a pod is gated.
    """

    def __init__(self, times: dict[str, float], wake: t.Callable[[], object], claims: t.Any,
                 held: t.Callable[[dict[str, t.Any]], bool] = lambda pod: False) -> None:
        self._times, self._wake, self._claims, self._held = times, wake, claims, held
        self._lock = threading.Lock()
        self._told: dict[str, str] = {}
        self._unserved: dict[str, float] = {}
        self._news = (0.0, 0.0)
        self._spoke = float("-inf")
        self.waiting: dict[str, dict[str, str]] = {}
        self.appointments: dict[str, float] = {"start": 0.0}

    def changed(self, kind: str, claim: dict[str, t.Any], old: dict[str, t.Any] | None) -> None:
        """Note that a claim began to wait, was served, or freed devices."""
        uid = claim["metadata"]["uid"]
        waits = kind != "DELETED" and self._waits(claim)
        freed = self._freed(kind, claim, old)
        with self._lock:
            if waits:
                self._put(self._describe(claim))
            else:
                self.waiting.pop(uid, None)
                self._told.pop(uid, None)
            if freed:
                now = time.monotonic()
                self.appointments.setdefault("freed", now + self._times["settle"])
                self.appointments[f"released {uid}"] = now + self._times["release_after"]
        if waits or freed:
            self._wake()

    def pod_changed(self, kind: str, pod: dict[str, t.Any], old: dict[str, t.Any] | None) -> None:
        """Note that a pod is gated, or no longer."""
        meta = pod["metadata"]
        held = kind != "DELETED" and self._held(pod)
        with self._lock:
            if not held or (pod.get("status") or {}).get("nominatedNodeName"):
                self._unserved.pop(meta["uid"], None)
            if held:
                self._put({"uid": meta["uid"], "namespace": meta["namespace"], "name": meta["name"],
                           "kind": "Pod", "allocated": "",
                           "node": str((pod.get("status") or {}).get("nominatedNodeName") or "")})
            else:
                self.waiting.pop(meta["uid"], None)
                self._told.pop(meta["uid"], None)
        if held:
            self._wake()

    def _put(self, found: dict[str, str]) -> None:
        """Note a waiting claim or pod, and when the first and the last unreported one came.

        Needs the lock.
        """
        before = self.waiting.get(found["uid"], {}).get("allocated", self._told.get(found["uid"]))
        if before != found["allocated"]:
            now = time.monotonic()
            self._news = (self._news[0] if self._unreported() else now, now)
        self.waiting[found["uid"]] = found

    def _unreported(self) -> bool:
        return any(self._told.get(uid) != found["allocated"] for uid, found in self.waiting.items())

    def _news_time(self) -> float:
        """Return when an event about unreported claims and pods is due. Needs the lock."""
        if not self._unreported():
            return float("inf")
        first, last = self._news
        return max(min(last + self._times["settle"], first + self._times["gather"]), self._next_event())

    def _next_event(self) -> float:
        return self._spoke + self._times["interval"]

    def _freed(self, kind: str, claim: dict[str, t.Any], old: dict[str, t.Any] | None) -> bool:
        """Return whether devices lost their claim.

        At once their idle time begins, and later it is over.
        """
        before = claim if kind == "DELETED" and old is None else old
        if before is None or not self._claims.results(before):
            return False
        if kind == "DELETED":
            return True
        return not self._claims.results(claim) and not self._claims.binding_results(before)

    def _waits(self, claim: dict[str, t.Any]) -> bool:
        results = self._claims.binding_results(claim)
        types = sorted({c for r in results for c in (*r["bindingConditions"], *r.get("bindingFailureConditions", []))})
        decided = any(self._claims.condition(claim, r, types) for r in results)
        return bool(results) and self._claims.reserved(claim) and not decided

    def _describe(self, claim: dict[str, t.Any]) -> dict[str, str]:
        meta, allocation = claim["metadata"], claim["status"]["allocation"]
        return {"uid": meta["uid"], "namespace": meta["namespace"], "name": meta["name"], "kind": "ResourceClaim",
                "node": self._claims.node(claim) or "",
                "allocated": str(allocation.get("allocationTimestamp") or meta["resourceVersion"])}

    def due(self, now: float) -> str:
        """Return why an event is due now, empty if none is."""
        with self._lock:
            if self._news_time() <= now:
                return "claims"
            due = sorted((when, name) for name, when in self.appointments.items() if self._may(name, when) <= now)
            return due[0][1].partition(" ")[0] if due else ""

    def _may(self, name: str, when: float) -> float:
        """Return when an appointment is due, which is not before the interval since the last event
        is over.
        """
        return when if name == "start" else max(when, self._next_event())

    def problem(self) -> str:
        """Return why new pods must not be gated, empty if passes serve the gated pods."""
        with self._lock:
            longest = time.monotonic() - min(self._unserved.values(), default=float("inf"))
        if longest <= self._times["served_within"]:
            return ""
        return f"no pass has served a pod that was reported {longest:.0f} s ago"

    def next_time(self) -> float:
        """Return when, by the monotonic clock, an event is due without a change."""
        with self._lock:
            kept = (self._may(name, when) for name, when in self.appointments.items())
            return min([self._news_time(), *kept])

    def event(self, reason: str, now: float) -> dict[str, t.Any]:
        """Return the event, and note its contents as reported."""
        with self._lock:
            self._spoke = now
            claims = sorted(self.waiting.values(), key=lambda c: (c["namespace"], c["name"]))
            self._told = {c["uid"]: c["allocated"] for c in claims}
            for pod in (c for c in claims if c["kind"] == "Pod" and not c["node"]):
                self._unserved.setdefault(pod["uid"], now)
            kept = {n: w for n, w in self.appointments.items() if w > now and n not in ("retry", "resync")}
            self.appointments = {**kept, "resync": now + self._times["resync"]}
            if claims:
                self.appointments["retry"] = now + self._times["retry"]
        more = len(claims) - MOST_LISTED
        said = {"reason": reason, "waiting": claims[:MOST_LISTED]}
        return {"claims": {**said, "more": more} if more > 0 else said}


async def main(queue: asyncio.Queue[t.Any], args: dict[str, t.Any]) -> None:
    """Watch until cancelled. Raises ValueError for unusable options."""
    times, loop, woken = _numbers(args), asyncio.get_running_loop(), asyncio.Event()
    _check_config(args)
    shared = _load(_SHARED)
    watcher = Watcher(times, lambda: loop.call_soon_threadsafe(woken.set), _kube("objects.claims"),
                      _kube("objects.pods").held)
    client = _kube("client.verbs").Client(shared.connection(args, os.environ), pool=4)
    watches = _watches(client, watcher, args)
    lists = [each.synced for each in watches[:2 if _gates(args) else 1]]
    await shared.run(queue, watcher, woken, watches, lists)


def _watches(client: t.Any, watcher: Watcher, args: dict[str, t.Any]) -> list[t.Any]:
    """Return the threads beside the event loop.

    They are the watch of claims, and with gates the watch of pods and the GateLease.
    """
    resource, watch, store = _kube("api_resources"), _kube("watch.reflector"), _kube("watch.store").Store
    found = [watch.Reflector(client, resource.CLAIMS, store({}), watcher.changed)]
    if _gates(args):
        found.append(watch.Reflector(client, resource.PODS, store({}), watcher.pod_changed,
                                     field_selector="spec.nodeName="))
        namespace = args.get("lease_namespace") or "composable-infra"
        found.append(_kube("coordination.gate_lease").GateLease(client, namespace, problem=watcher.problem))
    return found
