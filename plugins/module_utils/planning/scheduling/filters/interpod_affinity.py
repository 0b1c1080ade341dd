# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Required pod affinity and anti-affinity. As kube-scheduler's
``framework/plugins/interpodaffinity``.

Matching pods are counted once per distinct term. The counts follow every pod that the plan places.
"""

from __future__ import annotations

import itertools
import typing as t
from collections import Counter
from collections.abc import Iterable, Mapping

from ..framework.label_selector import Labels
from ..framework.node_info import Filter, NodeInfo, PlacedPods
from ..framework.pod_info import AffinityTerm, PodInfo

Counts = dict[tuple[str, str], int]
"""Matching pods by topology key and value."""
MOST_PODS: t.Final = 4096
"""Number of pods of which the terms about them are kept."""
AFFINITY = "didn't match pod affinity rules"
ANTI_AFFINITY = "didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "didn't satisfy existing pods anti-affinity rules"


class InterPodAffinity:
    """The plugin. ``placed`` belongs to the caller, which calls ``update`` for each change."""

    def __init__(self, placed: PlacedPods, namespaces: Mapping[str, Labels]) -> None:
        self.placed, self.namespaces = placed, namespaces
        self._affinity: dict[tuple[AffinityTerm, ...], Counts] = {}
        self._anti_affinity: dict[AffinityTerm, Counts] = {}
        self._existing_anti_affinity: dict[AffinityTerm, Counts] = {}
        self._pods_with: Counter[AffinityTerm] = Counter()
        self._terms_about: dict[PodInfo, tuple[int, list[AffinityTerm]]] = {}
        self._version = 0
        for pods in placed.values():
            for pod, node in pods.values():
                self._count_existing(pod, node, 1)

    @property
    def kept(self) -> int:
        """Return how many counts are kept."""
        return len(self._affinity) + len(self._anti_affinity)

    def update(self, pod: PodInfo, node: NodeInfo, change: int) -> None:
        """Count a pod that came to a node (``change`` 1) or left it (-1).

        As AddPod and RemovePod of PreFilterExtensions.
        """
        self._count_existing(pod, node, change)
        for terms, counts in self._affinity.items():
            self._count_affinity(terms, counts, pod, node, change)
        for term, counts in self._anti_affinity.items():
            if self._matches(term, pod):
                _count(counts, term, node, change)

    def _count_existing(self, pod: PodInfo, node: NodeInfo, change: int) -> None:
        """Count the terms of placed pods. A term that no placed pod has any more is removed."""
        for term in pod.anti_affinity:
            before = self._pods_with[term]
            self._pods_with[term] += change
            self._version += not (before and self._pods_with[term])
            _count(self._existing_anti_affinity.setdefault(term, {}), term, node, change)
            if not self._pods_with[term]:
                del self._existing_anti_affinity[term]

    def speaks_of(self, namespace: str, waiting: Iterable[AffinityTerm]) -> bool:
        """Return whether an anti-affinity term of a placed or waiting pod may concern pods of the
        namespace.
        """
        placed = (term for term, count in self._pods_with.items() if count)
        return any(term.matches_namespace(namespace, self.namespaces) for term in itertools.chain(placed, waiting))

    def existing_terms(self, pod: PodInfo) -> list[AffinityTerm]:
        """Return the anti-affinity terms of placed pods that concern the pod, searched again after
        changes.
        """
        if not self._existing_anti_affinity:
            return []
        known = self._terms_about.get(pod)
        if known is None or known[0] != self._version:
            if len(self._terms_about) >= MOST_PODS:
                self._terms_about.clear()
            terms = [term for term in self._existing_anti_affinity if self._matches(term, pod)]
            known = self._terms_about[pod] = (self._version, terms)
        return known[1]

    def pre_filter(self, pod: PodInfo) -> Filter | None:
        """Return the filter for a pod, None if no term concerns it. It is valid until the next
        change.
        """
        own = [(term.topology_key, self._anti_affinity_counts(term)) for term in pod.anti_affinity]
        existing = [(term.topology_key, self._existing_anti_affinity[term]) for term in self.existing_terms(pod)]
        keys, counts = [term.topology_key for term in pod.affinity], self._affinity_counts(pod.affinity)
        # the first of several pods that require each other may go to any node with the keys
        first = not any(counts.values()) and all(self._matches(term, pod) for term in pod.affinity)
        if not (own or existing or keys):
            return None

        def check(node: NodeInfo) -> str:
            labels = node.labels
            for key in keys:
                if key not in labels or (not first and counts.get((key, labels[key]), 0) <= 0):
                    return AFFINITY
            if own and _any_in_domain(own, labels):
                return ANTI_AFFINITY
            return EXISTING_ANTI_AFFINITY if existing and _any_in_domain(existing, labels) else ""

        return check

    def _affinity_counts(self, terms: tuple[AffinityTerm, ...]) -> Counts:
        """Return the number of pods that match all terms, by domain."""
        if terms and terms not in self._affinity:
            counts = self._affinity[terms] = {}
            for pods in self.placed.values():
                for pod, node in pods.values():
                    self._count_affinity(terms, counts, pod, node, 1)
        return self._affinity.get(terms, {})

    def _count_affinity(self, terms: tuple[AffinityTerm, ...], counts: Counts, pod: PodInfo, node: NodeInfo,
                        change: int) -> None:
        if all(self._matches(term, pod) for term in terms):
            for term in terms:
                _count(counts, term, node, change)

    def _anti_affinity_counts(self, term: AffinityTerm) -> Counts:
        if term not in self._anti_affinity:
            counts = self._anti_affinity[term] = {}
            for pods in self.placed.values():
                for pod, node in pods.values():
                    if self._matches(term, pod):
                        _count(counts, term, node, 1)
        return self._anti_affinity[term]

    def _matches(self, term: AffinityTerm, pod: PodInfo) -> bool:
        return term.matches(pod.namespace, pod.labels, self.namespaces)


def _any_in_domain(counts_by_key: list[tuple[str, Counts]], labels: Labels) -> bool:
    """Return whether a pod counts in a domain of the node. A node without the key is in none."""
    for key, counts in counts_by_key:
        value = labels.get(key)
        if value is not None and counts.get((key, value), 0) > 0:
            return True
    return False


def _count(counts: Counts, term: AffinityTerm, node: NodeInfo, change: int) -> None:
    key = term.topology_key
    if key in node.labels:
        pair = (key, node.labels[key])
        counts[pair] = counts.get(pair, 0) + change
