# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what must leave so that a large ask fits on one node. The answer is a plan.

All devices of a claim are on one node. Free devices can be attached to any node of their fabric, so
they are never in the way. Idle devices on other nodes can supply missing devices. Idle devices of a
model that cannot share a node with the requested model can be in the way. Devices of claims are
never moved.

The planners judge the nodes. They return how many more free devices they need, and for which node.
Then move that many idle devices in the capture, and let the planners place the ask again.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from ....kube.api_resources import COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES, NODES
from ....model.value import Json
from ....planning.node.demand import conflict
from ....planning.settings import DeviceModel, Settings
from ...state.cluster_state import ClusterState
from ..answer import PLACED, SERVED, ClaimAnswer, answer
from ..capture import Capture
from ..captured_engine import engine_of
from ..evictions import without_devices
from ..fabric_changes import MoreFree, returned
from ..options import Options
from ..pod_changes import read_add_pods
from ..settings_changes import OtherSettings
from .idle import idle_devices
from .plan import IdleDevices, Move, Plan, RoomRequest, brought, leaving

NAMESPACE: t.Final = "default"
MOST_TARGETS: t.Final = 8
"""Number of nodes to try on a fabric, those that need the fewest devices first."""


def room(capture: Capture, ask_of: Callable[[ClusterState], RoomRequest]) -> Plan:
    """Return the plan with the fewest moves after which the planners place the ask.

    ``ask_of`` reads the ask from the state. Raise BadRoomRequest and BadSetting.
    """
    state = engine_of(capture).state
    ask = ask_of(state)
    model = state.settings.model(ask.model)
    if model is None:
        return Plan(ask, False, f"device_info has no model {ask.model}")
    held, claim = _asked(_held(capture, ask.claim.partition("/")[0] or NAMESPACE), ask)
    now = _judged(held, claim)
    if _is_placed(now):
        return Plan(ask, True, now.says or f"node {now.node} serves the request", now.node)
    idle = idle_devices(state)
    fabrics = sorted({each.fabric for each in idle})
    found = [_Search(held, claim, ask, model, state.now(), [each for each in idle if each.fabric == fabric]).best()
             for fabric in fabrics]
    fitting = sorted((plan for plan in found if plan.fits), key=_moved)
    return fitting[0] if fitting else Plan(ask, False, _nowhere(ask, [plan.why for plan in found] or [now.says]))


def _moved(plan: Plan) -> tuple[int, str]:
    return sum(len(move.devices) for move in plan.moves), plan.target


def _nowhere(ask: RoomRequest, reasons: Iterable[str]) -> str:
    return f"no move makes room for {ask}: {'; '.join(dict.fromkeys(reasons))}"


@dataclass(frozen=True, slots=True)
class _Search:
    """The search on one fabric.

    ``capture`` includes the ask, which waits. ``idle`` are the idle devices of the fabric.
    """

    capture: Capture
    claim: str
    ask: RoomRequest
    model: DeviceModel
    now: float
    idle: list[IdleDevices]

    def best(self) -> Plan:
        """Return the plan with the fewest moves, with and without moves of models that cannot share
        a node."""
        rivals = [each for each in self.idle if each.may_go and self._is_rival(each.model)]
        found = [self._on_some_node(())] + ([self._on_some_node(rivals)] if rivals else [])
        return min((plan for plan in found if plan.fits), key=_moved, default=found[-1])

    def _is_rival(self, name: str) -> bool:
        row = Settings.from_dict(self.capture.settings).model(name)
        return row is not None and name != self.ask.model and bool(conflict(self.model, {name: row}))

    def _on_some_node(self, rivals: Collection[IdleDevices]) -> Plan:
        """Try nodes in turn, until the planners place the ask after the moves for a node."""
        away = {each.node: leaving(each, each.may_go, self.now, f"{each.model} cannot be on a node together with "
                                   f"{self.ask.model}") for each in rivals}
        closed: set[str] = set()
        why = ""
        while len(closed) < MOST_TARGETS:
            least = self._least(_cordoned(_without(self.capture, away.values()), closed))
            if not _is_placed(least.judged):
                return Plan(self.ask, False, why or f"{least.judged.says}{self._kept()}")
            target = least.judged.node
            moves = (*([away[target]] if target in away else ()),
                     *brought(target, self._of_model(), least.count, self.now))
            proof = _judged(_without(self.capture, moves), self.claim)
            said = f"{least.count} of {self.ask.count} x {self.ask.model} for node {target} are idle on other nodes"
            if _is_placed(proof) and proof.node == target:
                after = proof.says or f"node {target} serves the request"
                return Plan(self.ask, True, f"{said}. After the move: {after}", target, moves)
            why = f"{said}, but {proof.says}{self._kept()}" if moves else f"{proof.says}{self._kept()}"
            closed.add(target)
        return Plan(self.ask, False, why)

    def _of_model(self) -> list[IdleDevices]:
        return [each for each in self.idle if each.model == self.ask.model]

    def _least(self, capture: Capture) -> _Least:
        """Find by bisection the smallest number of further free devices that the planners need."""
        low, high = 0, min(self.ask.count, sum(each.may_go for each in self._of_model()))
        found = self._with(capture, high)
        while _is_placed(found) and low < high:
            middle = (low + high) // 2
            judged = self._with(capture, middle)
            if _is_placed(judged):
                found, high = judged, middle
            else:
                low = middle + 1
        return _Least(high, found)

    def _with(self, capture: Capture, count: int) -> ClaimAnswer:
        return _judged(MoreFree(self.ask.model, self.idle[0].fabric, count).made(capture), self.claim)

    def _kept(self) -> str:
        kept = ", ".join(f"node {each.node} keeps {each.stay} idle: {each.why}"
                         for each in self._of_model() if each.stay)
        return f" ({kept})" if kept else ""


