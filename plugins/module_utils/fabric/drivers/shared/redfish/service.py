# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read single resources, paged collections and error messages of a Redfish service."""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from ....errors import FabricError, Missing, Refused, Unavailable
from ....http.http_status import malformed
from ....http.request import ErrorBody, Request
from ....http.session import Session
from ....operations.parallel import outcomes
from .fields import NOTHING, Resource, objects, path_of, text
from .resources import Collection, ServiceRoot

# DSP0266 path of the root with its slash. Some services redirect the path without the slash, and
# clients must not follow.
ROOT: t.Final = "/redfish/v1/"
MOST_PAGES: t.Final = 10_000
GONE: t.Final = 410
# Readings of a collection with a wrong member count, as another client may change it.
READINGS: t.Final = 3
# Statuses about a single resource: an unreadable body, no right to read it, a 404 from a proxy, or
# an internal error. Other statuses are about the service, the login or the load.
ABOUT_ONE: t.Final = (200, 403, 404, 500, 501)

R = t.TypeVar("R", bound=Resource)


def read_error(body: t.Any) -> ErrorBody | None:
    """Read ``{"error": {code, message, @Message.ExtendedInfo: [{MessageId, Message}]}}``.

    Return None for another format.
    """
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return None
    messages = said_by(error.get("@Message.ExtendedInfo"))
    general = text(error.get("message"))
    words = messages.message if messages else general or "no message"
    return ErrorBody((messages and messages.code) or text(error.get("code")), words)


def said_by(messages: t.Any) -> ErrorBody | None:
    """Join a list of Redfish messages into one text, with the id of the first message."""
    found = [entry for entry in objects(messages) if text(entry.get("Message")) or text(entry.get("MessageId"))]
    if not found:
        return None
    words = "; ".join(text(entry.get("Message")) or str(entry["MessageId"]) for entry in found)
    return ErrorBody(text(found[0].get("MessageId")), words)


def local_path(location: str | None) -> str | None:
    """Return path and query of a Location header. Ignore the host of a whole URL."""
    parts = urlsplit(location or "")
    if not parts.path.startswith("/"):
        return None
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


