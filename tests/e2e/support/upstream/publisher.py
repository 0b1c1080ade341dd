# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for composable-dra-driver (CDD): free devices of the fabric as pools, and the label of each node's fabric.

Shortened: the time between two looks (chart: 5 s, default 60 s). Left out: CM's limits per node and BareMetalHosts.
"""

from __future__ import annotations

from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import NODES, SLICES
from ansible_collections.composable.infra.plugins.module_utils.planning.device_info import DeviceModel
from ansible_collections.composable.infra.tests.e2e.support.upstream.loop import (
    PREFIX,
    Json,
    Part,
    PassFailed,
    machine_of,
)

MOST = 128


class Publisher(Part):
    """It polls only: it watches nothing."""

    def __init__(self, stage: Stage, tick: float = 5.0) -> None:
        super().__init__(stage, tick)
        self._counts: dict[str, int] = {}

    def look(self) -> None:
        machines = {m.uid: m for m in self.manager.machines()}
        nodes = self.client.list(NODES).items
        fabrics = {m.fabric: m.uid for node in nodes if (m := machines.get(machine_of(node))) and m.fabric is not None}
        for model in self.models:
            for fabric, through in fabrics.items():
                # One count that fails ends the pass of all (manager.go:276).
                self._publish(model, fabric, self.manager.free(through, model.cdi_model_name))
        for node in nodes:
            machine = machines.get(machine_of(node))
            if machine and machine.fabric is not None:
                self._label(node, machine.fabric)

    def _label(self, node: Json, fabric: int) -> None:
        """The whole node is put in every loop, as it was read; a conflict ends the pass (manager.go:626)."""
        labels = {**node["metadata"].get("labels", {}), f"{PREFIX}/fabric": str(fabric)}
        body = {**node, "metadata": {**node["metadata"], "labels": labels}}
        self.client.replace(NODES, node["metadata"]["name"], body)

    def _publish(self, model: DeviceModel, fabric: int, free: int) -> None:
        if free > MOST:
            raise PassFailed(f"{free} free {model.cdi_model_name} are more than {MOST}")  # manager.go:426
        pool = model.pool(fabric)
        # The same count is no change, whatever claims hold which names.
        if self._counts.get(pool) != free:
            self._write(model, fabric, [f"{model.k8s_device_name}-{number}" for number in range(free)])
            self._counts[pool] = free

    def _write(self, model: DeviceModel, fabric: int, names: list[str]) -> None:
        """What the library's slice controller does: it takes over the slice that is there, and deletes others."""
        listed = self.client.list(SLICES, field_selector=f"spec.driver={model.driver_name}").items
        there = sorted((item for item in listed if item["spec"]["pool"]["name"] == model.pool(fabric)),
                       key=lambda item: -int(item["spec"]["pool"]["generation"]))
        shown = [device["name"] for item in there for device in item["spec"].get("devices") or []]
        if there and shown == names:
            return
        generation = there[0]["spec"]["pool"]["generation"] + 1 if there else 1
        spec = self._spec(model, fabric, names, generation)
        if there:
            self.client.replace(SLICES, there[0]["metadata"]["name"], {**there[0], "spec": spec})
        else:
            self.client.create(SLICES, {"apiVersion": SLICES.group_version, "kind": SLICES.kind, "spec": spec,
                                        "metadata": {"generateName": f"{model.driver_name}-"}})
        for item in there[1:]:
            self.client.delete(SLICES, item["metadata"]["name"])

    def _spec(self, model: DeviceModel, fabric: int, names: list[str], generation: int) -> Json:
        nodes = [{"key": f"{PREFIX}/{model.k8s_device_name}", "operator": "In", "values": ["true"]},
                 {"key": f"{PREFIX}/fabric", "operator": "In", "values": [str(fabric)]}]
        return {"driver": model.driver_name,
                "pool": {"name": model.pool(fabric), "generation": generation, "resourceSliceCount": 1},
                "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": nodes}]},
                "devices": [self._device(model, name) for name in names]}

    @staticmethod
    def _device(model: DeviceModel, name: str) -> Json:
        return {"name": name, "attributes": {key: {"string": text} for key, text in model.attributes.items()},
                "bindsToNode": True, "bindingConditions": ["FabricDeviceReady"],
                "bindingFailureConditions": ["FabricDeviceReschedule", "FabricDeviceFailed"]}
