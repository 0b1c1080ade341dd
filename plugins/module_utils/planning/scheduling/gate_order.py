# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which gates are removed, if the node of a pod depends on pods that were planned
before it.

The plan counts a pod that was planned earlier as if it were on its node already. Required pod
affinity and topology spread can depend on that. The later pod must then not reach kube-scheduler
before the earlier one is bound. Room, host ports and anti-affinity are valid in any order.
"""

from __future__ import annotations

from collections.abc import Mapping

from .framework.label_selector import Labels
from .framework.pod_info import required_affinity, spread_constraints
from .snapshot import Json


def minds_order(pod: Json) -> bool:
    """Return whether a raw pod depends on which other pods are bound before it."""
    return bool(required_affinity(pod) or spread_constraints(pod))


def follows(pod: Json, earlier: Json, namespaces: Mapping[str, Labels]) -> bool:
    """Return whether the gate of a pod must stay until an earlier planned pod is bound.

    Arguments: both raw pods. ``namespaces``: the labels of each namespace by its name.

    It must if the pod requires the other pod near it, or if a spread constraint of one pod counts
    the other.
    """
    meta = earlier["metadata"]
    if any(term.matches(meta["namespace"], meta.get("labels") or {}, namespaces) for term in required_affinity(pod)):
        return True
    return _spread_counts(pod, earlier) or _spread_counts(earlier, pod)


def _spread_counts(pod: Json, other: Json) -> bool:
    if pod["metadata"]["namespace"] != other["metadata"]["namespace"]:
        return False
    labels: Labels = other["metadata"].get("labels") or {}
    return any(constraint.selector.selects(labels) for constraint in spread_constraints(pod))
