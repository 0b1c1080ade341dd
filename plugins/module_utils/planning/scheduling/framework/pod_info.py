# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parsed fields of a raw pod: its requests, host ports and required terms about other pods.

As ``PodInfo`` and ``AffinityTerm`` of kube-scheduler's ``framework/types.go``, and
``topologySpreadConstraint`` of ``framework/plugins/podtopologyspread/common.go``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from ..filters.node_affinity import REQUIRED
from ..filters.node_ports import Port, host_ports
from ..filters.node_resources import Amounts, requests
from ..snapshot import Json
from .label_selector import Labels, LabelSelector


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A term of required pod affinity or anti-affinity.

    It concerns pods of ``namespaces``, and pods of namespaces with labels that
    ``namespace_selector`` selects.
    """

    topology_key: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector

    def matches(self, namespace: str, labels: Labels, namespace_labels: Mapping[str, Labels]) -> bool:
        """Return whether the term concerns a pod with this namespace and these labels."""
        return self.matches_namespace(namespace, namespace_labels) and self.selector.selects(labels)

    def matches_namespace(self, namespace: str, namespace_labels: Mapping[str, Labels]) -> bool:
        """Return whether the term concerns pods of this namespace."""
        return namespace in self.namespaces or self.namespace_selector.selects(namespace_labels.get(namespace) or {})


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A topology spread constraint with ``whenUnsatisfiable: DoNotSchedule``."""

    topology_key: str
    selector: LabelSelector
    max_skew: int
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


@dataclass(slots=True, eq=False)
class PodInfo:
    """A pod as the filters read it. It never changes.

    ``raw`` is empty for a pod on a node, because all needed fields of it are parsed.
    """

    uid: str
    raw: Json
    namespace: str
    labels: Labels
    requests: Amounts
    ports: tuple[Port, ...]
    terminating: bool
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    spread: tuple[SpreadConstraint, ...]
    _node_signature: str = ""

    @classmethod
    def from_raw(cls, raw: Json) -> PodInfo:
        """Parse a pod. Raise BadQuantity."""
        meta = raw["metadata"]
        return cls(meta["uid"], raw, meta["namespace"], meta.get("labels") or {}, requests(raw), host_ports(raw),
                   bool(meta.get("deletionTimestamp")), required_affinity(raw), required_anti_affinity(raw),
                   spread_constraints(raw))

    @property
    def node_signature(self) -> str:
        """Return nodeSelector, node affinity and tolerations as text, equal for pods that suit the
        same nodes.
        """
        if not self._node_signature:
            spec = self.raw["spec"]
            affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
            self._node_signature = json.dumps(
                [spec.get("nodeSelector"), affinity.get(REQUIRED), spec.get("tolerations")], sort_keys=True)
        return self._node_signature

    @property
    def has_pod_terms(self) -> bool:
        """Return whether it has terms about other pods."""
        return bool(self.affinity or self.anti_affinity or self.spread)


def required_affinity(pod: Json) -> tuple[AffinityTerm, ...]:
    """Return the terms of a raw pod's required pod affinity."""
    return _affinity_terms(pod, "podAffinity")


def required_anti_affinity(pod: Json) -> tuple[AffinityTerm, ...]:
    """Return the terms of a raw pod's required pod anti-affinity."""
    return _affinity_terms(pod, "podAntiAffinity")


def _affinity_terms(pod: Json, kind: str) -> tuple[AffinityTerm, ...]:
    terms = []
    for raw in ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED) or ():
        names, selector = raw.get("namespaces") or (), raw.get("namespaceSelector")
        own = () if names or selector is not None else (pod["metadata"]["namespace"],)
        terms.append(AffinityTerm(raw["topologyKey"], LabelSelector.from_raw(raw.get("labelSelector")),
                                  frozenset((*names, *own)), LabelSelector.from_raw(selector)))
    return tuple(terms)


def spread_constraints(pod: Json) -> tuple[SpreadConstraint, ...]:
    """Return a raw pod's topology spread constraints that forbid nodes."""
    labels = pod["metadata"].get("labels") or {}
    return tuple(SpreadConstraint(raw["topologyKey"], _selector_with_label_keys(raw, labels), int(raw["maxSkew"]),
                                  int(raw.get("minDomains") or 1), raw.get("nodeAffinityPolicy", "Honor") == "Honor",
                                  raw.get("nodeTaintsPolicy", "Ignore") == "Honor")
                 for raw in pod["spec"].get("topologySpreadConstraints") or ()
                 if raw.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule")


def _selector_with_label_keys(raw: Json, labels: Labels) -> LabelSelector:
    """Return the selector with the pod's values of matchLabelKeys (KEP-3243).

    A selector that selects nothing does not change.
    """
    selector, keys = raw.get("labelSelector"), [k for k in raw.get("matchLabelKeys") or () if k in labels]
    if selector is None or not keys:
        return LabelSelector.from_raw(selector)
    more = [{"key": key, "operator": "In", "values": [labels[key]]} for key in keys]
    return LabelSelector.from_raw({**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *more]})
