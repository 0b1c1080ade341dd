# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a claim waits, in one sentence, from the same views and plans that decide about it."""

from __future__ import annotations

import typing as t

from ..kube import claims, gates, slices
from ..kube.times import parse_time
from ..scaling.actions import Verdict
from ..scaling.demand import FAILED, RESCHEDULE
from ..scaling.scale import FAILED_CONDITION, RESCHEDULE_CONDITION
from ..scaling.settings import DeviceModel
from . import views
from .engine import Engine
from .lookahead import forecast
from .settling import pending_claims
from .world import Json


def explain(engine: Engine) -> list[Verdict]:
    """A verdict for every claim, sorted by namespace and name."""
    decided = {v.claim: v for v in forecast(engine).verdicts}
    pending = pending_claims(engine)
    found = []
    for claim in engine.world.claims.list():
        name = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
        found.append(decided.get(name) or _verdict(engine, name, claim, pending))
    return sorted(found, key=lambda v: v.claim)


def _verdict(engine: Engine, name: str, claim: Json, pending: dict[tuple[str, str], Json]) -> Verdict:
    created = parse_time(claim["metadata"].get("creationTimestamp"))
    if not claims.results(claim):
        pod = pending.get((claim["metadata"]["namespace"], claim["metadata"]["name"]))
        if pod and gates.held(pod):
            return Verdict(name, f"the pod {pod['metadata']['name']} is held by the gate {gates.GATE} and has not been "
                                 "planned yet", created, {"pod": pod["metadata"]["name"]})
        return _unallocated(engine, name, claim, pod) if pod else Verdict(name, "a pod that uses it", created)
    if not claims.binding_results(claim):
        return Verdict(name, "", 0.0, {"node": claims.node(claim)})
    return _told(name, claim)


def _told(name: str, claim: Json) -> Verdict:
    """A claim whose condition is written, or that nobody uses."""
    since, evidence = claims.allocated_at(claim), {"node": claims.node(claim)}
    phase = views.claim_phase(claim)
    if phase == RESCHEDULE:
        return Verdict(name, f"the scheduler to act on {RESCHEDULE_CONDITION}: "
                             f"{_message(claim, RESCHEDULE_CONDITION)}", since, evidence)
    if phase == FAILED:
        return Verdict(name, f"the scheduler to act on {FAILED_CONDITION}: {_message(claim, FAILED_CONDITION)}",
                       since, evidence)
    if not claims.consumers(claim):
        return Verdict(name, "a pod: it is allocated but reserved for none", since, evidence)
    return Verdict(name, "the scheduler to bind its pod", since, evidence)


def _message(claim: Json, kind: str) -> str:
    for entry in (claim.get("status") or {}).get("devices") or []:
        for condition in entry.get("conditions") or []:
            if condition["type"] == kind:
                return str(condition.get("message", ""))
    return ""


def _unallocated(engine: Engine, name: str, claim: Json, pod: Json) -> Verdict:
    wanted = _models(engine, claim)
    pools = [_pool(engine, m, fabric) for m in wanted for fabric in _fabrics(engine)]
    need = sum(int((r.get("exactly") or {}).get("count") or 1) for r in _requests(claim))
    said = _scheduler_says(pod)
    text = f"a node with {need} free device{'s' if need > 1 else ''} of {' or '.join(m.cdi_model_name for m in wanted)}"
    text += f": {'; '.join(p['text'] for p in pools)}" if pools else ": no pool is published"
    return Verdict(name, text + (f" (scheduler: {said})" if said else ""),
                   parse_time(claim["metadata"].get("creationTimestamp")),
                   {"pod": pod["metadata"]["name"], "pools": {p["name"]: p["counts"] for p in pools}})


def _requests(claim: Json) -> list[Json]:
    found: list[Json] = ((claim.get("spec") or {}).get("devices") or {}).get("requests") or []
    return found


def _models(engine: Engine, claim: Json) -> list[DeviceModel]:
    """Models that the claim's selectors name; all when they name none."""
    text = str(_requests(claim))
    models = engine.config.settings.models
    named = [m for m in models if m.cdi_model_name in text or m.attributes["productName"] in text]
    return named or list(models)


def _fabrics(engine: Engine) -> list[int]:
    snapshot = engine.world.snapshot
    return sorted({m.fabric for m in snapshot.machines.values() if m.fabric is not None}) if snapshot else []


def _pool(engine: Engine, model: DeviceModel, fabric: int) -> dict[str, t.Any]:
    name = model.pool(fabric)
    shown = {d["name"] for s in engine.world.slices.by("pool", name) for d in slices.devices(s)}
    held = {r["device"] for c in engine.world.claims.by("pool", name) for r in claims.binding_results(c)
            if r["pool"] == name}
    free, promised = len(shown - held), len(held)
    attached: dict[str, int] = {}
    for raw in engine.world.resources.list():
        if raw["spec"]["model"] == model.cdi_model_name and (raw.get("status") or {}).get("cdi_device_id"):
            attached[raw["spec"]["target_node"]] = attached.get(raw["spec"]["target_node"], 0) + 1
    where = ", ".join(f"{n} x {node}" for node, n in sorted(attached.items())) or "none"
    return {"name": name, "counts": {"free": free, "promised": promised, "attached": attached},
            "text": f"pool {name} has {free} free, attached: {where}"}


def _scheduler_says(pod: Json) -> str:
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return ""
