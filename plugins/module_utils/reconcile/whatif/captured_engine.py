# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make an engine for a capture, with the planners of a live engine but without a cluster or CDI
Manager."""

from __future__ import annotations

import time
import typing as t

from ...fabric.api import Capabilities, FabricManager, FabricSnapshot, Machine
from ...fabric.config import FabricConfig
from ...fabric.errors import Missing
from ...kube.client.verbs import Client
from ...planning.settings import Settings
from ..config import EngineConfig
from ..manager.engine import Engine
from ..state.cluster_state import ClusterState
from .capture import Capture

# An agent that was alive in the capture stays alive, however long the question takes.
_FOR_EVER = 10**9


class _NoCluster:
    """Stands in for a client. Nothing can be read or written."""

    def guarded(self, _check: t.Callable[[], None]) -> _NoCluster:
        """Return itself. There is nothing to guard."""
        return self

    def server_time(self) -> float:
        """Return the local time, which measures durations. The moment of the capture is in the
        state."""
        return time.time()

    def __getattr__(self, name: str) -> t.NoReturn:
        raise AttributeError(f"a capture has no API server ({name})")


class _CapturedFabric:
    """Returns machines as the captured poll has them."""

    capabilities = Capabilities(asynchronous=False, batch=False)

    def __init__(self, snapshot: FabricSnapshot) -> None:
        self._snapshot = snapshot

    def machine(self, uid: str) -> Machine:
        """Return a machine. Raise Missing."""
        found = self._snapshot.machines.get(uid)
        if found is None:
            raise Missing(f"the CDI Manager knows no machine {uid}")
        return found


def engine_of(capture: Capture) -> Engine:
    """Return an engine that knows only the capture, at its moment. It neither watches nor works.

    Raise BadSetting for settings that cannot be used.
    """
    config = EngineConfig(Settings.from_dict(capture.settings), FabricConfig(
        endpoint="", manager=capture.manager, attach_timeout=capture.attach_timeout),
        node_operations=capture.node_operations)
    fabric = t.cast(FabricManager, _CapturedFabric(capture.fabric))
    engine = Engine(t.cast(Client, _NoCluster()), fabric, config, events=False)
    _fill(engine.state, capture)
    return engine


def _fill(state: ClusterState, capture: Capture) -> None:
    for kind, store in state.stores.items():
        for raw in capture.of(kind.plural):
            store.upsert({**raw, "metadata": {**raw["metadata"]}})
    state.snapshot, state.moment = capture.fabric, capture.taken
    state.fabric_problem = "; ".join(sorted(set(capture.fabric.problems.values())))
    for node, held in capture.agents.items():
        state.agents.lease_changed(node, {"spec": {"holderIdentity": node if held else "",
                                                   "leaseDurationSeconds": _FOR_EVER}})
