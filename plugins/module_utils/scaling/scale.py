# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scale plan of one node: who is served now, who cannot be, and how many devices the node should have.

Rules are CoHDI's (dynamic-device-scaler) with its flaws mended: claims of one pod are decided together, one idle
device serves one claim, the older of two conflicting claims wins, and a shrinking pool fails nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from .actions import Action, LabelNode, MarkClaim, OpenGate, Plan, SetSize, Touch, Unbook, Verdict
from .demand import Group, conflict, groups, installed, limits, wanted_at_least
from .settings import DeviceModel, Settings
from .supply import Supply, kept, supply
from .view import NodeView, Request, Resource

RESCHEDULE_CONDITION = "FabricDeviceReschedule"
FAILED_CONDITION = "FabricDeviceFailed"


def request_name(node: str, model: str) -> str:
    """Name of the ComposabilityRequest of (node, model): fixed, so that two writers cannot make two."""
    return "composability-" + hashlib.sha256(f"{node}/{model}".encode()).hexdigest()[:10]


class _NodePlan:
    """Collects the decisions of one pass over one node."""

    def __init__(self, view: NodeView, settings: Settings) -> None:
        self.view, self.settings = view, settings
        self.names = sorted({*view.models(), *wanted_at_least(view, settings)})
        self.supply: dict[str, Supply] = {m: supply(view, m, settings) for m in self.names}
        self.idle: dict[str, list[Resource]] = {m: list(s.idle) for m, s in self.supply.items()}
        self.arriving = {m: sum(1 for r in s.coming if r.device_uid) for m, s in self.supply.items()}
        self.taken: dict[str, int] = dict.fromkeys(self.supply, 0)
        self.chosen: set[str] = set()
        self.waiting: dict[str, int] = dict.fromkeys(self.supply, 0)
        self.models = installed(view, settings)
        self.actions: list[Action] = []
        self.verdicts: list[Verdict] = []
        self.wake: list[float] = []

    def plan(self) -> Plan:
        for group in groups(self.view):
            self._decide(group)
        for name in self.names:
            if model := self.settings.model(name):
                self._size(model)
        self._touch()
        return Plan(tuple(self.actions), tuple(self.verdicts), min(self.wake, default=None))

    def _decide(self, group: Group) -> None:
        if reason := self._impossible(group):
            self._refuse(group, reason)
            return
        self.models.update({m.cdi_model_name: m for m in group.models()})
        need = group.need()
        available = {m: self.idle[m][:n] for m, n in need.items()}
        for model, resources in available.items():
            self.idle[model] = self.idle[model][len(resources):]
        if all(len(available[m]) == n for m, n in need.items()):
            for model, n in need.items():
                self.taken[model] += n
                self.chosen.update(r.name for r in available[model])
            self._hand_over(group, self._seen(available), available)
            return
        for model, n in need.items():
            self.waiting[model] += n
            self.arriving[model] -= min(self.arriving[model], n - len(available[model]))
        self._wait(group, need, available)

    def _impossible(self, group: Group) -> str:
        unknown = next((r.pool for c in group.claims for r in c.results if r.model is None), None)
        if unknown:
            return f"pool {unknown} belongs to no model of device_info"
        if self.view.machine is None:
            return f"node {self.view.name} cannot be given devices: {self.view.problem}"
        return next((text for m in group.models() if (text := self._refused(m, group))), "")

    def _refused(self, model: DeviceModel, group: Group) -> str:
        name = model.cdi_model_name
        others = {m.cdi_model_name: m for m in group.models()} | self.models
        others.pop(name, None)
        if other := conflict(model, others):
            return f"{name} cannot be on node {self.view.name} together with {other.cdi_model_name}"
        if name in self.view.blocked and len(self.idle[name]) + self.arriving[name] < group.need()[name]:
            return f"{name} cannot be attached to node {self.view.name}: {self.view.blocked[name]}"
        high = limits(self.view, model, self.settings)[1]
        total = self.supply[name].bound + self.taken[name] + self.waiting[name] + group.need()[name]
        if total > high:
            return f"node {self.view.name} may hold {high} x {name}, this claim would make it {total}"
        return ""

    def _refuse(self, group: Group, reason: str) -> None:
        if group.gated:
            self.actions.append(Unbook(self.view.name, reason, group.pods[0]))
        else:
            self._mark(group, FAILED_CONDITION, reason, {})

    def _hand_over(self, group: Group, reason: str, chosen: dict[str, list[Resource]]) -> None:
        if not group.gated:
            self._mark(group, RESCHEDULE_CONDITION, reason, chosen)
            return
        left = {m: list(rs) for m, rs in chosen.items()}
        devices = tuple((c.uid, left[m].pop(0).name) for c in group.claims for m, n in c.need().items()
                        for _unused in range(n))
        self.actions.append(OpenGate(self.view.name, reason, group.pods[0], devices))

    def _mark(self, group: Group, condition: str, reason: str, chosen: dict[str, list[Resource]]) -> None:
        left = {m: list(rs) for m, rs in chosen.items()}
        for claim in group.claims:
            devices = tuple(left[m].pop(0).name for m, n in claim.need().items() for _unused in range(n) if left.get(m))
            self.actions.append(MarkClaim(self.view.name, reason, claim.uid, claim.namespace, claim.name,
                                          condition, claim.pods, devices))
            self.verdicts.append(Verdict(claim.key, f"scheduler to act on {condition}: {reason}",
                                         claim.allocated_at, {"node": self.view.name, "devices": devices}))

    def _seen(self, available: dict[str, list[Resource]]) -> str:
        parts = [f"{len(rs)} x {m} ({', '.join(r.serial or r.device_uid for r in rs)})" for m, rs in available.items()]
        return f"{', '.join(parts)} attached and visible on node {self.view.name}"

    def _wait(self, group: Group, need: dict[str, int], available: dict[str, list[Resource]]) -> None:
        parts = [self._lacking(m, n - len(available[m])) for m, n in need.items() if n > len(available[m])]
        for claim in group.claims:
            self.verdicts.append(Verdict(claim.key, "; ".join(parts), claim.allocated_at,
                                         {"node": self.view.name, "need": dict(claim.need())}))

    def _lacking(self, model: str, n: int) -> str:
        coming = self.supply[model].coming
        asked = [r for r in coming if r.asked and not r.device_uid]
        attached = [r for r in coming if r.device_uid]
        text = f"{n} x {model} on node {self.view.name}"
        if attached:
            text += f", {len(attached)} attached but not yet in the node's ResourceSlice"
        if asked:
            text += f", {len(asked)} asked of the CDI Manager {self.view.now - min(r.asked for r in asked):.1f} s ago"
        errors = sorted({r.error for r in coming if r.error})
        return text + (f" ({'; '.join(errors)})" if errors else "")

    def _size(self, model: DeviceModel) -> None:
        name = model.cdi_model_name
        have = self.supply[name]
        free = [r for r in (*have.idle, *have.coming) if r.name not in self.chosen]
        free.sort(key=lambda r: r.idle_since)
        surplus = len(free) - self.waiting[name]
        staying, due = kept(free[:surplus], self.view, self.settings) if surplus > 0 else (0, None)
        if due is not None:
            self.wake.append(due)
        self.wake += [w for r in have.held if (w := r.held_since + self.settings.handover_timeout) > self.view.now]
        rested = [r.last_used + self.settings.device_no_allocation_duration for r in have.coming if r.visible]
        self.wake += [w for w in rested if w > self.view.now]
        wanted = have.bound + self.taken[name] + self.waiting[name]
        low, high = limits(self.view, model, self.settings)
        self._set_size(name, min(max(wanted + staying, low), max(high, have.bound)), wanted, staying)

    def _set_size(self, model: str, size: int, wanted: int, staying: int) -> None:
        request = self.view.request(model)
        before = request.size if request else None
        if size == (before or 0):
            return
        reason = f"{wanted} x {model} wanted on node {self.view.name}"
        if staying:
            reason += f", {staying} more kept for {self.settings.device_no_removal_duration:g} s after use"
        name = request.name if request else request_name(self.view.name, model)
        self.actions.append(SetSize(self.view.name, reason, model, size, before, name))

    def _touch(self) -> None:
        for resource in self.view.resources:
            used = bool(resource.used_by)
            if used != resource.in_use:
                reason = f"in use by claim {resource.used_by}" if used else "no claim uses it any more"
                self.actions.append(Touch(self.view.name, reason, resource.name, used))


