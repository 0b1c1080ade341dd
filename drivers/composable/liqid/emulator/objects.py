# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects that the emulated Liqid Director shows. Their keys are those of the public SDKs.

GO is github.com/liqidinc/liqidsdk-go 9d0f320, ``liqidsdk/types_gen.go``. JAVA is github.com/liqidinc/liqidsdk-java
f36fd04. The values are made up where only a text's form is known.
"""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.emulator.pool.parts import MachineSpec
from ansible_collections.composable.infra.emulator.pool.pool import ATTACHED, DETACHING, DevicePool, PooledDevice

Json = dict[str, t.Any]
# JAVA, PreDeviceType, and the words of GO's addresses. They differ by place.
PREDEVICE: t.Final = {"gpu": "gpu", "memory": "mem", "fpga": "fpga"}
INFO: t.Final = {"gpu": "gpu", "memory": "mem", "fpga": "fpga"}
RELATE: t.Final = {"gpu": "gpu", "memory": "memory", "fpga": "fpga"}
# Only the first is public. GUESS: the others.
STATES: t.Final = {"OK": "active | online", "Warning": "active | degraded", "Critical": "offline", "Unknown": ""}
OURS, THEIRS = 1, 2
GROUPS: t.Final = {OURS: "composable", THEIRS: "others"}


def number(value: int) -> str:
    """Return a number as errors write it."""
    return f"0x{value:04x}"


class Objects:
    """Shows a pool. Machines are numbered from 1 in the order of the fabric's document."""

    def __init__(self, pool: DevicePool) -> None:
        """Number the machines."""
        self._numbers = {uid: index for index, uid in enumerate(pool.machines, 1)}
        self._machines = pool.machines

    def named(self, machine: MachineSpec) -> str:
        """Return a machine as errors name it."""
        return f"Machine {number(self._numbers[machine.uid])}"

    def groups(self) -> list[Json]:
        """Return all groups."""
        fabric = next((each.fabric for each in self._machines.values() if each.fabric is not None), 0)
        return [{"fabr_id": fabric, "grp_id": grp, "group_name": name, "pod_id": -1} for grp, name in GROUPS.items()]

    def group_of(self, machine: MachineSpec | None) -> Json:
        """Return the group of a machine, or of free devices."""
        return self.groups()[1 if machine and machine.tenant else 0]

    def machine(self, machine: MachineSpec) -> Json:
        """Return a machine (GO, Machine)."""
        index = self._numbers[machine.uid]
        return {
            "index": index, "mach_id": index, "grp_id": self.group_of(machine)["grp_id"], "fabr_id": machine.fabric,
            "fabr_gid": f"0x{index:06x}", "port_gid": f"0x{index:06x}", "swit_gid": "0x000001",
            "comp_name": f"pcpu{index}", "mach_name": machine.name, "p2p": "off", "mtime": 0, "connection_history": [],
        }

    def predevice(self, device: PooledDevice) -> Json:
        """Return where a device belongs (JAVA 3.4, PreDevice). ``mach_id`` is a text, ``n/a`` for none."""
        slot = device.spec.slot
        there = device.machine if device.state in (ATTACHED, DETACHING) else None
        machine = self._machines[there] if there else None
        group = self.group_of(machine)
        return {
            "dev_type": PREDEVICE[device.kind], "fabr_gid": f"0x{slot:08x}", "fabr_id": device.spec.fabric,
            "flags": "0x0000000000000000", "gname": group["group_name"], "grp_id": group["grp_id"], "index": slot,
            "lanes": 16, "mach_id": str(self._numbers[machine.uid]) if machine else "n/a",
            "mname": machine.name if machine else "n/a", "name": name(device), "owner_id": "0x00000000", "pod_id": -1,
            "port_gid": f"0x{slot:06x}", "swit_gid": "0x000001",
        }

    def status(self, device: PooledDevice) -> Json:
        """Return the state of a device (GO, DeviceStatus). Only ``active | online`` is public."""
        slot = device.spec.slot
        where = {"rack": 0, "shelf": 0, "node": device.spec.fabric}
        shown = {
            "conn_type": "pcie", "dev_id": f"0x{slot:08x}", "device_state": STATES[device.health],
            "device_type": PREDEVICE[device.kind], "did": "0x20f1", "vid": "0x10de", "fabr_gid": f"0x{slot:08x}",
            "fabr_id": device.spec.fabric, "fabric_type": "gen4", "flags": "0x0000000000000000",
            "flags2": "0x0000000000000000", "index": slot, "lanes": 16, "location": where, "name": name(device),
            "owner": where, "pod_id": -1, "port_gid": f"0x{slot:06x}", "sled_id": "n/a", "swit_gid": "0x000001",
            "type": device.kind, "unique": f"0x{slot:016x}",
        }
        return shown if device.spec.size is None else {**shown, "capacity(MB)": device.spec.size}

    def info(self, device: PooledDevice) -> Json:
        """Return the model of a device (GO, DeviceInfo)."""
        return {"name": name(device), "dev_id": f"0x{device.spec.slot:08x}", "model": device.spec.model,
                "vendor": "made up", "serial_num": device.spec.serial, "part_num": "n/a", "fw_rev": "n/a"}


def name(device: PooledDevice) -> str:
    """Return the name of a device, as ``gpu7``."""
    return f"{PREDEVICE[device.kind]}{device.spec.slot}"
