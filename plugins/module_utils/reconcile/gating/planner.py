# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan gated pods, for the controller and for check mode. Read the state and write nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...planning.scheduling.messages import pending_reasons
from ...planning.scheduling.parse_cache import ParseCache
from ...planning.scheduling.snapshot import GatedPod, Release, SchedulingPlan, SchedulingSettings, SchedulingSnapshot
from ..bookings.bookings import Bookings
from ..bookings.consumers import booked_placements
from ..state.cluster_state import ClusterState
from .node_facts import KnownNodes
from .snapshot import facts_ahead, scheduling_snapshot, waiting

Planner = Callable[[SchedulingSnapshot, SchedulingSettings], SchedulingPlan]


def read_ahead(state: ClusterState, cache: ParseCache, known: KnownNodes) -> Iterator[None]:
    """Parse in small steps what the next plan needs."""
    for facts in facts_ahead(state, known):
        cache.node(facts)
        yield
    yield from state.ending_claims.ahead()


def plan_gated_pods(state: ClusterState, planner: Planner,
                    known: KnownNodes | None = None, bookings: Bookings | None = None) -> SchedulingPlan:
    """Return a node for each gated pod, or why it waits or is released.

    Release pods of namespaces with a handover other than ``gated``. Before the first poll of the
    CDI Manager, release only pods that it could not serve anyway. ``planner`` plans the pods of a
    snapshot. ``known`` comes from earlier plans. It saves time and does not change the result.
    ``bookings`` has the pods that ProvisioningRequests expect, which are planned as well. A pod that
    uses such a request waits until the request has its devices.
    """
    settings, found = state.settings, tuple(waiting(state, state.now()))
    held_back = _held_back(state, bookings, found) if bookings else {}
    wait_reasons = tuple(each for pod in found if pod.uid in held_back
                         for each in pending_reasons(pod, held_back[pod.uid]))
    found = tuple(pod for pod in found if pod.uid not in held_back)
    served = (*(pod for pod in found if settings.handover_of(pod.ref.namespace) == "gated"),
              *(bookings.waiting() if bookings else ()))
    plan = planner(scheduling_snapshot(state, served, known), settings) if served else SchedulingPlan()
    others = tuple(Release(pod.ref, f"namespace {pod.ref.namespace} has the handover {handover}, not gated", False)
                   for pod in found if (handover := settings.handover_of(pod.ref.namespace)) != "gated")
    return replace(plan, releases=plan.releases + others, wait_reasons=plan.wait_reasons + wait_reasons)


def _held_back(state: ClusterState, bookings: Bookings, found: tuple[GatedPod, ...]) -> dict[str, str]:
    """Return why pods are not planned now, by their UID: other devices are, or will be, booked for
    them.

    The claim of a pod may have arrived after the pods of this pass got what was booked. The pod
    then gets it in the next pass.
    """
    waits = {pod.uid: why for pod in found if (why := bookings.holds_back(pod.raw))}
    return waits | {each.placement.pod.uid: "the devices of its ProvisioningRequest"
                    for each in booked_placements(state, bookings)}
