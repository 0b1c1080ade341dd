# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scale plan of one node: which claims are served or refused, and how many devices the node
needs.

The rules are those of CoHDI's dynamic-device-scaler with four corrections: claims of one pod are
decided together, one idle device serves one claim, the older of two conflicting claims wins, and a
smaller pool makes no claim fail.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..actions import Action, LabelNode, MarkClaim, OpenGate, Plan, SetSize, Touch, Unreserve, WaitReason
from ..bar_room import BarRoom
from ..pool.plan import READY_CONDITION
from ..settings import DeviceModel, Settings
from .demand import ClaimGroup, claim_groups, conflict, installed, limits, waiting_for, wanted_at_least
from .preassigned import not_ready_of, preassigned_to, spoiled_of
from .snapshot import ComposabilityRequest, ComposableResource, NodeSnapshot
from .supply import Supply, kept, leaving, stuck, stuck_device, supply

RESCHEDULE_CONDITION = "FabricDeviceReschedule"
FAILED_CONDITION = "FabricDeviceFailed"


def request_name(node: str, model: str) -> str:
    """Return the name of the ComposabilityRequest of a node and a model.

    The name is fixed, so that two writers cannot create two objects.
    """
    return "composability-" + hashlib.sha256(f"{node}/{model}".encode()).hexdigest()[:10]


@dataclass(slots=True)
class Tally:
    """The devices of one model, as the decisions about the node's claims use them up.

    ``supply``: the devices at the beginning. ``idle``: those that no claim has taken yet.
    ``arriving``: how many are on their way for no claim. ``taken``, ``waiting``: how many devices
    the claims got, and how many they wait for.
    """

    supply: Supply
    idle: list[ComposableResource]
    arriving: int
    taken: int = 0
    waiting: int = 0

    @classmethod
    def of(cls, found: Supply) -> Tally:
        """Return the tally before the first decision."""
        return cls(found, list(found.idle), sum(1 for resource in found.coming if resource.device_uid))

    @property
    def wanted(self) -> int:
        """Return how many devices the node needs for claims that are bound, served or waiting."""
        return self.supply.bound + self.taken + self.waiting


