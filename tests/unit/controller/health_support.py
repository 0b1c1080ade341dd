# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_health.py` and others share."""

from __future__ import annotations

from dataclasses import dataclass, field

from ansible_collections.composable.infra.plugins.module_utils.planning.actions import WaitReason


@dataclass
class FakeEngine:
    """What the endpoints ask of an engine."""

    is_ready: bool = True
    stuck_at: str = ""
    troubles: list[str] = field(default_factory=list)
    reasons: list[WaitReason] = field(default_factory=list)
    looks: bool = False

    def stuck(self) -> str:
        return self.stuck_at

    def gauges(self) -> dict[str, float]:
        return {"gated_pods": 3, "claims_waiting": 0}

    def ready(self) -> bool:
        return self.is_ready

    def problems(self) -> list[str]:
        return self.troubles

    def wait_reasons(self) -> list[WaitReason]:
        return self.reasons
