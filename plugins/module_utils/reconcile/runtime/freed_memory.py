# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory that was freed here and that the C library keeps for later: after a large list much, and it never comes. And
what was read to stay, which the garbage collector need not look at."""

from __future__ import annotations

import ctypes
import gc

# mallopt(3) of glibc: how many arenas there are.
_M_ARENA_MAX = -8


def share_arena() -> bool:
    """Have all threads use one arena of the C library, before they begin: else each of some has its own, and keeps what
    was freed there for itself. Python's own lock lets one of them run anyhow. False where the C library cannot."""
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1))
    except (AttributeError, OSError):
        return False


def give_back() -> bool:
    """Give it to the kernel; False where the C library cannot (malloc_trim(3) is glibc's)."""
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, OSError):
        return False


def spare_collections() -> None:
    """Have the garbage collector look no more at what was read: it is most of the memory, and stays. Objects that are
    replaced go all the same, by their reference counts. What was freed meanwhile goes back to the kernel."""
    gc.collect()
    gc.freeze()
    give_back()
