# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts for users: why a node was chosen, why a pod is released, and why a claim waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..actions import WaitReason
from .feasibility import Diagnosis
from .queue import QueuedPod, QueueEntry
from .snapshot import GatedPod
from .supply import Allocation
from .topology_distance import where


def placement_reason(node: str, allocation: Allocation) -> str:
    """Return why a node was chosen: ``node n has room and 3 x A100 (2 idle on one switch, NUMA node
    0, 1 to be attached)``.
    """
    parts = []
    for model, take in sorted(allocation.takes().items()):
        near = where([device.device for device in take.idle])
        counts = ((len(take.idle), f"idle {near}".rstrip()), (take.coming, "being attached"),
                  (take.fresh, "to be attached"))
        parts.append(f"{take.count} x {model} ({', '.join(f'{n} {state}' for n, state in counts if n)})")
    return f"node {node} has room and {', '.join(parts)}"


def requested_devices(pods: Iterable[QueuedPod]) -> str:
    """Return the devices that pods request: ``2 x A100``, or ``1 x A100 or T4``.

    The count is that of the first alternative.
    """
    counts: Counter[str] = Counter()
    for pod in pods:
        for request in pod.demand.requests:
            models = dict.fromkeys(model for each in request.alternatives for model in each.models)
            counts[" or ".join(models)] += request.alternatives[0].count
    return ", ".join(f"{n} x {models}" for models, n in sorted(counts.items()))


def unschedulable_reason(entry: QueueEntry, diagnosis: Diagnosis) -> str:
    """Return why pods that no node can serve are released."""
    group = f" for group {entry.group}" if entry.group else ""
    return f"{requested_devices(entry.pods)}{group}: {diagnosis.text}"


def returning_reason(entry: QueueEntry, diagnosis: Diagnosis) -> str:
    """Return why pods wait for devices that are returning to the fabric."""
    return f"{unschedulable_reason(entry, diagnosis)}. Devices are returning to the fabric"


def waiting_reasons(entry: QueueEntry, diagnosis: Diagnosis, position: int, total: int) -> list[WaitReason]:
    """Return for each claim of waiting pods the missing devices and its position among all waiting
    pods.
    """
    whole = f" for all {len(entry.pods)} pods of group {entry.group}" if entry.group else " on a node"
    text = f"{requested_devices(entry.pods)}{whole}, position {position} of {total}: {diagnosis.text}"
    return [WaitReason(f"{pod.gated.ref.namespace}/{name}", text, pod.gated.since,
                       {"pod": pod.gated.ref.name, "position": position, "of": total, "nodes": dict(diagnosis.counts)})
            for pod in entry.pods for name in _claim_names(pod.gated)]


def pending_reasons(pod: GatedPod, reason: str) -> list[WaitReason]:
    """Return for each claim of a pod why the pod cannot be planned yet.

    A claim that does not exist is named after its pod.
    """
    ref = pod.ref
    return [WaitReason(f"{ref.namespace}/{name}", reason, pod.since, {"pod": ref.name}) for name in _claim_names(pod)]


def _claim_names(pod: GatedPod) -> list[str]:
    """Return the names of its claims. A pod without claims waits for that of its extended
    resources.
    """
    names = [claim["metadata"]["name"] if claim else f"{pod.ref.name}-{name}" for name, claim in pod.claims.items()]
    return names or [f"{pod.ref.name}-extended-resources"]
