# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the demand of each waiting pod once, until the pod, its claims or their classes change."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import replace

from .demand import Demand
from .eligibility import unsupported_feature
from .filters.dynamic_resources.catalogue import Catalogue
from .filters.dynamic_resources.claims import ClaimReader
from .filters.dynamic_resources.extended_resources import classes_by_resource, extended_resources, special_claim
from .filters.dynamic_resources.requests import RequestReader, Unsupported
from .framework.quantity import BadQuantity
from .snapshot import GatedPod, Json, SchedulingSettings, SchedulingSnapshot

SPARE = 64
"""Number of surplus entries before a cache is emptied."""


class DemandReader:
    """Reads demands for one set of models, samples, DeviceClasses and settings.

    ``of_groups``: models that only pods of groups get.
    """

    def __init__(self, catalogue: Catalogue, served: frozenset[str], classes: Mapping[str, Json],
                 of_groups: frozenset[str] = frozenset()) -> None:
        self.catalogue, self.served, self.classes, self.of_groups = catalogue, served, dict(classes), of_groups
        self._claims = ClaimReader(RequestReader(catalogue, served, self.classes))
        self._claims_of_groups = ClaimReader(RequestReader(catalogue, served, self.classes, of_groups))
        self._resources = classes_by_resource(self.classes)
        self._known: dict[str, tuple[tuple[Json | None, ...], Demand | str]] = {}

    @classmethod
    def for_snapshot(cls, snapshot: SchedulingSnapshot, settings: SchedulingSettings) -> DemandReader:
        """Return a new reader for a snapshot and settings."""
        catalogue = Catalogue(settings.models, snapshot.samples, snapshot.excluded)
        return cls(catalogue, frozenset(settings.device_classes), snapshot.classes, snapshot.of_groups)

    def copy(self) -> DemandReader:
        """Return an independent copy. Cached values are shared, since they never change."""
        other = DemandReader(self.catalogue.copy(), self.served, self.classes, self.of_groups)
        other._known = self._known.copy()
        other._claims = self._claims.copy(other._claims.requests)
        other._claims_of_groups = self._claims_of_groups.copy(other._claims_of_groups.requests)
        return other

    def is_for(self, snapshot: SchedulingSnapshot, settings: SchedulingSettings) -> bool:
        """Return whether the reader is valid for this snapshot and these settings."""
        classes = snapshot.classes
        same = self.classes.keys() == classes.keys() and all(self.classes[n] is c for n, c in classes.items())
        return (same and self.served == frozenset(settings.device_classes) and self.of_groups == snapshot.of_groups
                and self.catalogue.made_from(settings.models, snapshot.samples, snapshot.excluded))

    def read(self, pod: GatedPod) -> Demand | str:
        """Return the demand of the pod, or why it is not supported."""
        uid, objects = pod.raw["metadata"]["uid"], (pod.raw, *pod.claims.values())
        known = self._known.get(uid)
        if known is None or len(known[0]) != len(objects) or any(map(operator.is_not, known[0], objects)):
            try:
                known = (objects, self._read(pod))
            except (Unsupported, BadQuantity) as error:
                known = (objects, str(error))
            self._known[uid] = known
        return known[1]

    def _read(self, pod: GatedPod) -> Demand | str:
        special = special_claim(pod, self._resources)
        if reason := unsupported_feature(pod.raw, special is not None):
            return reason
        demand = (self._claims_of_groups if pod.group else self._claims).demand(pod, special)
        return replace(demand, extended=extended_resources(pod.raw, self._resources)) if special else demand

    def forget(self, waiting: Iterable[str], devices: int) -> None:
        """Forget entries that are gone once they are the larger part.

        ``waiting``: UIDs of the waiting pods. ``devices``: number of idle devices.
        """
        live = set(waiting)
        if len(self._known) > 2 * len(live) + SPARE:
            self._known = {uid: known for uid, known in self._known.items() if uid in live}
        self.catalogue.forget_devices(2 * devices + SPARE)
