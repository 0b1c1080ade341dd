# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The claims that wait on a node, grouped by pod."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..settings import DeviceModel, Settings
from .snapshot import Claim, ComposabilityRequest, NodeSnapshot, PodRef

PREPARING, RESCHEDULE, FAILED, READY = "preparing", "reschedule", "failed", "ready"
# A claim of a gated pod for which this node was chosen.
GATED = "gated"
# A claim of a pod that no node could serve. The autoscaler's provider chose this node for the pod.
REQUESTED = "requested"


@dataclass(frozen=True, slots=True)
class ClaimGroup:
    """Claims of one pod that need devices. They fail or succeed together, so the plan decides them
    together.
    """

    claims: tuple[Claim, ...]

    @property
    def gated(self) -> bool:
        """Return whether the pod is gated."""
        return self.claims[0].phase == GATED

    @property
    def requested(self) -> bool:
        """Return whether the pod waits for kube-scheduler to find the devices in the node's
        ResourceSlice.
        """
        return self.claims[0].phase == REQUESTED

    @property
    def since(self) -> float:
        """Return when the first claim of the group was allocated."""
        return min(c.allocated_at for c in self.claims)

    @property
    def pods(self) -> tuple[PodRef, ...]:
        """Return all pods that use the claims."""
        return tuple(dict.fromkeys(p for c in self.claims for p in c.pods))

    def need(self) -> Counter[str]:
        """Return the number of devices per model over all claims of the group."""
        total: Counter[str] = Counter()
        for claim in self.claims:
            total += claim.need()
        return total

    @property
    def unfit(self) -> frozenset[str]:
        """Return the ComposableResources that do not fit some claim of the group."""
        return frozenset(name for claim in self.claims for name in claim.unfit)

    @property
    def unfit_why(self) -> str:
        """Return why they do not fit, in a sentence."""
        return "; ".join(dict.fromkeys(claim.unfit_why for claim in self.claims if claim.unfit_why))

    def models(self) -> list[DeviceModel]:
        """Return the requested models, each once."""
        found = {r.model.cdi_model_name: r.model for c in self.claims for r in c.results if r.model}
        return [found[name] for name in sorted(found)]


def claim_groups(snapshot: NodeSnapshot) -> list[ClaimGroup]:
    """Return the claims that need devices by pod, oldest allocation or reservation first."""
    by_pod: dict[str, list[Claim]] = {}
    for claim in sorted(snapshot.claims, key=lambda c: (c.allocated_at, c.key)):
        if claim.phase in (PREPARING, GATED, REQUESTED):
            by_pod.setdefault(claim.pods[0].uid if claim.pods else claim.uid, []).append(claim)
    return [ClaimGroup(tuple(claims)) for claims in by_pod.values()]


def waiting_for(snapshot: NodeSnapshot, model: str) -> list[str]:
    """Return the UIDs of claims that wait for devices of a model here, oldest first, one entry per
    device.
    """
    return [claim.uid for group in claim_groups(snapshot) for claim in group.claims
            for _unused in range(claim.need()[model])]


def destined(snapshot: NodeSnapshot, request: ComposabilityRequest, count: int) -> list[str]:
    """Return the claims (UIDs) for which ``count`` more devices are requested, empty texts for no
    claim.

    These are the youngest claims, because older ones get the devices that are here or in flight.
    The result is only for logs and traces. A scaler in another process knows gated pods that are
    unknown here. It records their claims in the request.
    """
    noted = request.claims * (count if len(request.claims) == 1 else 1)
    waiting = waiting_for(snapshot, request.model) or list(noted)
    found = waiting[-count:] if count > 0 else []
    return [*found, *[""] * (count - len(found))]


def limits(snapshot: NodeSnapshot, model: DeviceModel, settings: Settings) -> tuple[int, int]:
    """Return the smallest and largest number of devices of a model on this node: CoHDI's labels or
    the default.
    """
    return (min(_label(snapshot, settings, model, "size-min", 0), settings.max_size_min),
            _label(snapshot, settings, model, "size-max", settings.max_devices_per_node))


def wanted_at_least(snapshot: NodeSnapshot, settings: Settings) -> list[str]:
    """Return the models (CDI names) of which the node must always have some devices."""
    if snapshot.machine is None:
        return []
    return [m.cdi_model_name for m in settings.models if limits(snapshot, m, settings)[0] > 0]


def _label(snapshot: NodeSnapshot, settings: Settings, model: DeviceModel, which: str, default: int) -> int:
    text = snapshot.labels.get(settings.label(f"{model.k8s_device_name}-{which}"), "")
    return int(text) if text.isdecimal() else default


def label_problems(snapshot: NodeSnapshot, settings: Settings) -> list[str]:
    """Return a sentence for each limit label that is not a number. Such labels are ignored."""
    names = [settings.label(f"{m.k8s_device_name}-{which}") for m in settings.models
             for which in ("size-min", "size-max")]
    return [f"label {name} of node {snapshot.name} is ignored: {snapshot.labels[name]!r} is not a whole number"
            for name in names if name in snapshot.labels and not snapshot.labels[name].isdecimal()]


def installed(snapshot: NodeSnapshot, settings: Settings) -> dict[str, DeviceModel]:
    """Return the models that the node has or that are requested for it, by CDI model name."""
    names = {r.model for r in snapshot.resources} | {r.model for r in snapshot.requests if r.size > 0}
    return {n: m for n in names if (m := settings.model(n))}


def conflict(model: DeviceModel, others: dict[str, DeviceModel]) -> DeviceModel | None:
    """Return the model of ``others`` that cannot share a node with ``model``. Either row may
    exclude the other.
    """
    for name in sorted(others):
        other = others[name]
        if other.index in model.cannot_coexist_with or model.index in other.cannot_coexist_with:
            return other
    return None
