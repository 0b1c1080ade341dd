# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was written down about the devices of a node: evidence, Events, and what claim_info says of a claim."""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES, EVENTS
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.cohdi import NODE, annotation
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import Evidence
from ansible_collections.composable.infra.tests.e2e.support.modules import run_tasks

Json = dict[str, t.Any]


def resources(stage: Stage, node: str, model: str = "") -> list[Json]:
    """ComposableResources of a node, of one model where it is named."""
    return [r for r in stage.client.list(COMPOSABLE_RESOURCES).items
            if r["spec"]["target_node"] == node and model in ("", r["spec"]["model"])]


def evidence(stage: Stage, node: str, model: str = "") -> list[Evidence]:
    """What the hands of a node have written."""
    found = (Evidence.parse(annotation(raw, NODE)) for raw in resources(stage, node, model))
    return [each for each in found if each is not None]


def errors(stage: Stage, node: str) -> list[str]:
    """Errors on the ComposableResources of a node."""
    return [str((raw.get("status") or {}).get("error") or "") for raw in resources(stage, node)]


def event(stage: Stage, who: str, reason: str) -> str:
    """The message of the newest Event of this reason by the agent of a node, or about a pod; empty for none."""
    told = [e for e in stage.client.list(EVENTS).items
            if e["reason"] == reason and who in (e.get("reportingInstance"), e["involvedObject"].get("name"))]
    newest = max(told, key=lambda e: int(e["metadata"]["resourceVersion"]), default=None)
    return str(newest["message"]) if newest else ""


def claim_told(stage: Stage, name: str) -> Json:
    """What claim_info says of a claim of the default namespace."""
    result, = run_tasks(stage, [{"composable.infra.claim_info": {"name": name, "namespace": "default"}}])
    claim, = result["claims"]
    return dict(claim)
