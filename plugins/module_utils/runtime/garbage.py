# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect garbage seldom, and exempt lasting objects from it."""

from __future__ import annotations

import gc

NEW_OBJECTS = 20_000
"""Number of new objects after which a collection begins. While lists are read, nearly all of them stay."""


def collect_seldom() -> None:
    """Let a process with many lasting objects collect its garbage seldom."""
    gc.set_threshold(NEW_OBJECTS)


def spare_collections() -> None:
    """Exempt the present objects from garbage collection.

    Most memory is in objects that stay, and a collection would scan them during a plan. Replaced
    objects are still freed by their reference counts.
    """
    gc.collect()
    gc.freeze()
