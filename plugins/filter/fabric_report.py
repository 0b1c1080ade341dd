# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Join data of the cluster and the CDI Manager into the tables of a report."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric_report
short_description: Tables about fabric, nodes, claims and idle devices
version_added: 0.1.0
description:
  - Joins nodes with their machines, machines with their devices, and devices with their ComposableResources and claims.
    The same input always gives the same report.
author:
  - composable.infra contributors (@composable-infra)
positional: nodes, fabric, claims
options:
  _input:
    description: Rows of P(composable.infra.fabric_devices#filter).
    type: list
    elements: dict
    required: true
  nodes:
    description: Nodes as the API server has them.
    type: list
    elements: dict
    required: true
  fabric:
    description: Result of M(composable.infra.fabric_info).
    type: dict
    required: true
  claims:
    description: The C(claims) of M(composable.infra.claim_info).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Make the tables
  ansible.builtin.set_fact:
    tables: "{{ devices | composable.infra.fabric_report(nodes=nodes, fabric=fabric, claims=claims.claims) }}"
"""

RETURN = r"""
_value:
  description: >-
    C(summary) with numbers, C(models) with free and attached devices per model, C(nodes), C(claims), C(idle) with the
    attached devices that no claim uses, C(strangers) with attached devices that have no ComposableResource, and
    C(problems).
  type: dict
"""

import typing as t
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..module_utils.kube.objects import nodes as kube_nodes

Row = dict[str, t.Any]
Rows = list[Row]


def fabric_report(
    devices: Sequence[Row],
    nodes: Iterable[Mapping[str, t.Any]],
    fabric: Mapping[str, t.Any],
    claims: Sequence[Mapping[str, t.Any]],
) -> Row:
    """Return all tables."""
    machines = sorted(fabric["machines"], key=lambda m: (m["name"], m["uid"]))
    places = [node_row(node, machines, devices) for node in sorted(nodes, key=lambda n: str(n["metadata"]["name"]))]
    waiting = [claim_row(claim) for claim in claims if claim["waits_for"]]
    attached = [
        {**device, "place": machine["name"] or machine["uid"]} for machine in machines for device in machine["devices"]
    ]
    idle = [d for d in devices if d["device"] and not d["used"]]
    known = {d["device"] for d in devices}
    refused = [f"claim {c['claim']} cannot be served: {c['refused']}" for c in claims if c.get("refused")]
    summary = {
        "machines": len(machines),
        "nodes": len(places),
        "attached": len(attached),
        "idle": len(idle),
        "free": sum(f["free"] for f in fabric["free"]),
        "waiting": len(waiting),
    }
    return {
        "summary": summary,
        "models": model_rows(attached, fabric["free"]),
        "nodes": places,
        "claims": waiting,
        "idle": idle,
        "strangers": [d for d in attached if d["uid"] not in known],
        "problems": sorted(set(fabric["problems"].values())) + [d["sentence"] for d in devices if d["error"]] + refused,
    }


def node_row(node: Mapping[str, t.Any], machines: Rows, devices: Sequence[Row]) -> Row:
    """Return a node with its machine and its attached devices."""
    name = node["metadata"]["name"]
    uid = str(node["spec"].get("providerID") or "").rpartition("/")[2]
    machine = next((m for m in machines if m["uid"].lower() == uid.lower()), None)
    mine = [d for d in devices if d["node"] == name]
    return {
        "name": name,
        "ready": kube_nodes.ready(node),
        "closed": bool(node["spec"].get("unschedulable")),
        "machine": machine["uid"] if machine else "",
        "fabric": machine["fabric"] if machine else None,
        "attached": len(machine["devices"]) if machine else 0,
        "used": sum(1 for d in mine if d["used"]),
        "idle": sum(1 for d in mine if d["device"] and not d["used"]),
    }


def claim_row(claim: Mapping[str, t.Any]) -> Row:
    """Return a waiting claim."""
    return {"claim": claim["claim"], "waits_for": claim["waits_for"], "since": claim["since"]}


def model_rows(attached: Rows, free: Rows) -> Rows:
    """Return the free and attached devices by model and fabric."""
    counts: dict[tuple[str, str], Row] = {}
    for entry in (*free, *attached):
        row = counts.setdefault(
            (entry["model"], str(entry["fabric"])),
            {"model": entry["model"], "fabric": entry["fabric"], "free": 0, "attached": 0},
        )
        row["free"] += entry.get("free", 0)
        row["attached"] += "free" not in entry
    return [counts[name] for name in sorted(counts)]


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Row]]:
        """Return the filter by its name."""
        return {"fabric_report": fabric_report}
