# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One object brought to a wanted spec, with the API server's own word on what a change would give.

Check mode sends the same request as a dry run: defaults, validation and admission are those of the real one.
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
    """An object did not get where it was waited for; the message says how far it came."""


@dataclass(frozen=True, slots=True)
class Change:
    """An object before and after; None: there was none, or there is none."""

    before: Object | None
    after: Object | None

    @property
    def changed(self) -> bool:
        """Whether the API server made it something else."""
        return bool(_kept(self.before) != _kept(self.after))

    def diff(self, shown: Callable[[Object], t.Any]) -> dict[str, t.Any]:
        """Both sides as the user sees them."""
        return {"before": shown(self.before) if self.before else {}, "after": shown(self.after) if self.after else {}}


def _kept(obj: Object | None) -> t.Any:
    """What a user may have asked for; the rest of the metadata is the API server's bookkeeping."""
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
        """The object, None when there is none."""
        try:
            return self.client.get(self.resource, name, namespace)
        except NotFound:
            return None

    def have(self, name: str, body: Object, patch: Mapping[str, t.Any]) -> Change:
        """Create with ``body``, or merge ``patch`` into what there is, if that is not in it already."""
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
        """Delete what there is. One that is being deleted already is left to it."""
        before = self.find(name)
        if before is None:
            return Change(None, None)
        if before["metadata"].get("deletionTimestamp"):
            return Change(before, before)
        if not self.dry:
            self.client.delete(self.resource, name, precondition_uid=before["metadata"]["uid"])
        return Change(before, None)

    def apply_status(self, name: str, namespace: str, body: Object, manager: str) -> Object:
        """Server-side apply on the status; a uid and resourceVersion in ``body`` are preconditions."""
        if not self.dry:
            return self.client.apply(self.resource, name, body, namespace, "status", field_manager=manager)
        query = {"fieldManager": manager, "force": "true", **DRY_RUN}
        return self.client.raw("PATCH", self.resource.path(name, namespace, "status"), body, query=query,
                               content_type=APPLY_PATCH)

    def wait(self, name: str, reached: Callable[[Object | None], bool], seconds: float,
             describe: Callable[[Object | None], str]) -> Object | None:
        """The object once ``reached`` says so. Raises NotReached."""
        deadline = time.monotonic() + seconds
        while not reached(found := self.find(name)):
            if time.monotonic() >= deadline:
                raise NotReached(0, "NotReached", f"{self.resource.kind} {name} after {seconds:g} s: {describe(found)}")
            time.sleep(POLL_SECONDS)
        return found


def _holds(have: t.Any, wanted: t.Any) -> bool:
    """Whether merging ``wanted`` would leave everything as it is."""
    if isinstance(wanted, Mapping):
        return isinstance(have, Mapping) and all(_holds(have.get(key), value) for key, value in wanted.items())
    return bool(have == wanted)
