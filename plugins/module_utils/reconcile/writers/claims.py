# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the conditions and allocations of ResourceClaims."""

from __future__ import annotations

import contextlib
import time

from ...kube.api_resources import CLAIMS
from ...kube.errors import Conflict, NotFound
from ...kube.objects import claims, cohdi
from ...kube.objects.conditions import already_set, device_conditions
from ...kube.times import format_time
from ...model.claim import ResourceClaim
from ...planning.actions import MarkClaim
from ...planning.node.demand import PREPARING
from .object_writer import ObjectWriter


class ClaimWriter(ObjectWriter):
    """Writes conditions, finalizers and allocations of ResourceClaims."""

    def protect(self, claim: str) -> None:
        """Give a claim (its UID) the finalizer that the scheduler would write first. Ignore one
        that is gone."""
        known = self.state.claims.first_value("uid", claim)
        if known is None or claims.FINALIZER in known.finalizers:
            return
        with contextlib.suppress(NotFound, Conflict):
            self.state.claims.upsert(self.client.strategic_patch(CLAIMS, known.name, claims.protection(claim),
                                                                 namespace=known.namespace))

    def mark(self, action: MarkClaim) -> bool:
        """Write a condition to the allocation that it was decided for. Return False if that
        allocation is gone."""
        claim = self.state.claims.first_value("uid", action.claim)
        for _unused in range(3):
            if claim is None or not _waits_on(claim, action.node):
                return False
            raw = claim.as_object()
            if already_set(raw, action.condition):
                return False
            body = device_conditions(raw, action.condition, "True", "DeviceConditionUpdated", action.reason,
                                     format_time(time.time()))
            try:
                answer = self.client.apply(CLAIMS, action.name, body, namespace=action.namespace,
                                           subresource="status", field_manager=cohdi.FIELD_MANAGER)
            except NotFound:
                return False
            except Conflict:
                claim = self._same_allocation(claim, action)
                continue
            self.state.claims.upsert(answer)
            self.outlet.changes += 1
            return True
        return False

    def _same_allocation(self, claim: ResourceClaim, action: MarkClaim) -> ResourceClaim | None:
        try:
            fresh = self.state.claims.trimmed(self.client.get(CLAIMS, action.name, namespace=action.namespace))
        except NotFound:
            return None
        self.state.claims.upsert(fresh)
        if not isinstance(fresh, ResourceClaim):
            return None
        return fresh if (fresh.uid, fresh.allocation) == (claim.uid, claim.allocation) else None

    def deallocate(self, claim: ResourceClaim) -> None:
        """Drop an allocation that the scheduler has given up and would drop about a second later.

        Send the resourceVersion, so that a claim that was reserved in the meantime keeps its
        allocation.
        """
        body = {"metadata": {"resourceVersion": claim.version}, "status": {"allocation": None}}
        try:
            self.state.claims.upsert(self.client.merge_patch(CLAIMS, claim.name, body, namespace=claim.namespace,
                                                             subresource="status"))
        except (NotFound, Conflict):
            return


def _waits_on(claim: ResourceClaim, node: str) -> bool:
    """Return whether the claim is still allocated on the node and waits for pool devices."""
    return bool(claim.pool_results) and claim.node == node and claim.phase == PREPARING
