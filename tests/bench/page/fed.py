# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A page about a large cluster with devices of an emulated CDI Manager, over TLS, through its
driver.

The engine is the shipped one. Its objects are those of the API server's stand-in of
``tests/bench/large``. Each of their devices is a device of the emulated fabric. Each change is
requested from the CDI Manager before the page is notified of it.
"""

from __future__ import annotations

import tempfile
import time
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ansible_collections.composable.infra.controller.access import Access
from ansible_collections.composable.infra.controller.health import REFUSALS, HealthServer
from ansible_collections.composable.infra.controller.metrics import PrometheusMetrics
from ansible_collections.composable.infra.controller.ui.page import page
from ansible_collections.composable.infra.emulator import Emulator
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import COMPOSABLE_RESOURCES
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.plugins.module_utils.reconcile.manager.controller_manager import (
    ControllerManager,
)
from ansible_collections.composable.infra.tests.bench.large import objects
from ansible_collections.composable.infra.tests.bench.large.api_server import running

Json = dict[str, t.Any]


def document(nodes: int) -> Json:
    """Return the fabric of ``nodes`` nodes with all their devices attached. Operations take no
    time.
    """
    devices = [{"model": objects.MODEL, "uuid": objects.device_uid(node, gpu), "serial": objects.serial(node, gpu),
                "machine": objects.name_of(node)} for node in range(nodes) for gpu in range(objects.GPUS)]
    machines = [{"name": objects.name_of(node), "uuid": objects.machine(node), "fabric": 1} for node in range(nodes)]
    return {"managers": ["fm"], "timing": {"attach": 0.0, "detach": 0.0}, "models": [{"name": objects.MODEL}],
            "fabrics": [{"id": 1, "devices": devices}], "machines": machines}


class Fed:
    """A served page. ``nodes``: number of nodes, each with objects.GPUS devices, of which
    objects.USED are used by a pod each.
    """

    def __init__(self, nodes: int, api_server: str, emulator: Emulator) -> None:
        self.nodes = nodes
        config = EngineConfig.from_dict({
            "device_info": [objects.ROW], "fabric": emulator.fabric_config(), "handover": "gated", "unserved": "wait",
            "scan_interval": 86400.0})
        self.fabric = config.manager()
        self.engine = ControllerManager(Client(Connection(api_server)), self.fabric, config, events=False)
        self.engine.watch()
        while not self.engine.ready():
            time.sleep(0.05)
        access = Access()
        self.ui = page(self.engine, access, REFUSALS, lambda: ("bench-0",))
        self.server = HealthServer("127.0.0.1:0", self.engine, PrometheusMetrics(), dict, access, None, self.ui)
        self._version = 2000

    @property
    def view(self) -> t.Any:
        """Return the view of the page."""
        return self.ui._view

    def look(self) -> None:
        """Poll the whole fabric. Raise RuntimeError if a device is missing."""
        self.engine.inventory_polls.look(time.time())
        seen = self.engine.state.snapshot
        found = sum(len(machine.devices) for machine in seen.machines.values()) if seen else 0
        if found != self.nodes * objects.GPUS:
            raise RuntimeError(f"{found} devices: {self.engine.state.fabric_problem}")

    def change(self, number: int) -> None:
        """Detach an unused device, or attach it again, in turns, all over the cluster."""
        node = number // 2 * 37 % self.nodes
        gpu = objects.USED + number // 2 % (objects.GPUS - objects.USED)
        if number % 2 == 0:
            self.fabric.detach(objects.machine(node), objects.device_uid(node, gpu))
            self._told(node, gpu, "Detaching")
            return
        (came,) = self.fabric.attach(objects.machine(node), objects.MODEL).devices
        if came.uid != objects.device_uid(node, gpu):
            raise RuntimeError(f"another device came: {came.uid}")
        self._told(node, gpu, "Online")

    def _told(self, node: int, gpu: int, state: str) -> None:
        """Report a change of the device's ComposableResource, as its watch would."""
        self._version += 1
        raw = objects.resource(node, gpu)
        raw["status"]["state"], raw["metadata"]["resourceVersion"] = state, str(self._version)
        store = self.engine.state.resources
        old, new = store.stored(raw["metadata"]["name"]), store.trimmed(raw)
        store.upsert(new)
        self.engine.dispatch.watched("MODIFIED", COMPOSABLE_RESOURCES, new, old)

    def stop(self) -> None:
        """Stop everything that was started here."""
        self.server.stop()
        self.engine.stop(0.1)
        self.fabric.close()


@contextmanager
def fed(nodes: int) -> Iterator[Fed]:
    """Yield a served page. CDI Manager and API server are separate processes."""
    writes: list[str] = []
    with tempfile.TemporaryDirectory() as folder, running(nodes, writes) as api_server, \
            Emulator.run(document(nodes), Path(folder) / "emulator") as emulator:
        made = Fed(nodes, api_server, emulator)
        made.server.start()
        try:
            yield made
        finally:
            made.stop()
    if writes:
        raise RuntimeError(f"the cluster was not as it should be: {writes[:5]}")
