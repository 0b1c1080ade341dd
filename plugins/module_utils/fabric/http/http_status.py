# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Meaning of HTTP error statuses, the same for every driver."""

from __future__ import annotations

import time
import typing as t
from email.utils import parsedate_to_datetime

from ...net.client import Response
from ..errors import Busy, Changed, FabricError, Missing, Refused, Unauthorized, Unavailable, Uncertain
from .request import ErrorBody, Request

LONGEST_RETRY_AFTER: t.Final = 300.0


# Redirects that do nothing and want the same request at another place.
MOVED: t.Final = frozenset({301, 307, 308})
# Statuses that a proxy may send even after the manager has received the request.
LATE: t.Final = frozenset({403, 408, 499})


def error_for_status(response: Response, request: Request, said: ErrorBody | None, foreign: str) -> FabricError:
    """Return the error for a response without success.

    ``said`` is None if the body does not have the manager's format. Then ``foreign`` describes the
    body. In this case a 404 comes from a proxy and proves nothing about machines or devices.
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
    status, wait = response.status, _retry_after(response)
    if request.effect and _may_have_taken_effect(status, said is not None, wait is not None):
        return Uncertain(f"{text}. It may have taken effect", **more)
    if status in (401, 403):
        return Unauthorized(text, **more)
    if status == 404 and said:
        return Missing(text, **more)
    if status in (412, 428):
        return Changed(text, **more)
    if status in (409, 423, 429):
        return Busy(text, retry_after=wait, **more)
    if status >= 500:
        return Unavailable(text, passing=True, retry_after=wait if status == 503 else None, **more)
    if status < 400 or status in (404, 408, 499) or not said:
        return Unavailable(f"{text}. Check endpoint", **more)
    return Refused(text, **more)


def _may_have_taken_effect(status: int, own: bool, waits: bool) -> bool:
    """Return whether a changing request may have taken effect in spite of this status.

    ``own``: the body has the manager's format. ``waits``: there is a Retry-After. A proxy also
    answers 503 if its connection to the manager breaks after the request, and 403 if it blocks the
    manager's response.
    """
    if status in (403, 503):
        return not (own or waits)
    return status >= 500 or status in LATE or (status < 400 and status not in MOVED)


def _retry_after(response: Response) -> float | None:
    """Return the seconds of Retry-After, which is a number or an HTTP date (RFC 9110, 10.2.3)."""
    value = response.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value), LONGEST_RETRY_AFTER)
    try:
        left = parsedate_to_datetime(value).timestamp() - time.time()
    except (TypeError, ValueError, IndexError):
        return None
    return min(max(left, 0.0), LONGEST_RETRY_AFTER)


def malformed(request: Request, what: str) -> FabricError:
    """Return the error for a success with an unreadable body. After a change, it is Uncertain."""
    text = f"cannot {request.purpose}: the CDI Manager's reply cannot be understood: {what}"
    if request.effect:
        return Uncertain(f"{text}. It may have taken effect")
    return Unavailable(f"{text}. Check endpoint and manager")