class _ScalePlan:
    """Collects the decisions about one node."""

    def __init__(self, snapshot: NodeSnapshot, settings: Settings) -> None:
        self.snapshot, self.settings = snapshot, settings
        self.names = sorted({*snapshot.models(), *wanted_at_least(snapshot, settings), *snapshot.prewarm})
        self.tallies = {model: Tally.of(supply(snapshot, model, settings)) for model in self.names}
        self.chosen: set[str] = set()
        self.unfit: frozenset[str] = frozenset()
        self.models = installed(snapshot, settings)
        self.actions: list[Action] = []
        self.wait_reasons: list[WaitReason] = []
        self.wake: list[float] = []

    def plan(self) -> Plan:
        for group in claim_groups(self.snapshot):
            self._decide(group)
        for name in self.names:
            if model := self.settings.model(name):
                self._size(model)
        self._touch()
        return Plan(tuple(self.actions), tuple(self.wait_reasons), min(self.wake, default=None))

    def _decide(self, group: ClaimGroup) -> None:
        if reason := self._impossible(group):
            self._refuse(group, reason)
            return
        self.models.update({m.cdi_model_name: m for m in group.models()})
        need = group.need()
        available = self._take_idle(group)
        gone_soon, not_ready = self._leaving(need), not_ready_of(group, self.snapshot)
        if not (gone_soon or not_ready) and all(len(available[m]) == n for m, n in need.items()):
            for model, n in need.items():
                self.tallies[model].taken += n
                self.chosen.update(r.name for r in available[model])
            self._hand_over(group, self._seen(group, available), available)
            return
        for model, n in need.items():
            tally = self.tallies[model]
            tally.waiting += n
            tally.arriving -= min(tally.arriving, n - len(available[model]))
        self.unfit |= group.unfit
        self._wait(group, need, available, [each for each in (*not_ready, gone_soon) if each])

    def _take_idle(self, group: ClaimGroup) -> dict[str, list[ComposableResource]]:
        """Return idle devices for the claims of a group in order. Planned devices of the pod come
        first.
        """
        found: dict[str, list[ComposableResource]] = {m: [] for m in group.need()}
        for claim in group.claims:
            for model, n in claim.need().items():
                tally = self.tallies[model]
                fitting = [r for r in tally.idle if r.name not in claim.unfit]
                planned = [r for r in fitting if r.name in claim.named]
                fitting = [*planned, *(r for r in fitting if r not in planned)][:n]
                found[model] += fitting
                tally.idle = [r for r in tally.idle if r not in fitting]
        return found

    def _leaving(self, need: dict[str, int]) -> str:
        """Return why to wait for a leaving device that kube-scheduler could still choose, empty for
        none.

        The plan does not wait for a device that the node cannot remove. A gated pod goes to another
        node instead, and a claim that was allocated here has no other choice.
        """
        found = [r for r in self.snapshot.resources if r.model in need and leaving(r, self.snapshot)
                 and not stuck(r, self.snapshot)]
        names = ", ".join(sorted(r.serial or r.name for r in found))
        return f"{names} to leave the ResourceSlice of node {self.snapshot.name}" if found else ""

    def _impossible(self, group: ClaimGroup) -> str:
        unknown = next((r.pool for c in group.claims for r in c.results if r.model is None), None)
        if unknown:
            return f"pool {unknown} belongs to no model of device_info"
        if beyond := next((said for c in group.claims if (said := self.snapshot.over_quota.get(c.uid))), ""):
            return beyond
        if self.snapshot.machine is None:
            return f"no device can be attached to node {self.snapshot.name}: {self.snapshot.problem}"
        if group.gated and (in_the_way := stuck_device(self.snapshot, group.need())):
            return in_the_way
        if given_up := next((c.given_up for c in group.claims if c.given_up), ""):
            return given_up
        if spoiled := spoiled_of(group, self.snapshot):
            return spoiled
        return next((text for m in group.models() if (text := self._refused(m, group))), "")

    def _refused(self, model: DeviceModel, group: ClaimGroup) -> str:
        name = model.cdi_model_name
        others = {m.cdi_model_name: m for m in group.models()} | self.models
        others.pop(name, None)
        if other := conflict(model, others):
            return f"{name} cannot be on node {self.snapshot.name} together with {other.cdi_model_name}"
        tally = self.tallies[name]
        fitting = [r for r in tally.idle if r.name not in group.unfit]
        if name in self.snapshot.blocked and len(fitting) + tally.arriving < group.need()[name]:
            return f"{name} cannot be attached to node {self.snapshot.name}: {self.snapshot.blocked[name]}"
        if lack := self._no_bar_room(model, group):
            return f"node {self.snapshot.name} has {lack}"
        high = limits(self.snapshot, model, self.settings)[1]
        total = tally.wanted + group.need()[name]
        if total > high:
            return f"node {self.snapshot.name} may have at most {high} x {name}, and would have {total} with this claim"
        if total + len(tally.idle) - len(fitting) > high:
            return (f"node {self.snapshot.name} may have at most {high} x {name}, and its idle devices do not fit "
                    f"this claim: {group.unfit_why}")
        return ""

    def _no_bar_room(self, model: DeviceModel, group: ClaimGroup) -> str:
        """Return why the missing devices of a model have no room, empty if they have or none is
        missing.
        """
        if self.snapshot.bar_room is None:
            return ""
        need, room = group.need(), BarRoom(self.snapshot.bar_room, self.settings.bar_sizes)
        there = {name: len(self.snapshot.live(name)) for name in {*self.names, *need}}
        wanted = {name: tally.wanted for name, tally in self.tallies.items()}
        before = {name: max(n, wanted.get(name, 0)) for name, n in there.items()}
        after_it = {name: max(n, wanted.get(name, 0) + need[name]) for name, n in there.items()}
        mine = model.cdi_model_name
        others = {**after_it, mine: before[mine]}
        return room.lack(mine, after_it[mine] - before[mine], others)

    def _refuse(self, group: ClaimGroup, reason: str) -> None:
        if group.gated:
            self.actions.append(Unreserve(self.snapshot.name, reason, group.pods[0]))
        elif group.requested:
            self._say(group, f"the autoscaler to choose another node: {reason}")
        else:
            self._mark(group, FAILED_CONDITION, reason, {})

    def _hand_over(self, group: ClaimGroup, reason: str, chosen: dict[str, list[ComposableResource]]) -> None:
        if group.requested:
            self._say(group, f"the scheduler to place its pod: {reason}")
            return
        if not group.gated:
            self._mark(group, RESCHEDULE_CONDITION, reason, chosen)
            return
        left = {m: list(rs) for m, rs in chosen.items()}
        devices = tuple((c.uid, left[m].pop(0).name) for c in group.claims for m, n in c.need().items()
                        for _unused in range(n))
        self.actions.append(OpenGate(self.snapshot.name, reason, group.pods[0], devices))

    def _mark(self, group: ClaimGroup, condition: str, reason: str, chosen: dict[str,
                                                                                 list[ComposableResource]]) -> None:
        left = {m: list(rs) for m, rs in chosen.items()}
        for claim in group.claims:
            devices = tuple(left[m].pop(0).name for m, n in claim.need().items() for _unused in range(n) if left.get(m))
            if keeps := claim.direct and condition == RESCHEDULE_CONDITION:
                devices = tuple(r.name for r in preassigned_to(claim, self.snapshot))
            said = READY_CONDITION if keeps else condition
            self.actions.append(MarkClaim(self.snapshot.name, reason, claim.uid, claim.namespace, claim.name,
                                          said, claim.pods, devices))
            self.wait_reasons.append(WaitReason(claim.key, f"scheduler to act on {said}: {reason}",
                                                claim.allocated_at, {"node": self.snapshot.name, "devices": devices}))

    def _say(self, group: ClaimGroup, waits_for: str) -> None:
        """Record why a pod without a node waits. kube-scheduler allocates its claims, so nothing is
        written to them.
        """
        self.wait_reasons += [WaitReason(claim.key, waits_for, claim.allocated_at, {"node": self.snapshot.name})
                              for claim in group.claims]

    def _seen(self, group: ClaimGroup, available: dict[str, list[ComposableResource]]) -> str:
        given = [r.serial or r.device_uid for claim in group.claims for r in preassigned_to(claim, self.snapshot)]
        parts = [f"{len(rs)} x {m} ({', '.join(r.serial or r.device_uid for r in rs)})" for m, rs in available.items()]
        told = [f"{', '.join(parts)} attached and visible"] if parts else []
        told += [f"{', '.join(given)} attached and reserved for the claim"] if given else []
        return f"{', '.join(told)} on node {self.snapshot.name}"

    def _wait(self, group: ClaimGroup, need: dict[str, int], available: dict[str, list[ComposableResource]],
              more: list[str]) -> None:
        parts = [self._lacking(m, n - len(available[m])) for m, n in need.items() if n > len(available[m])]
        parts += [*more, *([f"idle devices there do not fit: {group.unfit_why}"] if group.unfit_why else [])]
        for claim in group.claims:
            self.wait_reasons.append(WaitReason(claim.key, "; ".join(parts), claim.allocated_at,
                                                {"node": self.snapshot.name, "need": dict(claim.need())}))

    def _lacking(self, model: str, n: int) -> str:
        coming = self.tallies[model].supply.coming
        asked = [r for r in coming if r.asked and not r.device_uid]
        attached = [r for r in coming if r.device_uid]
        text = f"{n} x {model} on node {self.snapshot.name}"
        if rivalries := sorted({r.rivalry for r in attached if r.rivalry}):
            text += f", {'; '.join(rivalries)}"
        elif attached:
            text += f", {len(attached)} attached but not yet in the node's ResourceSlice"
            if steps := sorted({r.node_work.last_step for r in attached if r.node_work.last_step}):
                text += f" (on the node: {', '.join(steps)})"
        if asked:
            ago = self.snapshot.now - min(r.asked for r in asked)
            text += f", {len(asked)} requested from the CDI Manager {ago:.1f} s ago"
        errors = sorted({r.error for r in coming if r.error})
        return text + (f" ({'; '.join(errors)})" if errors else "")

    def _size(self, model: DeviceModel) -> None:
        name = model.cdi_model_name
        tally = self.tallies[name]
        have = tally.supply
        free = [r for r in (*have.idle, *have.coming) if r.name not in self.chosen]
        free.sort(key=lambda r: r.idle_since)
        # Devices that do not fit the waiting claims stay until the claims are served. Another part
        # of the plan decides which device leaves.
        serving = [r for r in free if r.name not in self.unfit]
        surplus = len(serving) - tally.waiting
        staying, due = kept(serving[:surplus], self.snapshot, self.settings) if surplus > 0 else (0, None)
        staying += len(free) - len(serving)
        if due is not None:
            self.wake.append(due)
        self.wake += [w for r in have.held if (w := r.held_since + self.settings.handover_timeout) > self.snapshot.now]
        rested = [r.last_used + self.settings.device_no_allocation_duration for r in have.coming if r.visible]
        self.wake += [w for w in rested if w > self.snapshot.now]
        wanted = tally.wanted
        low, high = limits(self.snapshot, model, self.settings)
        staying = max(staying, self._ready(name))
        size = min(max(wanted + staying, low), max(high, have.bound)) - self.snapshot.elsewhere(name)
        self._set_size(model, max(0, size), wanted, staying)

    def _ready(self, model: str) -> int:
        """Return how many idle devices stay for future claims.

        Claims of this node are about to take some of them. The next calculation of the minimums
        replaces those.
        """
        tally = self.tallies[model]
        have, about = tally.supply, tally.waiting + tally.taken
        kept = self.snapshot.prewarm.get(model, 0) if self.snapshot.machine else 0
        return max(0, kept - min(len(have.idle) + len(have.coming), about))

    def _set_size(self, row: DeviceModel, size: int, wanted: int, staying: int) -> None:
        model = row.cdi_model_name
        request = self.snapshot.request(model)
        before = request.size if request else None
        if size == (before or 0):
            return
        reason = f"{wanted} x {model} wanted on node {self.snapshot.name}"
        if staying:
            ready = self._ready(model)
            why = (f"for {self.settings.device_no_removal_duration:g} s after use" if staying > ready
                   else "for future claims (prewarm)")
            reason += f", {staying} more attached {why}"
        name = request.name if request else request_name(self.snapshot.name, model)
        self.actions.append(SetSize(self.snapshot.name, reason, model, size, before, name, row.type,
                                    tuple(dict.fromkeys(waiting_for(self.snapshot, model)))))

    def _touch(self) -> None:
        for resource in self.snapshot.resources:
            used = bool(resource.used_by)
            if used != resource.in_use:
                reason = f"in use by claim {resource.used_by}" if used else "no claim uses it any more"
                self.actions.append(Touch(self.snapshot.name, reason, resource.name, used))