class Service:
    """Reads a Redfish service. Thread-safe."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._root: ServiceRoot | None = None
        self._expands = True

    def root(self) -> ServiceRoot:
        """Return the service root, read once. Raise FabricError, and Missing without a service."""
        with self._lock:
            if self._root is None:
                found = self.read(ServiceRoot, ROOT)
                if found is None:
                    raise Missing(f"there is no Redfish service at {self._session.config.endpoint}: it has no {ROOT}")
                self._root = found
            return self._root

    def read(self, kind: type[R], uri: str) -> R | None:
        """Return one resource, or None if the service reports that there is none."""
        request = Request("GET", uri, f"read {uri}")
        try:
            answer = self._session.call(request)
        except Missing:
            return None
        except Refused as error:
            if error.status == GONE:
                return None
            raise
        if not isinstance(answer.body, dict):
            raise _of_status(malformed(request, "it is no JSON object"), answer.status)
        if (told := path_of(answer.body)) and _plain(told) != _plain(uri):
            raise _of_status(malformed(request, f"it is about {told}"), answer.status)
        return kind(answer.body, uri, answer.headers.get("etag"))

    def read_all(self, kind: type[R], uris: Iterable[str], known: Mapping[str, Resource] | None = None) -> list[R]:
        """Read several resources in parallel, without absent ones. Raise the first error.

        ``known`` has earlier readings by path. With it, an error about one resource does not raise.
        The earlier reading replaces the resource, or a resource with only its Id, marked
        ``unreadable``.
        """
        found: list[R] = []
        wanted = [*dict.fromkeys(uris)]
        for uri, outcome in zip(wanted, outcomes(lambda uri: self.read(kind, uri), wanted), strict=True):
            if not isinstance(outcome, FabricError):
                found += [outcome] if outcome is not None else []
            elif known is None or outcome.status not in ABOUT_ONE:
                raise outcome
            else:
                before = known.get(uri)
                body = before.body if before is not None else {"@odata.id": uri, "Id": uri.rpartition("/")[2]}
                found.append(kind(body, uri))
                found[-1].unreadable = outcome.message
        return found

    def members(
        self, kind: type[R], uri: str | None, levels: int = 1, known: Mapping[str, Resource] | None = None
    ) -> tuple[R, ...]:
        """Return all members of a collection, each once, or none if it is absent.

        ``levels`` is the depth of expansion, if the service expands. ``known`` is as in
        ``read_all``. The collection itself must be readable.
        """
        if uri is None:
            return ()
        entries: dict[str, Mapping[str, t.Any]] = {}
        for entry in self._entries(uri, levels):
            where = path_of(entry)
            if where is not None:
                entries.setdefault(where, entry)
        bare = [where for where, entry in entries.items() if len(entry) == 1]
        read = {resource.uri: resource for resource in self.read_all(kind, bare, known)}
        whole = {where: kind(entry, where) for where, entry in entries.items() if len(entry) > 1}
        every = {**read, **whole}
        return tuple(every[where] for where in entries if where in every)

    def _entries(self, uri: str, levels: int) -> Sequence[Mapping[str, t.Any]]:
        """Return the entries of all pages. Raise Unavailable if the member count is wrong."""
        for _reading in range(READINGS):
            pages = [*self._pages(uri, levels)]
            if all(pages) and _is_whole([page for page in pages if page]):
                return [entry for page in pages if page for entry in page.entries()]
        raise Unavailable(f"cannot read {uri}: its count and its list of members differed in {READINGS} readings")

    def _pages(self, uri: str, levels: int) -> Iterable[Collection | None]:
        """Yield all pages, with None for an absent page, or nothing without a collection."""
        page, seen = self._first_page(uri, levels), set[str]()
        if page is None:
            return
        yield page
        while page is not None and page.more and page.more not in seen and len(seen) <= MOST_PAGES:
            seen.add(page.more)
            page = self.read(Collection, page.more)
            yield page

    def _first_page(self, uri: str, levels: int) -> Collection | None:
        root = self.root()
        if not (root.expands and self._expands):
            return self.read(Collection, uri)
        depth = max(min(levels, root.levels or 1), 1)
        try:
            return self.read(Collection, f"{uri}?$expand=.($levels={depth})")
        except Refused:
            # Some services offer the query and then refuse it.
            self._expands = False
        except FabricError as error:
            # One member that cannot be shown may be the cause.
            if error.status not in ABOUT_ONE:
                raise
        return self.read(Collection, uri)


def _is_whole(pages: Sequence[Collection]) -> bool:
    """Return whether pages have at least as many members as each page reports.

    A page may name a member twice. Published examples of the standard have more members than the
    count, so allow more.
    """
    told = max((page.count for page in pages if page.count is not None), default=0)
    entries = [entry for page in pages for entry in page.entries()]
    different = len({path_of(entry) or number for number, entry in enumerate(entries)})
    return told <= different or (len(pages) == 1 and told <= len(entries))


def _of_status(error: FabricError, status: int) -> FabricError:
    error.status = status
    return error


def _plain(uri: str) -> str:
    """Normalize the path of a resource. Ignore case, query and fragment."""
    return urlsplit(uri).path.rstrip("/").casefold()


def embedded(body: Mapping[str, t.Any], names: Iterable[str]) -> dict[str, Mapping[str, t.Any]]:
    """Return the resources that are embedded in another resource, by path."""
    found: dict[str, Mapping[str, t.Any]] = {}
    for name in names:
        for entry in objects(body.get(name)):
            inner = entry.get("EntityLink", NOTHING) if "EntityLink" in entry else entry
            where = path_of(inner) if isinstance(inner, dict) else None
            if where is not None and len(inner) > 1:
                found[where] = inner
    return found
