# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count the devices of all machines by state, whether a page is open or not.

Nodes are read again only when one of their objects has changed. After a start all nodes are read
once, in short slices, so that other threads go on.
"""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable, Iterator
from functools import partial

from ansible_collections.composable.infra.controller.ui import read_rows
from ansible_collections.composable.infra.controller.ui.device_counts import DeviceCounts
from ansible_collections.composable.infra.controller.ui.rows import NodeRow
from ansible_collections.composable.infra.plugins.module_utils.fabric.api import FabricSnapshot
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Changes
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.cluster_state import ClusterState
from ansible_collections.composable.infra.plugins.module_utils.reconcile.state.indexers import (
    claim_node,
    resource_node,
    slice_node,
)

FREE: t.Final = "free"
SLICE_SECONDS: t.Final = 0.02
Counts = dict[tuple[str, str, "int | None"], int]


class DeviceStates:
    """The numbers of devices by state, model and fabric.

    ``pause``: called with the seconds of work since the last pause, so that other threads go on.
    """

    def __init__(self, state: ClusterState, pause: Callable[[float], object] = time.sleep) -> None:
        self._state, self._pause = state, pause
        self._counts, self._lock = DeviceCounts(), threading.Lock()
        self._changes: list[Changes] = []
        self._seen: FabricSnapshot | None = None

    def read(self) -> Counts:
        """Return the numbers of now."""
        with self._lock:
            uses, began = read_rows.Uses(self._state), time.monotonic()
            for key, read in self._due():
                self._counts.count(key, read(uses))
                worked = time.monotonic() - began
                if worked >= SLICE_SECONDS:
                    uses = read_rows.Uses(self._state)
                    self._pause(worked)
                    began = time.monotonic()
            return dict(self._numbers())

    def _due(self) -> Iterator[tuple[str, Callable[[read_rows.Uses], NodeRow | None]]]:
        state, machines = self._state, self._new_machines()
        names = self._changed_nodes() | {
            name for uid in machines for name in state.nodes.names_at("machine", uid)}
        for name in names:
            yield f"node/{name}", partial(read_rows.node_row, state, name)
        for uid in machines:
            yield f"machine/{uid}", partial(_machine_row, state, uid)

    def _changed_nodes(self) -> set[str]:
        state = self._state
        self._changes = self._changes or [
            state.nodes.follow(lambda node: (node.name,)),
            state.resources.follow(resource_node),
            state.slices.follow(slice_node), state.claims.follow(claim_node)]
        return {str(name) for each in self._changes for name in each.take() if name}

    def _new_machines(self) -> set[str]:
        """Return the machines that differ in the last poll of the fabric."""
        new, old = self._state.snapshot, self._seen
        if new is old or new is None:
            return set()
        self._seen = new
        before = old.machines if old else {}
        return {uid for uid in {*new.machines, *before} if new.machines.get(uid) is not before.get(uid)}

    def _numbers(self) -> Iterator[tuple[tuple[str, str, int | None], int]]:
        models, seen = self._counts.models, self._state.snapshot
        known = {*models, *((fabric, model) for model, fabric in (seen.free if seen else {}) if fabric is not None)}
        rows = {fabric: read_rows.fabric_row(self._state, fabric, models) for fabric in {each[0] for each in known}}
        for fabric, row in rows.items():
            for each in row.models:
                if each.free is not None:
                    yield (FREE, each.model, fabric), each.free
        for (fabric, model), states in models.items():
            # A state that devices have left stays with 0, so that its line does not end.
            yield from (((state, model, fabric), number) for state, number in states.items())


def _machine_row(state: ClusterState, uid: str, _uses: read_rows.Uses) -> NodeRow | None:
    return read_rows.machine_row(state, uid)
