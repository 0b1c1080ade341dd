# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors between this process and the Kubernetes API server. Callers decide by class, never by
text.
"""

from __future__ import annotations

import json
from typing import Any


class ApiError(Exception):
    """An answer other than 2xx, or no answer.

    ``status``: HTTP code, 0 without an answer. ``reason``: ``reason`` of the ``metav1.Status``
    (CamelCase). ``message``: one sentence without secrets.
    """

    retry_after: float | None = None
    """Seconds after which the server wants the next request, None if it does not say."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message

    def reword(self, message: str) -> None:
        """Replace the message by a clearer sentence."""
        self.message = message
        self.args = (message,)


class NotFound(ApiError):
    """404: the API server serves the resource, and names the object that is absent."""


class NotServed(ApiError):
    """404 without the name of an object. It does not prove that an object is absent.

    The API server does not serve the resource, or a load balancer or proxy answered instead.
    """


class AlreadyExists(ApiError):
    """409 on create."""


class Conflict(ApiError):
    """409: a precondition (resourceVersion, UID, field ownership) is not met. Also 422 for another
    UID.
    """


class TooNew(ApiError):
    """504: the server's newest resourceVersion is older than the requested one."""


class Unauthorized(ApiError):
    """401: the credentials are absent, wrong or expired."""


class Forbidden(ApiError):
    """403: RBAC or admission refused."""


class Invalid(ApiError):
    """422 or 400: the object cannot be accepted as it is."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old. List again."""


class TooManyRequests(ApiError):
    """429 even after the retries."""

    retry_after = 1.0


class Unavailable(ApiError):
    """503 even after the retries."""


class Unreachable(ApiError):
    """No answer. ``sent``: whether the server may have processed the request.

    ``permanent``: whether a repetition is useless.
    """

    def __init__(self, message: str, *, sent: bool = False, permanent: bool = False) -> None:
        super().__init__(0, "Unreachable", message)
        self.sent = sent
        self.permanent = permanent


class NotLeading(ApiError):
    """This process is not the leader any more, so nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "NotLeading", message)


class BadKubeconfig(ApiError):
    """The connection settings are unusable. The message has the file or argument, the field and the
    allowed values.
    """

    def __init__(self, source: str, field: str, problem: str) -> None:
        where = f"{source}: {field}" if field else source
        super().__init__(0, "BadKubeconfig", f"{where}: {problem}")
        self.source = source
        self.field = field


_BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Expired": Gone,
    "Gone": Gone,
    "NotFound": NotFound,
}
_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
    503: Unavailable,
}
_TEXT_LIMIT = 300
_TOO_NEW = "ResourceVersionTooLarge"


def from_response(status: int, body: bytes, request: str) -> ApiError:
    """Return the error for an HTTP answer.

    ``request`` (``GET /api/v1/nodes``): subject of the message if the answer has none.
    """
    try:
        parsed = json.loads(body)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict) and parsed.get("kind") == "Status":
        return from_status(parsed, status, request)
    return _from_text(status, body, request)


def from_status(body: dict[str, Any], status: int = 0, request: str = "") -> ApiError:
    """Return the error for a ``metav1.Status``, from a body or from a watch ERROR event."""
    code = int(body.get("code") or status)
    reason = str(body.get("reason") or "")
    message = str(body.get("message") or f"{request}: HTTP {code} {reason}".strip())
    details = body.get("details") or {}
    kind = _by_cause(details) or _class_of(code, reason)
    if kind is NotFound and not details.get("name"):
        return _not_served(code, reason, request)
    error = kind(code, reason, message)
    if details.get("retryAfterSeconds"):
        error.retry_after = float(details["retryAfterSeconds"])
    return error


def _from_text(status: int, body: bytes, request: str) -> ApiError:
    kind = _class_of(status, "")
    if kind is NotFound:
        return _not_served(status, "", request)
    text = " ".join(body[:_TEXT_LIMIT].decode("utf-8", "replace").split())
    return kind(status, "", f"{request}: HTTP {status}: {text}")


def _by_cause(details: dict[str, Any]) -> type[ApiError] | None:
    causes = details.get("causes") or []
    # If metadata.uid of a patch is not the object's, the answer is 422, as for an immutable field.
    if any(cause.get("field") == "metadata.uid" for cause in causes):
        return Conflict
    return TooNew if any(cause.get("reason") == _TOO_NEW for cause in causes) else None


def _class_of(code: int, reason: str) -> type[ApiError]:
    return _BY_REASON.get(reason) or _BY_STATUS.get(code, ApiError)


def _not_served(code: int, reason: str, request: str) -> NotServed:
    hint = "the API server does not serve this resource (is its CRD installed, is its API version enabled?)"
    return NotServed(code, reason, f"{request}: {hint}" if request else hint)
