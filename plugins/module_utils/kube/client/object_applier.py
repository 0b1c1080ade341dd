# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change one object to a wanted spec, and show the change by the API server's own answer.

Check mode sends the same request as a dry run, so defaults, validation and admission are those of a
real request.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..api_resources import ApiResource, Object
from ..errors import ApiError, NotFound
from .verbs import APPLY_PATCH, MERGE_PATCH, Client

POLL_SECONDS = 0.25
DRY_RUN = {"dryRun": "All"}


class NotReached(ApiError):
    """An object did not reach the awaited state. The message says how far it came."""


@dataclass(frozen=True, slots=True)
class Change:
    """An object before and after a change. None stands for no object."""

    before: Object | None
    after: Object | None

    @property
    def changed(self) -> bool:
        """Return whether the API server changed the object."""
        return bool(_kept(self.before) != _kept(self.after))

    def diff(self, shown: Callable[[Object], t.Any]) -> dict[str, t.Any]:
        """Return both sides as the user sees them."""
        return {"before": shown(self.before) if self.before else {}, "after": shown(self.after) if self.after else {}}


def _kept(obj: Object | None) -> t.Any:
    """Return the fields that a user can set, without the API server's own metadata."""
    if obj is None:
        return None
    meta = obj.get("metadata") or {}
    return ({k: v for k, v in obj.items() if k not in ("metadata", "status")},
            meta.get("labels") or {}, meta.get("annotations") or {})


@dataclass(frozen=True, slots=True)
class ObjectApplier:
    """Objects of one kind. ``dry``: nothing is stored."""

    client: Client
    resource: ApiResource
    dry: bool = False

    def find(self, name: str, namespace: str | None = None) -> Object | None:
        """Return the object, None if there is none."""
        try:
            return self.client.get(self.resource, name, namespace)
        except NotFound:
            return None

    def have(self, name: str, body: Object, patch: Mapping[str, t.Any]) -> Change:
        """Create the object with ``body``, or merge ``patch`` into the existing object if it lacks
        a part of it.
        """
        before = self.find(name)
        if before is None:
            return Change(None, self.client.create(self.resource, body, dry_run=self.dry))
        if _holds(before, patch):
            return Change(before, before)
        return Change(before, self._merge(name, dict(patch)))

    def _merge(self, name: str, patch: Object) -> Object:
        if not self.dry:
            return self.client.merge_patch(self.resource, name, patch)
        return self.client.raw("PATCH", self.resource.path(name), patch, query=DRY_RUN, content_type=MERGE_PATCH)

    def have_not(self, name: str) -> Change:
        """Delete the object, unless it is absent or already being deleted."""
        before = self.find(name)
        if before is None:
            return Change(None, None)
        if before["metadata"].get("deletionTimestamp"):
            return Change(before, before)
        if not self.dry:
            self.client.delete(self.resource, name, precondition_uid=before["metadata"]["uid"])
        return Change(before, None)

    def apply_status(self, name: str, namespace: str, body: Object, manager: str) -> Object:
        """Apply the status (server-side apply). A UID and resourceVersion in ``body`` are
        preconditions.
        """
        if not self.dry:
            return self.client.apply(self.resource, name, body, namespace, "status", field_manager=manager)
        query = {"fieldManager": manager, "force": "true", **DRY_RUN}
        return self.client.raw("PATCH", self.resource.path(name, namespace, "status"), body, query=query,
                               content_type=APPLY_PATCH)

    def wait(self, name: str, reached: Callable[[Object | None], bool], seconds: float,
             describe: Callable[[Object | None], str]) -> Object | None:
        """Return the object once ``reached`` returns True. Raise NotReached after ``seconds``."""
        deadline = time.monotonic() + seconds
        while not reached(found := self.find(name)):
            if time.monotonic() >= deadline:
                raise NotReached(0, "NotReached", f"{self.resource.kind} {name} after {seconds:g} s: {describe(found)}")
            time.sleep(POLL_SECONDS)
        return found


def _holds(have: t.Any, wanted: t.Any) -> bool:
    """Return whether merging ``wanted`` would change nothing."""
    if isinstance(wanted, Mapping):
        return isinstance(have, Mapping) and all(_holds(have.get(key), value) for key, value in wanted.items())
    return bool(have == wanted)
