# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes suit a pod, as the scheduler would judge it, and what it would say of those that do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .demand import Demand
from .memo import NodeDigest, PodFacts
from .ranking import Ranking
from .selectors import untolerated, wants_node
from .state import NodeState, State
from .supply import Objection, Option, Supplier

TAKEN = Objection("can serve it, but not together with the other pods of its group")
UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Case:
    """A pod with what it asks for; ``key`` is equal for pods that are judged equally as far as pods do not matter."""

    facts: PodFacts
    demand: Demand

    @property
    def key(self) -> tuple[object, ...]:
        """What nodes and devices have to satisfy."""
        return (self.facts.static, self.demand.kind, self.facts.asked, self.facts.ports)

    @property
    def with_pods(self) -> tuple[object, ...]:
        """The same where terms about pods matter."""
        facts = self.facts
        labels = tuple(sorted(facts.labels.items()))
        return (*self.key, facts.namespace, labels, facts.affinity, facts.anti, facts.spread)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why no node serves a pod. ``lacking``: some node suits it and only lacks devices for now."""

    text: str
    counts: Mapping[str, int]
    lacking: bool


def static_objection(pod: PodFacts, node: NodeDigest) -> str:
    """Why a pod can never be on the node as the node is now; empty when it can."""
    spec = pod.raw["spec"]
    tolerations = spec.get("tolerations") or ()
    if node.unschedulable and untolerated((UNSCHEDULABLE,), tolerations):
        return "were unschedulable"
    taint = untolerated(node.taints, tolerations)
    if taint is not None:
        return f"had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"
    if not wants_node(spec, node.facts.name, node.labels):
        return "didn't match the pod's node affinity/selector"
    return ""


class Judge:
    """Judges pods against the state; equal questions are asked once."""

    def __init__(self, state: State, supplier: Supplier, policy: str) -> None:
        self.state, self.supplier, self.policy = state, supplier, policy
        self._static: dict[str, dict[str, str]] = {}
        self._rankings: dict[tuple[object, ...], Ranking] = {}

    def pick(self, case: Case) -> tuple[NodeState, Option] | None:
        """The best node for the pod and the way to serve it there, None when there is none."""
        return self._ranking(case).pick(self._refusal(case.facts))

    def explain(self, case: Case) -> Explanation:
        """Why the pod has no node now. Where no node at all has the devices, room is not asked for node by node."""
        ranking, static, refusal = self._ranking(case), self._of_static(case.facts), self._refusal(case.facts)
        ranking.refresh()
        passing = (self.state.nodes[name] for name, o in ranking.objections.items() if not o.lasting)
        lacking = any(not refusal(node) for node in passing)
        if ranking.order:
            counts = Counter(static[name] or refusal(node) or ranking.objections.get(name, TAKEN).text
                             for name, node in self.state.nodes.items())
        else:
            counts = ranking.summary() + Counter(reason for reason in static.values() if reason)
        return Explanation(sentence(counts, len(self.state.nodes)), counts, lacking)

    def suitable(self, case: Case) -> tuple[str, ...]:
        """Nodes that suit the pod and have its devices, or could have them when others give theirs back."""
        ranking, static, refusal = self._ranking(case), self._of_static(case.facts), self._refusal(case.facts)
        ranking.refresh()
        lasting = {name for name, objection in ranking.objections.items() if objection.lasting}
        return tuple(name for name, node in self.state.nodes.items()
                     if not static[name] and name not in lasting and not refusal(node))

    def _refusal(self, pod: PodFacts) -> Callable[[NodeState], str]:
        """What says why a node, as it is now, has no room for the pod or bad company; empty when it is fine."""
        if not self.state.topology.concerns(pod):
            return lambda node: node.lacks(pod)
        objection = self.state.topology.check(pod)
        return lambda node: node.lacks(pod) or objection(node.digest)

    def _of_static(self, pod: PodFacts) -> dict[str, str]:
        if pod.static not in self._static:
            self._static[pod.static] = {n: static_objection(pod, d) for n, d in self.state.digests.items()}
        return self._static[pod.static]

    def _ranking(self, case: Case) -> Ranking:
        key = (case.facts.static, case.demand.kind)
        if key not in self._rankings:
            names = [name for name, reason in self._of_static(case.facts).items() if not reason]
            self._rankings[key] = Ranking(self.supplier, case.demand, names, self.policy)
        return self._rankings[key]


def sentence(counts: Mapping[str, int], total: int) -> str:
    """Like the scheduler's: ``0/5 nodes: 2 had untolerated taint {a: b}, 3 no free A100 on fabric 1``."""
    parts = [f"{n} {reason}" for reason, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    return f"0/{total} nodes: {', '.join(parts)}" if parts else "the cluster has no nodes"
