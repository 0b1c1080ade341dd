# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One step toward a wanted state and its outcome, exchanged between plans and the executor."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from ..api import Device, Machine
from ..errors import FabricError

ATTACH: t.Final = "attach"
DETACH: t.Final = "detach"
RESUME: t.Final = "resume"


@dataclass(frozen=True, slots=True)
class Step:
    """One change of one machine.

    ``ATTACH`` adds ``count`` devices of ``model`` and ``kind`` for a ``total`` on the machine.
    ``DETACH`` removes ``device``. ``RESUME`` waits for the operations ``handles`` of an earlier
    process. ``reason`` is one sentence for people.
    """

    action: str
    machine: Machine
    model: str
    kind: str = "gpu"
    count: int = 1
    total: int = 0
    device: Device | None = None
    handles: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The attached or detached ``devices``, and the ``handles`` of operations in flight.

    ``seconds`` is the duration. ``error`` is None on success.
    """

    devices: tuple[Device, ...] = ()
    handles: tuple[str, ...] = ()
    seconds: float = 0.0
    error: FabricError | None = None


def together(outcomes: Sequence[StepOutcome]) -> StepOutcome:
    """Merge the outcomes of several steps: all devices and handles, and the first error."""
    return StepOutcome(
        tuple(device for one in outcomes for device in one.devices),
        tuple(handle for one in outcomes for handle in one.handles), max(one.seconds for one in outcomes),
        next((one.error for one in outcomes if one.error), None))
