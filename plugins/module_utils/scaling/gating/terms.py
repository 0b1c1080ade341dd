# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Required terms of a pod about other pods (affinity, anti-affinity, spread) as values that can be compared."""

from __future__ import annotations

import functools
import json
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from .selectors import Labels, selects
from .view import Json

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Selector:
    """A LabelSelector, equal when its text is equal."""

    text: str

    @classmethod
    def of(cls, raw: Json | None) -> Selector:
        """From raw JSON."""
        return cls(json.dumps(raw, sort_keys=True))

    def selects(self, labels: Labels) -> bool:
        """Whether it selects these labels."""
        return selects(_parsed(self.text), labels)

    @property
    def empty(self) -> bool:
        """Whether it selects everything."""
        raw = _parsed(self.text)
        return raw is not None and not raw.get("matchLabels") and not raw.get("matchExpressions")


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> t.Any:
    return json.loads(text)


@dataclass(frozen=True, slots=True)
class Term:
    """A term of pod (anti-)affinity. ``namespaces``: by name; ``among``: by their labels."""

    key: str
    selector: Selector
    namespaces: frozenset[str]
    among: Selector

    def matches(self, namespace: str, labels: Labels, of_namespaces: Mapping[str, Labels]) -> bool:
        """Whether it speaks of a pod."""
        if namespace not in self.namespaces and not self.among.selects(of_namespaces.get(namespace) or {}):
            return False
        return self.selector.selects(labels)


@dataclass(frozen=True, slots=True)
class SpreadTerm:
    """A constraint of topology spread that forbids (DoNotSchedule)."""

    key: str
    selector: Selector
    skew: int
    domains: int
    honour_affinity: bool
    honour_taints: bool


def required_affinity(pod: Json) -> tuple[Term, ...]:
    """Terms of required pod affinity."""
    return _terms(pod, "podAffinity")


def anti_affinity(pod: Json) -> tuple[Term, ...]:
    """Terms of required pod anti-affinity."""
    return _terms(pod, "podAntiAffinity")


def _terms(pod: Json, kind: str) -> tuple[Term, ...]:
    listed = ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED) or ()
    return tuple(_term(each, pod["metadata"]["namespace"]) for each in listed)


def _term(raw: Json, own: str) -> Term:
    named, among = raw.get("namespaces") or (), raw.get("namespaceSelector")
    namespaces = frozenset(named) if named or among is not None else frozenset({own})
    return Term(raw["topologyKey"], Selector.of(raw.get("labelSelector")), namespaces, Selector.of(among))


def spread(pod: Json) -> tuple[SpreadTerm, ...]:
    """Constraints of topology spread that forbid."""
    labels = pod["metadata"].get("labels") or {}
    return tuple(SpreadTerm(raw["topologyKey"], _with_keys(raw, labels), int(raw["maxSkew"]),
                            int(raw.get("minDomains") or 1), raw.get("nodeAffinityPolicy", "Honor") == "Honor",
                            raw.get("nodeTaintsPolicy", "Ignore") == "Honor")
                 for raw in pod["spec"].get("topologySpreadConstraints") or ()
                 if raw.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule")


def _with_keys(raw: Json, labels: Labels) -> Selector:
    """The selector with the values of matchLabelKeys; a selector that selects nothing stays so."""
    selector, keys = raw.get("labelSelector"), [k for k in raw.get("matchLabelKeys") or () if k in labels]
    if selector is None or not keys:
        return Selector.of(selector)
    more = [{"key": k, "operator": "In", "values": [labels[k]]} for k in keys]
    return Selector.of({**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *more]})
