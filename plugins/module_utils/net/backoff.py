# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting time before the retry of a failed request, the same rule for all servers."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

_MOST_DOUBLINGS = 64


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that grow with each failure, like ``wait.Backoff`` of ``k8s.io/apimachinery``.

    ``first`` and ``longest`` are seconds. ``factor`` multiplies the wait after each failure.
    ``jitter`` is the largest random part by which a wait is lengthened, so that clients that failed
    together do not retry together.
    """

    first: float
    factor: float = 2.0
    longest: float = math.inf
    jitter: float = 0.25

    def delay(self, failures: int, at_least: float = 0.0) -> float:
        """Return the seconds to wait after ``failures`` failures in a row (from 1).

        ``at_least`` is the server's minimum in seconds (Retry-After).
        """
        grown = self.first * self.factor ** min(max(failures - 1, 0), _MOST_DOUBLINGS)
        return max(min(grown, self.longest), at_least) * random.uniform(1.0, 1.0 + self.jitter)
