# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count the devices of each namespace by model: used by claims, kept for them, or in flight to
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ...model.resource import Resource
from ...planning.node.demand import PREPARING
from ...planning.node.snapshot import Claim
from . import pool_devices
from .cluster_state import ClusterState
from .used_devices import Usage


def usage(state: ClusterState) -> Usage:
    """Return the devices of all namespaces.

    Include devices of reservations and of claims that wait for pool devices.
    """
    return _usage(state, _preparing(state))


def _usage(state: ClusterState, preparing: list[Claim]) -> Usage:
    found = state.used_devices.total()
    found.update(_kept(state))
    for reservation in state.reservations.all():
        for uid, needs in reservation.placement.needs.items():
            if not state.is_allocated(uid):
                _add_missing(found, state, reservation.placement.pod.namespace, uid, needs)
    for claim in preparing:
        _add_missing(found, state, claim.namespace, claim.uid, claim.need())
    return found


def over_quota(state: ClusterState, claims: tuple[Claim, ...]) -> dict[str, str]:
    """Return why claims are over the quota of their namespaces, by UID. Older claims come first."""
    waiting = [claim for claim in claims if claim.phase == PREPARING]
    shares = state.settings.shares
    if not waiting or not shares.quotas:
        return {}
    found: dict[str, str] = {}
    preparing = _preparing(state)
    used = _usage(state, preparing)
    for claim in preparing:
        used.subtract({(claim.namespace, model): n for model, n in _missing(state, claim.uid, claim.need()).items()})
    for claim in sorted(preparing, key=lambda each: (each.allocated_at, each.uid)):
        more = _missing(state, claim.uid, claim.need())
        if reason := shares.over_quota(claim.namespace, used, more):
            found[claim.uid] = reason
        else:
            used.update({(claim.namespace, model): n for model, n in more.items()})
    return {claim.uid: found[claim.uid] for claim in waiting if claim.uid in found}


def _kept(state: ClusterState) -> Usage:
    """Count devices that are kept for a claim and not in use."""
    found: Usage = Counter()
    for name, claim_uid in state.holds.all().items():
        resource = state.resources.value(name)
        if resource is not None and not state.user(resource) and (namespace := _namespace(state, claim_uid)):
            found[namespace, resource.model] += 1
    return found


def _namespace(state: ClusterState, held_for: str) -> str:
    """Return the namespace of a hold, or an empty string.

    A hold for extended resources may be older than its claim.
    """
    claim = state.claim(held_for)
    return claim.namespace if claim else held_for.rpartition("/")[0]


def _preparing(state: ClusterState) -> list[Claim]:
    read = (pool_devices.read_claim(state, claim) for claim in state.claims.values("preparing", True))
    return [claim for claim in read if claim is not None]


def _missing(state: ClusterState, uid: str, needs: Mapping[str, int]) -> Counter[str]:
    kept = Counter(each.model for each in state.holds.kept_for(uid))
    return Counter(needs) - kept


def _add_missing(found: Usage, state: ClusterState, namespace: str, uid: str,
                 needs: Mapping[str, int]) -> None:
    found.update({(namespace, model): n for model, n in _missing(state, uid, needs).items()})


def idle_shares(state: ClusterState, node: str) -> dict[str, int]:
    """Return how many idle devices a node keeps now, by model. Empty if no pass gave it a share."""
    return {model: share.at(idle_of(state, devices_on(state, node, model)))
            for model, share in state.idle_minimums.of(node).items()}


def devices_on(state: ClusterState, node: str, model: str) -> list[Resource]:
    """Return the ComposableResources of a model on a node that are not being deleted."""
    return [each for each in state.resources.values("node", node) if each.model == model and not each.deleting]


def idle_of(state: ClusterState, devices: list[Resource]) -> int:
    """Return how many of these devices are neither used by a claim nor held for one."""
    return sum(not (state.user(each) or state.holds.of(each)[0]) for each in devices)
