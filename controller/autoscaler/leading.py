# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The readiness of a process that waits to lead. Cluster Autoscaler must call only the leader."""

from __future__ import annotations

from ansible_collections.composable.infra.controller.health import Process
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.leader_election import LeaderElection

COMPONENT = "autoscaler"


class Leading:
    """A process for ``health``.

    It is ready once it leads, so that a Service sends calls only to it.
    """

    def __init__(self, engine: Process, leadership: LeaderElection) -> None:
        self._engine, self._leadership = engine, leadership

    def ready(self) -> bool:
        """Return whether it answers Cluster Autoscaler."""
        return self._leadership.held and self._engine.ready()

    def problems(self) -> list[str]:
        """Return what prevents its work, in sentences."""
        others = ", ".join(self._leadership.leaders()) or "no process"
        waits = [] if self._leadership.held else [f"this process waits to lead. Now {others} leads"]
        return waits + self._engine.problems()

    def stuck(self) -> str:
        """Return why it is stuck for good. Empty while it works."""
        return self._engine.stuck()
