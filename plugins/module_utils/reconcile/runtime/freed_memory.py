# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory that was freed here and that the C library keeps for later: after a large list much, and it never comes. And
what was read to stay, which the garbage collector need not look at."""

from __future__ import annotations

import ctypes
import gc


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
