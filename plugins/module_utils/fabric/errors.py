# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may go wrong with a CDI Manager, as classes: callers decide by class, never by text."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from .api import Device


class FabricError(Exception):
    """Base of all errors of the fabric side.

    ``message`` is one clear sentence without secrets. ``code`` is the manager's own error code (FM: ``E02…``),
    ``detail`` the manager's own text, ``status`` that of its HTTP reply. ``device`` is a device that the fabric
    attached although the call failed: it must be compensated. ``devices`` are those that a request for several
    did attach, ``errors`` why the others were not.
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
    """The manager knows no such machine, tenant or device."""


class Busy(FabricError):
    """The manager cannot take the request now (HTTP 409, 423, 429); ``retry_after`` in seconds when it said."""

    def __init__(self, message: str, *, retry_after: float | None = None, **more: t.Any) -> None:
        super().__init__(message, **more)
        self.retry_after = retry_after


class Changed(Busy):
    """What was read is no longer so (HTTP 412, 428): nothing was done; read again, then decide."""


class Refused(FabricError):
    """The manager said no for good; ``exhausted`` when the reason is that no free device is left."""

    def __init__(self, message: str, *, exhausted: bool = False, **more: t.Any) -> None:
        super().__init__(message, **more)
        self.exhausted = exhausted


class Unauthorized(FabricError):
    """User, password, client or rights are not what the manager wants (HTTP 401, 403)."""


class Unavailable(FabricError):
    """For certain not processed: safe to repeat. ``http_status`` says of which statuses that is certain.

    ``passing``: worth repeating at once. ``retry_after``: seconds, when the manager said (HTTP 503).
    """

    def __init__(
        self, message: str, *, passing: bool = False, retry_after: float | None = None, **more: t.Any
    ) -> None:
        super().__init__(message, **more)
        self.passing = passing
        self.retry_after = retry_after


class Withdrawn(FabricError):
    """The caller took it back right before the manager would have been asked: nothing was done."""


class Uncertain(FabricError):
    """The request was sent and its outcome is not known: it may have taken effect. Look before repeating."""


class BadConfiguration(FabricError):
    """An option of the connection is wrong: ``field``, its ``value``, and what is ``allowed``."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}: {value!r} is not allowed; {allowed}")
        self.field = field
        self.value = value
        self.allowed = allowed


# Which of several errors a request for several devices ends with: the one that asks most of the caller.
_GRAVITY: t.Final = (Uncertain, Refused, Missing, Unauthorized, Busy, Unavailable)


def gravest(errors: tuple[FabricError, ...], devices: tuple[Device, ...]) -> FabricError:
    """One error for a request for several devices: with those that were attached, and all that went wrong."""
    first = min(errors, key=lambda e: next((i for i, c in enumerate(_GRAVITY) if isinstance(e, c)), len(_GRAVITY)))
    first.devices, first.errors = devices, errors
    return first
