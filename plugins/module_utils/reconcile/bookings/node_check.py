# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check a chosen node again, because it may change while devices are attached or kept."""

from __future__ import annotations

from ...planning.scheduling.filters.node_affinity import filter_node_affinity
from ...planning.scheduling.filters.node_unschedulable import filter_unschedulable
from ...planning.scheduling.filters.taint_toleration import filter_taints
from ...planning.scheduling.snapshot import Placement
from ..state.cluster_state import ClusterState


def unsuitable(state: ClusterState, placement: Placement) -> str:
    """Return why the node of a placement would no longer be chosen, or an empty string.

    Other pods on the node do not matter, because the plan has counted them.
    """
    raw, spec = state.nodes.get(placement.node), placement.raw["spec"]
    if raw is None:
        return "it is gone"
    of_node, tolerations = raw.get("spec") or {}, spec.get("tolerations") or ()
    name, labels = placement.node, raw["metadata"].get("labels") or {}
    reason = (filter_unschedulable(bool(of_node.get("unschedulable")), tolerations)
              or filter_taints(of_node.get("taints") or (), tolerations)
              or filter_node_affinity(spec, name, labels))
    return f"it {reason}" if reason else ""
