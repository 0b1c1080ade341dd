# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nodeSelector, required node affinity. As kube-scheduler's ``framework/plugins/nodeaffinity``."""

from __future__ import annotations

from ..framework.label_selector import Labels, requirement_matches
from ..snapshot import Json

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node_selector_term_matches(term: Json, name: str, labels: Labels) -> bool:
    """Return whether a node meets one term of a node selector. A term without requirements matches
    no node.
    """
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return (all(requirement_matches(each, labels) for each in expressions)
            and all(requirement_matches(each, {"metadata.name": name}) for each in fields))


def matches_node(spec: Json, name: str, labels: Labels) -> bool:
    """Return whether nodeSelector and required node affinity of a pod's spec allow the node."""
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    terms = () if required is None else required.get("nodeSelectorTerms") or ()
    return required is None or any(node_selector_term_matches(each, name, labels) for each in terms)


def filter_node_affinity(spec: Json, name: str, labels: Labels) -> str:
    """Return why the pod may not be on the node, in kube-scheduler's words, empty if it may."""
    return "" if matches_node(spec, name, labels) else "didn't match the pod's node affinity/selector"
