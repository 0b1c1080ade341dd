# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the models and numbers of devices that pods without a node wait for.

Idle devices are not kept from these pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...kube.objects import claims
from ...kube.times import parse_time
from ...model.pod import Pod
from ...model.value import Json
from ...planning.scheduling.filters.dynamic_resources.catalogue import Catalogue
from ...planning.scheduling.filters.dynamic_resources.extended_resources import classes_by_resource, special_claim
from ...planning.scheduling.filters.dynamic_resources.requests import NoModel, RequestReader, Unsupported
from ...planning.scheduling.snapshot import GatedPod
from ..state.cluster_state import ClusterState


class WaitingModels:
    """Reader of waiting pods. For one thread at a time.

    It caches the results of selectors as long as the DeviceClasses are the same.
    """

    def __init__(self) -> None:
        self._reader: RequestReader | None = None

    def read(self, state: ClusterState) -> Counter[str]:
        """Return by model the largest number that a pod without a node or reservation may need.

        A request that is not understood may need all devices that a node takes, of any model.
        """
        reader, found = self._reader_of(state), Counter[str]()
        every = Counter({model.cdi_model_name: state.settings.max_devices_per_node for model in state.settings.models})
        served = classes_by_resource(reader.classes)
        for pod in state.pods.values("waiting", True):
            if found >= every:
                break
            if not state.reservations.get(pod.uid):
                found |= _of_pod(state, reader, pod, served, every) & every
        return found

    def _reader_of(self, state: ClusterState) -> RequestReader:
        classes = {each["metadata"]["name"]: each for each in state.classes.list()}
        known = self._reader
        if known is None or known.classes.keys() != classes.keys() or any(
                known.classes[name] is not each for name, each in classes.items()):
            known = RequestReader(Catalogue(state.settings.models, {}), frozenset(classes), classes)
        self._reader = known
        return known


def _of_pod(state: ClusterState, reader: RequestReader, pod: Pod, served: dict[str, str],
            every: Counter[str]) -> Counter[str]:
    try:
        return sum((_of_request(reader, each, every) for each in _requests(state, pod, served)), Counter[str]())
    except Exception:  # a pod that cannot be read waits all the same
        return every


def _requests(state: ClusterState, pod: Pod, served: dict[str, str]) -> Iterator[Json]:
    """Yield the requests of a pod's unallocated claims, and of the claim that the scheduler will
    make for it."""
    of_pod = state.planned_claims(pod)
    made = special_claim(GatedPod(pod.as_object(), of_pod, parse_time(pod.created)), served)
    for claim in (*(c for c in of_pod.values() if c), *([made] if made and "" not in of_pod else ())):
        if not claims.results(claim):
            yield from ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()


def _of_request(reader: RequestReader, request: Json, every: Counter[str]) -> Counter[str]:
    """Return the devices that a request may need. A missing DeviceClass has no devices."""
    listed = [request["exactly"]] if request.get("exactly") else request.get("firstAvailable") or []
    found = Counter[str]()
    for each in listed:
        try:
            if each["deviceClassName"] in reader.classes:
                for way in reader.alternatives({"exactly": each}):
                    found |= Counter(dict.fromkeys(way.models, way.count))
        except NoModel:
            continue
        except Unsupported:
            return every
    return found
