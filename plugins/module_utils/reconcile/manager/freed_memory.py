# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return freed memory that the C library keeps, and exempt lasting objects from garbage collection.

After a large list the C library keeps much memory that the process does not need again.
"""

from __future__ import annotations

import ctypes
import gc

# mallopt(3) of glibc: the number of arenas.
_M_ARENA_MAX = -8


def share_arena() -> bool:
    """Let all threads use one arena of the C library. Call this before they start.

    Otherwise several threads have their own arena and keep the memory that was freed there.
    Python's lock lets only one thread run anyway. Return False if the C library cannot do this.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1))
    except (AttributeError, OSError):
        return False


def give_back() -> bool:
    """Return freed memory to the kernel. Return False if the C library cannot (malloc_trim(3) is
    glibc's)."""
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, OSError):
        return False


def spare_collections() -> None:
    """Exempt current objects from garbage collection, and return freed memory to the kernel.

    Most memory is in objects that stay. Replaced objects are still freed by their reference counts.
    """
    gc.collect()
    gc.freeze()
    give_back()