@dataclass(frozen=True, slots=True)
class _Least:
    """Result of the bisection.

    ``count`` is the number of further free devices. ``judged`` is the planners' answer with them.
    """

    count: int
    judged: ClaimAnswer


def _judged(capture: Capture, claim: str) -> ClaimAnswer:
    """Return the planners' answer for the ask."""
    return answer(capture).claims.get(claim, ClaimAnswer(claim, "", "", "the planners gave no answer for this claim"))


def _is_placed(judged: ClaimAnswer) -> bool:
    return judged.state in (PLACED, SERVED)


def _held(capture: Capture, namespace: str) -> Capture:
    """Return the capture with handover ``gated`` for the ask, so that our planner judges the nodes.

    The planner judges nodes like kube-scheduler.
    """
    rows = [{key: value for key, value in row.items() if key != "handover"} for row in capture.settings["device_info"]]
    kept = replace(capture, settings={**capture.settings, "device_info": rows, "prewarm": []})
    held = {"handover": "gated", "handover_models": {}, "handover_namespaces": {namespace: "gated"}}
    return OtherSettings(held).made(kept)


def _asked(capture: Capture, ask: RoomRequest) -> tuple[Capture, str]:
    """Return the capture with a pod for the ask, and the name of its claim."""
    if ask.claim:
        return capture, ask.claim
    given = {"change": "add_pods", "model": ask.model, "devices_each": ask.count, "count": 1, "namespace": NAMESPACE}
    more = read_add_pods(Options(given, "the request"), capture)
    pod = {**more.pod, "spec": {**more.pod["spec"], "nodeSelector": dict(ask.labels)}}
    after = replace(more, pod=pod).made(capture)
    before = {raw["metadata"]["uid"] for raw in capture.of("resourceclaims")}
    (claim,) = (raw["metadata"]["name"] for raw in after.of("resourceclaims") if raw["metadata"]["uid"] not in before)
    return after, f"{NAMESPACE}/{claim}"


def _cordoned(capture: Capture, names: Collection[str]) -> Capture:
    return capture.with_objects(nodes=[
        {**raw, "spec": {**(raw.get("spec") or {}), "unschedulable": True}} if raw["metadata"]["name"] in names else raw
        for raw in capture.of(NODES.plural)])


def _without(capture: Capture, moves: Iterable[Move]) -> Capture:
    """Return the capture with the named devices back on their fabric."""
    listed = list(moves)
    names = {name for move in listed for name in move.devices}
    resources = [raw for raw in capture.of(COMPOSABLE_RESOURCES.plural) if raw["metadata"]["name"] in names]
    uids = {(raw.get("status") or {}).get("cdi_device_id") for raw in resources}
    devices = [d for machine in capture.fabric.machines.values() for d in machine.devices if d.uid in uids]
    after = without_devices(capture, names)
    fewer = Counter[str]()
    for move in listed:
        fewer[move.request] += len(move.devices)
    asked = [_smaller(raw, fewer) for raw in after.of(COMPOSABILITY_REQUESTS.plural)]
    return replace(after.with_objects(composabilityrequests=asked), fabric=returned(after.fabric, devices))


def _smaller(request: Json, fewer: Mapping[str, int]) -> Json:
    resource = request["spec"]["resource"]
    size = max(0, int(resource["size"]) - fewer.get(request["metadata"]["name"], 0))
    return {**request, "spec": {**request["spec"], "resource": {**resource, "size": size}}}
