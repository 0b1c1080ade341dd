# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove the publisher's labels from nodes."""

from __future__ import annotations

from ..module_utils.model.value import Json

DOCUMENTATION = r"""
name: without_fabric_labels
short_description: Patches that remove the publisher's labels from nodes
version_added: 0.1.0
description:
  - The publisher labels a node with its fabric and with the models that can be attached to it. If you remove the
    publisher, remove the labels too, since no component would attach these devices.
  - Limits that users have set, C(-size-min) and C(-size-max), are not changed.
author:
  - composable.infra contributors (@composable-infra)
positional: config
options:
  _input:
    description: Nodes as the API server has them.
    type: list
    elements: dict
    required: true
  config:
    description: The controllers' configuration. Without models in it, only the fabric's label is removed.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Remove the labels
  kubernetes.core.k8s:
    state: patched
    definition: "{{ nodes.resources | composable.infra.without_fabric_labels(config) }}"
"""

RETURN = r"""
_value:
  description: One patch for each node that has such a label.
  type: list
  elements: dict
"""

import typing as t
from collections.abc import Callable, Iterable, Mapping


def without_fabric_labels(nodes: Iterable[Mapping[str, t.Any]], config: Mapping[str, t.Any]) -> list[Json]:
    """Return a patch for each node with such labels."""
    prefix = config.get("label_prefix") or "cohdi.io"
    models = [row["k8s-device-name"] for row in config.get("device_info") or ()]
    names = {f"{prefix}/{name}" for name in ("fabric", *models)}
    return [patch(node, found) for node in nodes if (found := names & set(node["metadata"].get("labels") or {}))]


def patch(node: Mapping[str, t.Any], names: Iterable[str]) -> Json:
    """Return the patch that removes labels from one node."""
    labels = dict.fromkeys(sorted(names))
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node["metadata"]["name"], "labels": labels}}


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., list[Json]]]:
        """Return the filter by its name."""
        return {"without_fabric_labels": without_fabric_labels}
