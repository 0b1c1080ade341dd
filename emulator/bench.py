# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all parts of one emulator share; dialects get nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .fabric_spec import FabricSpec
from .faults import Faults
from .pool import Pool
from .request_log import RequestLog
from .tokens import Tokens


@dataclass(frozen=True, slots=True)
class Bench:
    """One fabric, its identity service, the log of requests and the faults, whatever managers stand before it.

    ``folder``: for what a dialect must remember over a restart (a Journal of its own); None: it has none to keep.
    """

    spec: FabricSpec
    pool: Pool
    tokens: Tokens
    log: RequestLog
    faults: Faults = field(default_factory=Faults)
    folder: Path | None = None
