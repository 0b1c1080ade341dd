# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What drivers share about replies: a request and the reader of its JSON as one step, and devices that come up sick."""

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
    """A reply lacks what is needed; the text says what."""


def about(asked: str, told: str, what: str) -> None:
    """Raise Unreadable if a reply is about another ``what`` than the request asked for. Ids may differ in case."""
    if told.casefold() != asked.casefold():
        raise Unreadable(f"it is about {what} {told}, not {asked}")


def read_reply(session: Session, request: Request, read: Callable[[t.Any], T]) -> T:
    """What ``read`` makes of the reply's JSON. Raises FabricError, also for a reply that is Unreadable."""
    body = session.call(request).body
    try:
        return read(body)
    except Unreadable as error:
        raise malformed(request, session.redact(str(error))) from None


def healthy(device: Device, evidence: str) -> Device:
    """The device, or Refused: a manager attaches a sick one too, and then it must be returned."""
    if device.health in ("OK", "Warning"):
        return device
    refusal = Refused(
        f"device {device.uid} ({device.model}) was attached to machine {device.machine} but is {device.health} "
        f"({evidence}); it must be returned"
    )
    refusal.device = device
    raise refusal
