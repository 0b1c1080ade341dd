# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Typed keys that controllers reconcile, and the result, like controller-runtime's Request and
Result.

``controller`` is the name of the controller in log lines and metrics.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class _Key:
    """Base of all keys. The text of a key is its controller and its fields, separated by
    slashes."""

    controller: t.ClassVar[str]

    def __str__(self) -> str:
        return "/".join([self.controller, *(str(getattr(self, field.name)) for field in fields(self))])


@dataclass(frozen=True, slots=True)
class NodeKey(_Key):
    """A node and its claims, devices and pods."""

    controller: t.ClassVar[str] = "node"
    name: str


@dataclass(frozen=True, slots=True)
class NodeRecordsKey(_Key):
    """Records of a node that are written a moment later: sizes, use stamps, holds, the state
    Online."""

    controller: t.ClassVar[str] = "node-records"
    name: str


@dataclass(frozen=True, slots=True, order=True)
class PoolKey(_Key):
    """The ResourceSlices of a pool: the CDI Manager's name of the model, and the number of the
    fabric."""

    controller: t.ClassVar[str] = "pool"
    model: str
    fabric: int


@dataclass(frozen=True, slots=True)
class RequestKey(_Key):
    """The status of a ComposabilityRequest."""

    controller: t.ClassVar[str] = "request"
    name: str


@dataclass(frozen=True, slots=True)
class GatesKey(_Key):
    """All gated pods, which are planned together."""

    controller: t.ClassVar[str] = "gates"


@dataclass(frozen=True, slots=True)
class NominationsKey(_Key):
    """Gated pods that just got a node."""

    controller: t.ClassVar[str] = "nominations"


@dataclass(frozen=True, slots=True)
class IdleMinimumsKey(_Key):
    """All minimums of idle devices (``prewarm``). Their shares by node are computed together."""

    controller: t.ClassVar[str] = "minimums"


@dataclass(frozen=True, slots=True)
class ProvisioningKey(_Key):
    """A ProvisioningRequest of this collection's class."""

    controller: t.ClassVar[str] = "provisioning"
    namespace: str
    name: str


Key: t.TypeAlias = ("NodeKey | NodeRecordsKey | PoolKey | RequestKey | GatesKey | NominationsKey | IdleMinimumsKey | "
                    "ProvisioningKey")

# Seconds in which keys that are not urgent gather changes, so that a burst becomes one write.
GATHER_SECONDS: dict[type, float] = {PoolKey: 0.1, RequestKey: 1.0, NodeRecordsKey: 0.5, IdleMinimumsKey: 0.5}


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a reconcile.

    ``requeue_at`` is when to reconcile again, in seconds since the epoch, or None to wait for a
    change.
    """

    requeue_at: float | None = None

    @classmethod
    def at_earliest(cls, *times: float | None) -> Result:
        """Return the result with the earliest of these times, ignoring None."""
        return cls(min((time for time in times if time is not None), default=None))
