# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The frozen snapshot of the whole cluster from which nodes are chosen for pods that our gate holds."""

from __future__ import annotations

import functools
import itertools
import typing as t
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from ...fabric.api import FabricSnapshot
from ...kube.objects import cohdi, slices
from ...kube.objects import pods as gates
from ...kube.times import parse_time
from ...kube.watch.keys import key_of
from ...kube.watch.parts import shared
from ...planning.node.snapshot import ComposableResource
from ...planning.scheduling.node_facts import Shown, node_facts
from ...planning.scheduling.queue import unreadable
from ...planning.scheduling.snapshot import (
    GatedPod,
    NodeFacts,
    Placement,
    PodGroup,
    SchedulingSnapshot,
)
from ...planning.settings import DeviceModel
from ..pool.snapshot import left
from ..state import adapters
from ..state.cluster_state import ClusterState, Json
from ..state.memory import HeldPod
from ..state.node_snapshot import node_snapshot
from ..state.reservations import Reservation
from ..state.scale_ups import requested_placements
from ..state.usage import usage
from .node_facts import KnownNodes
from .returning import ending, returning

SAMPLES = 4
# Nodes that may fail a pod, each for a refusal that is quick, before it is let go.
MAX_FAILURES = 8
# A label that was just written may come after the pod that it was written for.
OPT_IN_SECONDS = 2.0
# A pod ends within 30 s unless it says otherwise. The scheduler keeps its room until it is gone.
ROOM_SECONDS = 30.0


def scheduling_snapshot(state: ClusterState, pods: tuple[GatedPod, ...],
                        known: KnownNodes | None = None) -> SchedulingSnapshot:
    """Everything that is needed to choose nodes for these pods, at this moment."""
    now = state.now()  # before nodes are read: no pod has waited for as long as that takes
    # One poll for all, also for whether there was one: what a newer one shows as free is on its way back for an older.
    fabric = state.snapshot
    # In the order in which a device goes back, so that one that moves on meanwhile is missed nowhere.
    soon = ending(state, fabric) if fabric else Counter[tuple[str, int]]()
    # A device that is requested meanwhile counts twice rather than not at all: free ones first, then those of nodes.
    free = _free(state, fabric) if fabric else {}
    nodes = (known or KnownNodes()).facts(state, _facts)
    return SchedulingSnapshot(
        now=now, nodes=nodes, waiting=pods,
        placements=(*(_placement(state, reservation) for reservation in state.reservations.all()),
                    *requested_placements(state, state.now())),
        free=free,
        returning=soon + returning(state, fabric) if fabric else {},
        namespaces={n["metadata"]["name"]: n["metadata"].get("labels") or {} for n in state.namespaces.list()},
        classes={c["metadata"]["name"]: c for c in state.classes.list()},
        samples=samples(state), last_placed=state.reservations.last_chosen(),
        excluded=state.settings.ungated_models, of_groups=frozenset(state.settings.direct_models),
        unseen=_unseen(state, fabric), unsure=_unsure(state, fabric, nodes),
        used=usage(state) if state.settings.shares.quotas else {},
        attached=state.attaches.recent(state.now()))


def facts_ahead(state: ClusterState, known: KnownNodes) -> t.Iterator[NodeFacts]:
    """Those of one node after the other, as a snapshot would read them."""
    return known.ahead(state, _facts)


def _unseen(state: ClusterState, fabric: FabricSnapshot | None) -> str:
    if fabric is not None:
        return ""
    return "the CDI Manager was not seen yet" + (f": {state.fabric_problem}" if state.fabric_problem else "")


def _unsure(state: ClusterState, fabric: FabricSnapshot | None, nodes: Mapping[str, NodeFacts]) -> dict[str, str]:
    """Why the inventory may lack devices, by model."""
    if fabric is None:
        return {}
    everything = fabric.unconfirmed or _missing_machine(state, fabric, nodes)
    found = {model.cdi_model_name: everything or _uncounted(fabric, model.cdi_model_name)
             for model in state.settings.models}
    return {model: why for model, why in found.items() if why}


def _missing_machine(state: ClusterState, fabric: FabricSnapshot, nodes: Mapping[str, NodeFacts]) -> str:
    """The machine that devices were requested for and that the inventory does not show, in a sentence."""
    for name in (name for name, facts in nodes.items() if facts.machine is None):
        for raw in state.resources.by("node", name):
            machine = cohdi.read_intent(raw)[0]
            if machine and machine not in fabric.machines:
                return f"the CDI Manager does not show machine {machine}, for which devices were requested"
    return ""


def _uncounted(fabric: FabricSnapshot, model: str) -> str:
    """Why the free devices of a model could not be counted on some fabric; empty when they were counted."""
    said = next((why for key, why in sorted(fabric.problems.items()) if key.rpartition("/")[0] == model), "")
    return f"the free {model} could not be counted: {said}" if said else ""


def waiting(state: ClusterState, now: float) -> t.Iterator[GatedPod]:
    """Held pods for which no node is chosen; one that cannot be read has that as its problem."""
    left_gate = functools.cache(lambda: _left(state))
    for raw in state.pods.by("gated", True):
        if state.reservations.get(raw["metadata"]["uid"]) or gates.foreign(raw):
            continue
        try:
            yield _gated_pod(state, raw, now, left_gate)
        except Exception as error:
            yield GatedPod(raw, {}, 0.0, problem=unreadable(error))


