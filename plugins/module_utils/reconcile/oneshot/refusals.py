# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain why the fabric can never serve a claim, with the planner's own reader of selectors.

Without this check, such a claim would seem to wait for a free device.
"""

from __future__ import annotations

from collections import Counter

from ...model.claim import ResourceClaim
from ...model.pod import Pod
from ...planning.scheduling.demand import Demand, DeviceRequest
from ...planning.scheduling.filters.dynamic_resources.catalogue import Catalogue
from ...planning.scheduling.filters.dynamic_resources.claims import ClaimReader
from ...planning.scheduling.filters.dynamic_resources.requests import NoModel, RequestReader, Unsupported
from ...planning.scheduling.snapshot import GatedPod
from ..gating.snapshot import samples
from ..state.cluster_state import ClusterState


class Refusals:
    """Judges unallocated claims by the current models and devices. Changes nothing. Not
    thread-safe.

    ``state`` has the cluster and the last poll of the fabric.
    """

    def __init__(self, state: ClusterState) -> None:
        settings = state.settings
        self._state = state
        classes = {raw["metadata"]["name"]: raw for raw in state.classes.list()}
        catalogue = Catalogue(settings.models, samples(state))
        self._reader = ClaimReader(RequestReader(catalogue, frozenset(settings.device_classes), classes))

    def of(self, claim: ResourceClaim, pod: Pod) -> str:
        """Return in a sentence why the fabric cannot serve ``claim`` of ``pod``, or an empty
        string.

        Refuse nothing before kube-scheduler has tried the pod in vain, because it also knows
        devices that are not part of the fabric.
        """
        if not pod.unschedulable:
            return ""
        try:
            demand = self._demand(claim, pod)
        except NoModel as error:
            return str(error)
        except Unsupported:
            return ""
        return self._too_many(demand.requests)

    def models(self, claim: ResourceClaim, pod: Pod) -> tuple[str, ...]:
        """Return the sorted names of the models that satisfy ``claim``, or nothing if they are
        unknown."""
        try:
            return self._demand(claim, pod).models
        except Unsupported:
            return ()

    def _demand(self, claim: ResourceClaim, pod: Pod) -> Demand:
        """Return the demand of the claim alone. Raise NoModel and Unsupported."""
        return self._reader.demand(GatedPod(pod.as_object(), {claim.name: claim.as_object()}, 0.0))

    def _too_many(self, requests: tuple[DeviceRequest, ...]) -> str:
        """Return why the fabric has too few devices for one node, or an empty string.

        Leave requests with several choices to the planner.
        """
        needs: Counter[str] = Counter()
        for request in requests:
            if not request.ambiguous and request.alternatives[0].attachable:
                needs[request.alternatives[0].models[0]] += request.largest_count
        for model, count in sorted(needs.items()):
            most = self._most(model)
            if most is not None and count > most:
                return f"{count} x {model} on one node, but no fabric has more than {most} in total"
        return ""

    def _most(self, model: str) -> int | None:
        """Return the number of a model's devices, free and attached, on the fabric that has the
        most of them.

        Return None if they are not counted.
        """
        seen = self._state.snapshot
        if seen is None or seen.unconfirmed or any(key.rpartition("/")[0] == model for key in seen.problems):
            return None
        found = Counter({fabric: count for (name, fabric), count in seen.free.items() if name == model})
        for machine in seen.machines.values():
            if machine.fabric is not None:
                found[machine.fabric] += sum(device.model == model for device in machine.devices)
        return max(found.values(), default=0)


def allocated(state: ClusterState, pod: Pod) -> bool:
    """Return whether a claim of ``pod`` is allocated or missing. Then no plan explains its other
    claims."""
    return any(claim is None or bool(claim.results) for claim in state.claims_by_entry(pod).values())