def plan_node(view: NodeView, settings: Settings) -> Plan:
    """Decide for one node: conditions for its preparing claims, wanted sizes, use stamps. Pure."""
    return _NodePlan(view, settings).plan()


def plan_device_labels(view: NodeView, settings: Settings) -> list[Action]:
    """Labels that open the node to pools: one per model, taken away while the model cannot be attached there."""
    present = installed(view, settings)
    wanted: dict[str, str | None] = {}
    for model in settings.models:
        others = {n: m for n, m in present.items() if n != model.cdi_model_name}
        full = supply(view, model.cdi_model_name, settings).bound >= limits(view, model, settings)[1]
        closed = view.machine is None or bool(conflict(model, others)) or full or model.cdi_model_name in view.blocked
        wanted[settings.label(model.k8s_device_name)] = None if closed else "true"
    return _changed(view, wanted, "models that can be attached to the node")


def plan_fabric_label(view: NodeView, settings: Settings) -> list[Action]:
    """The label that ties the node to its fabric."""
    value = None if view.fabric is None else str(view.fabric)
    return _changed(view, {settings.label("fabric"): value}, view.problem or f"fabric of machine {view.machine}")


def _changed(view: NodeView, wanted: dict[str, str | None], reason: str) -> list[Action]:
    labels = {k: v for k, v in wanted.items() if view.labels.get(k) != v}
    return [LabelNode(view.name, reason, labels)] if labels and view.exists else []


def after(view: NodeView, actions: Iterable[Action]) -> NodeView:
    """The node as it will be once the sizes of a plan are written, so that the attaches that follow can be planned."""
    requests = {r.name: r for r in view.requests}
    for action in actions:
        if isinstance(action, SetSize):
            known = requests.get(action.request, Request(action.request, "", action.model, 0))
            requests[action.request] = replace(known, size=action.size)
    return view.with_requests(tuple(requests.values()))
