# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pass each change of the cluster and each poll of the CDI Manager to the controllers, and queue
their keys. Every reconcile then reads the state again."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ...fabric.api import FabricSnapshot
from ...kube.api_resources import COMPOSABLE_RESOURCES, LEASES, ApiResource
from ...kube.coordination.agent_leases import AGENT_LEASE
from ...kube.objects import cohdi
from ...model.resource import Resource
from ...planning.node.supply import DELETING
from ...runtime.work_queue import WorkQueue
from ..controller import ADDED, MODIFIED, Change, Controller
from ..keys import Key
from ..state.cluster_state import ClusterState
from ..values import resource_values
from .watches import OnChange


class Dispatch:
    """Tells the controllers what has changed.

    ``observers`` hear of each change before the controllers. ``poll_soon`` is called when the CDI
    Manager should be polled again. ``listeners`` are called first, on the thread of the watch: the
    live page uses this, and only reads.

    Before ``begin``, which queues everything, changes and polls queue no key: the first lists of a
    large cluster are read, or this process waits until it leads.
    """

    def __init__(self, state: ClusterState, queue: WorkQueue[Key], controllers: Sequence[Controller],
                 observers: Sequence[Callable[[Change], None]], poll_soon: Callable[[], None]) -> None:
        self._state, self._queue, self._controllers = state, queue, controllers
        self._of_kind: dict[ApiResource, list[Controller]] = {}
        self._observers, self._poll_soon = observers, poll_soon
        self.listeners: list[OnChange] = []
        self._begun = False

    def begin(self) -> None:
        """Queue everything now, and later the keys that each change concerns."""
        self._begun = True
        self.everything()

    def watched(self, kind: str, resource: ApiResource, obj: t.Any, old: t.Any, urgent: bool = True) -> None:
        """Handle a change that a watch reports. ``kind`` is ADDED, MODIFIED or DELETED."""
        for listener in self.listeners:
            listener(kind, resource, obj, old)
        self.changed(Change(kind, resource, obj, old), urgent)

    def echoed(self, kind: str, resource: ApiResource, obj: t.Any, old: t.Any) -> None:
        """Handle the echo of a write of this process, which the store already has."""
        self.watched(kind, resource, obj, old, urgent=False)

    def changed(self, change: Change, urgent: bool = True) -> None:
        """Let observers and controllers know of a change, and queue the keys that it concerns."""
        if change.resource == LEASES and not self._agent_changed(change):
            return
        for observe in self._observers:
            observe(change)
        keys = self.concerned(change) if self._begun else ()
        self._remember(change)
        calm = not urgent or is_further_step(change)
        for key in keys:
            (self._queue.add_echo if calm else self._queue.add_change)(key)

    def concerned(self, change: Change) -> Iterable[Key]:
        """Return the keys that a change concerns, each once."""
        those = self._of_kind.get(change.resource)
        if those is None:
            those = self._of_kind[change.resource] = [
                each for each in self._controllers if each.kinds is None or change.resource in each.kinds]
        return dict.fromkeys(key for each in those for key in each.concerned(change))

    def _agent_changed(self, change: Change) -> bool:
        """Record the Lease of a node agent. Return whether the agent is new or gone, not renewed."""
        node = change.name.removeprefix(AGENT_LEASE)
        if change.gone:
            self._state.agents.lease_gone(node)
            return True
        return self._state.agents.lease_changed(node, change.new)

    def _remember(self, change: Change) -> None:
        """Record a release that ended before, and forget what was remembered about a deleted object."""
        if change.resource == COMPOSABLE_RESOURCES and change.type == ADDED:
            known = self._state.resources.value(change.name)
            if known and known.node_work.removed:
                self._state.old_releases.note(known.uid, self._state.clock())
        elif change.resource == COMPOSABLE_RESOURCES and change.gone:
            if isinstance(change.new, Resource):
                self._note_return(change.new)
                self._state.old_releases.end(change.new.uid)
            self._state.forget(change.name)

    def _note_return(self, resource: Resource) -> None:
        """Record that a deleted ComposableResource returned its device, if it had one. The next
        poll shows it."""
        if resource.state == DELETING:
            self._state.note_return(resource)
            self._poll_soon()
        self._state.returns.gone(resource.uid)

    def polled(self, old: FabricSnapshot | None, new: FabricSnapshot) -> None:
        """Queue the keys that a poll of the CDI Manager concerns. ``old`` is the poll before."""
        if not self._begun:
            return
        for key in [key for each in self._controllers for key in each.polled(old, new)]:
            self._queue.add_change(key)

    def everything(self) -> None:
        """Queue everything once, to repair what changes may have missed."""
        for key in [key for each in self._controllers for key in each.all_keys()]:
            self._queue.add(key)


def is_further_step(change: Change) -> bool:
    """Return whether only a further step of node operations was recorded on a device.

    Such a change affects messages but no decision.
    """
    new, old = change.new, change.old
    if change.type != MODIFIED or not (isinstance(new, Resource) and isinstance(old, Resource)):
        return False
    now, was = resource_values.read_evidence(new), resource_values.read_evidence(old)
    if now is None or was is None or replace(now, steps=()) != replace(was, steps=()):
        return False
    return _without_evidence(new) == _without_evidence(old)


def _without_evidence(resource: Resource) -> Resource:
    notes = {name: text for name, text in resource.annotations.items() if name != cohdi.NODE}
    return replace(resource, annotations=notes, node_work=replace(resource.node_work, last_step=""))
