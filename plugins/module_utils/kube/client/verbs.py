# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs of the Kubernetes API on raw JSON: typed objects cost ten times as much and lose new fields."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from ...net.client import USER_AGENT
from ..api_resources import ApiResource, Object
from ..errors import ApiError, Gone, TooNew
from ..watch.store import Trim
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

    Objects go in and come out as decoded JSON; ``metadata.managedFields`` may be left out of what comes. Each method
    raises ApiError or a subclass: NotFound, Conflict, Forbidden and the like as the API server answers; Unreachable
    when it does not, with ``sent`` telling whether the request may have had its effect.
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
        """``pool``: most idle connections that are kept; ``limits``: for each call that has none of its own."""
        self.connection = connection
        self._transport = Transport(connection, pool=pool, user_agent=user_agent, limits=limits)

    def guarded(self, check: Callable[[], None]) -> Client:
        """The same client, which calls ``check`` right before each request that changes something; what that raises is
        raised, and nothing is sent."""
        other = copy.copy(self)
        other._check = check
        return other

    def limited(self, rate: TokenBucket) -> Client:
        """The same client, whose requests wait for their turn by ``rate``; watches, pings of connections and what is
        asked through the client it is made from do not."""
        other = copy.copy(self)
        other._rate = rate
        return other

    def get(
        self, res: ApiResource, name: str, namespace: str | None = None, subresource: str | None = None
    ) -> Object:
        """One object.

        ``namespace``: None for resources of the cluster. ``subresource``: such as ``status``. Raises NotFound, and
        NotServed where the API server does not know the resource itself.
        """
        return self.raw("GET", res.path(name, namespace, subresource))

    def get_whole(self, res: ApiResource, name: str, namespace: str | None = None) -> Object:
        """One object with ``metadata.managedFields``, which tells who wrote each field. Raises as get()."""
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
        """All objects of a namespace, or of all when it is None.

        ``apiVersion`` and ``kind``, which items of a list lack, are put into each. It is fetched in pages of
        ``limit`` objects; ``trim`` gives what is kept of an item, page by page, so that a large list never is in
        memory whole. When a page's continue token has expired (410), the whole list is fetched once more without
        pages. Selectors are those of kubectl (``-l``, ``--field-selector``).
        """
        query = _selectors(label_selector, field_selector)
        try:
            return self._pages(res, res.path(namespace=namespace), {**query, "limit": limit}, trim)
        except Gone:
            return self._pages(res, res.path(namespace=namespace), query, trim)

    def is_behind(self, res: ApiResource, resource_version: str, namespace: str | None = None,
                  label_selector: str | None = None, field_selector: str | None = None) -> bool:
        """Whether the API server's newest version of a resource is older than ``resource_version``.

        So it is after etcd was restored from a backup. A watch from ``resource_version`` would be
        silent until the server has written that many versions again. Raises ApiError when the
        server does not say.
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
        """POST a whole object; the result is the object as stored.

        ``namespace``: by default that of ``body``. ``dry_run``: the API server admits it and stores nothing. Raises
        AlreadyExists, Invalid.
        """
        query = {"dryRun": "All"} if dry_run else None
        where = namespace or body.get("metadata", {}).get("namespace")
        return self.raw("POST", res.path(namespace=where), body, query=query)

    def replace(self, res: ApiResource, name: str, body: Object, namespace: str | None = None,
                subresource: str | None = None) -> Object:
        """PUT a whole object; the result is the object as stored.

        Raises Conflict when ``metadata.resourceVersion`` is given and is not the current one, NotFound, Invalid.
        """
        return self.raw("PUT", res.path(name, namespace or _namespace(body), subresource), body)

    def merge_patch(self, res: ApiResource, name: str, body: Object, namespace: str | None = None,
                    subresource: str | None = None) -> Object:
        """JSON merge patch (RFC 7386): lists are replaced whole, None removes a field.

        The result is the object as stored. A ``uid`` or ``resourceVersion`` in ``metadata`` is a precondition
        (Conflict).
        """
        return self.raw("PATCH", res.path(name, namespace, subresource), body, content_type=MERGE_PATCH)

    def json_patch(self, res: ApiResource, name: str, body: Sequence[Object], namespace: str | None = None,
                   subresource: str | None = None) -> Object:
        """JSON patch (RFC 6902): operations ``{"op", "path", "value"}`` in their order, all or none.

        The result is the object as stored. A failed ``test`` operation raises Invalid.
        """
        return self.raw("PATCH", res.path(name, namespace, subresource), body, content_type=JSON_PATCH)

    def strategic_patch(self, res: ApiResource, name: str, body: Object, namespace: str | None = None,
                        subresource: str | None = None) -> Object:
        """Strategic merge patch: lists are merged by their keys, ``$patch: delete`` removes an item.

        The result is the object as stored. Built-in resources only; the API server refuses it for those of a CRD
        (ApiError, 415).
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
        """Server-side apply (KEP-555): ``body`` holds the fields that ``field_manager`` wants to own, and no others.

        The result is the object as stored; it is created when it is absent. ``force``: take fields over from other
        managers instead of Conflict. A ``uid`` or ``resourceVersion`` in ``metadata`` is a precondition (Conflict).
        """
        query = {"fieldManager": field_manager, "force": "true" if force else "false"}
        path = res.path(name, namespace or _namespace(body), subresource)
        return self.raw("PATCH", path, body, query=query, content_type=APPLY_PATCH)

    def delete(
        self, res: ApiResource, name: str, namespace: str | None = None, precondition_uid: str | None = None
    ) -> None:
        """Ask for deletion; finalizers may delay it.

        ``precondition_uid``: delete only the object with this uid, not one of the same name. Raises NotFound, and
        Conflict for another uid.
        """
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
        """Any call that is answered with a JSON object.

        ``path`` as from ApiResource.path; ``body`` is sent as JSON with ``content_type``; ``limits``: seconds for
        this call only.
        """
        data = None if body is None else _encoded(body).encode()
        if query:
            path = f"{path}?{urlencode(query)}"
        answer = self._transport.request(method, path, data, content_type if data else None, limits,
                                         check=None if method == "GET" else self._check, rate=self._rate)
        return _decoded(answer.body, method, path)

    def server_time(self) -> float:
        """Seconds since the epoch by the API server's clock, as its answers tell it; ours before the first."""
        return self._transport.clock.now()

    def warm(self, count: int) -> None:
        """Have ``count`` connections open: a burst of requests then need not wait for TLS. Raises Unreachable."""
        self._transport.warm(count)

    def text(self, path: str) -> str:
        """The plain text of a GET, e.g. ``/readyz`` or ``/metrics``."""
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
        """Events ``{"type", "object"}`` after ``resource_version``, BOOKMARK among them.

        Ends when the server ends it after ``timeout`` seconds or on ``close()`` from any thread. Raises, while it is
        iterated, Gone (410) and Unreachable (connection lost, or silent for ``silence`` seconds: the server sends a
        bookmark about once a minute). ``initial``: it begins with an ADDED event for each object there is, and then a
        BOOKMARK with the annotation ``k8s.io/initial-events-end`` (KEP-3157); raises Invalid where that is not served.
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
