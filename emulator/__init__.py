# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CDI Managers as stateful servers. They replace hardware in labs, tests and benchmarks."""

from __future__ import annotations

from .pool.fabric_spec import FabricSpec, simple_spec
from .pool.fields import SpecError
from .pool.parts import machine_uuid
from .process import Emulator

__all__ = ["Emulator", "FabricSpec", "SpecError", "machine_uuid", "simple_spec"]
