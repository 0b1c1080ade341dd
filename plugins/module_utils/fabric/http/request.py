# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver's request to a manager, and its success or error body."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..api import Proof

JSON: t.Final = "application/json"


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The manager's own description of an error, from the body of its response."""

    code: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    ``purpose`` completes the text "cannot …". ``effect`` means that the request changes something
    and must not be repeated. ``proof`` is called right before each send. If it raises, nothing is
    sent. ``path`` includes the query. ``body`` is sent as JSON. ``timeout`` is in seconds, by
    default read_timeout. ``reads`` means that a success must have a body. ``headers`` are sent too.
    """

    method: str
    path: str
    purpose: str
    body: t.Any = None
    timeout: float | None = None
    effect: bool = False
    reads: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    proof: Proof | None = None


@dataclass(frozen=True, slots=True)
class JsonResponse:
    """A success. ``headers`` are by name in lower case. ``body`` is the JSON or None."""

    status: int
    headers: Mapping[str, str]
    body: t.Any
