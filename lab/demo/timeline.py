# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record when each step of each claim happened, as seen from outside by watches and the emulator's
log."""

from __future__ import annotations

import threading
import time
import typing as t
from dataclasses import dataclass, field

from ansible_collections.composable.infra.lab.demo.device_lines import DeviceLines, short
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    PODS,
    SLICES,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import claims, cohdi, pods, slices
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.reflector import Reflector
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.plugins.module_utils.node import evidence
from ansible_collections.composable.infra.plugins.module_utils.planning.pool.plan import (
    FAILURE_CONDITIONS,
    READY_CONDITION,
)

Json = dict[str, t.Any]


@dataclass(slots=True)
class ClaimTimes:
    """Times in seconds since the epoch, or None before the event. The first event of each kind
    counts.

    ``called`` is when Cluster Autoscaler's provider chose a node. A pod that requests an extended
    resource is listed by its own name, with the claim that the scheduler makes for it once it has a
    node.
    """

    name: str
    created: float | None = None
    held: float | None = None
    called: float | None = None
    opened: float | None = None
    allocated: float | None = None
    asked: float | None = None
    attached: float | None = None
    on_bus: float | None = None
    bound: float | None = None
    touched: float | None = None
    plugin_restarted: float | None = None
    visible: float | None = None
    condition: float | None = None
    ready: bool = False
    bound_at: float | None = None
    deallocated: float | None = None
    reallocated: float | None = None
    running: float | None = None
    first_node: str = ""
    node: str = ""
    devices: list[str] = field(default_factory=list)
    keys: list[tuple[str, str, str]] = field(default_factory=list)


class Timeline:
    """Watches until ``stop``.

    ``said`` is called with (claim, what) for each event, with ``verbose`` also for each step on a
    node.
    """

    def __init__(self, stage: Stage, said: t.Callable[[str, str], None] = lambda claim, what: None, *,
                 verbose: bool = False) -> None:
        self._stage, self._said = stage, said
        self._lines, self._verbose = DeviceLines(verbose=verbose), verbose
        self.claims: dict[str, ClaimTimes] = {}
        self.slices: dict[str, list[float]] = {}
        self._steps: dict[str, dict[str, list[float]]] = {}
        self._uuid_of: dict[tuple[str, str, str], str] = {}
        self.changed = threading.Condition()
        self.pods, self._resources = Store({}), Store({})
        self._reflectors = [Reflector(stage.client, CLAIMS, Store({}), self._claim),
                            Reflector(stage.client, SLICES, Store({}), self._slice),
                            Reflector(stage.client, COMPOSABLE_RESOURCES, self._resources, self._resource),
                            Reflector(stage.client, PODS, self.pods, self._pod)]
        for reflector in self._reflectors:
            reflector.start()
        for reflector in self._reflectors:
            reflector.synced.wait(10)

    def stop(self) -> None:
        """End the watches."""
        for reflector in self._reflectors:
            reflector.stop()

    def wait(self, condition: t.Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition is true. Return False after ``seconds``."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while not condition():
                if not self.changed.wait(min(0.5, max(0.0, deadline - time.monotonic()))) \
                        and time.monotonic() >= deadline:
                    return condition()
        return True

    def running(self, *names: str) -> bool:
        """Return whether the pods of all these names run."""
        return all((self.pods.get(n, "default") or {}).get("status", {}).get("phase") == "Running" for n in names)

    def _times(self, name: str) -> ClaimTimes:
        return self.claims.setdefault(name, ClaimTimes(name))

    def note_called(self, name: str, moment: float) -> None:
        """Record that Cluster Autoscaler's provider has chosen a node for a pod. The first time
        counts."""
        with self.changed:
            it = self._times(name)
            it.called = it.called or moment
            self.changed.notify_all()

    def _claim(self, kind: str, claim: Json, old: Json | None) -> None:
        now, it = time.time(), self._times(name_of(claim))
        with self.changed:
            self._note_claim(it, claim, now)
            self.changed.notify_all()

    def _note_claim(self, it: ClaimTimes, claim: Json, now: float) -> None:
        it.created = it.created or now
        if claims.binding_results(claim):
            if it.allocated is None:
                it.allocated, it.first_node = now, claims.node(claim) or ""
                self._said(it.name, f"allocated a pool device for node {it.first_node}, and the scheduler waits")
            for name in (READY_CONDITION, *FAILURE_CONDITIONS):
                if it.condition is None and any(claims.condition(claim, r, [name])
                                                for r in claims.binding_results(claim)):
                    it.condition, it.ready = now, name == READY_CONDITION
                    self._name_kept(it, claim)
                    self._said(it.name, f"condition {name} written")
        elif claims.results(claim) and it.reallocated is None:
            it.reallocated, it.node = now, claims.node(claim) or ""
            it.keys = list(claims.device_keys(claim))
            self._name_devices(it)
            self._said(it.name, f"allocated {short(', '.join(it.devices))} on node {it.node}")
        elif it.condition and not claims.results(claim) and it.deallocated is None:
            it.deallocated = now

    def _name_kept(self, it: ClaimTimes, claim: Json) -> None:
        """Read the kept pool devices from the ComposableResources, which were written before."""
        it.keys = [(r["driver"], r["pool"], r["device"]) for r in claims.binding_results(claim)] if it.ready else []
        node = claims.node(claim)
        for raw in self._resources.list() if it.ready else ():
            pool, _slash, device = cohdi.annotation(raw, cohdi.POOL_DEVICE).partition("/")
            key = next((k for k in it.keys if k[1:] == (pool, device) and raw["spec"]["target_node"] == node), None)
            if key and (serial := (raw.get("status") or {}).get("device_id")):
                self._uuid_of[key] = str(serial)
        self._name_devices(it)

    def _slice(self, kind: str, item: Json, old: Json | None) -> None:
        if slices.node(item) is None:
            return
        now, before = time.time(), {uuid for uuid, _key in slices.uuids(old)} if old else set()
        with self.changed:
            now_shown = list(slices.uuids(item)) if kind != "DELETED" else []
            for uuid, key in slices.uuids(old) if old else ():
                if (uuid, key) not in now_shown and self._uuid_of.get(key) == uuid:
                    del self._uuid_of[key]  # another device may get the name next
            for uuid, key in now_shown:
                self._uuid_of[key] = uuid
                if uuid not in before:
                    self.slices.setdefault(uuid, []).append(now)
                    if self._verbose:
                        self._said(str(slices.node(item)), f"announces {short(uuid)}")
            for it in self.claims.values():
                self._name_devices(it)
            self.changed.notify_all()

    def _resource(self, kind: str, raw: Json, old: Json | None) -> None:
        """Record the evidence of node operations on a device that comes up."""
        found = evidence.Evidence.parse(cohdi.annotation(raw, cohdi.NODE))
        if found is None or found.phase not in (evidence.PREPARING, evidence.READY):
            return
        with self.changed:
            known = self._steps.setdefault(found.uuid, {})
            for step in found.steps:
                moments = known.setdefault(step.step, [])
                if (moment := parse_time(step.at)) not in moments:
                    moments.append(moment)
            for who, what in self._lines.of(raw, found):
                self._said(who, what)
            self.changed.notify_all()

    def _name_devices(self, it: ClaimTimes) -> None:
        """Fill in UUIDs when they are known, because the watch of claims may be ahead of that of
        slices."""
        unnamed = {key[2] for key in it.keys} & set(it.devices)
        if unnamed or len(it.devices) < len(it.keys):
            it.devices = [self._uuid_of.get(key, key[2]) for key in it.keys]

    def _pod(self, kind: str, pod: Json, old: Json | None) -> None:
        name, phase = pod["metadata"]["name"], pod.get("status", {}).get("phase")
        # Pods of the agent and the vendor's plugin use no claim.
        if not pod["spec"].get("resourceClaims") and not limits(pod):
            return
        with self.changed:
            it = self._times(name)
            if limits(pod):
                it.created = it.created or time.time()
            self._note_gate(it, pod, kind)
            if it.bound_at is None and pods.bound(pod) and kind != "DELETED":
                it.bound_at = time.time()
            if phase == "Running" and kind != "DELETED" and it.running is None:
                it.running, it.node = time.time(), pod["spec"].get("nodeName", "")
                self._said(name, f"pod runs on {it.node}")
            self.changed.notify_all()

    def _note_gate(self, it: ClaimTimes, pod: Json, kind: str) -> None:
        if pods.held(pod) and it.held is None:
            it.held = time.time()
            self._said(it.name, "held by the scheduling gate")
        elif it.held and it.opened is None and kind != "DELETED" and not pods.held(pod):
            it.opened, it.first_node = time.time(), pods.node(pod)
            self._said(it.name, f"gate removed, nominated to {it.first_node}" if it.first_node else
                       f"gate removed without devices: kubectl describe pod {it.name} says why")

    def finish(self) -> list[ClaimTimes]:
        """Return all claims in order of creation, with the times of the emulator and the slices."""
        asked = [e for e in self._stage.emulator.log() if e["device"] and e["method"] == "PATCH"]
        serials = {d["serial"]: d["uid"] for d in self._stage.emulator.state()["devices"]}
        for it in self.claims.values():
            uids, begin = {serials.get(s) for s in it.devices}, it.created or 0.0
            since = {e["device"]: e for e in reversed(asked) if e["device"] in uids and e["time_received"] >= begin}
            entries = list(since.values())
            it.asked = min((e["time_received"] for e in entries), default=None)
            it.attached = max((e["time_replied"] for e in entries), default=None)
            it.on_bus, it.bound, it.touched, it.plugin_restarted = (
                last_of([self._steps.get(s, {}).get(name, ()) for s in it.devices], begin) for name in
                (evidence.ON_BUS, evidence.BOUND, evidence.TOUCHED, evidence.PLUGIN_RESTARTED))
            it.visible = last_of([self.slices.get(s, ()) for s in it.devices], begin)
        return sorted(self.claims.values(), key=lambda c: c.created or 0.0)


def name_of(claim: Json) -> str:
    """Return the name of a claim, or of its pod if the scheduler made the claim for an extended
    resource."""
    owners = [ref["name"] for ref in claim["metadata"].get("ownerReferences") or () if ref.get("kind") == "Pod"]
    return str(owners[0] if owners and claims.is_special(claim) else claim["metadata"]["name"])


def limits(pod: Json) -> list[str]:
    """Return the extended resources of a pod, which have a domain in their names."""
    return [name for container in pod["spec"].get("containers") or ()
            for name in (container.get("resources") or {}).get("limits") or {} if "/" in name]


def last_of(moments: t.Iterable[t.Sequence[float]], begin: float) -> float | None:
    """Return when the last device arrived, or None.

    For each device, take the first time from ``begin`` on, because a device may come again.
    """
    seen = (next((m for m in each if m >= begin), None) for each in moments)
    return max((m for m in seen if m is not None), default=None)
