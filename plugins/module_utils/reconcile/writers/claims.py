# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the conditions and allocations of ResourceClaims."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ...kube.api_resources import CLAIMS
from ...kube.errors import Conflict, NotFound
from ...kube.objects import claims, cohdi
from ...kube.objects.conditions import already_set, device_conditions
from ...kube.times import format_time
from ...planning.actions import MarkClaim
from ...planning.node.demand import PREPARING
from ..state import adapters
from ..state.cluster_state import Json
from .object_writer import ObjectWriter


class ClaimWriter(ObjectWriter):
    """Writes conditions, finalizers and allocations of ResourceClaims."""

    def protect(self, claim: str) -> None:
        """Give a claim (its UID) the finalizer that the scheduler would write first. Ignore one
        that is gone."""
        raw = self.state.claims.first("uid", claim)
        if raw is None or claims.protected(raw):
            return
        meta = raw["metadata"]
        with contextlib.suppress(NotFound, Conflict):
            self.state.claims.upsert(self.client.strategic_patch(CLAIMS, meta["name"], claims.protection(claim),
                                                                 namespace=meta["namespace"]))

    def mark(self, action: MarkClaim) -> bool:
        """Write a condition to the allocation that it was decided for. Return False if that
        allocation is gone."""
        raw = self.state.claims.first("uid", action.claim)
        for _unused in range(3):
            if raw is None or not _waits_on(raw, action.node) or already_set(raw, action.condition):
                return False
            body = device_conditions(raw, action.condition, "True", "DeviceConditionUpdated", action.reason,
                                     format_time(time.time()))
            try:
                answer = self.client.apply(CLAIMS, action.name, body, namespace=action.namespace,
                                           subresource="status", field_manager=cohdi.FIELD_MANAGER)
            except NotFound:
                return False
            except Conflict:
                raw = self._same_allocation(raw, action)
                continue
            self.state.claims.upsert(answer)
            self.outlet.changes += 1
            return True
        return False

    def _same_allocation(self, raw: Json, action: MarkClaim) -> Json | None:
        try:
            fresh = self.client.get(CLAIMS, action.name, namespace=action.namespace)
        except NotFound:
            return None
        self.state.claims.upsert(fresh)
        same = fresh["metadata"]["uid"] == raw["metadata"]["uid"]
        return fresh if same and _allocation(fresh) == _allocation(raw) else None

    def deallocate(self, claim: Json) -> None:
        """Drop an allocation that the scheduler has given up and would drop about a second later.

        Send the resourceVersion, so that a claim that was reserved in the meantime keeps its
        allocation.
        """
        meta = claim["metadata"]
        body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": {"allocation": None}}
        try:
            self.state.claims.upsert(self.client.merge_patch(CLAIMS, meta["name"], body, namespace=meta["namespace"],
                                                             subresource="status"))
        except (NotFound, Conflict):
            return


def _waits_on(claim: Json, node: str) -> bool:
    """Return whether the claim is still allocated on the node and waits for pool devices."""
    here = bool(claims.binding_results(claim)) and claims.node(claim) == node
    return here and adapters.claim_phase(claim) == PREPARING


def _allocation(claim: Json) -> t.Any:
    return (claim.get("status") or {}).get("allocation")
