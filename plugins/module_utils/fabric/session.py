# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Authorised calls to one manager: token, one renewal on 401, repeats where safe, errors by class, no secrets."""

from __future__ import annotations

import json
import random
import threading
import time
import typing as t
from collections.abc import Callable
from urllib.parse import quote, urlencode

from .config import FabricConfig
from .errors import BadConfiguration, Busy, FabricError, Unauthorized, Unavailable, Uncertain
from .redaction import Redactor
from .token import Token, TokenSource, token
from .transport import Lost, Reply, Transport, trusted
from .verdicts import Call, Said, malformed, verdict

REPEATS: t.Final = 2
FIRST_PAUSE: t.Final = 0.1
LONGEST_PAUSE: t.Final = 5.0
TOKEN_PATH: t.Final = "/id_manager/realms/{realm}/protocol/openid-connect/token"
_LOGIN: t.Final = "log in at the CDI Manager's identity service"


class Session:
    """Shared by all dialects. ``read_error`` is the dialect's: JSON of an error body -> the manager's words."""

    def __init__(self, config: FabricConfig, read_error: Callable[[t.Any], Said | None]) -> None:
        self.config = config
        self.redact = Redactor(config.password, config.client_secret)
        self._read_error = read_error
        self._transport = Transport(config)
        self._tokens = TokenSource(self._login)
        self._renewal = threading.Lock()

    def call(self, call: Call) -> t.Any:
        """Carry out; returns the JSON of the reply (None unless ``call.reads``). Raises FabricError."""
        for attempt in range(REPEATS + 1):
            try:
                return self._authorised(call)
            except (Unavailable, Busy) as error:
                pause = _pause(error, attempt)
                if pause is None:
                    raise
            time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Close kept connections."""
        self._transport.close()

    def _authorised(self, call: Call) -> t.Any:
        bearer = self._tokens.get()
        reply = self._exchange(call, bearer)
        if reply.status == 401:
            reply = self._exchange(call, self._tokens.get(refused=bearer))
        if not 200 <= reply.status < 300:
            raise verdict(reply, call, self._said(reply), self._foreign(reply))
        return self._json(call, reply) if call.reads else None

    def _exchange(self, call: Call, bearer: str) -> Reply:
        headers = {"Authorization": f"Bearer {bearer}", "Accept": "application/json"}
        body = None
        if call.body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(call.body, separators=(",", ":")).encode()
        try:
            return self._send(call.method, call.path, headers, body, call.timeout)
        except Lost as lost:
            raise self._unanswered(call, lost) from None

    def _send(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None, timeout: float | None
    ) -> Reply:
        used = self._transport
        seconds = timeout or self.config.read_timeout
        try:
            return used.send(method, path, headers, body, seconds)
        except Lost as lost:
            if not (lost.certificate and self._trust_renewed(used)):
                raise
        return self._transport.send(method, path, headers, body, seconds)

    def _trust_renewed(self, used: Transport) -> bool:
        """Whether the CA file was replaced since the transport read it; if so, a new transport is in place."""
        with self._renewal:
            if self._transport is not used:
                return True
            config = self._current()
            if trusted(config) == used.trusted:
                return False
            try:
                self._transport = Transport(config)
            except BadConfiguration:
                return False
            return True

    def _current(self) -> FabricConfig:
        try:
            return self.config.refreshed()
        except BadConfiguration:
            return self.config

    def _unanswered(self, call: Call, lost: Lost) -> FabricError:
        text = f"cannot {call.purpose}: {self.config.endpoint}: {lost}"
        if lost.sent and call.effect:
            return Uncertain(f"{text}; it may have taken effect")
        return Unavailable(text, passing=lost.passing, code="certificate" if lost.certificate else None)

    def _json(self, call: Call, reply: Reply) -> t.Any:
        try:
            return json.loads(reply.body)
        except ValueError:
            raise malformed(call, self._foreign(reply)) from None

    def _said(self, reply: Reply) -> Said | None:
        try:
            said = self._read_error(json.loads(reply.body))
        except ValueError:
            return None
        return said and Said(said.code and self.redact(said.code), self.redact(said.message))

    def _foreign(self, reply: Reply) -> str:
        kind = reply.headers.get("Content-Type", "no content type")
        start = self.redact(reply.body[:200].decode("utf-8", "replace"))
        return f"{kind}, not the form that is expected: {start!r}" if start else f"an empty body ({kind})"

    def _login(self) -> Token:
        config = self._current()
        self.redact.learn(config.password)
        self.redact.learn(config.client_secret)
        wall, monotonic = time.time(), time.monotonic()
        reply = self._ask_token(config)
        if not 200 <= reply.status < 300:
            raise self._login_refused(config, reply)
        made = token(self._access_token(reply), wall, monotonic)
        self.redact.learn(made.text)
        return made

    def _ask_token(self, config: FabricConfig) -> Reply:
        form = {key: getattr(config, key) for key in ("client_id", "client_secret", "username", "password")}
        form |= {"scope": "openid", "response_type": "id_token token", "grant_type": "password"}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        path = TOKEN_PATH.format(realm=quote(config.realm, safe=""))
        try:
            return self._send("POST", path, headers, urlencode(form).encode(), None)
        except Lost as lost:
            raise self._unanswered(Call("POST", path, _LOGIN), lost) from None

    def _access_token(self, reply: Reply) -> str:
        try:
            text = json.loads(reply.body)["access_token"]
        except (ValueError, KeyError, TypeError):
            text = None
        if not isinstance(text, str):
            raise Unavailable(f"cannot {_LOGIN}: its reply holds no access_token; check endpoint")
        return text

    def _login_refused(self, config: FabricConfig, reply: Reply) -> FabricError:
        said = _identity_words(reply)
        if said is None or reply.status >= 500 or reply.status == 429:
            call = Call("POST", "", _LOGIN)
            words = Said(None, self.redact(said)) if said else None
            return verdict(reply, call, words, self._foreign(reply))
        who = f"user {config.username!r}, client {config.client_id!r}, realm {config.realm!r}"
        return Unauthorized(
            f"cannot {_LOGIN} as {who}: {self.redact(said)}; check username, password, client_id, "
            "client_secret and realm",
            code=str(reply.status), detail=self.redact(said),
        )


def _identity_words(reply: Reply) -> str | None:
    """Keycloak's error body: ``{"error": …, "error_description": …}``."""
    try:
        body = json.loads(reply.body)
        return ": ".join(str(body[k]) for k in ("error", "error_description") if body.get(k)) or None
    except (ValueError, AttributeError):
        return None


def _pause(error: Unavailable | Busy, attempt: int) -> float | None:
    """Seconds before the request is repeated; None: it is for the caller to decide when."""
    if attempt >= REPEATS:
        return None
    if error.retry_after is not None:
        return error.retry_after * random.uniform(1.0, 1.1) if error.retry_after <= LONGEST_PAUSE else None
    if isinstance(error, Unavailable) and error.passing:
        return FIRST_PAUSE * 2.0**attempt * random.uniform(0.5, 1.5)
    return None
