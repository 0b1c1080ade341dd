# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What controllers work on, as typed keys, and what they answer: as controller-runtime's Request and Result.

``controller`` is the name of the controller, in log lines and metrics.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class _Key:
    """The text of a key is its controller and its fields, with a slash between them."""

    controller: t.ClassVar[str]

    def __str__(self) -> str:
        return "/".join([self.controller, *(str(getattr(self, field.name)) for field in fields(self))])


@dataclass(frozen=True, slots=True)
class NodeKey(_Key):
    """Everything that concerns one node."""

    controller: t.ClassVar[str] = "node"
    name: str


@dataclass(frozen=True, slots=True)
class NodeRecordsKey(_Key):
    """The records of one node that may be written a moment later: sizes, use stamps, holds, the Online state."""

    controller: t.ClassVar[str] = "node-records"
    name: str


@dataclass(frozen=True, slots=True, order=True)
class PoolKey(_Key):
    """The ResourceSlices of one pool: the CDI Manager's name of the model, and the number of the fabric."""

    controller: t.ClassVar[str] = "pool"
    model: str
    fabric: int


@dataclass(frozen=True, slots=True)
class RequestKey(_Key):
    """The status of one ComposabilityRequest."""

    controller: t.ClassVar[str] = "request"
    name: str


@dataclass(frozen=True, slots=True)
class GatesKey(_Key):
    """All pods that our scheduling gate holds: they are planned together."""

    controller: t.ClassVar[str] = "gates"


@dataclass(frozen=True, slots=True)
class NominationsKey(_Key):
    """Held pods whose node was chosen a moment ago."""

    controller: t.ClassVar[str] = "nominations"


@dataclass(frozen=True, slots=True)
class FloorsKey(_Key):
    """All floors of idle devices (``prewarm``): what each node keeps is said for all of them together."""

    controller: t.ClassVar[str] = "floors"


Key: t.TypeAlias = "NodeKey | NodeRecordsKey | PoolKey | RequestKey | GatesKey | NominationsKey | FloorsKey"

# Seconds in which changes are gathered before the work, for keys that nobody waits for: a burst is then one write.
GATHER_SECONDS: dict[type, float] = {PoolKey: 0.1, RequestKey: 1.0, NodeRecordsKey: 0.5, FloorsKey: 0.5}


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one reconcile. ``requeue_at``: when to come back (seconds since the epoch); None: at a change."""

    requeue_at: float | None = None

    @classmethod
    def at_earliest(cls, *times: float | None) -> Result:
        """Come back at the earliest of these times; None among them counts for nothing."""
        return cls(min((time for time in times if time is not None), default=None))
