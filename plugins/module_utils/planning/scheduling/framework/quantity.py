# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes quantities ("500m", "40Gi", "1e3") as exact numbers.

Source: the grammar in ``k8s.io/apimachinery/pkg/api/resource/quantity.go``.
"""

from __future__ import annotations

import functools
import re
from fractions import Fraction

QUANTITY = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([eE][+-]?[0-9]{1,2})|([numkMGTPE]|[KMGTPE]i)?)")
SUFFIXES = {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
            **{s: Fraction(1000**i) for i, s in enumerate("kMGTPE", 1)},
            **{f"{s}i": Fraction(1024**i) for i, s in enumerate("KMGTPE", 1)}}


MAX_LENGTH = 64
"""Maximum length of a text. The API server writes a quantity in less than half of it."""


class BadQuantity(ValueError):
    """A text that is not a quantity."""


@functools.lru_cache(maxsize=4096)
def quantity(text: str) -> Fraction:
    """Return the exact value of a quantity. Raise BadQuantity."""
    match = QUANTITY.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        raise BadQuantity(f"{text[:MAX_LENGTH]!r} is not a quantity")
    number, exponent, suffix = match.groups()
    return Fraction(number) * (Fraction(10) ** int(exponent[1:]) if exponent else SUFFIXES[suffix or ""])


@functools.lru_cache(maxsize=4096)
def amount(resource: str, text: str) -> int:
    """Return a request or an allocatable amount in whole units, thousandths for CPU, rounded up as
    in kube-scheduler.
    """
    value = quantity(text)
    return -(-(value * 1000 if resource == "cpu" else value) // 1)
