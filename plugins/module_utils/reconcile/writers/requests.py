# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write ComposabilityRequests."""

from __future__ import annotations

from ...kube.api_resources import COMPOSABILITY_REQUESTS
from ...kube.errors import AlreadyExists, NotFound
from ...kube.objects import cohdi
from ...model.value import Json
from ...planning.actions import SetSize
from .object_writer import ObjectWriter


class RequestWriter(ObjectWriter):
    """Writes sizes and statuses of ComposabilityRequests."""

    def set_size(self, action: SetSize) -> None:
        """Create or patch a ComposabilityRequest. Take over one that already exists."""
        if action.before is None:
            try:
                body = cohdi.request_body(action.request, action.node, action.model, action.size, action.type,
                                          action.claims)
                self.state.requests.upsert(self.client.create(COMPOSABILITY_REQUESTS, body))
                self.outlet.changes += 1
                return
            except AlreadyExists:
                self.state.requests.upsert(self.client.get(COMPOSABILITY_REQUESTS, action.request))
        patch: Json = {"spec": {"resource": {"size": action.size}}}
        note = cohdi.claims_note(action.claims)
        known = self.state.requests.value(action.request)
        if note != (known.annotation(cohdi.CLAIMS) if known else ""):
            patch["metadata"] = {"annotations": {cohdi.CLAIMS: note or None}}
        self.state.requests.upsert(self.client.merge_patch(COMPOSABILITY_REQUESTS, action.request, patch))
        self.outlet.changes += 1

    def finish(self, name: str) -> None:
        """Remove our finalizer from a deleted ComposabilityRequest."""
        self._finalize(COMPOSABILITY_REQUESTS, name, self.state.requests)
        self.outlet.changes += 1

    def set_status(self, name: str, status: Json) -> None:
        """Replace the status of a ComposabilityRequest. Keep equal parts and the conditions of
        others."""
        request = self.state.requests.value(name)
        if request is None:
            return
        new_status = {**request.status, "error": "", **status}
        status = {**status, **self._ready(request.status.get("conditions") or [], request.generation, new_status)}
        if request.status == status:
            return
        old, new = request.status.get("resources") or {}, status.get("resources") or {}
        gone = {key: None for key in old if key not in new}
        body = {**status, "error": status.get("error"), "resources": {**gone, **new} if new else None}
        try:
            answer = self.client.merge_patch(COMPOSABILITY_REQUESTS, name, {"status": body}, subresource="status")
        except NotFound:
            self._forget(request, self.state.requests)
            return
        self._note_conditions(status, answer)
        self.state.requests.upsert(answer)
