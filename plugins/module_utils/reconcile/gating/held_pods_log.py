# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log a line for each gated pod once its claims exist. The line starts the history of a claim."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.pod import Pod
from ..runtime.event_reporter import EventReporter
from ..state.cluster_state import ClusterState


class HeldPodsLog:
    """Log of gated pods. An engine has one, and one thread calls ``note``."""

    def __init__(self, state: ClusterState, reporter: EventReporter) -> None:
        self._state, self._reporter = state, reporter
        self._told: set[str] = set()

    def note(self, held: Sequence[Pod]) -> None:
        """Log the pods that are gated now and were not logged yet. Forget pods that are no longer
        gated."""
        known, self._told = self._told, {pod.uid for pod in held}
        for pod in held:
            if pod.uid in known:
                continue
            if claims := self._state.claims_of_pod(pod):
                self._reporter.note("PodHeld", f"{pod.namespace}/{pod.name}",
                                    "gated until its devices are attached to a node", claims=claims)
            else:
                self._told.discard(pod.uid)
