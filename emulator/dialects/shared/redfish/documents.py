# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources of a composable Redfish service.

Each is made from the pool at each request, without a copy.
"""

from __future__ import annotations

import typing as t
import uuid
from collections.abc import Iterable

from ....context import EmulatorContext
from ....pool.parts import MEMORY, MachineSpec
from ....pool.pool import ATTACHED, ATTACHING, DETACHING, VANISHED, PooledDevice
from .options import ADD_BLOCK, COMPOSE, CONNECTIONS, Options
from .ports import Ports
from .power import Power

ROOT: t.Final = "/redfish/v1"
BLOCKS: t.Final = f"{ROOT}/CompositionService/ResourceBlocks"
_HEALTH: t.Final = ("OK", "Warning", "Critical")

Json = dict[str, t.Any]


def ref(path: str) -> Json:
    """Return a reference."""
    return {"@odata.id": path}


def refs(paths: Iterable[str]) -> list[Json]:
    """Return references."""
    return [ref(path) for path in paths]


def status(health: str = "OK", state: str = "Enabled") -> Json:
    """Return ``Status``, without a health that is not known."""
    return {"State": state, **({"Health": health} if health in _HEALTH else {})}


def system_path(machine_uid: str) -> str:
    """Return the path of a machine."""
    return f"{ROOT}/Systems/{machine_uid}"


def block_path(uid: str) -> str:
    """Return the path of a device's or a machine's block."""
    return f"{BLOCKS}/{uid}"


def fabric_path(number: int, rest: str = "") -> str:
    """Return the path of a fabric, or of a part of it."""
    return f"{ROOT}/Fabrics/{number}{rest}"


def box_path(device: PooledDevice) -> str:
    """Return the path of a device's box."""
    return f"{ROOT}/Chassis/{device.spec.box}"


def part_path(device: PooledDevice) -> str:
    """Return the path of a device's processor or memory, to which blocks, endpoints and systems
    link.
    """
    return f"{box_path(device)}/{'Memory' if device.kind == MEMORY else 'Processors'}/{device.spec.uid}"


