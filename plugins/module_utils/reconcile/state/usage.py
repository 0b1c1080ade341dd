# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many devices of each model each namespace has: used by its claims, kept for them, or on their way to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ...planning.node.demand import PREPARING
from ...planning.node.snapshot import Claim
from . import pool_devices
from .cluster_state import ClusterState, Json

Usage = Counter[tuple[str, str]]
"""By namespace and model of the CDI Manager."""


def usage(state: ClusterState) -> Usage:
    """Devices of all namespaces, those of chosen nodes and of claims that wait for pool devices included."""
    found = _attached(state)
    for reservation in state.reservations.all():
        for uid, needs in reservation.placement.needs.items():
            if not state.is_allocated(uid):
                _add_missing(found, state, reservation.placement.pod.namespace, uid, needs)
    for claim in _preparing(state):
        _add_missing(found, state, claim.namespace, claim.uid, claim.need())
    return found


def over_quota(state: ClusterState, claims: tuple[Claim, ...]) -> dict[str, str]:
    """Which of these claims their namespaces may not have, with the reason, by uid. Older claims come first."""
    waiting = [claim for claim in claims if claim.phase == PREPARING]
    shares = state.settings.shares
    if not waiting or not shares.quotas:
        return {}
    found: dict[str, str] = {}
    used = usage(state)
    for claim in _preparing(state):
        used.subtract({(claim.namespace, model): n for model, n in _missing(state, claim.uid, claim.need()).items()})
    for claim in sorted(_preparing(state), key=lambda each: (each.allocated_at, each.uid)):
        more = _missing(state, claim.uid, claim.need())
        if reason := shares.over_quota(claim.namespace, used, more):
            found[claim.uid] = reason
        else:
            used.update({(claim.namespace, model): n for model, n in more.items()})
    return {claim.uid: found[claim.uid] for claim in waiting if claim.uid in found}


def _attached(state: ClusterState) -> Usage:
    found: Usage = Counter()
    for raw in state.resources.list():
        if namespace := _namespace(state, raw):
            found[namespace, raw["spec"]["model"]] += 1
    return found


def _namespace(state: ClusterState, resource: Json) -> str:
    """Whose device it is; empty for nobody's. A hold for extended resources may be older than their claim."""
    held_for = state.holds.of(resource)[0]
    claim = state.user(resource) or state.claim(held_for)
    return str(claim["metadata"]["namespace"]) if claim else held_for.rpartition("/")[0]


def _preparing(state: ClusterState) -> list[Claim]:
    read = (pool_devices.read_claim(state, raw) for raw in state.claims.list())
    return [claim for claim in read if claim is not None and claim.phase == PREPARING]


def _missing(state: ClusterState, uid: str, needs: Mapping[str, int]) -> Counter[str]:
    kept = Counter(raw["spec"]["model"] for raw in state.holds.kept_for(uid))
    return Counter(needs) - kept


def _add_missing(found: Usage, state: ClusterState, namespace: str, uid: str,
                 needs: Mapping[str, int]) -> None:
    found.update({(namespace, model): n for model, n in _missing(state, uid, needs).items()})
