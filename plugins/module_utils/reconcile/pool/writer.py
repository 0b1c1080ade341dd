# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the ResourceSlices of pools, and knows whether this API server keeps what makes them safe."""

from __future__ import annotations

import contextlib
import threading

from ...kube.api_resources import SLICES
from ...kube.client.verbs import Client
from ...kube.errors import NotFound
from ...kube.objects import cohdi
from ...planning.pool.plan import FAILURE_CONDITIONS, READY_CONDITION, PoolPlan
from ..keys import PoolKey
from ..state.cluster_state import ClusterState, Json

DROPPED = ("pools are not published: this API server drops bindingConditions of ResourceSlices, so pods would be given "
           "devices that are not there; switch the feature gate DRADeviceBindingConditions on, for API server and "
           "scheduler, or hold pods by the scheduling gate, which needs no pools")
TRIAL: Json = {"name": "trial", "bindsToNode": True, "bindingConditions": [READY_CONDITION],
               "bindingFailureConditions": list(FAILURE_CONDITIONS)}


class PoolWriter:
    """One for a writer. ``changes``: how many pools were written."""

    def __init__(self, client: Client, state: ClusterState) -> None:
        self._client, self._slices = client, state.slices
        self._keeps: bool | None = None
        self.changes = 0
        self._turns: dict[PoolKey, threading.Lock] = {}

    def turn(self, pool: PoolKey) -> threading.Lock:
        """To be held from the look at a pool until it is written."""
        return self._turns.setdefault(pool, threading.Lock())

    def write(self, plan: PoolPlan) -> None:
        """Write what is changed and new, then delete. Raises Conflict for a slice that somebody else changed."""
        for name, spec in plan.replace.items():
            raw = self._slices.get(name)
            if raw is not None:
                self._slices.upsert(self._client.replace(SLICES, name, {**raw, "spec": spec}))
        for spec in plan.create:
            self._slices.upsert(self._client.create(SLICES, _slice(spec)))
        for name in plan.delete:
            with contextlib.suppress(NotFound):
                self._client.delete(SLICES, name)
            if known := self._slices.get(name):
                self._slices.remove(known)
        self.changes += 1

    def is_safe(self, plan: PoolPlan) -> bool:
        """False when the API server would drop the binding conditions (KEP-5007, a feature gate before 1.36).

        Asked by a dry run until it was seen once, with a device of the pool, or one for the trial when it has none
        now; a plan that only deletes follows what is known. Raises kube.errors.ApiError.
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
