# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a Redfish resource is declared: a class whose fields say where in the JSON they are and how they are read.

Nothing here fails on what a service left out or wrote wrongly: such a field is absent (None or empty), and it is the
reader of the field who knows whether that matters.
"""

from __future__ import annotations

import typing as t
import uuid
from collections.abc import Callable, Mapping

T = t.TypeVar("T")
NOTHING: t.Final[Mapping[str, t.Any]] = {}


class Resource:
    """One JSON object of a service; ``etag`` as the service gave it, in the header or in the body.

    ``unreadable``: why the service did not show it now. What it has then may be old, or nothing.
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
        """Whether the service never showed more than that it is there."""
        return len(self.body) <= 2


class Field(t.Generic[T]):
    """A property of a resource: ``where`` is its path in the JSON (``Links/ResourceBlocks``), ``read`` its reader."""

    def __init__(self, where: str, read: Callable[[t.Any], T]) -> None:
        self._first, *self._deeper = where.split("/")
        self._read = read
        # Lists may be long and are asked again and again; everything else is read faster than it is looked up.
        self._kept = read in (links, link_set)

    @t.overload
    def __get__(self, resource: None, owner: type[Resource]) -> Field[T]:
        """Of the class."""

    @t.overload
    def __get__(self, resource: Resource, owner: type[Resource]) -> T:
        """Of a resource."""

    def __get__(self, resource: Resource | None, owner: type[Resource]) -> Field[T] | T:
        """The value; the declaration itself when asked of the class."""
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
    """A text that is not blank."""
    return value.strip() or None if isinstance(value, str) else None


def whole(value: t.Any) -> int | None:
    """A whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def amount(value: t.Any) -> float | None:
    """A number that is not negative."""
    right = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
    return float(value) if right else None


def truth(value: t.Any) -> bool | None:
    """True or false."""
    return value if isinstance(value, bool) else None


def texts(value: t.Any) -> tuple[str, ...]:
    """A list of texts; a single text counts as one."""
    found = value if isinstance(value, list) else [value]
    return tuple(entry for entry in found if isinstance(entry, str) and entry)


def objects(value: t.Any) -> tuple[Mapping[str, t.Any], ...]:
    """A list of objects; a single object counts as one."""
    found = value if isinstance(value, list) else [value]
    return tuple(entry for entry in found if isinstance(entry, dict))


def link(value: t.Any) -> str | None:
    """The path that a reference ``{"@odata.id": …}`` names; a bare path counts too."""
    return path_of(value) if isinstance(value, dict) else path(value)


def links(value: t.Any) -> tuple[str, ...]:
    """The paths of a list of references, each once, in order."""
    found = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(where for where in map(link, found) if where))


def link_set(value: t.Any) -> frozenset[str]:
    """The same for asking what is among them."""
    return frozenset(links(value))


def identifier(value: t.Any) -> str | None:
    """A UUID in its usual form."""
    try:
        return str(uuid.UUID(text(value) or ""))
    except ValueError:
        return None


def path_of(body: Mapping[str, t.Any]) -> str | None:
    """``@odata.id`` of an object, without the slash at its end that some services add."""
    return path(body.get("@odata.id"))


def path(value: t.Any) -> str | None:
    """A path on the service: it begins with one slash, so no reply can send a request with its login elsewhere."""
    if not isinstance(value, str) or value[:1] != "/" or value[:2] == "//":
        return None
    return value.rstrip("/") or "/"
