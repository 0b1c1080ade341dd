# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide when the engine of a module has nothing left to do."""

from __future__ import annotations

import threading
import time

from ...model.claim import ResourceClaim
from ...model.pod import Pod
from ...model.resource import Resource
from ...planning.node.demand import FAILED, PREPARING, RESCHEDULE
from ...planning.node.supply import DELETING
from ..manager.engine import Engine

QUIET, QUIET_WITH_PENDING_PODS, TICK = 0.3, 2.0, 0.05


def run_until_quiet(engine: Engine, timeout: float, stop: threading.Event, leading: bool = True) -> bool:
    """Run until nothing is in flight and no claim that is being served waits. Return False on
    timeout.

    ``timeout`` is in seconds. An engine that is not ``leading`` only watches, and reads from the
    cluster what is in flight. While pods wait for the scheduler, the run stays quiet a little
    longer, because the scheduler may act on pools that were just written.
    """
    deadline, quiet_since = time.monotonic() + timeout, 0.0
    while time.monotonic() < deadline and not stop.is_set():
        if busy_with(engine) if leading else in_the_cluster(engine):
            quiet_since = 0.0
        else:
            quiet_since = quiet_since or time.monotonic()
            quiet = QUIET_WITH_PENDING_PODS if pending_claims(engine) else QUIET
            if time.monotonic() - quiet_since >= quiet:
                return True
        stop.wait(TICK)
    return False


def busy_with(engine: Engine) -> str:
    """Return what is still in flight, or an empty string."""
    state = engine.state
    if not engine.queue.idle():
        return "changes are being processed"
    if n := len(engine.reader):
        return f"{n} machines are being read"
    if n := len(state.operations):
        return f"{n} requests to the CDI Manager are in flight"
    if n := engine.rescheduler.under_way():
        return f"{n} pods are being rescheduled to their node"
    if n := len(state.reservations.all()):
        return f"{n} pods wait for the devices of the node that was chosen for them"
    return in_the_cluster(engine)


def in_the_cluster(engine: Engine) -> str:
    """Return what is in flight by the objects of the cluster alone, or an empty string."""
    state = engine.state
    if n := sum(1 for c in state.claims.each_value() if _served(c)):
        return f"{n} claims wait for their devices or for the scheduler"
    leaving = sum(_leaves(engine, each) for each in state.resources.each_value())
    return f"{leaving} devices are leaving their node" if leaving else ""


def _leaves(engine: Engine, resource: Resource) -> bool:
    """Return whether a device is leaving.

    A device stays if its node cannot release it now, or if the node has no node operations.
    """
    if resource.state == DELETING:
        return True
    work = resource.node_work
    asked = work.asked and resource.deleting
    if not asked or (work.trouble and not (work.warning or work.removed)):
        return False
    return work.removed or not engine.state.agents.missing(resource.node)


def _served(claim: ResourceClaim) -> bool:
    if not claim.pool_results:
        return False
    return claim.phase in (RESCHEDULE, FAILED) or (claim.phase == PREPARING and claim.reserved)


def pending_claims(engine: Engine) -> dict[tuple[str, str], Pod]:
    """Return the unallocated claims of pods without a node, by (namespace, name), each with its
    pod."""
    found = {}
    for pod in engine.state.pods.each_value():
        for name in {name for entry, name in pod.claims.items() if entry and name} if not pod.node else ():
            claim = engine.state.claims.value(name, pod.namespace)
            if claim is not None and not claim.results:
                found[pod.namespace, name] = pod
    return found
