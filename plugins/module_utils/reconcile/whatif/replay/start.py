# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start of a replay: a capture, as the engine's adapters read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ....kube.api_resources import COMPOSABLE_RESOURCES, PODS
from ....kube.objects import pods
from ....kube.times import parse_time
from ....planning.device_info import DeviceModel
from ....planning.node.evaluate import OPERATOR, SCALER, NodePolicy
from ....planning.node.snapshot import NodeSnapshot
from ....planning.scheduling.snapshot import Json, NodeFacts, SchedulingSnapshot
from ....planning.settings import Settings
from ...gating.snapshot import scheduling_snapshot, waiting
from ...state.cluster_state import ClusterState
from ...state.node_snapshot import node_snapshot
from ...timelines.timeline import of_resource
from ..capture import Capture
from ..captured_engine import engine_of
from ..evictions import Gate
from .node import ReplayedNode


@dataclass(frozen=True, slots=True)
class Running:
    """A pod that uses devices: its UID, its claims (namespace/name), and its start in seconds since
    the epoch."""

    node: str
    uid: str
    claims: frozenset[str]
    since: float


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a replay.

    ``snapshot`` is the cluster for the plan of gated pods. ``running`` are pods that use devices.
    ``held`` says whether new pods of a namespace are gated. ``entries`` has a device of each model
    as in a ResourceSlice of a node.
    """

    settings: Settings
    snapshot: SchedulingSnapshot
    policy: NodePolicy
    seen: Mapping[str, NodeSnapshot]
    running: Sequence[Running]
    held: Callable[[str], bool]
    entries: Mapping[str, Json]

    def nodes(self) -> dict[str, ReplayedNode]:
        """Return the nodes at the start."""
        return {name: ReplayedNode(self.seen[name], facts, self.policy, self.entries)
                for name, facts in self.snapshot.nodes.items()}

    def devices(self) -> Counter[str]:
        """Return all devices by model: free, on nodes, requested and on their way back."""
        found: Counter[str] = Counter()
        for (model, _fabric), n in self.snapshot.free.items():
            found[model] += n
        for node in self.seen.values():
            found.update(each.model for each in node.resources if each.asked or each.device_uid or each.serial)
        return found


def start_of(capture: Capture) -> Start:
    """Return the start from a capture, without claims that were being served. Raise BadSetting."""
    engine = engine_of(capture)
    state, settings = engine.state, engine.state.settings
    held = tuple(pod for pod in waiting(state, state.now()) if not pod.group)
    snapshot = scheduling_snapshot(state, held)
    entries = {model.cdi_model_name: _entry(model, snapshot) for model in settings.models}
    policy = NodePolicy(settings, frozenset((SCALER, OPERATOR)), capture.attach_timeout)
    seen = {name: replace(node_snapshot(state, name), claims=()) for name in snapshot.nodes}
    facts = {name: _bound_only(each) for name, each in snapshot.nodes.items()}
    return Start(settings, replace(snapshot, nodes=facts, placements=()), policy, seen, _running(state, capture),
                 Gate(capture).holds, entries)


def _bound_only(facts: NodeFacts) -> NodeFacts:
    return replace(facts, pods=tuple(pod for pod in facts.pods if pod.node))


def _entry(model: DeviceModel, snapshot: SchedulingSnapshot) -> Json:
    """Return a captured entry of the model, or else an entry with the attributes of device_info."""
    known = snapshot.samples.get((model.cdi_model_name, model.driver_name))
    return known[0] if known else {"name": model.k8s_device_name, "attributes": {
        name: {"string": str(value)} for name, value in model.attributes.items()}}


def _running(state: ClusterState, capture: Capture) -> list[Running]:
    found, ran = [], {each.claim: each.ended for raw in capture.of(COMPOSABLE_RESOURCES.plural)
                      for each in of_resource(raw)}
    for raw in capture.of(PODS.plural):
        keys = frozenset(f"{raw['metadata']['namespace']}/{name}" for name in pods.claim_names(raw).values() if name)
        if keys and pods.bound(raw) and not pods.ended(raw):
            created = parse_time(raw["metadata"].get("creationTimestamp"))
            since = max(created, *(ran.get(key, 0.0) for key in keys))
            found.append(Running(str(raw["spec"]["nodeName"]), str(raw["metadata"]["uid"]), keys, since))
    return found