def plan_scale(snapshot: NodeSnapshot, settings: Settings) -> Plan:
    """Decide for one node which claims are served, and how many devices it should have. Pure.

    The actions: a condition for each preparing claim that can be decided (``MarkClaim``), the gate
    of each gated pod when its devices are ready (``OpenGate``) or its node cannot serve it
    (``Unreserve``), the size of each model's ComposabilityRequest (``SetSize``), and use stamps
    (``Touch``). ``wake_at`` is when a reservation or a rest period ends, in epoch seconds. Claims
    of one pod are decided together, the oldest pod first.

    Source: CoHDI's dynamic-device-scaler, and KEP-5007 for the conditions.
    """
    return _ScalePlan(snapshot, settings).plan()


def plan_device_labels(snapshot: NodeSnapshot, settings: Settings) -> list[Action]:
    """Plan the labels that open the node to pools: one per model, removed while no device can be
    attached.

    Source: CoHDI's dynamic-device-scaler, ``cohdi.io/<k8s-device-name>``.
    """
    present, room = installed(snapshot, settings), BarRoom(snapshot.bar_room, settings.bar_sizes)
    there = {name: len(snapshot.live(name)) for name in snapshot.models()} if snapshot.bar_room is not None else {}
    wanted: dict[str, str | None] = {}
    for model in settings.models:
        others = {n: m for n, m in present.items() if n != model.cdi_model_name}
        full = supply(snapshot, model.cdi_model_name, settings).bound >= limits(snapshot, model, settings)[1]
        closed = (snapshot.machine is None or bool(conflict(model, others)) or full
                  or model.cdi_model_name in snapshot.blocked or room.fits(model.cdi_model_name, there) == 0)
        wanted[settings.label(model.k8s_device_name)] = None if closed else "true"
    return _changed(snapshot, wanted, "models that can be attached to the node")


