# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an HTTP status other than success means, the same for every dialect."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from .errors import Busy, Changed, FabricError, Missing, Refused, Unauthorized, Unavailable, Uncertain
from .transport import Reply

LONGEST_RETRY_AFTER: t.Final = 300.0


@dataclass(frozen=True, slots=True)
class Said:
    """The manager's own words about an error."""

    code: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Call:
    """One request. ``purpose`` completes "cannot …"; ``effect``: it changes something, so it is not repeatable.

    ``path`` with query; ``body`` is sent as JSON; ``timeout``: seconds to wait for the reply, default
    read_timeout; ``reads``: the body of a success is wanted and must be JSON; ``headers`` are sent too (``If-Match``).
    """

    method: str
    path: str
    purpose: str
    body: t.Any = None
    timeout: float | None = None
    effect: bool = False
    reads: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """A success: ``headers`` by name in any spelling, ``body`` the JSON, None where there was none."""

    status: int
    headers: Mapping[str, str]
    body: t.Any


def verdict(reply: Reply, call: Call, said: Said | None, foreign: str) -> FabricError:
    """The error for a reply that is no success.

    ``said`` is None when the body is not in the manager's own form; then ``foreign`` describes it. A 404 of
    that sort comes from something in front of the manager and says nothing about machines or devices.
    """
    words = said.message if said else foreign
    more = {"code": said.code if said else None, "detail": said.message if said else None}
    code = f" [{said.code}]" if said and said.code else ""
    text = f"cannot {call.purpose}: the CDI Manager answered {reply.status}: {words}{code}"
    error = _by_status(reply, call, said, text, more)
    error.status = reply.status
    return error


def _by_status(
    reply: Reply, call: Call, said: Said | None, text: str, more: dict[str, t.Any]
) -> FabricError:
    status = reply.status
    if status in (401, 403):
        return Unauthorized(text, **more)
    if status == 404 and said:
        return Missing(text, **more)
    if status in (412, 428):
        return Changed(text, **more)
    if status in (409, 423, 429):
        return Busy(text, retry_after=_retry_after(reply), **more)
    if status == 503:
        return Unavailable(text, passing=True, retry_after=_retry_after(reply), **more)
    if status >= 500:
        return Uncertain(text, **more) if call.effect else Unavailable(text, passing=True, **more)
    if status < 400 or status in (404, 408) or not said:
        return Unavailable(f"{text}; check endpoint", **more)
    return Refused(text, **more)


def _retry_after(reply: Reply) -> float | None:
    """Seconds, or a date of HTTP (RFC 9110, 10.2.3)."""
    value = reply.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value), LONGEST_RETRY_AFTER)
    try:
        left = parsedate_to_datetime(value).timestamp() - time.time()
    except (TypeError, ValueError, IndexError):
        return None
    return min(max(left, 0.0), LONGEST_RETRY_AFTER)


def malformed(call: Call, what: str) -> FabricError:
    """A success that cannot be understood: after a change nobody knows what happened."""
    text = f"cannot {call.purpose}: the CDI Manager's reply cannot be understood: {what}"
    if call.effect:
        return Uncertain(f"{text}; it may have taken effect")
    return Unavailable(f"{text}; check endpoint and manager")
