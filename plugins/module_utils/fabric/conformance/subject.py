# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is examined: a CDI Manager, and what of it may be touched."""

from __future__ import annotations

import typing as t
from collections.abc import Callable
from dataclasses import dataclass

from ..api import Device, FabricManager


class Failed(Exception):
    """The manager did not do what every manager must do; the text says what it did."""


class Unsupported(Exception):
    """The manager does not offer this, which it may."""


class Skipped(Exception):
    """There is nothing here to try it with; the text says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A manager under examination. Times in seconds.

    ``connect`` makes a further client of the same manager, as after a crash. ``machine`` and ``model``: where devices
    may be attached, and of what; without both, or without ``changes``, nothing is changed. ``at_most``: how many
    devices at once. ``memory``, ``scarce``, ``sick``: models of memory, of few enough devices to attach all, and of
    unhealthy ones. ``foreign``: uid of a machine of another tenant, where the manager knows ``tenants``. ``names`` of
    machines and ``devices`` at least that the manager has to show. ``attach_deadline``: how long a request without
    an answer may still take effect. ``patience``: how long a call that the manager puts off is tried again, every
    ``pause``.
    """

    fabric: FabricManager
    connect: Callable[[], FabricManager]
    changes: bool = True
    machine: str | None = None
    model: str | None = None
    at_most: int = 2
    memory: str | None = None
    scarce: str | None = None
    sick: str | None = None
    foreign: str | None = None
    tenants: bool = True
    names: tuple[str, ...] = ()
    devices: int = 0
    attach_deadline: float = 180.0
    patience: float = 60.0
    pause: float = 1.0

    @property
    def on(self) -> str:
        """The machine. Raises Skipped."""
        return given(self.machine, "machine")

    @property
    def theirs(self) -> str:
        """A machine of another tenant. Raises Unsupported, Skipped."""
        if not self.tenants:
            raise Unsupported("it knows no tenants")
        return given(self.foreign, "foreign")

    @property
    def wanted(self) -> str:
        """The model. Raises Skipped."""
        return given(self.model, "model")


V = t.TypeVar("V")


def given(value: V | None, name: str) -> V:
    """The value of an option. Raises Skipped when it was not given."""
    if value is None:
        raise Skipped(f"{name} is not given")
    return value


def must(holds: bool, otherwise: str) -> None:
    """Raise Failed with the text unless it holds."""
    if not holds:
        raise Failed(otherwise)


def listed(devices: t.Iterable[Device]) -> str:
    """Uids for a message."""
    return ", ".join(sorted(device.uid for device in devices)) or "none"
