# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the immutable snapshot of the cluster from which nodes are chosen for gated pods."""

from __future__ import annotations

import functools
import itertools
import typing as t
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from ...fabric.api import FabricSnapshot
from ...kube.objects import pods as gates
from ...kube.times import parse_time
from ...model.node import Node
from ...model.pod import Pod
from ...model.value import Json, Unreadable
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
from ..state.cluster_state import ClusterState
from ..state.memory import PodHistory
from ..state.node_snapshot import node_snapshot
from ..state.reservations import Reservation
from ..state.scale_ups import requested_placements
from ..state.usage import usage
from .node_facts import KnownNodes, counts
from .upcoming_supply import ending, returning

SAMPLES = 4
# Number of nodes that may fail a pod by quick refusals before it is released.
MAX_FAILURES = 8
# Seconds that a namespace label may arrive after the pod that needs it.
OPT_IN_SECONDS = 2.0


def scheduling_snapshot(state: ClusterState, pods: tuple[GatedPod, ...],
                        known: KnownNodes | None = None) -> SchedulingSnapshot:
    """Return all that is needed to choose nodes for ``pods`` now.

    ``known`` holds the facts of nodes from earlier snapshots.
    """
    now = state.now()  # before nodes are read, so that the read does not count as waiting time of pods
    # Use one poll for everything. A device that a newer poll shows as free is still on its way back
    # in an older one.
    fabric = state.snapshot
    # Read in the order in which a device goes back, so that a device that moves on meanwhile is not
    # missed.
    soon = ending(state, fabric) if fabric else Counter[tuple[str, int]]()
    # Read free devices before those of nodes. Then a device that is requested meanwhile counts
    # twice rather than not at all.
    free = _free(state, fabric) if fabric else {}
    nodes = known.facts(state, _facts) if known else _all_facts(state)
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
    """Yield the facts of each node in turn, as a snapshot would read them."""
    return known.ahead(state, _facts)


def _unseen(state: ClusterState, fabric: FabricSnapshot | None) -> str:
    if fabric is not None:
        return ""
    problem = f": {state.fabric_problem}" if state.fabric_problem else ""
    return f"no poll of the CDI Manager has succeeded yet{problem}"


def _unsure(state: ClusterState, fabric: FabricSnapshot | None, nodes: Mapping[str, NodeFacts]) -> dict[str, str]:
    """Return why the inventory may lack devices, by model."""
    if fabric is None:
        return {}
    everything = fabric.unconfirmed or _missing_machine(state, fabric, nodes)
    found = {model.cdi_model_name: everything or _uncounted(fabric, model.cdi_model_name)
             for model in state.settings.models}
    return {model: why for model, why in found.items() if why}


def _missing_machine(state: ClusterState, fabric: FabricSnapshot, nodes: Mapping[str, NodeFacts]) -> str:
    """Return a sentence about a machine that devices were requested for but the inventory does not
    show."""
    for name in (name for name, facts in nodes.items() if facts.machine is None):
        for each in state.resources.values("node", name):
            if each.machine and each.machine not in fabric.machines:
                return f"the CDI Manager does not show machine {each.machine}, for which devices were requested"
    return ""


def _uncounted(fabric: FabricSnapshot, model: str) -> str:
    """Return why a fabric did not report the free devices of a model, or an empty string."""
    said = next((why for key, why in sorted(fabric.problems.items()) if key.rpartition("/")[0] == model), "")
    return f"the free {model} could not be counted: {said}" if said else ""


def waiting(state: ClusterState, now: float) -> t.Iterator[GatedPod]:
    """Yield the gated pods that have no node yet. A pod that cannot be read carries that as its
    problem."""
    left_gate = functools.cache(lambda: _left(state))
    for pod in state.pods.at("gated", True):
        if isinstance(pod, Unreadable):
            yield GatedPod(pod.whole, {}, 0.0, problem=unreadable(pod.error))
        elif not (state.reservations.get(pod.uid) or pod.foreign):
            try:
                yield _gated_pod(state, pod, now, left_gate)
            except Exception as error:
                yield GatedPod(pod.as_object(), {}, 0.0, problem=unreadable(error))


def _gated_pod(state: ClusterState, pod: Pod, now: float,
               left_gate: Callable[[], Mapping[str, list[Pod]]]) -> GatedPod:
    group = _group(*pod.group, left_gate().get(pod.group[0], [])) if pod.group else None
    known = state.held.of(pod.uid)
    gated = GatedPod(pod.as_object(), state.planned_claims(pod), parse_time(pod.created), group, known.seen or now)
    if not _opted_in(state, pod.namespace):
        return replace(gated, problem=f"namespace {pod.namespace} has no label {gates.OPT}=true",
                       problem_from=gated.held_since + OPT_IN_SECONDS)
    return replace(gated, problem=_problem(state, gated, known))


