# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The identity service of a manager, Keycloak's password grant with short-lived JWTs (HS256)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import time
import typing as t
import uuid
from contextvars import ContextVar
from dataclasses import dataclass, field

from aiohttp import web

from .credentials import Credentials

# The skew of one login, in addition to the lasting skew.
CLOCK_SKEW: t.Final[ContextVar[float]] = ContextVar("clock_skew", default=0.0)
PATH: t.Final = "/id_manager/realms/{realm}/protocol/openid-connect/token"


@dataclass(slots=True)
class Tokens:
    """Issue and check tokens.

    ``lifetime``: seconds. ``valid_from``: older tokens are revoked. ``skew``: seconds by which the
    identity service's clock is ahead of other clocks.
    """

    credentials: Credentials
    key: bytes
    lifetime: float
    valid_from: float = 0.0
    issued: int = field(default=0)
    skew: float = 0.0

    def issue(self, user: str) -> str:
        """Return a JWT.

        ``exp`` is a whole second, rounded up, so that no token is expired at once.
        """
        now = time.time()
        shown = now + self.skew + CLOCK_SKEW.get()
        self.issued += 1
        payload = {
            "exp": math.ceil(shown + self.lifetime), "iat": math.floor(shown), "issued_at": now,
            "ends_at": math.ceil(now + self.lifetime),
            "jti": str(uuid.uuid4()), "typ": "Bearer", "preferred_username": user,
            "iss": f"/id_manager/realms/{self.credentials.realm}",
        }
        signed = f"{_encode({'alg': 'HS256', 'typ': 'JWT'})}.{_encode(payload)}"
        return f"{signed}.{self._sign(signed)}"

    def problem(self, authorization: str | None) -> str | None:
        """Return why an ``Authorization`` header is not accepted, None if it is."""
        kind, _unused, token = (authorization or "").partition(" ")
        signed, _unused, signature = token.rpartition(".")
        if kind.lower() != "bearer" or not signed:
            return "no bearer token"
        if not hmac.compare_digest(signature.encode(), self._sign(signed).encode()):
            return "the token's signature is not valid"
        payload = json.loads(_decode(signed.partition(".")[2]))
        if time.time() >= payload["ends_at"]:
            return "the token has expired"
        return "the token was revoked" if payload["issued_at"] < self.valid_from else None

    def revoke(self) -> None:
        """Refuse every token issued until now."""
        self.valid_from = time.time()

    def _sign(self, signed: str) -> str:
        return _plain(hmac.new(self.key, signed.encode(), hashlib.sha256).digest())

    async def grant(self, request: web.Request) -> web.Response:
        """POST of the token endpoint. Statuses and bodies of the errors are Keycloak's."""
        form = await request.post()
        told = self.credentials
        if request.match_info["realm"] != told.realm:
            return _refuse(404, "Realm does not exist")
        if form.get("grant_type") != "password":
            return _refuse(400, "unsupported_grant_type", "Unsupported grant_type")
        if not _same(form, client_id=told.client_id, client_secret=told.client_secret):
            return _refuse(401, "unauthorized_client", "Invalid client or Invalid client credentials")
        user = str(form.get("username", ""))
        if not hmac.compare_digest(str(form.get("password", "")), told.users.get(user, "")) or not user:
            return _refuse(401, "invalid_grant", "Invalid user credentials")
        return web.json_response(self._reply(user))

    def _reply(self, user: str) -> dict[str, t.Any]:
        token = self.issue(user)
        return {
            "access_token": token, "expires_in": math.ceil(self.lifetime), "refresh_expires_in": 1800,
            "refresh_token": self.issue(user), "token_type": "Bearer", "id_token": token,
            "not-before-policy": 0, "session_state": str(uuid.uuid4()), "scope": "openid",
        }


def _same(form: t.Mapping[str, t.Any], **wanted: str) -> bool:
    return all(hmac.compare_digest(str(form.get(k, "")).encode(), v.encode()) for k, v in wanted.items())


def _refuse(status: int, error: str, description: str | None = None) -> web.Response:
    body = {"error": error} if description is None else {"error": error, "error_description": description}
    return web.json_response(body, status=status)


def _encode(value: dict[str, t.Any]) -> str:
    return _plain(json.dumps(value).encode())


def _plain(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
