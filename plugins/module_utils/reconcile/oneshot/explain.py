# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain in one sentence why a claim waits, from the plans that decide about it."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from dataclasses import replace

from ...model.claim import ResourceClaim
from ...model.pod import Pod
from ...model.value import Json
from ...node.evidence import Evidence
from ...planning.actions import WaitReason
from ...planning.device_info import DIRECT, GATED
from ...planning.device_info import RESCHEDULE as RESCHEDULING
from ...planning.node.demand import FAILED, READY, RESCHEDULE
from ...planning.node.scale import FAILED_CONDITION, RESCHEDULE_CONDITION
from ...planning.pool.plan import READY_CONDITION, unassigned
from ...planning.settings import DeviceModel
from ..manager.engine import Engine
from ..pool.snapshot import pool_snapshot
from ..provisioning.waiting_requests import is_of_request, waiting_requests
from ..state import pool_devices
from ..state.node_snapshot import node_snapshot
from ..values import resource_values
from .dry_run import Forecast, forecast
from .quiescence import pending_claims
from .refusals import Refusals
from .unscheduled import refused_pods, unscheduled

# Number of refusals in a sentence. The evidence has all of them.
MOST_REFUSALS = 3
# Number of claims without a plan that are explained by a read of all devices in a call.
MOST_EXPLAINED = 20
# Interval, in seconds, in which kube-scheduler checks the conditions of a waiting claim (KEP-5007).
TICK_SECONDS = 5
_PREEMPTION: t.Final = re.compile(r"(?: still not schedulable,)? preemption:")


def explain(engine: Engine) -> list[WaitReason]:
    """Return why every claim waits, sorted by namespace and name. ``waits_for`` is empty for a
    served claim.

    A gated pod with no claim yet has a row too, named ``<pod>-extended-resources`` if the scheduler
    makes the claim (KEP-5004). So has a pod without a gate that fits no node. A ProvisioningRequest
    has a row while it waits.
    """
    return explain_forecast(engine, forecast(engine))


def explain_forecast(engine: Engine, found: Forecast) -> list[WaitReason]:
    """Return the same rows for a forecast that was already made."""
    return _explained(engine, {v.claim: v for v in found.wait_reasons})


def as_planned(engine: Engine) -> dict[str, WaitReason]:
    """Return why each waiting claim waits, by namespace and name, as of the last plan of a working
    engine.

    The first MOST_EXPLAINED claims without a plan get a full explanation, because it reads all
    devices. The rest get the message of the scheduler.
    """
    decided, pending = {v.claim: v for v in engine.wait_reasons()}, pending_claims(engine)
    found, left = dict(decided), MOST_EXPLAINED
    judge = _Judge(engine)
    for (namespace, name), pod in sorted(pending.items()):
        claim, key = engine.state.claims.value(name, namespace), f"{namespace}/{name}"
        if claim is not None and key not in decided:
            found[key] = _verdict(engine, key, claim, pending, judge) if left > 0 else _said(key, claim, pod)
            left -= 1
    return {key: reason for key, reason in found.items() if reason.waits_for}


class _Judge:
    """Reasons why claims without a plan are not served. Read on first use.

    ``refusals`` come from the selectors and the known devices. With ``plan``, the reasons of pods
    come from the planner, otherwise from the conditions of released pods.
    """

    def __init__(self, engine: Engine, *, plan: bool = False) -> None:
        self._state, self._plan = engine.state, plan
        self._planned: dict[str, str] | None = None
        self._refusals: Refusals | None = None

    @property
    def refusals(self) -> Refusals:
        """Return the refusals for the current state."""
        self._refusals = self._refusals or Refusals(self._state)
        return self._refusals

    def planner_says(self, pod: Pod) -> str:
        """Return why the planner has no node for ``pod``, or an empty string if it has one or gave
        no reason."""
        if self._plan and self._planned is None:
            self._planned = refused_pods(self._state)
        uid = pod.uid
        return self._planned.get(uid, "") if self._planned is not None else pod.not_served


def _said(name: str, claim: ResourceClaim, pod: Pod) -> WaitReason:
    """Return a reason with the scheduler's message about the claim's pod."""
    return WaitReason(name, f"the scheduler: {_scheduler_says(pod) or 'it has not tried to place the pod yet'}",
                      claim.created, {"pod": pod.name})


