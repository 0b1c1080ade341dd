# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sessions of a Redfish service, and the check of a request by X-Auth-Token or basic
authentication.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
import typing as t
from dataclasses import dataclass

from aiohttp import web

from ....pool.journal import Journal
from ....tokens import Tokens
from .errors import RedfishError

# Redfish allows only these as SessionTimeout. For tests, the emulator's own lifetime may be
# shorter.
SHORTEST: t.Final = 30
LONGEST: t.Final = 86400
_KEPT: t.Final = ("ident", "user", "created", "used")


@dataclass(slots=True)
class Session:
    """A session. ``used``: time of its last request, in seconds since 1970.

    ``token``: empty after a restart.
    """

    ident: str
    token: str
    user: str
    created: float
    used: float


class Sessions:
    """The sessions.

    They survive a restart, as in real services, and end by revocation like all tokens.

    The file holds digests of the tokens, never a token.
    """

    def __init__(self, tokens: Tokens, journal: Journal | None) -> None:
        self.tokens = tokens
        self._journal = journal
        self._by_digest: dict[str, Session] = {}
        for record in journal.read() if journal else ():
            if record.get("ended"):
                self._by_digest.pop(record["digest"], None)
            else:
                self._by_digest[record["digest"]] = Session(token="", **{k: record[k] for k in _KEPT})

    @property
    def timeout(self) -> int:
        """``SessionTimeout``, in seconds."""
        return int(min(max(self.tokens.lifetime, SHORTEST), LONGEST))

    def alive(self) -> list[Session]:
        """Return the sessions that have not ended."""
        return [session for session in self._by_digest.values() if self._lives(session)]

    def find(self, ident: str) -> Session | None:
        """Return the session with this id, None for none."""
        return next((session for session in self.alive() if session.ident == ident), None)

    def open(self, body: t.Any) -> Session:
        """Open a session for a user and a password. Raises RedfishError."""
        user, password = (body.get(key) if isinstance(body, dict) else None for key in ("UserName", "Password"))
        if not isinstance(user, str) or not isinstance(password, str):
            raise RedfishError(400, "UserName and Password are required", "PropertyMissing")
        self._check(user, password)
        now = time.time()
        session = Session(secrets.token_hex(8), secrets.token_urlsafe(24), user, now, now)
        digest = _digest(session.token)
        self._by_digest[digest] = session
        self._write({"ident": session.ident, "digest": digest, "user": user, "created": now, "used": now})
        return session

    def end(self, ident: str) -> bool:
        """Log out. Return False if there is no such session."""
        session = self.find(ident)
        if session is None:
            return False
        digest = next(digest for digest, kept in self._by_digest.items() if kept is session)
        del self._by_digest[digest]
        self._write({"digest": digest, "ended": True})
        return True

    def admit(self, request: web.Request) -> None:
        """Raise RedfishError unless the request has a session or the right user and password."""
        if token := request.headers.get("X-Auth-Token"):
            session = self._by_digest.get(_digest(token))
            if session is None or not self._lives(session):
                raise RedfishError(401, "the session does not exist or has ended")
            session.used = time.time()
            return
        self._check(*_basic(request.headers.get("Authorization", "")))

    def _lives(self, session: Session) -> bool:
        fresh = time.time() - session.used < self.tokens.lifetime
        return fresh and session.created >= self.tokens.valid_from

    def _check(self, user: str, password: str) -> None:
        told = self.tokens.credentials.users.get(user, "")
        if not told or not hmac.compare_digest(password.encode(), told.encode()):
            raise RedfishError(401, "the user or the password is wrong")

    def _write(self, record: dict[str, t.Any]) -> None:
        if self._journal:
            self._journal.write(record)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _basic(header: str) -> tuple[str, str]:
    kind, _unused, text = header.partition(" ")
    try:
        words = base64.b64decode(text, validate=True).decode() if kind.lower() == "basic" else ""
    except (binascii.Error, UnicodeDecodeError):
        words = ""
    user, _unused, password = words.partition(":")
    return user, password
