# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_refusals.py` and others share."""

from __future__ import annotations

from ansible_collections.composable.infra.plugins.module_utils.planning.actions import MarkClaim, Plan
from ansible_collections.composable.infra.tests.unit.planning.builders import (
    of,
)


def failed(plan: Plan) -> dict[str, str]:
    """Claims marked as failed, with the reason."""
    return {m.name: m.reason for m in of(plan, MarkClaim) if m.condition == "FabricDeviceFailed"}
