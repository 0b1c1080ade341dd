# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the ask for room: a waiting claim, or a claim that may come."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

from ....model.claim import ResourceClaim
from ....model.pod import Pod
from ....planning.scheduling.filters.dynamic_resources.catalogue import Catalogue
from ....planning.scheduling.filters.dynamic_resources.claims import MAX_DEVICES_PER_CLAIM
from ....planning.scheduling.filters.dynamic_resources.requests import RequestReader, Unsupported
from ...config import BadConfig
from ...state.cluster_state import ClusterState
from .plan import Plan, RoomRequest


class BadRoomRequest(BadConfig):
    """No plan can be proposed for the ask. The message names the field, its value and the allowed
    values."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}: {value!r} is not usable: {allowed}")


def check_id(plan: Plan, given: str) -> None:
    """Refuse any plan but the given one. Raise BadRoomRequest.

    A plan without moves counts as carried out, but not if it would not help.
    """
    if not plan.fits:
        raise BadRoomRequest("proposal", given, f"the proposal no longer helps: {plan.why}")
    if plan.moves and given != plan.id:
        raise BadRoomRequest("proposal", given,
                             "devices have moved since, or the proposal is for another request. It is now "
                             f"{plan.id} ({plan.sentence}). Check it in check mode, then set its id")


def asked(given: Mapping[str, t.Any]) -> Callable[[ClusterState], RoomRequest]:
    """Return a function that reads the ask from a module's options.

    The options are ``claim``, or ``model``, ``count`` and ``node_labels``.
    """
    return lambda state: (ask_of_claim(state, given["claim"]) if given["claim"]
                          else ask_of_model(state, given["model"], given["count"], given["node_labels"]))


def ask_of_model(state: ClusterState, model: str, count: int, labels: Mapping[str, str] | None) -> RoomRequest:
    """Return the ask of a claim that may come. Raise BadRoomRequest."""
    known = [each.cdi_model_name for each in state.settings.models]
    if model not in known:
        raise BadRoomRequest("model", model, f"no such model. Known models are {', '.join(known)}")
    if not 1 <= count <= MAX_DEVICES_PER_CLAIM:
        raise BadRoomRequest("count", count, f"must be from 1 to {MAX_DEVICES_PER_CLAIM}, the limit of a claim")
    for name, value in (labels or {}).items():
        if not isinstance(value, str):
            raise BadRoomRequest(f"node_labels.{name}", value, "must be a text. Quote it")
    return RoomRequest(model, count, dict(labels or {}))


def ask_of_claim(state: ClusterState, claim: str) -> RoomRequest:
    """Return the ask of a waiting claim (namespace/name), with the node selector of its pod. Raise
    BadRoomRequest."""
    namespace, _unused, name = claim.partition("/")
    found = state.claims.value(name, namespace)
    if found is None:
        raise BadRoomRequest("claim", claim, "there is no such claim. Name it as namespace/name")
    if found.results:
        raise BadRoomRequest("claim", claim, "the claim already has its devices")
    pod = pod_of(state, found)
    if pod is None:
        raise BadRoomRequest("claim", claim, "no waiting pod uses the claim")
    model, count = _asked(state, found)
    return RoomRequest(model, count, dict(pod.spec.get("nodeSelector") or {}), claim)


def pod_of(state: ClusterState, claim: ResourceClaim) -> Pod | None:
    """Return a pod without a node that refers to the claim, or None."""
    return next((pod for pod in state.pods.values("waiting", True) if any(
        each is not None and each.uid == claim.uid for each in state.claims_by_entry(pod).values())), None)


def _asked(state: ClusterState, claim: ResourceClaim) -> tuple[str, int]:
    """Return the model and the number of devices.

    If several models match, take the first one that the claim names, or the first by name.
    """
    classes: dict[str, t.Any] = {each["metadata"]["name"]: each for each in state.classes.list()}
    reader = RequestReader(Catalogue(state.settings.models, {}), frozenset(classes), classes)
    try:
        ways = [reader.alternatives(each)[0] for each in claim.spec["devices"]["requests"]]
    except (KeyError, TypeError, Unsupported) as error:
        raise BadRoomRequest("claim", claim.key, f"its requests are not supported: {error}") from None
    models = {way.models[0] for way in ways}
    if len(models) != 1:
        listed = ", ".join(sorted(models))
        raise BadRoomRequest("claim", claim.key,
                             f"it requests several models, {listed}. Set model and count for one of them")
    return models.pop(), sum(way.count for way in ways)
