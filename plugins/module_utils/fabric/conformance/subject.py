# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CDI Manager under test, and the parts that a test may change."""

from __future__ import annotations

import typing as t
from collections.abc import Callable
from dataclasses import dataclass

from ..api import Device, FabricManager


class Failed(Exception):
    """The manager did not do what every manager must do. The text says what it did."""


class Unsupported(Exception):
    """The manager does not offer an optional function."""


class Skipped(Exception):
    """The check cannot run here. The text says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A manager under test. Times are in seconds.

    ``connect`` makes another client of the same manager, as after a crash. Checks attach devices of
    ``model`` to ``machine``, at most ``at_most`` at once. Without both, or without ``changes``,
    they change nothing. ``memory``, ``scarce`` and ``sick`` are models: a memory model, a model
    with so few devices that all can be attached, and a model with unhealthy devices. ``foreign`` is
    the uid of a machine of another tenant, if the manager supports ``tenants``. The manager must
    show machines with these ``names`` and at least ``devices`` devices. ``attach_deadline`` is the
    time in which a request without an answer may still take effect. ``patience`` is the time for
    which a failed call is repeated, every ``pause``.
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
        """The machine. Raise Skipped if it is not set."""
        return given(self.machine, "machine")

    @property
    def kind(self) -> str:
        """The kind of ``model``: gpu, or what the manager attaches if it attaches no GPUs."""
        kinds = self.fabric.capabilities.kinds
        return "gpu" if "gpu" in kinds else kinds[0]

    @property
    def theirs(self) -> str:
        """A machine of another tenant. Raise Unsupported or Skipped if there is none."""
        if not self.tenants:
            raise Unsupported("it knows no tenants")
        return given(self.foreign, "foreign")

    @property
    def wanted(self) -> str:
        """The model. Raise Skipped if it is not set."""
        return given(self.model, "model")


V = t.TypeVar("V")


def given(value: V | None, name: str) -> V:
    """Return the value of an option. Raise Skipped if it is not set."""
    if value is None:
        raise Skipped(f"{name} is not given")
    return value


def must(holds: bool, otherwise: str) -> None:
    """Raise Failed with the text ``otherwise`` unless ``holds``."""
    if not holds:
        raise Failed(otherwise)


def listed(devices: t.Iterable[Device]) -> str:
    """Return the uids for a message."""
    return ", ".join(sorted(device.uid for device in devices)) or "none"
