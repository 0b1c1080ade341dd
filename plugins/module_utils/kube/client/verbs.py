# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs of the Kubernetes API on raw JSON. Typed objects cost ten times as much and lose new
fields.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from ...net.client import USER_AGENT
from ..api_resources import ApiResource, Object, Trim
from ..errors import ApiError, Gone, TooNew
from ..watch.stream import WatchStream
from . import managed_fields
from .connection import Connection
from .rate_limit import TokenBucket
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
    """The API of one cluster. Thread-safe.

    Objects are decoded JSON. ``metadata.managedFields`` may be missing in results. Each method
    raises ApiError or a subclass: NotFound, Conflict, Forbidden and others as the API server
    answers, or Unreachable without an answer. Its field ``sent`` says whether the request may have
    had its effect.
    """

    _check: Callable[[], None] | None = None
    _rate: TokenBucket | None = None

    def __init__(
        self,
        connection: Connection,
        *,
        pool: int = 64,
        user_agent: str = USER_AGENT,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Build a client. ``pool``: most idle connections. ``limits``: for each call without its
        own limits.
        """
        self.connection = connection
        self._transport = Transport(connection, pool=pool, user_agent=user_agent, limits=limits)

    def guarded(self, check: Callable[[], None]) -> Client:
        """Return the same client, which calls ``check`` right before each request that changes an
        object.

        If ``check`` raises, nothing is sent.
        """
        other = copy.copy(self)
        other._check = check
        return other

    def limited(self, rate: TokenBucket) -> Client:
        """Return the same client with requests that wait for their turn by ``rate``.

        Watches, pings of connections and requests through the original client do not wait.
        """
        other = copy.copy(self)
        other._rate = rate
        return other

    def get(
        self, res: ApiResource, name: str, namespace: str | None = None, subresource: str | None = None
    ) -> Object:
        """Return one object.

        ``namespace``: None for cluster-scoped resources. ``subresource``: such as ``status``. Raise
        NotFound, or NotServed if the API server does not know the resource itself.
        """
        return self.raw("GET", res.path(name, namespace, subresource))

    def get_whole(self, res: ApiResource, name: str, namespace: str | None = None) -> Object:
        """Return one object with ``metadata.managedFields``, which shows the writer of each field.
        Raise as get().
        """
        path = res.path(name, namespace)
        answer = self._transport.request("GET", path, None, None, rate=self._rate)
        return _decoded(answer.body, "GET", path, json.loads)

    def list(
        self,
        res: ApiResource,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
        trim: Trim | None = None,
    ) -> ObjectList:
        """Return all objects of a namespace, or of all namespaces for None.

        ``apiVersion`` and ``kind``, which items of a list lack, are added to each. ``limit``:
        objects per page. ``trim``: returns the part of an item that is kept, page by page, so that
        a large list is never whole in memory. If a page's continue token has expired (410), or the
        API server that is asked has not seen that version yet (504), the whole list is fetched once
        more without pages. Selectors are those of kubectl (``-l``, ``--field-selector``).
        """
        query = _selectors(label_selector, field_selector)
        try:
            return self._pages(res, res.path(namespace=namespace), {**query, "limit": limit}, trim)
        except (Gone, TooNew):
            return self._pages(res, res.path(namespace=namespace), query, trim)

    def is_behind(self, res: ApiResource, resource_version: str, namespace: str | None = None,
                  label_selector: str | None = None, field_selector: str | None = None) -> bool:
        """Return whether the API server's newest version of a resource is older than
        ``resource_version``.

        This happens after etcd was restored from a backup. A watch from ``resource_version`` would
        be silent until the server has written that many versions again. Raise ApiError if the
        server does not answer the question.
        """
        query = _selectors(label_selector, field_selector)
        query |= {"limit": 1, "resourceVersion": resource_version, "resourceVersionMatch": "NotOlderThan"}
        try:
            self.raw("GET", res.path(namespace=namespace), query=query)
        except TooNew:
            return True
        return False

    def create(
        self, res: ApiResource, body: Object, namespace: str | None = None, dry_run: bool = False
    ) -> Object:
        """POST a whole object. Return the object as stored.

        ``namespace``: default is that of ``body``. ``dry_run``: the API server admits it and stores
        nothing. Raise AlreadyExists, Invalid.
        """
        query = {"dryRun": "All"} if dry_run else None
        where = namespace or body.get("metadata", {}).get("namespace")
        return self.raw("POST", res.path(namespace=where), body, query=query)

    def replace(self, res: ApiResource, name: str, body: Object, namespace: str | None = None,
                subresource: str | None = None) -> Object:
        """PUT a whole object. Return the object as stored.

        Raise Conflict if ``metadata.resourceVersion`` is given and is not the current one,
        NotFound, Invalid.
        """
        return self.raw("PUT", res.path(name, namespace or _namespace(body), subresource), body)

    def merge_patch(self, res: ApiResource, name: str, body: Object, namespace: str | None = None,
                    subresource: str | None = None) -> Object:
        """Send a JSON merge patch (RFC 7386): lists are replaced whole, None removes a field.

        Return the object as stored. A ``uid`` or ``resourceVersion`` in ``metadata`` is a
        precondition (Conflict).
        """
        return self.raw("PATCH", res.path(name, namespace, subresource), body, content_type=MERGE_PATCH)

    def json_patch(self, res: ApiResource, name: str, body: Sequence[Object], namespace: str | None = None,
                   subresource: str | None = None) -> Object:
        """Send a JSON patch (RFC 6902): operations ``{"op", "path", "value"}`` in their order, all
        or none.

        Return the object as stored. Raise Invalid for a failed ``test`` operation.
        """
        return self.raw("PATCH", res.path(name, namespace, subresource), body, content_type=JSON_PATCH)

    def strategic_patch(self, res: ApiResource, name: str, body: Object, namespace: str | None = None,
                        subresource: str | None = None) -> Object:
        """Send a strategic merge patch: lists are merged by their keys, ``$patch: delete`` removes
        an item.

        Return the object as stored. The API server supports it only for built-in resources, and
        refuses it for those of a CRD (ApiError, 415).
        """
        return self.raw("PATCH", res.path(name, namespace, subresource), body, content_type=STRATEGIC_PATCH)

    def apply(
        self,
        res: ApiResource,
        name: str,
        body: Object,
        namespace: str | None = None,
        subresource: str | None = None,
        *,
        field_manager: str,
        force: bool = True,
    ) -> Object:
        """Apply ``body`` (server-side apply, KEP-555): only the fields that ``field_manager`` wants
        to own.

        Return the object as stored, which is created if absent. ``force``: take fields from other
        managers instead of Conflict. A ``uid`` or ``resourceVersion`` in ``metadata`` is a
        precondition (Conflict).
        """
        query = {"fieldManager": field_manager, "force": "true" if force else "false"}
        path = res.path(name, namespace or _namespace(body), subresource)
        return self.raw("PATCH", path, body, query=query, content_type=APPLY_PATCH)

    def delete(
        self, res: ApiResource, name: str, namespace: str | None = None, precondition_uid: str | None = None
    ) -> Object | None:
        """Request the deletion of an object. Return it if finalizers delay its deletion, else None.

        ``precondition_uid``: delete only the object with this UID, not another one of the same
        name. Raise NotFound, or Conflict for another UID. The API server answers with the object or with
        a Status (kubernetes/apiserver, pkg/registry/generic/registry/store.go, ``Delete``).
        """
        body = {"preconditions": {"uid": precondition_uid}} if precondition_uid else None
        answer = self.raw("DELETE", res.path(name, namespace), body)
        return answer if answer.get("kind") == res.kind else None

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
        """Send any request with a JSON object as the answer.

        ``path``: as from ApiResource.path. ``body``: sent as JSON with ``content_type``.
        ``limits``: seconds for this call only.
        """
        data = None if body is None else _encoded(body).encode()
        if query:
            path = f"{path}?{urlencode(query)}"
        answer = self._transport.request(method, path, data, content_type if data else None, limits,
                                         check=None if method == "GET" else self._check, rate=self._rate)
        return _decoded(answer.body, method, path)

    def server_time(self) -> float:
        """Return epoch seconds by the API server's clock, from its answers. Return local time
        before the first answer.
        """
        return self._transport.clock.now()

    def warm(self, count: int) -> None:
        """Keep ``count`` open connections, so that a burst of requests does not wait for TLS. Raise
        Unreachable.
        """
        self._transport.warm(count)

    def text(self, path: str) -> str:
        """Return the plain text of a GET, e.g. ``/readyz`` or ``/metrics``."""
        return self._transport.request("GET", path).body.decode("utf-8", "replace")

    def watch(
        self,
        res: ApiResource,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout: float = 300,
        silence: float = _SILENCE,
        initial: bool = False,
    ) -> WatchStream:
        """Return events ``{"type", "object"}`` after ``resource_version``, including BOOKMARK.

        The stream ends when the server ends it after ``timeout`` seconds, or on ``close()`` from
        any thread. During iteration it raises Gone (410) or Unreachable (connection lost, or silent
        for ``silence`` seconds, since the server sends a bookmark about once a minute).
        ``initial``: begin with an ADDED event for each existing object, then a BOOKMARK with the
        annotation ``k8s.io/initial-events-end`` (KEP-3157). Raise Invalid if the server does not
        support that.
        """
        query = _selectors(label_selector, field_selector)
        query |= {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(max(1, int(timeout)))}
        if resource_version:
            query["resourceVersion"] = resource_version
        if initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        path = f"{res.path(namespace=namespace)}?{urlencode(query)}"
        return WatchStream(self._transport, path, silence)

    def close(self) -> None:
        """Close idle connections. Close open watches first."""
        self._transport.close()

    def _pages(
        self, res: ApiResource, path: str, query: Mapping[str, Any], trim: Trim | None
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


def _typed(item: Object, res: ApiResource) -> Object:
    item.setdefault("apiVersion", res.group_version)
    item.setdefault("kind", res.kind)
    return item


def _namespace(body: Object) -> str | None:
    return (body.get("metadata") or {}).get("namespace")


def _decoded(answer: bytes, method: str, path: str, loads: Callable[[bytes], Any] = managed_fields.loads) -> Object:
    try:
        value = loads(answer)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ApiError(0, "NotJSON", f"{method} {path.partition('?')[0]}: the answer is not a JSON object")
    return value
