# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan a capture and return the answer as data: states of claims, attaches, returns, and why claims
wait."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...planning import actions as act
from ...planning.node.snapshot import PodRef
from ..manager.engine import Engine
from ..oneshot.dry_run import Forecast, forecast
from ..oneshot.explain import explain_forecast
from ..state.cluster_state import ClusterState
from .capture import Capture
from .captured_engine import engine_of

SERVED, PLACED, WAITING, RELEASED = "served", "placed", "waiting", "released"
STATES: t.Final = (SERVED, PLACED, WAITING, RELEASED)
Moves = Mapping[tuple[str, str], int]
"""Number of devices by node and model."""


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """Answer for a claim.

    ``state`` is ``served`` (waits for nothing), ``placed`` (has a node, its devices are there or
    arrive), ``waiting``, or ``released`` (its pod is released without devices). ``says`` has the
    planner's words.
    """

    claim: str
    state: str
    node: str
    says: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer for a capture.

    ``claims`` are by namespace and name. ``attaches`` and ``returns`` are the first requests to the
    CDI Manager. ``free`` is the number of free devices by (model, fabric) before them. ``problems``
    are those of the fabric.
    """

    claims: Mapping[str, ClaimAnswer]
    attaches: Moves
    returns: Moves
    free: Mapping[tuple[str, int], int]
    problems: tuple[str, ...]

    def counts(self) -> dict[str, int]:
        """Return the number of claims in each state."""
        found = Counter(each.state for each in self.claims.values())
        return {state: found[state] for state in STATES}


def answer(capture: Capture) -> Answer:
    """Plan the capture as check mode plans a live cluster, and return the answer. Pure."""
    engine = engine_of(capture)
    found = forecast(engine)
    state = engine.state
    return Answer(_claims(engine, found), _attaches(found.actions), _returns(state, found.actions),
                  dict(sorted(capture.fabric.free.items())), tuple(engine.problems()))


def _claims(engine: Engine, found: Forecast) -> dict[str, ClaimAnswer]:
    waits = {reason.claim: reason for reason in (*found.wait_reasons, *explain_forecast(engine, found))}
    answers = {name: _waiting(reason) for name, reason in waits.items()}
    for action in found.actions:
        if isinstance(action, act.Reserve):
            answers |= _placed(engine.state, action)
        elif isinstance(action, act.ReleaseGate):
            answers |= _released(engine.state, action)
    return dict(sorted(answers.items()))


def _waiting(reason: act.WaitReason) -> ClaimAnswer:
    node = str(reason.evidence.get("node") or "")
    state = WAITING if not node else PLACED
    return ClaimAnswer(reason.claim, state if reason.waits_for else SERVED, node, reason.waits_for)


def _placed(state: ClusterState, action: act.Reserve) -> dict[str, ClaimAnswer]:
    return {name: ClaimAnswer(name, PLACED, action.node, action.reason) for name in _claim_names(state, action.pod)}


def _released(state: ClusterState, action: act.ReleaseGate) -> dict[str, ClaimAnswer]:
    return {name: ClaimAnswer(name, RELEASED, "", action.reason) for name in _claim_names(state, action.pod)}


def _claim_names(state: ClusterState, pod: PodRef) -> list[str]:
    """Return the names of a pod's claims as messages name them.

    A pod without claims has the claim that the scheduler makes for it.
    """
    known = state.pods.first_value("uid", pod.uid)
    claims = state.claims_by_entry(known) if known else {}
    names = [claim.name if claim else f"{pod.name}-{entry}" for entry, claim in claims.items()]
    return [f"{pod.namespace}/{name}" for name in names or [f"{pod.name}-extended-resources"]]


def _attaches(actions: Iterable[act.Action]) -> Moves:
    found = Counter((action.node, action.model) for action in actions
                    if isinstance(action, (act.CreateResource, act.Attach)))
    return dict(sorted(found.items()))


def _returns(state: ClusterState, actions: Iterable[act.Action]) -> Moves:
    """Count the devices that are given up, each once, however many steps that takes."""
    names = {(action.resource, action.node) for action in actions
             if isinstance(action, (act.DeleteResource, act.AskRelease, act.Detach))}
    found = Counter((node, found.model) for name, node in names if (found := state.resources.value(name)))
    return dict(sorted(found.items()))
