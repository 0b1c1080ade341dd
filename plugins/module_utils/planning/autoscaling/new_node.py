# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge by the present nodes of a group whether one more node of the group could serve a pod.

This is for programs that order nodes and know only the API server. They have no node template and
no inventory of the CDI Manager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...model.node import Node
from ..scheduling.cycle import CycleState
from ..scheduling.feasibility import filter_node
from ..scheduling.filters.dynamic_resources.extended_resources import classes_by_resource, special_claim
from ..scheduling.framework.quantity import BadQuantity
from ..scheduling.parse_cache import ParseCache
from ..scheduling.snapshot import GatedPod, Json, NodeFacts, SchedulingSnapshot

NAME = "new-node"
HOSTNAME = "kubernetes.io/hostname"
PASSING = (
    "node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "composable.infra/",
    *(f"{kind}-taint.cluster-autoscaler.kubernetes.io/" for kind in ("startup", "ignore", "status")),
    "DeletionCandidateOfClusterAutoscaler", "ToBeDeletedByClusterAutoscaler")
"""Prefixes of the keys of taints that a node has only temporarily."""


def why_no_new_node(pod: Json, nodes: Iterable[Node], classes: Mapping[str, Json], most_devices: int) -> str:
    """Return why no further node of a group can serve a pod, empty if one may or the group has no
    node. Pure.

    Arguments: ``pod``: raw, with its requests. ``nodes``: nodes of the group at present.
    ``classes``: raw DeviceClasses by name. ``most_devices``: how many devices of a DeviceClass one
    node can have.

    The devices of ResourceClaims and terms about other pods are not judged.
    """
    try:
        if reason := _too_many(pod, classes, most_devices):
            return reason
        known = [node for node in nodes if node.allocatable]
        reasons = Counter(_why_not_on(pod, node, classes) for node in known)
    except BadQuantity as error:
        return str(error)
    if not reasons or "" in reasons:
        return ""
    return f"a new node of the group would not suit the pod: {reasons.most_common(1)[0][0]}"


def _too_many(pod: Json, classes: Mapping[str, Json], most: int) -> str:
    claim = special_claim(GatedPod(pod, {}, 0.0), classes_by_resource(classes))
    asked: Counter[str] = Counter()
    for request in claim["spec"]["devices"]["requests"] if claim else ():
        asked[request["exactly"]["deviceClassName"]] += request["exactly"]["count"]
    return next((f"the pod requests {n} devices of DeviceClass {name}, and a node can have {most} at most"
                 for name, n in sorted(asked.items()) if n > most), "")


def _why_not_on(pod: Json, node: Node, classes: Mapping[str, Json]) -> str:
    """Return why a node like this one, without its pods, does not suit. Raise BadQuantity."""
    cache, facts = ParseCache(), NodeFacts(NAME, _as_new(node))
    info = cache.pod(pod)
    state = CycleState(SchedulingSnapshot(0.0, {NAME: facts}), cache)
    room = state.nodes[NAME].filter_room(info, frozenset(classes_by_resource(classes)))
    return filter_node(info, state.infos[NAME]) or room


def _as_new(node: Node) -> Node:
    """Return the node with a name of its own, not cordoned, and without temporary taints."""
    taints = tuple(taint for taint in node.taints if not str(taint.get("key")).startswith(PASSING))
    return replace(node, name=NAME, labels={**node.labels, HOSTNAME: NAME}, unschedulable=False, taints=taints)
