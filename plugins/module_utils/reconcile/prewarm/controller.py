# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pass over the floors of idle devices: it says what each node keeps, and has those planned for which that changed.

However many events there are, it looks at all nodes of the floors once in a while, and never at an event itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ...kube.api_resources import CLAIMS, COMPOSABLE_RESOURCES, NODES, PODS, ApiResource
from ...kube.objects import nodes, pods
from ..keys import GATHER_SECONDS, FloorsKey, Key, NodeKey, Result
from ..runtime.event_mapping import node_facts
from ..runtime.work_queue import WorkQueue
from ..state.cluster_state import ClusterState, Json
from .floors import floor_shares
from .waiting_models import WaitingModels


class FloorsController:
    """Reconciles all floors together; no two passes run at the same time. ``clock``: seconds, of one never set."""

    def __init__(self, state: ClusterState, queue: WorkQueue[Key], clock: Callable[[], float] = time.monotonic) -> None:
        self._state, self._queue, self._waiting = state, queue, WaitingModels()
        self._clock, self._rests_until = clock, 0.0

    def reconcile(self, _key: FloorsKey) -> Result:
        """Say what each node keeps. Nodes for which that is something else than before are to be planned.

        A pass that comes too soon after a long one is put off.
        """
        began = self._clock()
        if began < self._rests_until:
            return Result(self._state.clock() + self._rests_until - began)
        found = floor_shares(self._state, self._state.now(), lambda: self._waiting.read(self._state))
        for node in sorted(self._state.floor_shares.replace(found)):
            self._queue.add_change(NodeKey(node))
        self._rests_until = _rest(began, self._clock())
        return Result()


def _rest(began: float, ended: float) -> float:
    """Until when the next pass waits, so that passes take a tenth of the time at most; short ones are far enough apart
    by the gathering of changes."""
    rest = 9 * (ended - began)
    return ended + rest if rest > GATHER_SECONDS[FloorsKey] else 0.0


def concerns_floors(kind: str, resource: ApiResource, obj: Json, old: Json | None) -> bool:
    """Whether a change may concern what nodes keep: a pod begins or ceases to wait, a node, a device or a claim is
    another."""
    if resource == PODS:
        return pods.wants_devices(obj) and (kind != "MODIFIED" or pods.bound(obj) != pods.bound(old or obj))
    if resource == NODES:
        return old is None or (nodes.ready(obj), node_facts(obj)) != (nodes.ready(old), node_facts(old))
    return resource in (CLAIMS, COMPOSABLE_RESOURCES)
