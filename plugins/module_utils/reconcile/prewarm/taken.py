# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a claim took when it was allocated, of each floor that is learned; an attach for a floor is no such thing."""

from __future__ import annotations

from collections import Counter

from ...kube.objects import claims
from ..state.cluster_state import ClusterState, Json


def taken(state: ClusterState, claim: Json, old: Json | None) -> dict[str, int]:
    """Devices by the key of a floor, where a claim has an allocation that it had not before; else nothing.

    A claim without ``old`` may have had it for long: lists begin with all that there is.
    """
    if old is None or claims.results(old) or not claims.results(claim):
        return {}
    node = claims.node(claim) or ""
    labels = ((state.nodes.get(node) or {"metadata": {}})["metadata"].get("labels")) or {}
    models = Counter(_models(state, node, claim))
    return {floor.key: models[floor.model] for floor in state.settings.floors
            if floor.learn and models[floor.model] and floor.holds_for(labels)}


def _models(state: ClusterState, node: str, claim: Json) -> list[str]:
    """The model of each device of the fabric that the claim has; two parts of a device are one."""
    keys = set(claims.device_keys(claim))
    pooled = [of_pool[0].cdi_model_name for result in claims.binding_results(claim)
              if (of_pool := state.settings.of_pool(result["pool"]))]
    own = [str(raw["spec"]["model"]) for raw in state.resources.by("node", node)
           if keys & set(state.own_keys(raw))]
    return [*pooled, *own]
