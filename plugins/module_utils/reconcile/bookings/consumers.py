# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Match gated pods with the nodes and devices that their ProvisioningRequest has booked."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ...model.value import Json
from ...planning.node.snapshot import PodRef
from ...planning.scheduling.filters.dynamic_resources.extended_resources import classes_by_resource, special_claim
from ...planning.scheduling.filters.node_affinity import filter_node_affinity
from ...planning.scheduling.filters.node_unschedulable import filter_unschedulable
from ...planning.scheduling.filters.taint_toleration import filter_taints
from ...planning.scheduling.framework.quantity import BadQuantity
from ...planning.scheduling.snapshot import GatedPod, Placement
from ..keys import ProvisioningKey
from ..state.cluster_state import ClusterState
from ..state.reservations import OPEN
from .bookings import DONE, Booking, Bookings
from .expected_pods import ExpectedPod


@dataclass(frozen=True, slots=True)
class Booked:
    """A pod and what was booked for it.

    ``placement``: of the pod. ``expected``: the placement of the expected pod that it replaces.
    ``devices``: each kept ComposableResource with the claim of the pod (its key) that gets it.
    """

    placement: Placement
    expected: Placement
    devices: tuple[tuple[str, str], ...]


def booked_placements(state: ClusterState, bookings: Bookings) -> Iterator[Booked]:
    """Yield each gated pod for which its request has a place with its devices. Yield no place
    twice.
    """
    taken: set[str] = set()
    for booking, pod in _coming(state, bookings):
        found = next((each for each in _places(state, booking, pod, taken) if not unsuitable(state, each.placement)),
                     None)
        if found is not None:
            taken.add(found.expected.pod.uid)
            yield found


def misplaced(state: ClusterState, bookings: Bookings) -> Iterator[tuple[Booked, str]]:
    """Yield each gated pod that may not run where its request has devices for it, with one of these
    places, and why.

    Kueue's topology-aware scheduling, for example, chooses nodes when the devices are attached.
    """
    taken: set[str] = set()
    for booking, pod in _coming(state, bookings):
        if pod.uid in booking.displaced:
            continue
        places = _places(state, booking, pod, taken)
        first = next(places, None)
        why = unsuitable(state, first.placement) if first else ""
        if first and why and all(unsuitable(state, each.placement) for each in places):
            taken.add(first.expected.pod.uid)
            yield first, why


def _coming(state: ClusterState, bookings: Bookings) -> Iterator[tuple[Booking, GatedPod]]:
    """Yield each gated pod of a request that has its devices."""
    for pod in state.pods.values("gated", True) if bookings.keys() else ():
        booking = bookings.get(ProvisioningKey(*pod.consumes)) if pod.consumes else None
        if booking is None or booking.phase != DONE or pod.foreign or state.reservations.get(pod.uid):
            continue
        yield booking, GatedPod(pod.as_object(), state.planned_claims(pod), 0.0)


def _places(state: ClusterState, booking: Booking, pod: GatedPod, taken: Collection[str]) -> Iterator[Booked]:
    """Yield the places for a pod of this kind, less those of the expected pods (their UIDs) in ``taken``.

    Each costs some work, so none is looked up before it is needed.
    """
    wanted = _wanted(state, pod)
    for uid, expected in booking.pods.items() if wanted is not None else ():
        reservation = state.reservations.get(uid)
        if uid in taken or reservation is None or reservation.phase != OPEN:
            continue
        if wanted == _wanted(state, expected.pod) and (
                made := _booked(state, pod, expected, reservation.placement)) is not None:
            yield made


def _wanted(state: ClusterState, pod: GatedPod) -> dict[str, Json] | None:
    """Return the devices of each claim by its entry, None while a claim does not exist.

    The entry of extended resources is empty.
    """
    classes = {each["metadata"]["name"]: each for each in state.classes.list()}
    try:
        special = special_claim(pod, classes_by_resource(classes))
    except BadQuantity:
        return None
    if any(claim is None for claim in pod.claims.values()):
        return None
    found = {entry: claim["spec"]["devices"] for entry, claim in pod.claims.items() if claim is not None}
    return {**found, **({"": special["spec"]["devices"]} if special else {})}


def _booked(state: ClusterState, pod: GatedPod, expected: ExpectedPod, place: Placement) -> Booked | None:
    """Return the placement of the pod, None if a device of the expected pod is not there now."""
    uid_of = _claim_uids(pod)
    keys = {expected.entries[entry]: uid for entry, uid in uid_of.items()}
    devices = []
    for key, models in place.needs.items():
        kept = state.holds.kept_for(key)
        if len(kept) < sum(models.values()):
            return None
        devices += [(each.name, keys[key]) for each in kept]
    needs = {keys[key]: models for key, models in place.needs.items()}
    meta = pod.raw["metadata"]
    made = Placement(PodRef(meta["namespace"], meta["name"], meta["uid"]), place.node, needs, state.clock(), pod.raw,
                     _by_claim(devices), reason=f"booked by {expected.pod.group.key if expected.pod.group else ''}")
    return Booked(made, place, tuple(devices))


def _claim_uids(pod: GatedPod) -> dict[str, str]:
    named = {entry: str(claim["metadata"]["uid"]) for entry, claim in pod.claims.items() if claim}
    return {**named, "": pod.ref.special_claim}


def _by_claim(devices: list[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    return {claim: tuple(name for name, of in devices if of == claim) for _name, claim in devices}


def unsuitable(state: ClusterState, placement: Placement) -> str:
    """Return why the node of a placement would no longer be chosen, or an empty string.

    Other pods on the node do not matter, because the plan has counted them.
    """
    node, spec = state.nodes.value(placement.node), placement.raw["spec"]
    if node is None:
        return "it is gone"
    tolerations = spec.get("tolerations") or ()
    reason = (filter_unschedulable(node.unschedulable, tolerations) or filter_taints(node.taints, tolerations)
              or filter_node_affinity(spec, node.name, node.labels))
    return f"it {reason}" if reason else ""
