# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading from a Redfish service: single resources, collections however they are paged, and its error messages."""

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

# DSP0266: the root's path, with its slash; some services redirect the other form, which a client must not follow.
ROOT: t.Final = "/redfish/v1/"
MOST_PAGES: t.Final = 10_000
GONE: t.Final = 410
# How often a collection is read that does not have as many members as it says: somebody may change it meanwhile.
READINGS: t.Final = 3
# Statuses of an answer about one resource: a form that cannot be understood, no right to read it, a 404 that is not the
# service's own, an error inside. Any other is about the service, the login or the load.
ABOUT_ONE: t.Final = (200, 403, 404, 500, 501)

R = t.TypeVar("R", bound=Resource)


def read_error(body: t.Any) -> ErrorBody | None:
    """``{"error": {code, message, @Message.ExtendedInfo: [{MessageId, Message}]}}``; None: not Redfish's form."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return None
    messages = said_by(error.get("@Message.ExtendedInfo"))
    general = text(error.get("message"))
    words = messages.message if messages else general or "no message"
    return ErrorBody((messages and messages.code) or text(error.get("code")), words)


def said_by(messages: t.Any) -> ErrorBody | None:
    """A list of Redfish messages as one sentence, with the id of the first one."""
    found = [entry for entry in objects(messages) if text(entry.get("Message")) or text(entry.get("MessageId"))]
    if not found:
        return None
    words = "; ".join(text(entry.get("Message")) or str(entry["MessageId"]) for entry in found)
    return ErrorBody(text(found[0].get("MessageId")), words)


def local_path(location: str | None) -> str | None:
    """Path and query of a Location header, which may be a whole URL. The host is ours, whatever it says."""
    parts = urlsplit(location or "")
    if not parts.path.startswith("/"):
        return None
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


class Service:
    """What can be read. Thread-safe."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._root: ServiceRoot | None = None
        self._expands = True

    def root(self) -> ServiceRoot:
        """The service root, read once. Raises FabricError; Missing where there is no Redfish service."""
        with self._lock:
            if self._root is None:
                found = self.read(ServiceRoot, ROOT)
                if found is None:
                    raise Missing(f"there is no Redfish service at {self._session.config.endpoint}: it has no {ROOT}")
                self._root = found
            return self._root

    def read(self, kind: type[R], uri: str) -> R | None:
        """One resource, None when the service itself says that it has none there."""
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
        """Several at once, those that the service has. Raises the first error: what is not known is not absent.

        With ``known``, earlier readings by path, an error about one resource does not end the others: the earlier
        reading stands in for it, or a resource that only has its Id, marked ``unreadable``.
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
        """All of a collection, each once; none when it is absent. ``levels`` deep where the service expands.

        ``known`` as in ``read_all``. The collection itself must be readable.
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
        """Entries of all pages. Raise Unavailable if they are not as many as the collection says."""
        for _reading in range(READINGS):
            pages = [*self._pages(uri, levels)]
            if all(pages) and _is_whole([page for page in pages if page]):
                return [entry for page in pages if page for entry in page.entries()]
        raise Unavailable(f"cannot read {uri}: it does not have as many members as it says, in {READINGS} readings")

    def _pages(self, uri: str, levels: int) -> Iterable[Collection | None]:
        """All pages, None for one that is linked and absent; nothing when there is no such collection."""
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
            # One member that cannot be shown may be to blame.
            if error.status not in ABOUT_ONE:
                raise
        return self.read(Collection, uri)


def _is_whole(pages: Sequence[Collection]) -> bool:
    """Whether pages have at least as many members as each of them says. A page may name a member twice.

    More members than the count lose nothing. Published examples of the standard have them.
    """
    told = max((page.count for page in pages if page.count is not None), default=0)
    entries = [entry for page in pages for entry in page.entries()]
    different = len({path_of(entry) or number for number, entry in enumerate(entries)})
    return told <= different or (len(pages) == 1 and told <= len(entries))


def _of_status(error: FabricError, status: int) -> FabricError:
    error.status = status
    return error


def _plain(uri: str) -> str:
    """The path of a resource: how a service spells it, and which part of it was asked for, does not matter."""
    return urlsplit(uri).path.rstrip("/").casefold()


def embedded(body: Mapping[str, t.Any], names: Iterable[str]) -> dict[str, Mapping[str, t.Any]]:
    """Resources that came expanded inside another, by path."""
    found: dict[str, Mapping[str, t.Any]] = {}
    for name in names:
        for entry in objects(body.get(name)):
            inner = entry.get("EntityLink", NOTHING) if "EntityLink" in entry else entry
            where = path_of(inner) if isinstance(inner, dict) else None
            if where is not None and len(inner) > 1:
                found[where] = inner
    return found