def plan_fabric_label(snapshot: NodeSnapshot, settings: Settings) -> list[Action]:
    """Plan the labels of the publisher: the fabric of the node and the limits of its machine.

    The labels are ``cohdi.io/fabric`` and ``cohdi.io/<k8s-device-name>-size-min`` and
    ``-size-max``. A limit of None removes its label. If the CDI Manager reports no limits for a
    model, its labels do not change.

    Source: CoHDI's composable-dra-driver.
    """
    wanted = {settings.label("fabric"): None if snapshot.fabric is None else str(snapshot.fabric)}
    for model in settings.models:
        for which, limit in zip(("min", "max"), snapshot.sizes.get(model.cdi_model_name, ()), strict=False):
            wanted[settings.label(f"{model.k8s_device_name}-size-{which}")] = None if limit is None else str(limit)
    return _changed(snapshot, wanted, snapshot.problem or f"fabric and limits of machine {snapshot.machine}")


def _changed(snapshot: NodeSnapshot, wanted: dict[str, str | None], reason: str) -> list[Action]:
    labels = {k: v for k, v in wanted.items() if snapshot.labels.get(k) != v}
    return [LabelNode(snapshot.name, reason, labels)] if labels and snapshot.exists else []


def after(snapshot: NodeSnapshot, actions: Iterable[Action]) -> NodeSnapshot:
    """Return the node with the sizes of a plan written, so that the attaches that follow can be
    planned.
    """
    requests = {r.name: r for r in snapshot.requests}
    for action in actions:
        if isinstance(action, SetSize):
            known = requests.get(action.request, ComposabilityRequest(action.request, "", action.model, 0,
                                                                      type=action.type))
            requests[action.request] = replace(known, size=action.size)
    return snapshot.with_requests(tuple(requests.values()))
