# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helpers of drivers for replies with JSON and for unhealthy devices."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ...api import Device
from ...errors import Refused
from ...http.http_status import malformed
from ...http.request import Request
from ...http.session import Session

T = t.TypeVar("T")


class Unreadable(ValueError):
    """A reply lacks a required part. The text names the part."""


def about(asked: str, told: str, what: str) -> None:
    """Raise Unreadable if a reply is about another ``what`` than requested. Ignore case."""
    if told.casefold() != asked.casefold():
        raise Unreadable(f"it is about {what} {told}, not {asked}")


def read_reply(session: Session, request: Request, read: Callable[[t.Any], T]) -> T:
    """Send a request and return ``read`` of the JSON reply. Raise FabricError.

    An Unreadable reply raises FabricError too.
    """
    body = session.call(request).body
    try:
        return read(body)
    except Unreadable as error:
        raise malformed(request, session.redact(str(error))) from None


def healthy(device: Device, evidence: str) -> Device:
    """Return a healthy device. Raise Refused with an unhealthy device, which must be detached."""
    if device.health in ("OK", "Warning"):
        return device
    refusal = Refused(
        f"device {device.uid} ({device.model}) was attached to machine {device.machine} but is {device.health} "
        f"({evidence}). Return it"
    )
    refusal.device = device
    raise refusal
