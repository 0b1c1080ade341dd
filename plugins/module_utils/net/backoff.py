# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long to wait before something that failed is tried again: the one rule for all that asks a server."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

_MOST_DOUBLINGS = 64


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that grow from failure to failure, as ``wait.Backoff`` of k8s.io/apimachinery has them.

    ``first`` and ``longest`` are seconds, ``factor`` is what a wait grows by. ``jitter``: each wait is lengthened at
    random by up to this part of it, so that many who failed together do not come back together.
    """

    first: float
    factor: float = 2.0
    longest: float = math.inf
    jitter: float = 0.25

    def delay(self, failures: int, at_least: float = 0.0) -> float:
        """Seconds to wait after ``failures`` failures in a row (from 1).

        ``at_least``: seconds that the server asked for (Retry-After); it is never asked sooner than that.
        """
        grown = self.first * self.factor ** min(max(failures - 1, 0), _MOST_DOUBLINGS)
        return max(min(grown, self.longest), at_least) * random.uniform(1.0, 1.0 + self.jitter)