def _gated_pod(state: ClusterState, raw: Json, now: float,
               left_gate: Callable[[], Mapping[str, list[Json]]]) -> GatedPod:
    of_group, namespace = gates.group(raw), raw["metadata"]["namespace"]
    group = _group(*of_group, left_gate().get(of_group[0], [])) if of_group else None
    known = state.held.of(raw["metadata"]["uid"])
    created = parse_time(raw["metadata"].get("creationTimestamp"))
    pod = GatedPod(raw, state.claims_by_entry(raw), created, group, known.seen or now)
    if not _opted_in(state, namespace):
        return replace(pod, problem=f"namespace {namespace} has no label {gates.OPT}=true",
                       problem_from=pod.held_since + OPT_IN_SECONDS)
    return replace(pod, problem=_problem(state, pod, known))


def _opted_in(state: ClusterState, namespace: str) -> bool:
    """Whoever may create pods could write our gate, labels and annotations; they count by an administrator's word."""
    labels = (state.namespaces.get(namespace) or {"metadata": {}})["metadata"].get("labels") or {}
    return labels.get(gates.OPT) == "true" or state.settings.handover_namespaces.get(namespace) == "gated"


def _problem(state: ClusterState, pod: GatedPod, known: HeldPod) -> str:
    """Why a pod is let go whatever it asks for."""
    most = state.settings.max_group_size
    if pod.group and pod.group.size > most:
        return f"group {pod.group.key} has {pod.group.size} pods, {most} are allowed (max_group_size)"
    if known.failures >= MAX_FAILURES or known.spent >= 2 * state.settings.placement_timeout:
        return f"its devices did not come, on {known.failures} nodes in {known.spent:.0f} s"
    return ""


def _left(state: ClusterState) -> dict[str, list[Json]]:
    """Members of each group that have left the gate. One of a Job that succeeded counts, since nobody replaces it."""
    found: dict[str, list[Json]] = {}
    for pod in state.pods.each_by("grouped", True):
        if not gates.held(pod) and (group := gates.group(pod)) and (not gates.ended(pod) or _succeeded(pod)):
            found.setdefault(group[0], []).append(pod)
    return found


def _succeeded(pod: Json) -> bool:
    return gates.phase(pod) == "Succeeded" and gates.job(pod) is not None


def _group(key: str, size: int, left_gate: list[Json]) -> PodGroup:
    """A member without claims, such as a launcher, was never held: that it runs says nothing of the others."""
    return PodGroup(key, size, len(left_gate), any(map(gates.claim_names, left_gate)))


def _placement(state: ClusterState, reservation: Reservation) -> Placement:
    """The placement of a reservation, with what is held for its claims by now or is allocated to them."""
    holding: Counter[str] = Counter()
    for uid, needs in reservation.placement.needs.items():
        given = needs if state.is_allocated(uid) else [raw["spec"]["model"] for raw in state.holds.kept_for(uid)]
        holding.update(given)
    return replace(reservation.placement, holding=dict(holding)) if holding else reservation.placement


def _facts(state: ClusterState, raw: Json) -> NodeFacts:
    name = raw["metadata"]["name"]
    handles = state.pods.handles("node", name)
    counted = {key_of(pod) for pod in state.pods.by("node", name) if _counts(state, pod)}
    pods = state.pods.packed([each for each in handles if each[0] in counted])
    return node_facts(node_snapshot(state, name), raw, pods, state.settings, functools.partial(_entry, state, name),
                      state.hands.places(name))


def _counts(state: ClusterState, pod: Json) -> bool:
    """Return whether a pod takes room on its node. A gated pod without a reservation only has an old nomination."""
    if end := pod["metadata"].get("deletionTimestamp"):
        runs = bool(gates.bound(pod)) and gates.phase(pod) not in ("Succeeded", "Failed")
        return runs and parse_time(end) > state.now() + ROOM_SECONDS
    return not gates.ended(pod) and not (gates.held(pod) and state.reservations.get(pod["metadata"]["uid"]) is None)


def _entry(state: ClusterState, node: str, resource: ComposableResource) -> Shown | None:
    """The device's entry in the node's ResourceSlice; that of all devices which are alike but for their UUID."""
    shown = (((item["metadata"]["name"], n), device, slices.driver(item)) for item in state.slices.by("node", node)
             for n, device in enumerate(slices.devices(item)))
    found = next((each for each in shown if slices.attribute(each[1], "uuid") == resource.serial), None)
    return None if found is None else (found[0], shared(slices.without_uuid(found[1])), found[2], resource.serial)


def _free(state: ClusterState, snapshot: FabricSnapshot) -> dict[tuple[str, int], int]:
    return {(name, fabric): left(state, model, fabric, snapshot)
            for name, fabric in snapshot.free if (model := state.settings.model(name))}


def samples(state: ClusterState) -> dict[tuple[str, str], tuple[Json, ...]]:
    """Some entries of ResourceSlices of each model and driver, so that it is known what its devices have in common."""
    found = {(model.cdi_model_name, driver): tuple(itertools.islice(_shown(state, model, driver), SAMPLES))
             for model in state.settings.models for driver in model.drivers}
    return {key: shown for key, shown in found.items() if shown}


def _shown(state: ClusterState, model: DeviceModel, driver: str) -> t.Iterator[Json]:
    """Entries of ResourceSlices by which a driver shows devices of a model, found from where there is less to read."""
    few = state.resources.count("model", model.cdi_model_name) <= state.slices.count("driver", driver)
    of_model = (raw for raw in state.resources.each_by("model", model.cdi_model_name)) if few else (
        raw for item in state.slices.each_by("driver", driver)
        for raw in state.resources.by("node", str(slices.node(item))) if raw["spec"]["model"] == model.cdi_model_name)
    for raw in of_model:
        serial = adapters.serial(raw)
        for item in state.slices.by("node", raw["spec"]["target_node"]) if serial else ():
            if slices.driver(item) == driver:
                yield from (d for d in slices.devices(item) if slices.attribute(d, "uuid") == serial)
