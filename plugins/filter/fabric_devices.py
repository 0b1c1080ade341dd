# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows about the devices of ComposableResources, for playbooks and reports."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric_devices
short_description: Devices of a cluster from its ComposableResources
version_added: 0.1.0
description:
  - Returns one row for each ComposableResource, sorted by node and name, each with a sentence about the device.
author:
  - composable.infra contributors (@composable-infra)
positional: nodes, models
options:
  _input:
    description: ComposableResources as the API server has them.
    type: list
    elements: dict
    required: true
  nodes:
    description: Only devices of these nodes.
    type: list
    elements: str
  models:
    description: Only devices of these models, as the CDI Manager names them.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Show what is attached
  ansible.builtin.debug:
    msg: "{{ resources | composable.infra.fabric_devices(nodes=['node-1']) | map(attribute='sentence') }}"
"""

RETURN = r"""
_value:
  description: C(name), C(node), C(model), C(device), C(state), C(error), C(used), C(since) and C(sentence).
  type: list
  elements: dict
"""

import typing as t
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..module_utils.kube.objects import cohdi

Row = dict[str, t.Any]


def fabric_devices(
    resources: Iterable[Mapping[str, t.Any]], nodes: Sequence[str] | None = None, models: Sequence[str] | None = None
) -> list[Row]:
    """Return rows sorted by node and name."""
    rows = [row(resource) for resource in resources]
    found = [r for r in rows if (nodes is None or r["node"] in nodes) and (models is None or r["model"] in models)]
    return sorted(found, key=lambda r: (r["node"], r["name"]))


def row(resource: Mapping[str, t.Any]) -> Row:
    """Return the row of one device."""
    meta, spec, status = resource["metadata"], resource["spec"], resource.get("status") or {}
    found: Row = {
        "name": meta["name"],
        "node": spec["target_node"],
        "model": spec["model"],
        "device": status.get("cdi_device_id") or "",
        "state": status.get("state") or "",
        "error": status.get("error") or "",
        "since": meta.get("creationTimestamp") or "",
        "used": bool((meta.get("annotations") or {}).get(cohdi.IN_USE)),
    }
    return {**found, "sentence": sentence(found)}


def sentence(device: Row) -> str:
    """Return a sentence about a device."""
    name = f"{device['model']} {device['device']}".strip()
    return f"{name} on node {device['node']}: {reason(device)}"


def reason(device: Row) -> str:
    """Return the reason why the device is there."""
    if device["error"]:
        return str(device["error"])
    if not device["device"]:
        return "not attached yet"
    return "used by a claim" if device["used"] else "idle"


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., list[Row]]]:
        """Return the filter by its name."""
        return {"fabric_devices": fabric_devices}
