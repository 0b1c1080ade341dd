# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an HTTP status other than success means, the same for every dialect."""

from __future__ import annotations

import time
import typing as t
from email.utils import parsedate_to_datetime

from ...net.client import Response
from ..errors import Busy, Changed, FabricError, Missing, Refused, Unauthorized, Unavailable, Uncertain
from .request import ErrorBody, Request

LONGEST_RETRY_AFTER: t.Final = 300.0


def error_for_status(response: Response, request: Request, said: ErrorBody | None, foreign: str) -> FabricError:
    """The error for a response that is no success.

    ``said`` is None when the body is not in the manager's own form; then ``foreign`` describes it. A 404 of
    that sort comes from something in front of the manager and says nothing about machines or devices.
    """
    words = said.message if said else foreign
    more = {"code": said.code if said else None, "detail": said.message if said else None}
    code = f" [{said.code}]" if said and said.code else ""
    text = f"cannot {request.purpose}: the CDI Manager answered {response.status}: {words}{code}"
    error = _by_status(response, request, said, text, more)
    error.status = response.status
    return error


def _by_status(
    response: Response, request: Request, said: ErrorBody | None, text: str, more: dict[str, t.Any]
) -> FabricError:
    status = response.status
    if status in (401, 403):
        return Unauthorized(text, **more)
    if status == 404 and said:
        return Missing(text, **more)
    if status in (412, 428):
        return Changed(text, **more)
    if status in (409, 423, 429):
        return Busy(text, retry_after=_retry_after(response), **more)
    if status == 503:
        return Unavailable(text, passing=True, retry_after=_retry_after(response), **more)
    if status >= 500:
        return Uncertain(text, **more) if request.effect else Unavailable(text, passing=True, **more)
    if status < 400 or status in (404, 408) or not said:
        return Unavailable(f"{text}; check endpoint", **more)
    return Refused(text, **more)


def _retry_after(response: Response) -> float | None:
    """Seconds, or a date of HTTP (RFC 9110, 10.2.3)."""
    value = response.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value), LONGEST_RETRY_AFTER)
    try:
        left = parsedate_to_datetime(value).timestamp() - time.time()
    except (TypeError, ValueError, IndexError):
        return None
    return min(max(left, 0.0), LONGEST_RETRY_AFTER)


def malformed(request: Request, what: str) -> FabricError:
    """A success that cannot be understood: after a change nobody knows what happened."""
    text = f"cannot {request.purpose}: the CDI Manager's reply cannot be understood: {what}"
    if request.effect:
        return Uncertain(f"{text}; it may have taken effect")
    return Unavailable(f"{text}; check endpoint and manager")
