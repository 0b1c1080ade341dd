# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Authentication of requests, with one class for each login method of ``FabricConfig.auth``."""

from __future__ import annotations

import json
import time
import typing as t
from collections.abc import Callable, Mapping
from urllib.parse import quote, urlencode, urlsplit

from ...net.client import Response
from ..config import FabricConfig
from ..errors import FabricError, Unauthorized, Unavailable
from .endpoint import Endpoint, basic
from .http_status import error_for_status
from .request import JSON, ErrorBody, Request
from .token import Token, TokenSource, everlasting, token

TOKEN_PATH: t.Final = "/id_manager/realms/{realm}/protocol/openid-connect/token"
SESSIONS_PATH: t.Final = "/redfish/v1/SessionService/Sessions"
LOGOUT_SECONDS: t.Final = 5.0
# Statuses that refuse the credentials. Other statuses have other causes.
_NOT_LET_IN: t.Final = (400, 401, 403, 404)
_IDENTITY: t.Final = "log in at the CDI Manager's identity service"
_SESSION: t.Final = "open a session at the CDI Manager"

ReadError = Callable[[t.Any], "ErrorBody | None"]


class Auth(t.Protocol):
    """Headers that authenticate a request. Thread-safe."""

    def headers(self, refused: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the headers for a request. Raise FabricError.

        ``refused`` are headers that the manager answered with 401. Return the same object if there
        are no others.
        """

    def close(self) -> None:
        """Log out if there is a session. Never fail."""


def auth_for(endpoint: Endpoint, read_error: ReadError) -> Auth:
    """Return the login method that the configuration names."""
    if endpoint.config.auth == "password_grant":
        return PasswordGrant(endpoint)
    if endpoint.config.auth == "session":
        return RedfishSession(endpoint, read_error)
    return Basic(endpoint) if endpoint.config.auth == "basic" else Anonymous()


class Anonymous:
    """No login."""

    def __init__(self) -> None:
        self._none: dict[str, str] = {}

    def headers(self, refused: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return no headers."""
        return self._none

    def close(self) -> None:
        """Do nothing."""


class Basic:
    """User and password with every request. After a refusal, read a renewed Secret."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._header = _basic(endpoint.config)

    def headers(self, refused: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the header of the current credentials."""
        if refused is not None and (now := _basic(self._endpoint.current())) != refused:
            self._header = now
        return self._header

    def close(self) -> None:
        """Do nothing."""


def _basic(config: FabricConfig) -> dict[str, str]:
    return {"Authorization": f"Basic {basic(config)}"}


class PasswordGrant:
    """Keycloak's password grant for FM and CM: a JWT, renewed shortly before its ``exp``."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._tokens = TokenSource(self._login)

    def headers(self, refused: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the header with the current bearer token."""
        old = refused["Authorization"].removeprefix("Bearer ") if refused else None
        return {"Authorization": f"Bearer {self._tokens.get(refused=old)}"}

    def close(self) -> None:
        """Do nothing. The token expires."""

    def _login(self) -> Token:
        config = self._endpoint.current()
        wall, monotonic = time.time(), time.monotonic()
        reply = self._ask(config)
        if not 200 <= reply.status < 300:
            raise _refused(self._endpoint, config, reply, _identity_words(reply), _IDENTITY)
        made = token(_access_token(reply), wall, monotonic)
        self._endpoint.redact.learn_token(made.text)
        return made

    def _ask(self, config: FabricConfig) -> Response:
        form = {key: getattr(config, key) for key in ("client_id", "client_secret", "username", "password")}
        form |= {"scope": "openid", "response_type": "id_token token", "grant_type": "password"}
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        request = Request("POST", TOKEN_PATH.format(realm=quote(config.realm, safe="")), _IDENTITY)
        return self._endpoint.send(request, headers, urlencode(form).encode())


class RedfishSession:
    """A session of Redfish's SessionService (DSP0266, 13.3.4) with X-Auth-Token, deleted on close.

    Only the manager knows when the session ends. Use the token until a 401, then open a new
    session.
    """

    def __init__(self, endpoint: Endpoint, read_error: ReadError) -> None:
        self._endpoint = endpoint
        self._read_error = read_error
        self._tokens = TokenSource(self._login)
        self._location: str | None = None

    def headers(self, refused: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the header with the current token."""
        return {"X-Auth-Token": self._tokens.get(refused=refused["X-Auth-Token"] if refused else None)}

    def close(self) -> None:
        """Delete the session, because managers limit the number of sessions."""
        held, location = self._tokens.drop(), self._location
        if held is None or location is None:
            return
        try:
            self._endpoint.send(Request("DELETE", location, "log out", timeout=LOGOUT_SECONDS), {"X-Auth-Token": held})
        except FabricError:
            return

    def _login(self) -> Token:
        config = self._endpoint.current()
        body = json.dumps({"UserName": config.username, "Password": config.password}).encode()
        reply = self._endpoint.send(Request("POST", SESSIONS_PATH, _SESSION), {"Content-Type": JSON}, body)
        if not 200 <= reply.status < 300:
            raise _refused(self._endpoint, config, reply, self._words(reply), _SESSION)
        text = reply.headers.get("x-auth-token")
        if not text:
            raise Unavailable(f"cannot {_SESSION}: its reply holds no X-Auth-Token. Check endpoint")
        self._endpoint.redact.learn_token(text)
        self._location = _session_path(self._endpoint.address, reply)
        return everlasting(text)

    def _words(self, reply: Response) -> str | None:
        try:
            said = self._read_error(json.loads(reply.body))
        except ValueError:
            return None
        return said.message if said else None


def _session_path(address: str, reply: Response) -> str | None:
    """Return the path of the session below ``address``, from Location or else @odata.id."""
    where = reply.headers.get("location")
    if not where:
        try:
            where = json.loads(reply.body)["@odata.id"]
        except (ValueError, KeyError, TypeError):
            return None
    return urlsplit(str(where)).path.removeprefix(urlsplit(address).path) or None


def _access_token(reply: Response) -> str:
    try:
        text = json.loads(reply.body)["access_token"]
    except (ValueError, KeyError, TypeError):
        text = None
    if not isinstance(text, str):
        raise Unavailable(f"cannot {_IDENTITY}: its reply holds no access_token. Check endpoint")
    return text


def _refused(endpoint: Endpoint, config: FabricConfig, reply: Response, said: str | None, purpose: str) -> FabricError:
    words = endpoint.redact(said) if said else None
    if words is None or reply.status not in _NOT_LET_IN:
        told = ErrorBody(None, words) if words else None
        return error_for_status(reply, Request("POST", "", purpose), told, endpoint.foreign(reply))
    shown = {"username": "user", "client_id": "client", "realm": "realm"}
    who = ", ".join(f"{name} {getattr(config, key)!r}" for key, name in shown.items() if getattr(config, key))
    check = [key for key in ("username", "password", "client_id", "client_secret", "realm") if getattr(config, key)]
    text = f"cannot {purpose} as {who}: {words}. Check {', '.join(check[:-1])} and {check[-1]}"
    return Unauthorized(text, code=str(reply.status), detail=words)


def _identity_words(reply: Response) -> str | None:
    """Return the text of Keycloak's error body ``{"error": …, "error_description": …}``."""
    try:
        body = json.loads(reply.body)
        return ": ".join(str(body[k]) for k in ("error", "error_description") if body.get(k)) or None
    except (ValueError, AttributeError):
        return None
