# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label selectors, node selectors and tolerations, as the API server and the scheduler read them."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from .view import Json

Labels = Mapping[str, str]
HARD = ("NoSchedule", "NoExecute")


def selects(selector: Json | None, labels: Labels) -> bool:
    """Whether a LabelSelector selects; none selects nothing, an empty one everything."""
    if selector is None:
        return False
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    if any(labels.get(k) != v for k, v in wanted.items()):
        return False
    return all(_holds(e, labels) for e in selector.get("matchExpressions") or ())


def _holds(expression: Json, labels: Labels) -> bool:
    """One requirement of a label selector or of a node selector."""
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or ()
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    return operator in ("Gt", "Lt") and _compares(labels.get(key), operator, values)


def _compares(label: str | None, operator: str, values: t.Sequence[str]) -> bool:
    try:
        have, limit = int(label or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return have > limit if operator == "Gt" else have < limit


def node_term_holds(term: Json, name: str, labels: Labels) -> bool:
    """One term of a node selector; a term without any requirement holds nowhere."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(e, labels) for e in expressions) and all(_holds(f, {"metadata.name": name}) for f in fields)


def wants_node(spec: Json, name: str, labels: Labels) -> bool:
    """Whether nodeSelector and required node affinity of a pod admit the node."""
    if any(labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(node_term_holds(e, name, labels) for e in required.get("nodeSelectorTerms") or ())


def tolerates(toleration: Json, taint: Json) -> bool:
    """Whether one toleration (of a pod, or of a device request) tolerates a taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(operator == "Exists")


def untolerated(taints: Iterable[Json], tolerations: Iterable[Json]) -> Json | None:
    """The first taint that keeps pods (or claims) away and is not tolerated."""
    known = tuple(tolerations)
    hard = (taint for taint in taints if taint.get("effect") in HARD)
    return next((taint for taint in hard if not any(tolerates(each, taint) for each in known)), None)
