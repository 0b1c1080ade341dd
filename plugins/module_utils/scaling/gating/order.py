# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In what order gates may be opened: a pod was given its node on the premise that those planned before it are there.

Room, ports and anti-affinity allow any order, since what fits at the end fits before. Affinity and spread do not.
"""

from __future__ import annotations

from collections.abc import Mapping

from .selectors import Labels
from .terms import required_affinity, spread
from .view import Json


def minds_order(pod: Json) -> bool:
    """Whether it matters to the pod which others are there before it."""
    return bool(required_affinity(pod) or spread(pod))


def follows(pod: Json, earlier: Json, namespaces: Mapping[str, Labels]) -> bool:
    """Whether a pod may be let go only when one that was planned before it is bound.

    Either the pod needs the other near, or one of the two is spread over domains in which the other counts.
    """
    if any(term.matches(_namespace(earlier), _labels(earlier), namespaces) for term in required_affinity(pod)):
        return True
    return _spread_over(pod, earlier) or _spread_over(earlier, pod)


def _spread_over(pod: Json, other: Json) -> bool:
    if _namespace(pod) != _namespace(other):
        return False
    return any(term.selector.selects(_labels(other)) for term in spread(pod))


def _namespace(pod: Json) -> str:
    return str(pod["metadata"]["namespace"])


def _labels(pod: Json) -> Labels:
    found: Labels = pod["metadata"].get("labels") or {}
    return found
