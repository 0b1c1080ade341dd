# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page's HTTP endpoints. Anyone gets static files.

Rows and stories need the permission of ``Access``.

Browsers keep no cookie. The page sends the token that its user entered, in a header, with every
request.
"""

from __future__ import annotations

import re
import socket
import typing as t
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from ansible_collections.composable.infra.controller.access import FORBIDDEN, OK, UNAUTHORIZED, UNAVAILABLE, Access
from ansible_collections.composable.infra.controller.ui.bundle import SECURITY, StaticFile, bundle
from ansible_collections.composable.infra.controller.ui.docs_pages import DocsPages
from ansible_collections.composable.infra.controller.ui.insight.insight import Insight, Told
from ansible_collections.composable.infra.controller.ui.insight.span import BadQuery
from ansible_collections.composable.infra.controller.ui.past.audit import MOST, Audit
from ansible_collections.composable.infra.controller.ui.past.records import Records
from ansible_collections.composable.infra.controller.ui.scope import Scope
from ansible_collections.composable.infra.controller.ui.story import Stories
from ansible_collections.composable.infra.controller.ui.stream import Broadcaster
from ansible_collections.composable.infra.controller.ui.view import View, compact
from ansible_collections.composable.infra.controller.ui.whatif.bounded import BUSY, WhatIf
from ansible_collections.composable.infra.controller.ui.whatif.question import BadQuestion, Question, read_question

ROOT: t.Final = "/ui/"
SNAPSHOT, CHANGES, STORY, WAITS, WHAT_IF = "snapshot", "changes", "story", "waits", "what-if"
AUDIT, RECORDS = "audit", "records"
# A proxy of the API server uses the header Authorization for itself.
TOKEN_HEADER: t.Final = "X-Composable-Infra-Token"
# A what-if is costly. No page of another site can send this header. A browser first sends an
# OPTIONS request (CORS), and the server answers it with 501. So a GET is safe, though loopback
# needs no token. There are no cookies.
PAGE_HEADER: t.Final = "X-Composable-Infra-Page"
NOT_THE_PAGE: t.Final = f"the header {PAGE_HEADER}: 1 is required, so that no other site can start a what-if"
NOT_FOR_ONE: t.Final = "what-if reads the whole cluster, so it is only for users who may see everything"
NO_WHAT_IF: t.Final = "this process does not serve what-if"
NO_PAST: t.Final = "this process does not serve past events"
_LABEL: t.Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_TEXT: t.Final = "text/plain; charset=utf-8"
_STREAM: t.Final = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store",
                    "X-Accel-Buffering": "no", **SECURITY}


class Request(t.Protocol):
    """The parts of a request that the page reads.

    ``http.server.BaseHTTPRequestHandler`` has them.
    """

    path: str
    headers: t.Any
    client_address: t.Any
    connection: t.Any


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request.

    ``stream``: takes over the connection after status and headers are sent. It returns False if it
    does not.
    """

    code: int
    headers: Mapping[str, str]
    data: bytes = b""
    stream: Callable[[socket.socket], bool] | None = None


