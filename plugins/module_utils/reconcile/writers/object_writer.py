# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of all writers: client, stores, conditions and finalizers.

Each response is put into its store at once, so that the next reconcile does not wait for the watch.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from ...kube.api_resources import ApiResource
from ...kube.client.verbs import Client
from ...kube.errors import Conflict, NotFound
from ...kube.objects import cohdi
from ...kube.objects.ready import with_ready
from ...kube.times import format_time
from ...kube.watch.parts import picked
from ...kube.watch.store import BaseStore
from ...model.request import Request
from ...model.resource import Resource
from ...model.value import Json, Unreadable
from ..state.cluster_state import ClusterState

Kept: t.TypeAlias = Json | Request | Resource | Unreadable


@dataclass
class Outlet:
    """The client and the state that the writers of an engine share.

    ``changes`` counts changes of sizes, resources, labels and conditions, but not summaries and
    nominations. ``keeps_conditions`` is False after a CRD dropped the conditions, like that of
    CoHDI, which has none.
    """

    client: Client
    state: ClusterState
    changes: int = 0
    keeps_conditions: bool = True


class ObjectWriter:
    """Base of the writers. Methods raise the errors of the kube layer unless they say otherwise.

    Times that other processes compare are the API server's.
    """

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet

    @property
    def client(self) -> Client:
        """Return the client."""
        return self.outlet.client

    @property
    def state(self) -> ClusterState:
        """Return the state with the stores."""
        return self.outlet.state

    def _ready(self, present: Sequence[Json], generation: int, status: Json) -> Json:
        """Return the conditions for a status, as a part of the status. ``present``: the conditions of
        the object."""
        if not self.outlet.keeps_conditions:
            return {}
        return {"conditions": with_ready(present, generation, status, format_time(time.time()))}

    def _note_conditions(self, status: Json, answer: Json) -> None:
        if "conditions" in status and "conditions" not in (answer.get("status") or {}):
            self.outlet.keeps_conditions = False

    def _finalize(self, kind: ApiResource, name: str, store: BaseStore) -> None:
        """Remove our finalizer. Retry once if another client, such as the node agent, changed the
        object.

        Do not retry on another object with the same name. Raise Conflict if the object changes
        again.
        """
        found = store.stored(name)
        try:
            left = self._remove_finalizer(kind, name, found)
        except Conflict:
            fresh = self.client.get(kind, name)
            store.upsert(fresh)
            if found is None or _metadata(fresh)["uid"] != _metadata(found)["uid"]:
                raise
            found, left = fresh, self._remove_finalizer(kind, name, fresh)
        if not left:
            self._forget(found, store)

    def _remove_finalizer(self, kind: ApiResource, name: str, found: Kept | None) -> list[str]:
        """Return the finalizers of others that are left, or none if the object is gone."""
        finalizers = _metadata(found).get("finalizers") if found is not None else None
        left = [f for f in finalizers or () if f != cohdi.FINALIZER]
        known = as_read(found) if found is not None else {}
        try:
            self.client.merge_patch(kind, name, {"metadata": {**known, "finalizers": left or None}})
        except NotFound:
            return []
        return left

    @staticmethod
    def _forget(found: Kept | None, store: BaseStore) -> None:
        if found is not None:
            store.remove(found)


def as_read(found: Kept) -> Json:
    """Return metadata for a patch that fails if the object has changed since it was read."""
    return picked(_metadata(found), ("uid", "resourceVersion"))


def same_object(found: Kept | None) -> Json:
    """Return metadata for a patch that fails for another object of the same name. Empty for an
    unknown object."""
    return {} if found is None else picked(_metadata(found), ("uid",))


def _metadata(found: Kept) -> Json:
    """Return UID, resourceVersion and finalizers of an object as JSON or as a store keeps it."""
    if isinstance(found, (Request, Resource)):
        return {"uid": found.uid, "resourceVersion": found.version, "finalizers": found.finalizers}
    whole = found.whole if isinstance(found, Unreadable) else found
    return dict(whole["metadata"])
