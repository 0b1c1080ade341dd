# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How pods are spread over the domains of the cluster: required affinity, anti-affinity and topology spread.

Counts are made once per distinct term and kept up to date with every pod that the plan places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .memo import NodeDigest, PodFacts
from .selectors import Labels, untolerated, wants_node
from .terms import SpreadTerm, Term

Pair = tuple[str, str]
Counts = dict[Pair, int]
NO_LABEL = "didn't match pod topology spread constraints (missing required label)"
TOO_MANY = "didn't match pod topology spread constraints"
NO_FRIEND = "didn't match pod affinity rules"
FOE = "didn't match pod anti-affinity rules"
FOE_OF_OTHERS = "didn't satisfy existing pods anti-affinity rules"


class _Spread:
    """Matching pods per domain for one constraint of pods that the same nodes suit."""

    def __init__(self, term: SpreadTerm, nodes: frozenset[str]) -> None:
        self.term, self.nodes, self.counts = term, nodes, dict[str, int]()
        self._least: int | None = None

    def add(self, value: str, change: int) -> None:
        self.counts[value] = self.counts.get(value, 0) + change
        self._least = None

    def least(self) -> int:
        """The global minimum, 0 while there are too few domains."""
        if len(self.counts) < self.term.domains:
            return 0
        if self._least is None:
            self._least = min(self.counts.values(), default=0)
        return self._least


class Topology:
    """The pods of all nodes by what terms say of them."""

    def __init__(self, nodes: Mapping[str, NodeDigest], namespaces: Mapping[str, Labels]) -> None:
        self.nodes, self.namespaces = nodes, namespaces
        self._pods: dict[str, list[tuple[PodFacts, NodeDigest]]] = {}
        self._foes: dict[Term, Counts] = {}
        self._known_foes: dict[PodFacts, tuple[int, list[Term]]] = {}
        self._affinity: dict[tuple[Term, ...], Counts] = {}
        self._anti: dict[Term, Counts] = {}
        self._spread: dict[tuple[str, str, tuple[SpreadTerm, ...]], list[_Spread]] = {}
        for node in nodes.values():
            for pod in node.pods:
                self._pods.setdefault(pod.namespace, []).append((pod, node))
                for term in pod.anti:
                    _count(self._foes.setdefault(term, {}), term, node, 1)

    def place(self, pod: PodFacts, node: NodeDigest, change: int = 1) -> None:
        """Count a pod on a node, or with ``change`` -1 no longer."""
        here = self._pods.setdefault(pod.namespace, [])
        if change > 0:
            here.append((pod, node))
        else:
            here.remove((pod, node))
        for term in pod.anti:
            _count(self._foes.setdefault(term, {}), term, node, change)
        for terms, counts in self._affinity.items():
            self._count_friend(terms, counts, pod, node, change)
        for term, counts in self._anti.items():
            if term.matches(pod.namespace, pod.labels, self.namespaces):
                _count(counts, term, node, change)
        for (namespace, _static, _terms), found in self._spread.items():
            if namespace == pod.namespace:
                _count_spread(found, pod, node, change)

    def check(self, pod: PodFacts) -> Callable[[NodeDigest], str]:
        """What says why the pod cannot be on a node as far as other pods are concerned, empty when it can; good until
        the next pod is placed."""
        foes = [(term.key, self._anti_counts(term)) for term in pod.anti]
        haters = [(term.key, self._foes[term]) for term in self._foes_of(pod)]
        friends, domains = self._friends(pod), self._domains(pod)

        def objection(node: NodeDigest) -> str:
            if friends is not None and not friends(node):
                return NO_FRIEND
            if foes and _near(foes, node):
                return FOE
            if haters and _near(haters, node):
                return FOE_OF_OTHERS
            return _uneven(domains, node) if domains else ""

        return objection

    def concerns(self, pod: PodFacts) -> bool:
        """Whether terms of this pod, or of others about it, matter at all."""
        return pod.minds_pods or bool(self._foes_of(pod))

    def _foes_of(self, pod: PodFacts) -> list[Term]:
        """Terms of others that speak of the pod; found anew when there are more terms than before."""
        known = self._known_foes.get(pod)
        if known is None or known[0] != len(self._foes):
            found = [term for term in self._foes if term.matches(pod.namespace, pod.labels, self.namespaces)]
            known = self._known_foes[pod] = (len(self._foes), found)
        return known[1]

    def _friends(self, pod: PodFacts) -> Callable[[NodeDigest], bool] | None:
        """What says whether pods that the pod wants to be with are near; None when it wants none."""
        if not pod.affinity:
            return None
        counts, keys = self._affinity_counts(pod.affinity), [term.key for term in pod.affinity]
        # the first of a series of pods that want to be together
        first = not any(counts.values()) and all(
            term.matches(pod.namespace, pod.labels, self.namespaces) for term in pod.affinity)

        def near(node: NodeDigest) -> bool:
            if any(key not in node.labels for key in keys):
                return False
            return first or all(counts.get((key, node.labels[key]), 0) > 0 for key in keys)

        return near

    def _affinity_counts(self, terms: tuple[Term, ...]) -> Counts:
        if terms not in self._affinity:
            counts = self._affinity[terms] = {}
            for pods in self._pods.values():
                for pod, node in pods:
                    self._count_friend(terms, counts, pod, node, 1)
        return self._affinity[terms]

    def _count_friend(self, terms: tuple[Term, ...], counts: Counts, pod: PodFacts, node: NodeDigest,
                      change: int) -> None:
        """A pod counts when it matches all terms."""
        if all(term.matches(pod.namespace, pod.labels, self.namespaces) for term in terms):
            for term in terms:
                _count(counts, term, node, change)

    def _anti_counts(self, term: Term) -> Counts:
        if term not in self._anti:
            counts = self._anti[term] = {}
            for pods in self._pods.values():
                for pod, node in pods:
                    if term.matches(pod.namespace, pod.labels, self.namespaces):
                        _count(counts, term, node, 1)
        return self._anti[term]

    def _domains(self, pod: PodFacts) -> list[tuple[_Spread, int]]:
        """For each constraint its counts, and how many pods a domain may have before this one."""
        return [(found, found.term.skew + found.least() - int(found.term.selector.selects(pod.labels)))
                for found in self._spread_counts(pod)]

    def _spread_counts(self, pod: PodFacts) -> list[_Spread]:
        if not pod.spread:
            return []
        key = (pod.namespace, pod.static, pod.spread)
        if key not in self._spread:
            found = self._spread[key] = [self._new_spread(pod, term) for term in pod.spread]
            for other, node in self._pods.get(pod.namespace, ()):
                _count_spread(found, other, node, 1)
        return self._spread[key]

    def _new_spread(self, pod: PodFacts, term: SpreadTerm) -> _Spread:
        nodes = [n for n in self.nodes.values() if _included(pod, term, n)]
        found = _Spread(term, frozenset(n.facts.name for n in nodes))
        found.counts.update(dict.fromkeys((n.labels[term.key] for n in nodes), 0))
        return found


