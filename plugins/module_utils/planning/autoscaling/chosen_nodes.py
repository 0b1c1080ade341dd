# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check whether a node that was chosen for a pod still suits it. Other pods may have taken its
room.

Until the devices are ready, kube-scheduler does not see the pod and keeps no room for it.
"""

from __future__ import annotations

from dataclasses import replace

from ..scheduling.cycle import CycleState
from ..scheduling.feasibility import filter_node
from ..scheduling.filters.dynamic_resources.extended_resources import classes_by_resource
from ..scheduling.framework.quantity import BadQuantity
from ..scheduling.parse_cache import ParseCache
from ..scheduling.snapshot import Json, SchedulingSnapshot


def why_not_there(snapshot: SchedulingSnapshot, pod: Json, node: str, cache: ParseCache) -> str:
    """Return why a node does not suit the raw pod for which it was chosen, empty if it does. Pure.

    The reason is in kube-scheduler's words. The pod's own placement takes no room. Devices and
    terms about other pods are not judged.
    """
    facts = snapshot.nodes.get(node)
    if facts is None:
        return "the node is gone"
    others = tuple(each for each in snapshot.placements if each.pod.uid != pod["metadata"]["uid"])
    try:
        info = cache.pod(pod)
        state = CycleState(replace(snapshot, nodes={node: facts}, placements=others, waiting=()), cache)
    except BadQuantity as error:
        return str(error)
    served = frozenset(classes_by_resource(snapshot.classes))
    return filter_node(info, state.infos[node]) or state.nodes[node].filter_room(info, served)
