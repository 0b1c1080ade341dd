# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources that CDIM lists.

They are the pool's devices, and each machine's own adapters, CPUs and memory.
"""

from __future__ import annotations

import functools
import typing as t
import uuid

from ...pool.parts import MachineSpec
from ...pool.pool import ATTACHED, ATTACHING, DETACHING, VANISHED, DevicePool, PooledDevice

_TYPES: t.Final = {"gpu": "GPU", "memory": "memory"}
_HEALTH: t.Final = {"OK": "OK", "Warning": "Warning", "Critical": "Critical", "Unknown": ""}


class Parts:
    """The resources in one generation's form.

    ``uuids``: GPUs show their UUID as serial number, which the product does not do.
    """

    def __init__(self, pool: DevicePool, generation: str, *, uuids: bool) -> None:
        self.pool, self.generation, self.uuids = pool, generation, uuids
        self.sources = {self.source(m): m for m in pool.machines.values() if m.fabric is not None}

    def source(self, machine: MachineSpec) -> str:
        """Return the id of the part to which the machine's devices are connected."""
        return own(machine.uid, "eeio" if self.generation == "adapters" else "cpu")

    def resources(self) -> list[dict[str, t.Any]]:
        """Return all resources, sorted by id."""
        machines = self.pool.machines.values()
        found = [*(p for m in machines for p in self.builtin(m)), *map(self.pooled, self.pool.devices.values())]
        return sorted(found, key=lambda entry: t.cast(str, entry["device"]["deviceID"]))

    def nodes(self) -> list[dict[str, t.Any]]:
        """Return the machines with their resources.

        The resources of a node do not repeat the node.
        """
        return [
            {"id": m.uid, "name": m.name, "resources": [
                {key: value for key, value in entry.items() if key != "nodeIDs"} for entry in self._of(m)
            ]}
            for m in sorted(self.pool.machines.values(), key=lambda m: m.uid)
        ]

    def _of(self, machine: MachineSpec) -> list[dict[str, t.Any]]:
        own_ones = [p for p in self.builtin(machine) if p["nodeIDs"]]
        return [*own_ones, *(self.pooled(d) for d in self.pool.on(machine.uid) if d.state in (ATTACHED, DETACHING))]

    def builtin(self, machine: MachineSpec) -> list[dict[str, t.Any]]:
        """Return CPU and memory, and for a machine on a fabric the two adapters between them."""
        cpu, memory, host, io = (own(machine.uid, what) for what in ("cpu", "memory", "eesv", "eeio"))
        made = [_entry(cpu, "CPU", machine), _entry(memory, "memory", machine, links=[_link("CPU", cpu)])]
        if machine.fabric is not None and self.generation == "adapters":
            made.append(_entry(
                host, "sourceFabricAdapter", machine, links=[_link("destinationFabricAdapter", io)], role="eesv"
            ))
            made.append(_entry(
                io, "destinationFabricAdapter", machine, links=[_link("sourceFabricAdapter", host)], role="eeio",
                on_node=False,
            ))
        return made

    def pooled(self, device: PooledDevice) -> dict[str, t.Any]:
        """Return a device of the pool. A device that is being attached is not enabled yet."""
        there = device.state in (ATTACHED, DETACHING)
        raw: dict[str, t.Any] = {
            "deviceID": device.spec.uid, "type": _TYPES.get(device.kind, device.kind), "model": device.spec.model,
            "attribute": {}, "powerState": "On", "deviceSwitchInfo": str(device.spec.fabric),
            "status": {
                "state": "Starting" if device.state == ATTACHING else "Enabled", "health": _HEALTH[device.health],
            },
            "links": self._links(device) if there else [],
        }
        if self.uuids:
            raw["serialNumber"] = device.spec.serial
        if device.spec.size is not None:
            raw["capacityMiB"] = device.spec.size
        return {
            "device": raw, "annotation": {"available": True}, "detected": device.state != VANISHED,
            "nodeIDs": [device.machine] if there else [],
        }

    def _links(self, device: PooledDevice) -> list[dict[str, str]]:
        to = self.source(self.pool.machine(device.machine or ""))
        kinds = ("eeio", "destinationFabricAdapter") if self.generation == "adapters" else ("CPU",)
        return [_link(kind, to) for kind in kinds]


@functools.cache
def own(machine_uid: str, what: str) -> str:
    """Return the id of one of a machine's own parts."""
    return str(uuid.uuid5(uuid.UUID(machine_uid), f"{what}.nec"))


def _entry(
    uid: str, kind: str, machine: MachineSpec, *, links: list[dict[str, str]] | None = None, role: str = "",
    on_node: bool = True,
) -> dict[str, t.Any]:
    device = {
        "deviceID": uid, "type": kind, "model": f"builtin {kind}", "powerState": "On",
        "attribute": {"deviceSpecificInformation": {"status": role}} if role else {},
        "status": {"state": "Enabled", "health": "OK"}, "links": links or [],
        "deviceSwitchInfo": "" if machine.fabric is None else str(machine.fabric),
    }
    nodes = [machine.uid] if on_node else []
    return {"device": device, "annotation": {"available": True}, "detected": True, "nodeIDs": nodes}


def _link(kind: str, uid: str) -> dict[str, str]:
    return {"type": kind, "deviceID": uid}