class Documents:
    """Make the resources. ``manager``: redfish or sunfish."""

    def __init__(self, context: EmulatorContext, options: Options, manager: str, power: Power) -> None:
        self.context = context
        self.pool = context.pool
        self.options = options
        self.manager = manager
        self.power = power
        self.ports = Ports(context.spec)
        self.uuid = str(uuid.uuid5(uuid.UUID(context.spec.tenant), manager))

    def devices(self, number: int | None = None) -> list[PooledDevice]:
        """Return the existing devices, of one fabric or of all."""
        return [
            d for d in self.pool.devices.values()
            if d.state != VANISHED and number in (None, d.spec.fabric)
        ]

    def device(self, uid: str) -> PooledDevice | None:
        """Return an existing device, None for none."""
        found = self.pool.devices.get(uid)
        return None if found is None or found.state == VANISHED else found

    def numbers(self) -> list[int]:
        """Return the numbers of the fabrics."""
        topology = self.context.spec.topology
        return sorted({box.fabric for box in topology.boxes} | {switch.fabric for switch in topology.switches})

    def machines(self, number: int) -> list[MachineSpec]:
        """Return the machines of one fabric."""
        return [machine for machine in self._cabled() if machine.fabric == number]

    def root(self) -> Json:
        """Return the service root."""
        optional = {
            "CompositionService": self.options.blocks, "Fabrics": self.options.fabrics, "SessionService": True,
        }
        expand = {"ExpandAll": False, "Levels": True, "Links": False, "MaxLevels": 2, "NoLinks": True}
        features = {
            "ExpandQuery": expand if self.options.expand else {
                "ExpandAll": False, "Levels": False, "Links": False, "NoLinks": False},
            "FilterQuery": False, "SelectQuery": False, "ExcerptQuery": False, "OnlyMemberQuery": False,
        }
        return {
            "@odata.type": "#ServiceRoot.v1_20_0.ServiceRoot", "Id": "RootService", "Name": "Root Service",
            "Product": f"composable.infra {self.manager} emulator", "RedfishVersion": "1.20.0", "UUID": self.uuid,
            "ProtocolFeaturesSupported": features, "Systems": ref(f"{ROOT}/Systems"),
            "Chassis": ref(f"{ROOT}/Chassis"), "Tasks": ref(f"{ROOT}/TaskService"),
            **{name: ref(f"{ROOT}/{name}") for name, there in optional.items() if there},
            "Links": {"Sessions": ref(f"{ROOT}/SessionService/Sessions")},
        }

    def system(self, uid: str) -> Json | None:
        """Return a machine's ComputerSystem, None for none."""
        machine = self.pool.machines.get(uid)
        if machine is None:
            return None
        has = self.pool.shown(uid)
        body: Json = {
            "@odata.type": "#ComputerSystem.v1_27_0.ComputerSystem", "Id": uid, "Name": machine.name,
            "SystemType": "Physical", "UUID": uid, "PowerState": self.power.state(uid), "Status": status(),
            "Processors": ref(f"{system_path(uid)}/Processors"), "Links": self._system_links(machine, has),
        }
        if (came := self.power.last_reset(uid)) is not None:
            body["LastResetTime"] = came
        if ADD_BLOCK in self.options.dialects:
            body["Composition"] = {"UseCases": ["ExpandableSystem"]}
        return {**body, **({"Actions": actions} if (actions := self._actions(uid)) else {})}

    def _actions(self, uid: str) -> Json:
        moves = ("AddResourceBlock", "RemoveResourceBlock") if ADD_BLOCK in self.options.dialects else ()
        names = (*moves, *(("Reset",) if self.options.reset_types else ()))
        actions: Json = {f"#ComputerSystem.{name}": {"target": f"{system_path(uid)}/Actions/ComputerSystem.{name}"}
                         for name in names}
        if self.options.reset_types:
            actions["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"] = list(self.options.reset_types)
        return actions

    def _system_links(self, machine: MachineSpec, has: list[PooledDevice]) -> Json:
        links: Json = {}
        if self.options.blocks:
            listed = () if self.options.one_sided else (machine.uid, *(d.spec.uid for d in has))
            links["ResourceBlocks"] = refs(block_path(uid) for uid in listed)
        if self.options.fabrics and machine.fabric is not None:
            links["Endpoints"] = [ref(fabric_path(machine.fabric, f"/Endpoints/{machine.uid}"))]
        return links

    def composition(self) -> Json:
        """Return the composition service."""
        body: Json = {
            "@odata.type": "#CompositionService.v1_2_3.CompositionService", "Id": "CompositionService",
            "Name": "Composition Service", "Status": status(), "ServiceEnabled": True, "ResourceBlocks": ref(BLOCKS),
            "ResourceZones": ref(f"{ROOT}/CompositionService/ResourceZones"),
        }
        if COMPOSE in self.options.dialects:
            target = f"{ROOT}/CompositionService/Actions/CompositionService.Compose"
            body["Actions"] = {"#CompositionService.Compose": {"target": target}}
        return body

    def block(self, uid: str) -> Json | None:
        """Return the block of a device, or of a machine to which devices are added."""
        if machine := self.pool.machines.get(uid):
            return self._machine_block(machine)
        device = self.device(uid)
        if device is None:
            return None
        memory = device.kind == MEMORY
        moving = device.state == ATTACHING
        users = [system_path(device.machine)] if device.machine and not moving else []
        return {
            **self._block_head(uid, device.spec.name, ["Memory" if memory else "Processor"]),
            "Status": status(device.health),
            "Memory" if memory else "Processors": [ref(part_path(device))],
            "CompositionStatus": _composition("Composing" if moving else "Composed" if users else "Unused"),
            "Links": {"ComputerSystems": refs(users), "Zones": [ref(self.zone_path(device.spec.fabric))],
                      "Chassis": [ref(box_path(device))]},
        }

    def _machine_block(self, machine: MachineSpec) -> Json:
        zones = [] if machine.fabric is None else [self.zone_path(machine.fabric)]
        return {
            **self._block_head(machine.uid, machine.name, ["ComputerSystem"]), "Status": status(),
            "ComputerSystems": [ref(system_path(machine.uid))], "CompositionStatus": _composition("Composed"),
            "Links": {"ComputerSystems": [ref(system_path(machine.uid))], "Zones": refs(zones)},
        }

    def _block_head(self, uid: str, name: str, types: list[str]) -> Json:
        return {
            "@odata.type": "#ResourceBlock.v1_4_3.ResourceBlock", "Id": uid, "Name": name, "ResourceBlockType": types,
        }

    def zone_path(self, number: int) -> str:
        """Return the path of the zone with the blocks of one fabric."""
        return f"{ROOT}/CompositionService/ResourceZones/{number}"

    def block_zone(self, number: int) -> Json:
        """Return the zone of blocks that can be composed together, which are those of one fabric.
        """
        uids = [*(m.uid for m in self.machines(number)), *(d.spec.uid for d in self.devices(number))]
        return {
            "@odata.type": "#Zone.v1_6_3.Zone", "Id": str(number), "Name": f"Fabric {number}", "Status": status(),
            "ZoneType": "ZoneOfResourceBlocks", "Links": {"ResourceBlocks": refs(block_path(uid) for uid in uids)},
        }

    def part(self, device: PooledDevice) -> Json:
        """Return a GPU as a processor, or a memory device as memory."""
        spec, model = device.spec, self.context.spec.models[device.spec.model]
        body: Json = {
            "Id": spec.uid, "Name": spec.name, "Model": model.name, "SerialNumber": spec.serial,
            "Status": status(device.health), "Links": {"Chassis": ref(box_path(device))},
        }
        if device.kind == MEMORY:
            size = {"CapacityMiB": spec.size, "MemoryDeviceType": "Logical"}
            return {"@odata.type": "#Memory.v1_23_0.Memory", **body, **size}
        return {"@odata.type": "#Processor.v1_22_0.Processor", **body, "ProcessorType": "GPU", "UUID": spec.uid}

    def is_composed(self, device: PooledDevice) -> bool:
        """Return whether a machine shows the device."""
        return device.state in (ATTACHED, DETACHING)

    def connects(self) -> bool:
        """Return whether fabrics have connections."""
        return CONNECTIONS in self.options.dialects

    def _cabled(self) -> list[MachineSpec]:
        return [machine for machine in self.pool.machines.values() if machine.fabric is not None]


def _composition(state: str) -> Json:
    return {
        "CompositionState": state, "Reserved": False, "SharingCapable": False, "MaxCompositions": 1,
        "NumberOfCompositions": 0 if state == "Unused" else 1,
    }
