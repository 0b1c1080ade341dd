# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is stored in a lab's API server, and who wrote to it: the evidence that something changed nothing."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    EVENTS,
    LEASES,
    NODES,
    SLICES,
)

Json = dict[str, t.Any]
ACCOUNT = "system:serviceaccount:composable-infra:composable-infra"
WATCHED = (CLAIMS, SLICES, COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES)


def stored_versions(stage: Stage) -> dict[str, Json]:
    """resourceVersion by name of all that front doors may write.

    Of nodes labels and annotations only, since the simulated kubelets write their heartbeats; of leases and events
    our own only, since the control plane has its own, and of leases not those that node agents renew.
    """
    found = {kind.plural: {_name(o): o["metadata"]["resourceVersion"] for o in stage.client.list(kind).items}
             for kind in WATCHED}
    nodes = stage.client.list(NODES).items
    found["nodes"] = {_name(n): [n["metadata"].get("labels"), n["metadata"].get("annotations")] for n in nodes}
    leases = stage.client.list(LEASES, namespace="composable-infra").items
    found["leases"] = {_name(o): o["metadata"]["resourceVersion"] for o in leases if not o["metadata"].get("labels")}
    found["events"] = {_name(o): o["metadata"]["resourceVersion"] for o in own_events(stage)}
    return found


def _name(obj: Json) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def own_events(stage: Stage) -> list[Json]:
    """Events that front doors wrote."""
    return [e for e in stage.client.list(EVENTS).items
            if "composable-infra" in (e.get("reportingComponent"), (e.get("source") or {}).get("component"))]


def writes(stage: Stage) -> list[Json]:
    """Completed writes of the shipped ServiceAccount, oldest first; needs a stage with ``audit``."""
    lines = stage.lab.audit_log.read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines if line.endswith("}")]
    return [e for e in entries if e["user"]["username"] == ACCOUNT and e["stage"] == "ResponseComplete"]


def created(entries: list[Json], plural: str) -> list[Json]:
    """Bodies of the objects of one kind that were created."""
    return [e["requestObject"] for e in entries
            if e["verb"] == "create" and e["objectRef"]["resource"] == plural and not e["objectRef"].get("subresource")]


def refusals(stage: Stage) -> float:
    """How many requests the API server answered with 403 since it started."""
    lines = str(stage.lab.api.get("/metrics")).splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines
               if line.startswith("apiserver_request_total{") and 'code="403"' in line)