class Ui:
    """Answer requests for paths below ``ROOT``.

    ``refusals``: sentences by status. ``what_if``: answers questions. ``insight``: history and usage.
    ``past``: what happened, and Events and log lines. Each is None if it is not served.
    """

    def __init__(self, view: View, stories: Stories, access: Access, refusals: Mapping[int, str],
                 what_if: WhatIf | None = None, insight: Insight | None = None,
                 past: tuple[Audit, Records] | None = None) -> None:
        self._what_if, self._past = what_if, past
        self._insight: Mapping[str, Callable[[Scope, Mapping[str, str]], Told]] = insight.answers if insight else {}
        self._view, self._stories, self._access, self._refusals = view, stories, access, refusals
        self._files, self._docs = bundle(), DocsPages()
        self.broadcaster = Broadcaster(view)

    def start(self) -> None:
        """Start to serve streams."""
        self.broadcaster.start()

    def stop(self) -> None:
        """End all streams."""
        self.broadcaster.stop()
        if self._what_if:
            self._what_if.stop()

    @staticmethod
    def has(path: str) -> bool:
        """Return whether the page answers a path."""
        return path in ("/", ROOT.rstrip("/")) or path.startswith(ROOT)

    def answer(self, request: Request) -> Answer:
        """Return the answer to a GET."""
        asked = urlsplit(request.path)
        if not asked.path.startswith(ROOT):
            # The location is relative, because a proxy may have added a prefix.
            return Answer(302, {"Location": ROOT.strip("/") + "/", "Content-Length": "0", **SECURITY})
        name = asked.path.removeprefix(ROOT)
        if (found := self._files.get(name) or self._docs.get(name)) is not None:
            return _file(found, request.headers.get("If-None-Match") or "")
        answers = {SNAPSHOT: self._snapshot, CHANGES: self._changes, STORY: self._story, WAITS: self._waits,
                   WHAT_IF: self._ask, AUDIT: self._audit, RECORDS: self._records,
                   **dict.fromkeys(self._insight, self._tell)}
        if name not in answers:
            return _said(404, f"{asked.path} is not served. The page is at {ROOT}")
        query = {key: values[0] for key, values in parse_qs(asked.query).items()}
        namespace = query.get("namespace") or None
        if namespace is not None and not _LABEL.fullmatch(namespace):
            return _said(400, f"namespace: {namespace[:64]!r} is not allowed. It must be the name of a namespace")
        code = self._judged(request, namespace)
        if code != OK:
            return _said(code, self._refusals[code])
        return answers[name](Scope(namespace), query, request)

    def _judged(self, request: Request, namespace: str | None) -> int:
        token = request.headers.get(TOKEN_HEADER)
        authorization = f"Bearer {token}" if token else request.headers.get("Authorization") or ""
        return self._access.judge_request(request, authorization, ROOT.rstrip("/"), namespace or "")

    def _snapshot(self, scope: Scope, query: Mapping[str, str], request: Request) -> Answer:
        self.broadcaster.looked_at()
        return _json(self._view.snapshot(scope), request)

    def _changes(self, scope: Scope, query: Mapping[str, str], request: Request) -> Answer:
        position = request.headers.get("Last-Event-ID") or query.get("since") or ""
        if self.broadcaster.full_for(scope):
            return _said(UNAVAILABLE, "too many pages are open. Try again later")
        return Answer(OK, _STREAM, stream=lambda connection: self.broadcaster.adopt(connection, scope, position))

    def _story(self, scope: Scope, query: Mapping[str, str], request: Request) -> Answer:
        key = query.get("key") or ""
        self.broadcaster.looked_at()
        told = self._stories.of(key, scope, self._view)
        return _json(compact(told), request) if told else _said(404, f"key: {key[:300]!r} is not shown")

    def _waits(self, scope: Scope, query: Mapping[str, str], request: Request) -> Answer:
        return _json(compact(self._stories.waits(scope)), request)

    def _tell(self, scope: Scope, query: Mapping[str, str], request: Request) -> Answer:
        name = urlsplit(request.path).path.removeprefix(ROOT)
        try:
            told = self._insight[name](scope, query)
        except BadQuery as error:
            return _said(400, str(error))
        return _packed(told.text, request, told.headers)

    def _audit(self, scope: Scope, query: Mapping[str, str], request: Request) -> Answer:
        most = query.get("most") or str(MOST)
        if not (most.isdecimal() and 0 < int(most) <= MOST):
            return _said(400, f"most: {most[:64]!r} is not allowed. It must be a number from 1 to {MOST}")
        return _json(compact(self._past[0].read(scope, int(most))), request) if self._past else _said(404, NO_PAST)

    def _records(self, scope: Scope, query: Mapping[str, str], request: Request) -> Answer:
        key = query.get("key") or ""
        found = self._past[1].of(key, scope) if self._past else {}
        return _json(compact(found), request) if found else _said(404, f"key: {key[:300]!r} is not shown")

    def _ask(self, scope: Scope, query: Mapping[str, str], request: Request) -> Answer:
        if self._what_if is None:
            return _said(404, NO_WHAT_IF)
        if scope.namespace is not None:
            return _said(FORBIDDEN, NOT_FOR_ONE)
        if request.headers.get(PAGE_HEADER) != "1":
            return _said(400, NOT_THE_PAGE)
        try:
            question = read_question(query)
        except BadQuestion as error:
            return _said(400, str(error))
        return _said(UNAVAILABLE, BUSY) if self._what_if.busy else _told_later(self._what_if, question)


def _told_later(what_if: WhatIf, question: Question) -> Answer:
    """Hand the connection over, because the answer takes longer than a request may."""
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store", **SECURITY}
    return Answer(OK, headers, stream=lambda connection: what_if.adopt(connection, question))


def _file(found: StaticFile, known: str) -> Answer:
    headers = {"Content-Type": found.kind, "ETag": found.tag, "Cache-Control": "no-cache", **SECURITY}
    if known == found.tag:
        return Answer(304, headers)
    return Answer(OK, {**headers, "Content-Length": str(len(found.data))}, found.data)


def _json(text: str, request: Request) -> Answer:
    return _packed(text, request, {"Content-Type": "application/json"})


def _packed(text: str, request: Request, more: Mapping[str, str]) -> Answer:
    data, headers = text.encode(), {"Cache-Control": "no-store", **SECURITY, **more}
    if "gzip" in (request.headers.get("Accept-Encoding") or "") and len(data) > 1000:
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        data = packer.compress(data) + packer.flush()
        headers["Content-Encoding"] = "gzip"
    return Answer(OK, {**headers, "Content-Length": str(len(data))}, data)


def _said(code: int, text: str) -> Answer:
    data = f"{text}\n".encode()
    more = {"WWW-Authenticate": "Bearer"} if code == UNAUTHORIZED else {}
    return Answer(code, {"Content-Type": _TEXT, "Content-Length": str(len(data)), **SECURITY, **more}, data)
