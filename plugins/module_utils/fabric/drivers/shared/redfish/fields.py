# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare Redfish resources as classes with fields that read the JSON.

A missing or wrong field never fails here. It is None or empty, and its user decides whether that
matters.
"""

from __future__ import annotations

import typing as t
import uuid
from collections.abc import Callable, Mapping

T = t.TypeVar("T")
NOTHING: t.Final[Mapping[str, t.Any]] = {}


class Resource:
    """One JSON object of a service. ``etag`` is from the header or the body.

    ``unreadable`` says why the service did not show it now. Then its content is old or empty.
    """

    __slots__ = ("body", "etag", "known", "unreadable", "uri")

    def __init__(self, body: t.Any, uri: str = "", etag: str | None = None) -> None:
        self.body: Mapping[str, t.Any] = body if isinstance(body, dict) else NOTHING
        self.uri = uri or path_of(self.body) or ""
        self.etag = etag or text(self.body.get("@odata.etag"))
        self.known: dict[object, t.Any] | None = None
        self.unreadable = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    @property
    def is_bare(self) -> bool:
        """Whether the service has never shown more than its existence."""
        return len(self.body) <= 2


class Field(t.Generic[T]):
    """A property of a resource. ``where`` is its JSON path (``Links/ResourceBlocks``).

    ``read`` converts the value.
    """

    def __init__(self, where: str, read: Callable[[t.Any], T]) -> None:
        self._first, *self._deeper = where.split("/")
        self._read = read
        # Long lists are read often, so keep them. Other values are faster to read than to look up.
        self._kept = read in (links, link_set)

    @t.overload
    def __get__(self, resource: None, owner: type[Resource]) -> Field[T]:
        """Get the field of a class."""

    @t.overload
    def __get__(self, resource: Resource, owner: type[Resource]) -> T:
        """Get the value of a resource."""

    def __get__(self, resource: Resource | None, owner: type[Resource]) -> Field[T] | T:
        """Return the value of a resource, or the field itself for a class."""
        if resource is None:
            return self
        if not self._kept:
            return self._read(self._find(resource.body))
        known = resource.known = resource.known or {}
        if self not in known:
            known[self] = self._read(self._find(resource.body))
        found: T = known[self]
        return found

    def _find(self, body: Mapping[str, t.Any]) -> t.Any:
        value: t.Any = body.get(self._first)
        for key in self._deeper:
            value = value.get(key) if isinstance(value, dict) else None
        return value


def text(value: t.Any) -> str | None:
    """Return a text that is not blank, or None."""
    return value.strip() or None if isinstance(value, str) else None


def whole(value: t.Any) -> int | None:
    """Return a whole number, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def amount(value: t.Any) -> float | None:
    """Return a number that is not negative, or None."""
    right = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
    return float(value) if right else None


def truth(value: t.Any) -> bool | None:
    """Return true or false, or None."""
    return value if isinstance(value, bool) else None


def texts(value: t.Any) -> tuple[str, ...]:
    """Return a list of texts. A single text counts as a list."""
    found = value if isinstance(value, list) else [value]
    return tuple(entry for entry in found if isinstance(entry, str) and entry)


def objects(value: t.Any) -> tuple[Mapping[str, t.Any], ...]:
    """Return a list of objects. A single object counts as a list."""
    found = value if isinstance(value, list) else [value]
    return tuple(entry for entry in found if isinstance(entry, dict))


def link(value: t.Any) -> str | None:
    """Return the path of a reference ``{"@odata.id": …}`` or of a plain path."""
    return path_of(value) if isinstance(value, dict) else path(value)


def links(value: t.Any) -> tuple[str, ...]:
    """Return the paths of a list of references, each once, in order."""
    found = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(where for where in map(link, found) if where))


def link_set(value: t.Any) -> frozenset[str]:
    """Return the paths of a list of references as a set."""
    return frozenset(links(value))


def identifier(value: t.Any) -> str | None:
    """Return a UUID in its usual form, or None."""
    try:
        return str(uuid.UUID(text(value) or ""))
    except ValueError:
        return None


def path_of(body: Mapping[str, t.Any]) -> str | None:
    """Return ``@odata.id`` of an object without a final slash, which some services add."""
    return path(body.get("@odata.id"))


def path(value: t.Any) -> str | None:
    """Return a path that begins with one slash, or None.

    So no reply can redirect a request with its login to another server.
    """
    if not isinstance(value, str) or value[:1] != "/" or value[:2] == "//":
        return None
    return value.rstrip("/") or "/"
