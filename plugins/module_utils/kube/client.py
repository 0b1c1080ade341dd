# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs of the Kubernetes API on raw JSON: typed objects cost ten times as much and lose new fields."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from . import lean
from .connection import Connection
from .errors import ApiError, Gone
from .resource import Object, Resource
from .store import Trim
from .stream import WatchStream
from .transport import DEFAULT_LIMITS, Limits, Transport

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_SILENCE = 90.0
_encoded = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class ObjectList:
    """All items of a list, and the resourceVersion from which a watch continues it."""

    items: list[Object]
    resource_version: str


class Client:
    """Thread-safe. Every method raises ApiError or a subclass; answers are decoded JSON objects.

    ``metadata.managedFields`` may be left out of them.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        pool: int = 64,
        user_agent: str = "composable.infra",
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.connection = connection
        self._transport = Transport(connection, pool=pool, user_agent=user_agent, limits=limits)

    def get(
        self, res: Resource, name: str, namespace: str | None = None, subresource: str | None = None
    ) -> Object:
        """One object."""
        return self.raw("GET", res.path(name, namespace, subresource))

    def list(
        self,
        res: Resource,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
        trim: Trim | None = None,
    ) -> ObjectList:
        """All objects, fetched in pages of ``limit``; ``apiVersion`` and ``kind`` are put into each item.

        ``trim`` gives what is kept of an item, page by page, so that a large list never is in memory whole. When a
        page's continue token has expired (410), the whole list is fetched once more without pages.
        """
        query = _selectors(label_selector, field_selector)
        try:
            return self._pages(res, res.path(namespace=namespace), {**query, "limit": limit}, trim)
        except Gone:
            return self._pages(res, res.path(namespace=namespace), query, trim)

    def create(
        self, res: Resource, body: Object, namespace: str | None = None, dry_run: bool = False
    ) -> Object:
        """The object as stored. Raises AlreadyExists."""
        query = {"dryRun": "All"} if dry_run else None
        where = namespace or body.get("metadata", {}).get("namespace")
        return self.raw("POST", res.path(namespace=where), body, query=query)

    def replace(self, res: Resource, name: str, body: Object, namespace: str | None = None,
                subresource: str | None = None) -> Object:
        """PUT; Conflict when ``metadata.resourceVersion`` is not the current one."""
        return self.raw("PUT", res.path(name, namespace or _namespace(body), subresource), body)

    def merge_patch(self, res: Resource, name: str, body: Object, namespace: str | None = None,
                    subresource: str | None = None) -> Object:
        """JSON merge patch (RFC 7386): lists are replaced whole, None removes."""
        return self._patch(MERGE_PATCH, res.path(name, namespace, subresource), body)

    def json_patch(
        self,
        res: Resource,
        name: str,
        body: Sequence[Object],
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> Object:
        """JSON patch (RFC 6902); a failed ``test`` operation raises Invalid."""
        return self._patch(JSON_PATCH, res.path(name, namespace, subresource), body)

    def strategic_patch(self, res: Resource, name: str, body: Object, namespace: str | None = None,
                        subresource: str | None = None) -> Object:
        """Strategic merge patch: lists are merged by their keys, ``$patch: delete`` removes an item.

        Built-in resources only; the API server refuses it for those of a CRD (ApiError, 415).
        """
        return self._patch(STRATEGIC_PATCH, res.path(name, namespace, subresource), body)

    def apply(
        self,
        res: Resource,
        name: str,
        body: Object,
        namespace: str | None = None,
        subresource: str | None = None,
        *,
        field_manager: str,
        force: bool = True,
    ) -> Object:
        """Server-side apply; a uid or resourceVersion in ``metadata`` is a precondition (Conflict)."""
        path = res.path(name, namespace or _namespace(body), subresource)
        query = {"fieldManager": field_manager, "force": "true" if force else "false"}
        return self._patch(APPLY_PATCH, path, body, query)

    def delete(
        self, res: Resource, name: str, namespace: str | None = None, precondition_uid: str | None = None
    ) -> None:
        """Ask for deletion (finalizers may delay it). Raises NotFound, and Conflict for another uid."""
        body = {"preconditions": {"uid": precondition_uid}} if precondition_uid else None
        self.raw("DELETE", res.path(name, namespace), body)

    def raw(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        limits: Limits | None = None,
    ) -> Object:
        """Any call: ``path`` as from Resource.path, ``limits`` for this call only."""
        data = None if body is None else _encoded(body).encode()
        if query:
            path = f"{path}?{urlencode(query)}"
        answer = self._transport.request(method, path, data, content_type if data else None, limits)
        return _decoded(answer, method, path)

    def warm(self, count: int) -> None:
        """Have ``count`` connections open: a burst of requests then need not wait for TLS. Raises Unreachable."""
        self._transport.warm(count)

    def text(self, path: str) -> str:
        """The plain text of a GET, e.g. ``/readyz`` or ``/metrics``."""
        return self._transport.request("GET", path).decode("utf-8", "replace")

    def watch(
        self,
        res: Resource,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout: float = 300,
        silence: float = _SILENCE,
    ) -> WatchStream:
        """Events ``{"type", "object"}`` after ``resource_version``, BOOKMARK among them.

        Ends when the server ends it after ``timeout`` seconds or on ``close()`` from any thread. Raises Gone
        (410), Unreachable (connection lost, or silent for ``silence`` seconds: the server sends a bookmark
        about once a minute).
        """
        query = _selectors(label_selector, field_selector)
        query |= {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(max(1, int(timeout)))}
        if resource_version:
            query["resourceVersion"] = resource_version
        path = f"{res.path(namespace=namespace)}?{urlencode(query)}"
        return WatchStream(self._transport, path, silence)

    def close(self) -> None:
        """Close idle connections. Close open watches first."""
        self._transport.close()

    def _patch(
        self, content_type: str, path: str, body: Any, query: Mapping[str, Any] | None = None
    ) -> Object:
        return self.raw("PATCH", path, body, query=query, content_type=content_type)

    def _pages(
        self, res: Resource, path: str, query: Mapping[str, Any], trim: Trim | None
    ) -> ObjectList:
        items: list[Object] = []
        page = self.raw("GET", path, query=query)
        while True:
            found = [_typed(item, res) for item in page.get("items") or []]
            items += map(trim, found) if trim else found
            meta = page.get("metadata") or {}
            if not meta.get("continue"):
                return ObjectList(items, str(meta.get("resourceVersion") or ""))
            page = self.raw("GET", path, query={**query, "continue": meta["continue"]})


def _selectors(label_selector: str | None, field_selector: str | None) -> dict[str, Any]:
    pairs = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in pairs.items() if value}


def _typed(item: Object, res: Resource) -> Object:
    item.setdefault("apiVersion", res.group_version)
    item.setdefault("kind", res.kind)
    return item


def _namespace(body: Object) -> str | None:
    return (body.get("metadata") or {}).get("namespace")


def _decoded(answer: bytes, method: str, path: str) -> Object:
    try:
        value = lean.loads(answer)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ApiError(0, "NotJSON", f"{method} {path.partition('?')[0]}: the answer is not a JSON object")
    return value
