# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the ResourceSlices of pools, and check that the API server keeps their binding
conditions."""

from __future__ import annotations

import contextlib
import threading

from ...kube.api_resources import SLICES
from ...kube.client.verbs import Client
from ...kube.errors import NotFound
from ...kube.objects import cohdi
from ...model.value import Json
from ...planning.pool.plan import FAILURE_CONDITIONS, READY_CONDITION, PoolPlan
from ..keys import PoolKey
from ..state.cluster_state import ClusterState

DROPPED = ("pools are not published: this API server drops bindingConditions of ResourceSlices, so pods would get "
           "devices that are not attached. Turn on the feature gate DRADeviceBindingConditions for the API server and "
           "the scheduler, or use the handover gated, which needs no pools")
TRIAL: Json = {"name": "trial", "bindsToNode": True, "bindingConditions": [READY_CONDITION],
               "bindingFailureConditions": list(FAILURE_CONDITIONS)}


class PoolWriter:
    """Writes pools. ``changes`` is the number of pools written."""

    def __init__(self, client: Client, state: ClusterState) -> None:
        self._client, self._slices = client, state.slices
        self._keeps: bool | None = None
        self.changes = 0
        self._turns: dict[PoolKey, threading.Lock] = {}

    def turn(self, pool: PoolKey) -> threading.Lock:
        """Return the lock of a pool, to be held from its snapshot until it is written."""
        return self._turns.setdefault(pool, threading.Lock())

    def write(self, plan: PoolPlan) -> None:
        """Write changed and new slices, then delete the others.

        Raise Conflict for a slice that another client changed.
        """
        for name, spec in plan.replace.items():
            if known := self._slices.value(name):
                self._slices.upsert(self._client.replace(SLICES, name, {**known.as_object(), "spec": spec}))
        for spec in plan.create:
            self._slices.upsert(self._client.create(SLICES, _slice(spec)))
        for name in plan.delete:
            with contextlib.suppress(NotFound):
                self._client.delete(SLICES, name)
            if known := self._slices.value(name):
                self._slices.remove(known)
        self.changes += 1

    def is_safe(self, plan: PoolPlan) -> bool:
        """Return False if the API server would drop the binding conditions (KEP-5007, a feature
        gate before 1.36).

        Ask by a dry run until the answer was True once. Send a device of the pool, or a trial
        device if the pool has none now. A plan that only deletes follows the last answer. Raise
        ApiError.
        """
        spec = next(iter((*plan.create, *plan.replace.values())), None)
        if spec is None or self._keeps:
            return self._keeps is not False
        tried = {**spec, "pool": {**spec["pool"], "name": f"{spec['pool']['name']}-try"},
                 "devices": spec["devices"] or [TRIAL]}
        answer = self._client.create(SLICES, _slice(tried), dry_run=True)
        self._keeps = all(d.get("bindingConditions") for d in answer["spec"]["devices"])
        return self._keeps


def _slice(spec: Json) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": spec,
            "metadata": {"generateName": f"{spec['driver']}-", "labels": {cohdi.MANAGED_BY: cohdi.FIELD_MANAGER}}}
