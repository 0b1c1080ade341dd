# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which dialect a service offers for each unit: what tests of whole services look at."""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.composition.dialects import (
    dialect_for,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.composition.preconditions import (
    Change,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.redfish.model.service_model import (
    ServiceModel,
)


def offers(service_model: ServiceModel) -> dict[str, str]:
    """By uid of a unit, the dialect by which its machine can lose it, or some machine can be given it."""
    found: dict[str, str] = {}
    for unit in service_model.units.values():
        hosts = [service_model.hosts[uid] for uid in unit.hosts] or list(service_model.hosts.values())
        changes = (Change(service_model, host, unit, attach=not unit.hosts) for host in hosts)
        dialect = next((row for row in map(dialect_for, changes) if row), None)
        if dialect:
            found[unit.uid] = dialect.name
    return found
