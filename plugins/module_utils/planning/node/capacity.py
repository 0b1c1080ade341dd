# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a ComposabilityRequest asks of a node besides devices (``other_spec``), against what the node has in all."""

from __future__ import annotations

from collections.abc import Mapping

from ..scheduling.framework.quantity import BadQuantity, amount

# CoHDI's name of an amount: the resource of the node, in the units that ``amount`` counts.
RESOURCES = {"milli_cpu": "cpu", "memory": "memory", "ephemeral_storage": "ephemeral-storage",
             "allowed_pod_number": "pods"}


def lacks(node: str, capacity: Mapping[str, str], other_spec: Mapping[str, int]) -> str:
    """What of ``other_spec`` a node does not have, in a sentence; empty when it has all.

    ``capacity``: by resource, as Kubernetes writes quantities; one that is absent or cannot be read is none.

    Source: CoHDI's composable-resource-operator, which compares thousandths of a core with cores.
    """
    for key, resource in RESOURCES.items():
        has = capacity.get(resource, "0")
        if _amount(resource, has) < (asked := int(other_spec.get(key) or 0)):
            return f"node {node} has {has} of {resource}, and other_spec.{key} asks for {asked}"
    return ""


def _amount(resource: str, text: str) -> int:
    try:
        return amount(resource, text)
    except BadQuantity:
        return 0
