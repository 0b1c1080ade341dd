# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects that all parts of one emulator share. Dialects get only these."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .admin.request_log import RequestLog
from .faults.injector import Faults
from .pool.fabric_spec import FabricSpec
from .pool.pool import DevicePool
from .tokens import Tokens


@dataclass(frozen=True, slots=True)
class EmulatorContext:
    """One fabric, its identity service, the log of requests and the faults, for all managers.

    ``folder``: for files of a dialect that must survive a restart (a Journal of its own), None for
    none.
    """

    spec: FabricSpec
    pool: DevicePool
    tokens: Tokens
    log: RequestLog
    faults: Faults = field(default_factory=Faults)
    folder: Path | None = None
