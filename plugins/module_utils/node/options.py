# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of node operations.

Standard library only, Python 3.8, because the file runs on nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

RESCANS = ("port", "bus", "never")


@dataclass(frozen=True)
class Options:
    """Settings. Times are in seconds.

    ``event_patience`` is the time in which a device may appear by itself before each rescan.
    ``search_patience`` is the time limit of the whole search. ``patience`` is the time limit of
    each command, bind, rescan and removal. ``rescan`` is port, bus or never. ``ports`` are the PCI
    addresses of the bridges in front of the fabric's devices. Without them, these are the bridges
    without devices. ``driver`` is a kernel driver that replaces the vendor's driver. ``force``
    removes a device although it is in use or cannot be proven idle. ``by`` is agent or ssh.
    ``clock`` returns the time for evidence in seconds since the epoch.
    """

    event_patience: float = 2.0
    search_patience: float = 60.0
    patience: float = 60.0
    rescan: str = "port"
    ports: tuple[str, ...] = ()
    driver: str = ""
    force: bool = False
    by: str = "agent"
    clock: Callable[[], float] = time.time
