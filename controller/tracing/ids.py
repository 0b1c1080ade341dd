# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Span contexts of a claim. Every process derives the same ids from the claim's UID."""

from __future__ import annotations

import functools
import hashlib
import re

# Calls to other systems. All other spans are our own work or waiting.
CALLS = frozenset({"attach"})
# Longest text of a CDI Manager or node in an attribute or status, in characters.
LONGEST_TEXT = 1024
_UUID = re.compile(r"[0-9a-f]{32}")
# W3C Trace Context Level 2 makes the right-most 56 bits of a trace id random. The SDK's sampler
# reads 64 bits, and two of these are fixed in a UUID.
_RANDOM_BITS = 56


@functools.lru_cache(2048)
def trace_id(claim: str) -> str:
    """Return the id of a claim's trace, which is the claim's UID.

    If the UID is no UUID of 16 bytes, return a hash of it.
    """
    plain = claim.replace("-", "").lower()
    return plain if _UUID.fullmatch(plain) and int(plain, 16) else hashlib.sha256(claim.encode()).hexdigest()[:32]


def root_id(trace: str) -> str:
    """Return the id of the span that is the root of a trace."""
    return hashlib.sha256(f"root {trace}".encode()).hexdigest()[:16]


def is_sampled(trace: str, ratio: float) -> bool:
    """Return whether a trace is in the sample. ``ratio``: the part of all traces, 0 to 1.

    Every process decides the same.
    """
    return int(trace, 16) % (1 << _RANDOM_BITS) < ratio * (1 << _RANDOM_BITS)
