# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the hands on a node. Standard library only, Python 3.8: it travels to nodes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

RESCANS = ("port", "bus", "never")


@dataclass(frozen=True)
class Options:
    """Settings; times are seconds.

    ``event_patience``: how long a device may take to come by itself, before the kernel is told to look for it, and
    between two such looks; ``search_patience``: how long it may take in all. ``patience``: how long each command, bind,
    rescan and removal may take.
    ``rescan``: port, bus or never. ``ports``: PCI addresses of the bridges behind which devices of the fabric come;
    without them, those that have nothing behind them. ``driver``: a kernel driver instead of the vendor table's.
    ``force``: a device is removed though it is in use or cannot be proven idle. ``by``: agent or ssh.
    ``clock``: the moment for evidence, seconds since the epoch.
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
