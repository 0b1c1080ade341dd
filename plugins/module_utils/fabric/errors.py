# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of a CDI Manager. Callers decide by class and never by text."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from .api import Device


class FabricError(Exception):
    """Base of all errors of the fabric side.

    ``message`` is one clear sentence without secrets. ``code`` is the manager's own error code (FM:
    ``E02…``), ``detail`` is the manager's own text, and ``status`` is the HTTP status. ``device``
    is a device that the fabric attached although the call failed. The caller must detach it.
    ``devices`` are the devices that a request for several did attach, and ``errors`` are the
    failures of the others.
    """

    def __init__(self, message: str, *, code: str | None = None, detail: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.detail = detail
        self.status: int | None = None
        self.device: Device | None = None
        self.devices: tuple[Device, ...] = ()
        self.errors: tuple[FabricError, ...] = ()


class Missing(FabricError):
    """The manager does not know the machine, tenant or device."""


class Busy(FabricError):
    """The manager cannot take the request now (HTTP 409, 423, 429).

    ``retry_after`` is in seconds, if the manager sent it.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, **more: t.Any) -> None:
        super().__init__(message, **more)
        self.retry_after = retry_after


class Changed(Busy):
    """The state changed since it was read, so nothing was done (HTTP 412, 428). Read it again."""


class Refused(FabricError):
    """The manager refused for good. ``exhausted`` means that no device is free."""

    def __init__(self, message: str, *, exhausted: bool = False, **more: t.Any) -> None:
        super().__init__(message, **more)
        self.exhausted = exhausted


class Unauthorized(FabricError):
    """The manager rejects the user, password, client or rights (HTTP 401, 403)."""


class Unavailable(FabricError):
    """The request was certainly not processed, so it is safe to repeat.

    ``http_status`` lists the statuses for which this is certain. ``passing`` means that an
    immediate repeat may succeed. ``retry_after`` is in seconds, if the manager sent it (HTTP 503).
    """

    def __init__(
        self, message: str, *, passing: bool = False, retry_after: float | None = None, **more: t.Any
    ) -> None:
        super().__init__(message, **more)
        self.passing = passing
        self.retry_after = retry_after


class Withdrawn(FabricError):
    """The caller withdrew the request right before it was sent. Nothing was done."""


class Uncertain(FabricError):
    """The request was sent, and it may have taken effect. Read the state before you repeat it."""


class BadConfiguration(FabricError):
    """An option of the connection is wrong: ``field``, its ``value``, and what is ``allowed``."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        problem = f"{field} is not set" if value is None else f"{field}: {value!r} is not allowed"
        super().__init__(f"{problem}. {allowed[:1].upper()}{allowed[1:]}")
        self.field = field
        self.value = value
        self.allowed = allowed


# Order in which ``gravest`` selects among the errors of a request for several devices.
_GRAVITY: t.Final = (Uncertain, Refused, Missing, Unauthorized, Busy, Unavailable)


def gravest(errors: tuple[FabricError, ...], devices: tuple[Device, ...]) -> FabricError:
    """Return the most serious error, with the attached ``devices`` and all ``errors``."""
    first = min(errors, key=lambda e: next((i for i, c in enumerate(_GRAVITY) if isinstance(e, c)), len(_GRAVITY)))
    first.devices, first.errors = devices, errors
    return first