def _opted_in(state: ClusterState, namespace: str) -> bool:
    """Return whether the namespace allows gated pods by its label or by the settings.

    Every user who may create pods could write the gate, labels and annotations. They count only if
    an administrator has opted the namespace in.
    """
    labels = (state.namespaces.get(namespace) or {"metadata": {}})["metadata"].get("labels") or {}
    return labels.get(gates.OPT) == "true" or state.settings.handover_namespaces.get(namespace) == "gated"


def _problem(state: ClusterState, pod: GatedPod, known: PodHistory) -> str:
    """Return why a pod is released whatever it requests, or an empty string."""
    most = state.settings.max_group_size
    if pod.group and pod.group.size > most:
        return f"group {pod.group.key} has {pod.group.size} pods, but max_group_size is {most}"
    if known.failures >= MAX_FAILURES or known.spent >= 2 * state.settings.placement_timeout:
        return f"the devices of the pod did not arrive on {known.failures} nodes in {known.spent:.0f} s"
    return ""


def _left(state: ClusterState) -> dict[str, list[Pod]]:
    """Return the members of each group that no longer have the gate.

    A succeeded pod of a Job counts, because the Job does not replace it.
    """
    found: dict[str, list[Pod]] = {}
    for pod in state.pods.values("grouped", True):
        succeeded = pod.phase == "Succeeded" and pod.of_job
        if not pod.held and pod.group and (succeeded or not pod.ended):
            found.setdefault(pod.group[0], []).append(pod)
    return found


def _group(key: str, size: int, left_gate: list[Pod]) -> PodGroup:
    """Return the PodGroup. A member without claims, such as a launcher, was never gated.

    That such a member runs says nothing about the others.
    """
    return PodGroup(key, size, len(left_gate), any(pod.claims for pod in left_gate))


def _placement(state: ClusterState, reservation: Reservation) -> Placement:
    """Return the placement of a reservation, with the devices that are held for its claims or
    allocated."""
    holding: Counter[str] = Counter()
    for uid, needs in reservation.placement.needs.items():
        given = needs if state.is_allocated(uid) else [each.model for each in state.holds.kept_for(uid)]
        holding.update(given)
    return replace(reservation.placement, holding=dict(holding)) if holding else reservation.placement


def _all_facts(state: ClusterState) -> dict[str, NodeFacts]:
    return {node.name: _facts(state, node) for node in state.nodes.each_value()}


def _facts(state: ClusterState, node: Node) -> NodeFacts:
    name = node.name
    pods = tuple(pod for pod in state.pods.values("node", name) if counts(state, pod))
    return node_facts(node_snapshot(state, name), node, pods, state.settings, functools.partial(_entry, state, name),
                      state.agents.places(name))


def _entry(state: ClusterState, node: str, resource: ComposableResource) -> Shown | None:
    """Return the device's entry in the ResourceSlices of the node, or None.

    Entries that differ only in their UUID share one object.
    """
    shown = state.shown(node, resource.serial)
    if shown is None:
        return None
    found, place = shown
    return (found.name, place), found.devices[place].common, found.driver, resource.serial


def _free(state: ClusterState, snapshot: FabricSnapshot) -> dict[tuple[str, int], int]:
    return {(name, fabric): left(state, model, fabric, snapshot)
            for name, fabric in snapshot.free if (model := state.settings.model(name))}


def samples(state: ClusterState) -> dict[tuple[str, str], tuple[Json, ...]]:
    """Return some ResourceSlice entries of each (model, driver), to learn the common attributes of
    devices."""
    found = {(model.cdi_model_name, driver): tuple(itertools.islice(_shown(state, model, driver), SAMPLES))
             for model in state.settings.models for driver in model.drivers}
    return {key: shown for key, shown in found.items() if shown}


def _shown(state: ClusterState, model: DeviceModel, driver: str) -> t.Iterator[Json]:
    """Yield the ResourceSlice entries in which a driver shows devices of a model.

    Start from the shorter list, ComposableResources or ResourceSlices.
    """
    few = state.resources.count("model", model.cdi_model_name) <= state.slices.count("driver", driver)
    of_model = iter(state.resources.values("model", model.cdi_model_name)) if few else (
        each for found in state.slices.values("driver", driver)
        for each in state.resources.values("node", found.node) if each.model == model.cdi_model_name)
    for each in of_model:
        for found in state.slices.values("node", each.node) if each.serial else ():
            if found.driver == driver:
                yield from (device.entry for device in found.devices if device.uuid == each.serial)
