# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CDI Managers that are known, by the name used in configuration. A new one is one more line here."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

from .config import FabricConfig
from .errors import BadConfiguration
from .fm import FabricManager
from .types import Fabric

MANAGERS: t.Final[Mapping[str, Callable[[FabricConfig], Fabric]]] = {"fm": FabricManager}


def connect(config: FabricConfig) -> Fabric:
    """A client for ``config.manager``; nothing is sent yet. Raises BadConfiguration."""
    make = MANAGERS.get(config.manager)
    if make is None:
        raise BadConfiguration("manager", config.manager, f"allowed are {', '.join(sorted(MANAGERS))}")
    return make(config)
