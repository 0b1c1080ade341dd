# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a driver asks of a manager, and what comes back: a success, or the manager's own words about an error."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..api import Proof

JSON: t.Final = "application/json"


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The manager's own words about an error, from the body of its response."""

    code: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``purpose`` completes "cannot …"; ``effect``: it changes something, so it is not repeatable.

    ``proof`` is called right before it is sent, each time; what it raises is raised, and nothing is sent.
    ``path`` with query; ``body`` is sent as JSON; ``timeout``: seconds to wait for the reply, default
    read_timeout; ``reads``: the body of a success is wanted, else it may be absent; ``headers`` are sent too.
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
    """A success: ``headers`` by name in lower case, ``body`` the JSON, None where there was none."""

    status: int
    headers: Mapping[str, str]
    body: t.Any