def _near(several: list[tuple[str, Counts]], node: NodeDigest) -> bool:
    """Whether a pod is counted in the node's domain; a node without the key is in none."""
    for key, counts in several:
        value = node.labels.get(key)
        if value is not None and counts.get((key, value), 0) > 0:
            return True
    return False


def _uneven(domains: list[tuple[_Spread, int]], node: NodeDigest) -> str:
    for found, most in domains:
        value = node.labels.get(found.term.key)
        if value is None:
            return NO_LABEL
        if found.counts.get(value, 0) > most:
            return TOO_MANY
    return ""


def _count(counts: Counts, term: Term, node: NodeDigest, change: int) -> None:
    if term.key in node.labels:
        pair = (term.key, node.labels[term.key])
        counts[pair] = counts.get(pair, 0) + change


def _included(pod: PodFacts, term: SpreadTerm, node: NodeDigest) -> bool:
    """Whether the node's domain counts for the pod: it has every key, and the policies of the constraint admit it."""
    spec = pod.raw["spec"]
    if any(each.key not in node.labels for each in pod.spread):
        return False
    if term.honour_affinity and not wants_node(spec, node.facts.name, node.labels):
        return False
    return not term.honour_taints or untolerated(node.taints, spec.get("tolerations") or ()) is None


def _count_spread(several: list[_Spread], pod: PodFacts, node: NodeDigest, change: int) -> None:
    """A pod that is being deleted counts no more; a selector that selects everything counts nobody."""
    if pod.leaving:
        return
    for found in several:
        if node.facts.name in found.nodes and not found.term.selector.empty and found.term.selector.selects(pod.labels):
            found.add(node.labels[found.term.key], change)
