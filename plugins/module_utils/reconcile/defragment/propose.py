# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proposal for a captured cluster, with the planners' own word that the ask is placed once the devices are moved."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from ...kube.api_resources import COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES
from ...planning.defragment import Ask, Proposal, proposals
from ..state.cluster_state import ClusterState
from ..whatif.answer import PLACED, SERVED, ClaimAnswer, answer
from ..whatif.capture import Capture
from ..whatif.captured_engine import engine_of
from ..whatif.evictions import without_devices
from ..whatif.fabric_changes import returned
from ..whatif.options import Options
from ..whatif.pod_changes import read_add_pods
from ..whatif.settings_changes import OtherSettings
from .spread import fabric_devices

Json = dict[str, t.Any]
NAMESPACE: t.Final = "default"
MOST_TARGETS: t.Final = 8
"""Nodes that are tried, those with the fewest moves first."""


def propose(capture: Capture, ask_of: Callable[[ClusterState], Ask]) -> Proposal:
    """The proposal with the fewest moves after which the planners place the ask.

    ``ask_of`` reads the ask from the state. Raises BadAsk and BadSetting.
    """
    state = engine_of(capture).state
    ask = ask_of(state)
    model = state.settings.model(ask.model)
    if model is None:
        return Proposal(ask, False, f"{ask.model} is no model of device_info")
    found = proposals(fabric_devices(state, model), state.settings, ask)
    said = found[0].why
    for each in found[:MOST_TARGETS] if found[0].fits else ():
        proof = _proof(capture, each)
        if proof.state in (PLACED, SERVED):
            return replace(each, why=f"{each.why}; then: {proof.says or f'it is served on {proof.node}'}")
        said = f"{each.why}, but {proof.says}"
    return replace(found[0], fits=False, moves=(), why=said)


def _proof(capture: Capture, proposal: Proposal) -> ClaimAnswer:
    """What the planners say of the ask when the devices have been moved.

    It is asked as that of a held pod, for which we judge the nodes as kube-scheduler does.
    """
    namespace = proposal.ask.claim.partition("/")[0] or NAMESPACE
    after = _held(_moved(capture, proposal), namespace)
    name = proposal.ask.claim
    if not name:
        after, name = _asked(after, proposal.ask)
    found = answer(after).claims
    return found.get(name, ClaimAnswer(name, "", "", "nothing is known of it"))


def _held(capture: Capture, namespace: str) -> Capture:
    rows = [{key: value for key, value in row.items() if key != "handover"} for row in capture.settings["device_info"]]
    kept = replace(capture, settings={**capture.settings, "device_info": rows, "prewarm": []})
    held = {"handover": "gated", "handover_models": {}, "handover_namespaces": {namespace: "gated"}}
    return OtherSettings(held).made(kept)


def _asked(capture: Capture, ask: Ask) -> tuple[Capture, str]:
    """With a pod that asks for it, and the name of its claim."""
    given = {"change": "add_pods", "model": ask.model, "devices_each": ask.count, "count": 1, "namespace": NAMESPACE}
    more = read_add_pods(Options(given, "the ask"), capture)
    pod = {**more.pod, "spec": {**more.pod["spec"], "nodeSelector": dict(ask.labels)}}
    after = replace(more, pod=pod).made(capture)
    before = {raw["metadata"]["uid"] for raw in capture.of("resourceclaims")}
    (claim,) = (raw["metadata"]["name"] for raw in after.of("resourceclaims") if raw["metadata"]["uid"] not in before)
    return after, f"{NAMESPACE}/{claim}"


def _moved(capture: Capture, proposal: Proposal) -> Capture:
    """With the named devices back on their fabric."""
    names = {name for move in proposal.moves for name in move.devices}
    resources = [raw for raw in capture.of(COMPOSABLE_RESOURCES.plural) if raw["metadata"]["name"] in names]
    uids = {(raw.get("status") or {}).get("cdi_device_id") for raw in resources}
    devices = [d for machine in capture.fabric.machines.values() for d in machine.devices if d.uid in uids]
    after = without_devices(capture, resources)
    fewer = Counter({move.request: len(move.devices) for move in proposal.moves})
    asked = [_smaller(raw, fewer) for raw in after.of(COMPOSABILITY_REQUESTS.plural)]
    return replace(after.with_objects(composabilityrequests=asked), fabric=returned(after.fabric, devices))


def _smaller(request: Json, fewer: Mapping[str, int]) -> Json:
    resource = request["spec"]["resource"]
    size = max(0, int(resource["size"]) - fewer.get(request["metadata"]["name"], 0))
    return {**request, "spec": {**request["spec"], "resource": {**resource, "size": size}}}
