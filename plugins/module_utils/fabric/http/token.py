# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An access token, renewed shortly before it expires by one thread for all threads."""

from __future__ import annotations

import base64
import binascii
import json
import math
import threading
import time
import typing as t
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..errors import FabricError, Unauthorized, Unavailable

RENEW_BEFORE: t.Final = 30.0
# Many threads must not each repeat a refused login at once, as servers then lock the account.
REFUSAL_PAUSE: t.Final = 5.0
_NOT_A_TOKEN: t.Final = "the identity service answered with an access_token that is not a JWT"


@dataclass(frozen=True, slots=True)
class Token:
    """``renew_at`` and ``expires_at`` are seconds on the monotonic clock."""

    text: str
    renew_at: float
    expires_at: float


def everlasting(text: str) -> Token:
    """Return a token without a known end. It is used until the manager refuses it."""
    return Token(text, math.inf, math.inf)


def claims(text: str) -> dict[str, t.Any]:
    """Return the payload of a JWT (RFC 7519). Raise Unauthorized.

    The payload is not verified, because only the manager must trust it.
    """
    parts = text.split(".")
    if len(parts) != 3:
        raise Unauthorized(_NOT_A_TOKEN)
    try:
        payload = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        raise Unauthorized(_NOT_A_TOKEN) from None
    if not isinstance(payload, dict):
        raise Unauthorized(_NOT_A_TOKEN)
    return payload


def lifetime(text: str, asked_at: float) -> float:
    """Return the lifetime in seconds from ``asked_at`` (seconds since the epoch).

    If the token has an issue time, use the difference, so that the two clocks need not agree.
    """
    payload = claims(text)
    expires, issued = _number(payload.get("exp")), _number(payload.get("iat"))
    if expires is None:
        raise Unauthorized("the identity service answered with a token without an expiry time (exp)")
    return expires - (asked_at if issued is None else issued)


def _number(value: t.Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def token(text: str, asked_wall: float, asked_monotonic: float) -> Token:
    """Return the token. It is renewed 30 s before its end, or after half its life."""
    seconds = max(lifetime(text, asked_wall), 0.0)
    end = asked_monotonic + seconds
    return Token(text, end - min(RENEW_BEFORE, seconds / 2), end)


class TokenSource:
    """Holder of the current token. ``login`` fetches a token. Thread-safe, one login at once."""

    def __init__(self, login: Callable[[], Token], clock: Callable[[], float] = time.monotonic) -> None:
        self._login = login
        self._clock = clock
        self._lock = threading.Lock()
        self._held: Token | None = None
        self._logins = 0
        self._failure: FabricError | None = None
        self._failed_at = 0.0

    def get(self, refused: str | None = None) -> str:
        """Return a token other than ``refused``, which the manager answered with 401."""
        held, logins = self._held, self._logins
        if held and held.text != refused and self._clock() < held.renew_at:
            return held.text
        with self._lock:
            return self._get_alone(refused, logins)

    def drop(self) -> str | None:
        """Forget and return the current token, for example to log out."""
        with self._lock:
            held, self._held = self._held, None
        return held.text if held else None

    def _get_alone(self, refused: str | None, logins: int) -> str:
        held = self._held
        if held and held.text != refused and self._clock() < held.renew_at:
            return held.text
        if self._failure and (self._logins != logins or self._must_pause()):
            raise _again(self._failure)
        return self._renew(refused)

    def _must_pause(self) -> bool:
        return isinstance(self._failure, Unauthorized) and self._clock() < self._failed_at + REFUSAL_PAUSE

    def _renew(self, refused: str | None) -> str:
        try:
            self._held, self._failure = self._login(), None
            return self._held.text
        except Unavailable as error:
            return self._outlast(error, refused)
        except FabricError as error:
            self._fail(error)
            raise
        finally:
            self._logins += 1

    def _outlast(self, error: Unavailable, refused: str | None) -> str:
        """Use a token that has not expired while the identity service is unavailable."""
        now, held = self._clock(), self._held
        if held is None or held.text == refused or now >= held.expires_at:
            self._fail(error)
            raise error
        self._held = replace(held, renew_at=min(now + REFUSAL_PAUSE, held.expires_at))
        return held.text

    def _fail(self, error: FabricError) -> None:
        self._failure, self._failed_at = error, self._clock()


def _again(error: FabricError) -> FabricError:
    """Copy an error for another thread. One instance raised twice would mix up its tracebacks."""
    copy = type(error).__new__(type(error))
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    return copy
