# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all parts of one emulator share; dialects get nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from .fabric_spec import FabricSpec
from .pool import Pool
from .request_log import RequestLog
from .tokens import Tokens


@dataclass(frozen=True, slots=True)
class Bench:
    """One fabric, its identity service and the log of requests, whatever managers stand before it."""

    spec: FabricSpec
    pool: Pool
    tokens: Tokens
    log: RequestLog