def _explained(engine: Engine, decided: Mapping[str, WaitReason]) -> list[WaitReason]:
    pending, judge = pending_claims(engine), _Judge(engine, plan=True)
    # Only gated pods have a decision before their claims exist.
    found = {reason.claim: reason for reason in unscheduled(engine.state)}
    found |= {name: replace(reason, handover=GATED) for name, reason in decided.items()
              if not is_of_request(name)}
    for claim in engine.state.claims.each_value():
        name = claim.key
        reason = decided.get(name) or _verdict(engine, name, claim, pending, judge)
        found[name] = replace(_with_node_steps(engine, claim, reason), handover=_handover(engine, claim, pending))
    found |= {reason.claim: reason for reason in waiting_requests(engine.state)}
    return sorted(found.values(), key=lambda v: v.claim)


def _handover(engine: Engine, claim: ResourceClaim, pending: Mapping[tuple[str, str], Pod]) -> str:
    """Return how the claim gets its devices, or how it would if it is not allocated.

    Return an empty string if the possible models have different handovers, or if no pod uses the
    claim.
    """
    pod = pending.get((claim.namespace, claim.name))
    if (known := pool_devices.handover(engine.state, claim)) or pod is None:
        return known
    if pod.held:
        return GATED
    direct = {engine.config.settings.is_direct(model.cdi_model_name) for model in _models(engine, claim)}
    return "" if len(direct) > 1 else DIRECT if direct == {True} else RESCHEDULING


def _with_node_steps(engine: Engine, claim: ResourceClaim, reason: WaitReason) -> WaitReason:
    """Add the steps of the node to the evidence of a claim.

    They are the steps for the devices that the claim has, that are kept for it, or that will
    arrive.
    """
    state, uid = engine.state, claim.identity
    node = reason.evidence.get("node")
    there = state.resources.values("node", node) if node else []
    used = [each for each in there if (user := state.user(each)) and user.uid == claim.uid]
    resources = used or state.holds.kept_for(uid)
    if not resources and reason.waits_for:
        need = reason.evidence.get("need") or {}
        resources = [each for each in there if each.model in need
                     and not state.user(each) and not state.holds.of(each)[0]]
    steps = [_node_steps(each.name, found) for each in resources if (found := resource_values.read_evidence(each))]
    return replace(reason, evidence={**reason.evidence, "node_steps": steps}) if steps else reason


def _node_steps(resource: str, found: Evidence) -> Json:
    told: Json = {"resource": resource, "device": found.uuid or found.device, "phase": found.phase,
                  "steps": {step.step: step.at for step in found.steps}}
    return {**told, "trouble": found.trouble.message} if found.trouble else told


def _verdict(engine: Engine, name: str, claim: ResourceClaim, pending: dict[tuple[str, str], Pod],
             judge: _Judge) -> WaitReason:
    created = claim.created
    if not claim.results:
        pod = pending.get((claim.namespace, claim.name))
        if pod and pod.held:
            held = pod.name
            return WaitReason(name, f"the first plan for its gated pod {held}", created,
                              {"pod": held})
        if pod is None:
            return WaitReason(name, "a pod that uses it", created)
        refused = judge.refusals.of(claim, pod)
        return _refused_claim(name, claim, pod, refused) if refused else _unallocated(engine, name, claim, pod, judge)
    if not claim.pool_results:
        return WaitReason(name, "", 0.0, {"node": claim.node or None})
    return _told(engine, name, claim)


def _told(engine: Engine, name: str, claim: ResourceClaim) -> WaitReason:
    """Return the reason of an allocated claim that waits for the scheduler or for a pod."""
    since, evidence = claim.allocated_at, {"node": claim.node or None}
    phase = claim.phase
    if phase == RESCHEDULE:
        return WaitReason(name, f"the scheduler to act on {RESCHEDULE_CONDITION}: "
                          f"{_message(claim, RESCHEDULE_CONDITION)}", since, evidence)
    if phase == FAILED:
        return WaitReason(name, f"the scheduler to act on {FAILED_CONDITION}: {_message(claim, FAILED_CONDITION)}",
                          since, evidence)
    if not claim.reserved:
        return WaitReason(name, "a pod: the claim is allocated but reserved for no pod", since, evidence)
    if phase == READY and not _unbound_pods(engine, claim):
        return WaitReason(name, "", 0.0, evidence)
    return WaitReason(name, f"the scheduler to bind its pod: it checks {READY_CONDITION} every {TICK_SECONDS} s",
                      since, evidence)


def _unbound_pods(engine: Engine, claim: ResourceClaim) -> list[Pod]:
    """Return the pods in ``status.reservedFor`` that have no node.

    Bound pods may be absent from the watch. An unknown pod is therefore bound or gone.
    """
    found = (engine.state.pods.value(name, claim.namespace) for name, _uid in claim.pods)
    return [pod for pod in found if pod and not pod.node]


def _message(claim: ResourceClaim, kind: str) -> str:
    for entry in claim.devices:
        for condition in entry.get("conditions") or []:
            if condition["type"] == kind:
                return str(condition.get("message", ""))
    return ""


