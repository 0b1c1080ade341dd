# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why the fabric cannot serve a claim, whatever becomes free: read with the planner's own reader of selectors.

Without this a claim that nothing can serve would be reported as one that waits for a free device.
"""

from __future__ import annotations

from collections import Counter

from ...kube.objects import claims, pods
from ...planning.scheduling.demand import Demand, DeviceRequest
from ...planning.scheduling.filters.dynamic_resources.catalogue import Catalogue
from ...planning.scheduling.filters.dynamic_resources.claims import ClaimReader
from ...planning.scheduling.filters.dynamic_resources.requests import NoModel, RequestReader, Unsupported
from ...planning.scheduling.snapshot import GatedPod
from ..gating.snapshot import samples
from ..state.cluster_state import ClusterState, Json


class Refusals:
    """Judges unallocated claims against the models and devices of one moment. It changes nothing.

    ``state``: the cluster and the last poll of the fabric. Not thread-safe.
    """

    def __init__(self, state: ClusterState) -> None:
        settings = state.settings
        self._state = state
        classes = {raw["metadata"]["name"]: raw for raw in state.classes.list()}
        catalogue = Catalogue(settings.models, samples(state))
        self._reader = ClaimReader(RequestReader(catalogue, frozenset(settings.device_classes), classes))

    def of(self, claim: Json, pod: Json) -> str:
        """Return why the fabric cannot serve ``claim`` of ``pod``, in a sentence, else an empty text.

        Nothing is refused before kube-scheduler has tried the pod in vain: it knows devices that
        are no part of the fabric.
        """
        if not pods.unschedulable(pod):
            return ""
        try:
            demand = self._demand(claim, pod)
        except NoModel as error:
            return str(error)
        except Unsupported:
            return ""
        return self._too_many(demand.requests)

    def models(self, claim: Json, pod: Json) -> tuple[str, ...]:
        """Return the names of the models that satisfy ``claim``, sorted; none if that is not known."""
        try:
            return self._demand(claim, pod).models
        except Unsupported:
            return ()

    def _demand(self, claim: Json, pod: Json) -> Demand:
        """What the claim alone requests. Raises NoModel, Unsupported."""
        return self._reader.demand(GatedPod(pod, {claim["metadata"]["name"]: claim}, 0.0))

    def _too_many(self, requests: tuple[DeviceRequest, ...]) -> str:
        """Why all devices of the fabric are too few for one node. Requests with a choice are left to the planner."""
        needs: Counter[str] = Counter()
        for request in requests:
            if not request.ambiguous and request.alternatives[0].attachable:
                needs[request.alternatives[0].models[0]] += request.largest_count
        for model, count in sorted(needs.items()):
            most = self._most(model)
            if most is not None and count > most:
                return f"{count} x {model} on one node, and no fabric has more than {most} of them in all"
        return ""

    def _most(self, model: str) -> int | None:
        """Devices of a model on the fabric that has most of them, free or attached; None if they are not counted."""
        seen = self._state.snapshot
        if seen is None or seen.unconfirmed or any(key.rpartition("/")[0] == model for key in seen.problems):
            return None
        found = Counter({fabric: count for (name, fabric), count in seen.free.items() if name == model})
        for machine in seen.machines.values():
            if machine.fabric is not None:
                found[machine.fabric] += sum(device.model == model for device in machine.devices)
        return max(found.values(), default=0)


def allocated(state: ClusterState, pod: Json) -> bool:
    """Return whether a claim of ``pod`` is allocated, or missing: then no plan tells what the others wait for."""
    return any(claim is None or bool(claims.results(claim)) for claim in state.claims_by_entry(pod).values())
