# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare what a ComposabilityRequest requires besides devices (``other_spec``) with the node's
capacity.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..scheduling.framework.quantity import BadQuantity, amount

# CoHDI's name of an amount, and the resource of the node. Units are those of ``amount``.
RESOURCES = {"milli_cpu": "cpu", "memory": "memory", "ephemeral_storage": "ephemeral-storage",
             "allowed_pod_number": "pods"}


def lacks(node: str, capacity: Mapping[str, str], other_spec: Mapping[str, int]) -> str:
    """Return what of ``other_spec`` a node lacks, in a sentence, empty if it has everything.

    ``capacity``: Kubernetes quantities by resource. A quantity that is absent or invalid counts as
    0.

    Source: CoHDI's composable-resource-operator, which compares thousandths of a core with cores.
    """
    for key, resource in RESOURCES.items():
        has = capacity.get(resource, "0")
        if _amount(resource, has) < (asked := int(other_spec.get(key) or 0)):
            return f"node {node} has {has} {resource}, but other_spec.{key} requests {asked}"
    return ""


def _amount(resource: str, text: str) -> int:
    try:
        return amount(resource, text)
    except BadQuantity:
        return 0