def _refused_claim(name: str, claim: ResourceClaim, pod: Pod, refused: str) -> WaitReason:
    """Return the reason of a claim that the fabric cannot serve, whatever becomes free."""
    return WaitReason(name, f"a change of the claim or the fabric, which cannot serve it: {refused}{_in_brackets(pod)}",
                      claim.created, {"pod": pod.name},
                      refused=refused)


def _unallocated(engine: Engine, name: str, claim: ResourceClaim, pod: Pod, judge: _Judge) -> WaitReason:
    """Return the reason of an unallocated claim. The planner's reason for its pod comes first."""
    wanted = _models(engine, claim, judge.refusals.models(claim, pod))
    seen = engine.state.snapshot
    fabrics = sorted({m.fabric for m in seen.machines.values() if m.fabric is not None}) if seen else []
    pools = [_pool(engine, m, fabric) for m in wanted for fabric in fabrics]
    need = sum(int((r.get("exactly") or {}).get("count") or 1) for r in claim.requests)
    models = " or ".join(m.cdi_model_name for m in wanted)
    first = judge.planner_says(pod)
    text = first or f"a node with {need} free device{'s' if need > 1 else ''} of {models}"
    said = "; ".join(p["text"] for p in pools) or "no pool is published"
    text += f"; {said}" if first else f": {said}"
    refused = _refused(engine, {m.cdi_model_name for m in wanted})
    text += "".join(f"; {each}" for each in refused[:MOST_REFUSALS])
    evidence: Json = {"pod": pod.name, "pools": {p["name"]: p["counts"] for p in pools}}
    return WaitReason(name, text + _in_brackets(pod), claim.created,
                      {**evidence, "refused": refused} if refused else evidence)


def _in_brackets(pod: Pod) -> str:
    """Return the scheduler's message about a pod for the end of a sentence."""
    said = _scheduler_says(pod)
    return f" (scheduler: {said})" if said else ""


def _refused(engine: Engine, models: set[str]) -> list[str]:
    """Return why devices of these models cannot be attached to nodes now.

    ComposabilityRequests have the errors that the leader met, ComposableResources those of the
    nodes.
    """
    found: dict[tuple[str, str], str] = {}
    for request in engine.state.requests.each_value():
        if request.error and request.model in models:
            found[request.node, request.model] = request.error
    for node in map(str, engine.state.resources.keys("node")):
        blocked = node_snapshot(engine.state, node).blocked
        found |= {(node, model): blocked[model] for model in models & blocked.keys()}
    return [f"{model} cannot be attached to node {node}: {said}" for (node, model), said in sorted(found.items())]


def _models(engine: Engine, claim: ResourceClaim, satisfying: t.Container[str] = ()) -> list[DeviceModel]:
    """Return the models that satisfy the claim's selectors.

    If they are unknown, return the models that the selectors name, or all models if they name none.
    """
    text = str(claim.requests)
    models = engine.config.settings.models
    known = [m for m in models if m.cdi_model_name in satisfying]
    named = [m for m in models if m.cdi_model_name in text or m.attributes["productName"] in text]
    return known or named or list(models)


def _pool(engine: Engine, model: DeviceModel, fabric: int) -> dict[str, t.Any]:
    name = model.pool(fabric)
    shown = {device.name for found in engine.state.slices.values("pool", name) for device in found.devices}
    held = {r.device for c in engine.state.claims.values("pool", name) for r in c.pool_results if r.pool == name}
    free, promised = _free(engine, model, fabric, len(shown - held)), len(held)
    attached: dict[str, int] = {}
    for each in engine.state.resources.values("model", model.cdi_model_name):
        if each.device_uid:
            attached[each.node] = attached.get(each.node, 0) + 1
    where = ", ".join(f"{n} x {node}" for node, n in sorted(attached.items())) or "none"
    return {"name": name, "counts": {"free": free, "promised": promised, "attached": attached},
            "text": f"pool {name} has {free} free, attached: {where}"}


def _free(engine: Engine, model: DeviceModel, fabric: int, shown: int) -> int:
    """Return the free devices of a pool. If the pool may show fewer than the fabric has, count those
    of the fabric."""
    inventory = engine.state.snapshot
    if inventory is None or shown < engine.config.settings.max_pool_devices // 2:
        return shown
    found = pool_snapshot(engine.state, model, fabric, inventory)
    return max(shown, unassigned(found)) if found else shown


def _scheduler_says(pod: Pod) -> str:
    """Return the scheduler's message about a pod, without its sentence about preemption, which adds
    nothing."""
    for condition in pod.status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return _PREEMPTION.split(str(condition.get("message", "")))[0].strip()
    return ""
