# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute how many idle devices each node keeps, and plan the nodes with a change.

The minimums of idle devices are computed once in a while for all nodes, never at each event.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ...fabric.api import FabricSnapshot
from ...kube.api_resources import CLAIMS, COMPOSABLE_RESOURCES, LEASES, NODES, PODS
from ...model.pod import Pod
from ...runtime.work_queue import WorkQueue
from ..controller import MODIFIED, Change, Controller
from ..keys import GATHER_SECONDS, IdleMinimumsKey, Key, NodeKey, Result
from ..state.cluster_state import ClusterState
from .minimums import idle_minimums
from .waiting_models import WaitingModels


class FloorsController(Controller):
    """Reconciles all minimums of idle devices together. Two passes never run at the same time.

    ``clock`` returns seconds of a monotonic clock.
    """

    kinds = frozenset({CLAIMS, COMPOSABLE_RESOURCES, LEASES, NODES, PODS})

    def __init__(self, state: ClusterState, queue: WorkQueue[Key], clock: Callable[[], float] = time.monotonic) -> None:
        self._state, self._queue, self._waiting = state, queue, WaitingModels()
        self._clock, self._rests_until = clock, 0.0
        self.reconcilers = {IdleMinimumsKey: self.reconcile}

    def concerned(self, change: Change) -> Iterable[IdleMinimumsKey]:
        """Return the key if a change may affect what nodes keep, and minimums are configured."""
        return self.all_keys() if self._state.settings.idle_minimums and concerns_minimums(change) else ()

    def polled(self, old: FabricSnapshot | None, new: FabricSnapshot) -> Iterable[IdleMinimumsKey]:
        """Return the key if minimums are configured."""
        return self.all_keys()

    def all_keys(self) -> tuple[IdleMinimumsKey, ...]:
        """Return the key if minimums are configured."""
        return (IdleMinimumsKey(),) if self._state.settings.idle_minimums else ()

    def reconcile(self, _key: IdleMinimumsKey) -> Result:
        """Compute what each node keeps, and queue the nodes with a change.

        A pass that comes too soon after a long pass is delayed.
        """
        began = self._clock()
        if began < self._rests_until:
            return Result(self._state.clock() + self._rests_until - began)
        found = idle_minimums(self._state, self._state.now(), lambda: self._waiting.read(self._state))
        for node in sorted(self._state.idle_minimums.replace(found)):
            self._queue.add_change(NodeKey(node))
        self._rests_until = _rest(began, self._clock())
        return Result()


def _rest(began: float, ended: float) -> float:
    """Return when the next pass may begin, or 0.0 for at once.

    Passes take at most a tenth of the time. The gathering of changes already separates short
    passes.
    """
    rest = 9 * (ended - began)
    return ended + rest if rest > GATHER_SECONDS[IdleMinimumsKey] else 0.0


def concerns_minimums(change: Change) -> bool:
    """Return whether a change may affect what nodes keep.

    It does if a pod begins or ends to wait, or if a node changes. So does any change of an agent, a
    device or a claim.
    """
    obj, old = change.new, change.old
    if change.resource == PODS:
        return isinstance(obj, Pod) and obj.wants_devices and (
            change.type != MODIFIED or not isinstance(old, Pod) or obj.node != old.node)
    if change.resource == NODES:
        return old is None or obj != old
    return True
