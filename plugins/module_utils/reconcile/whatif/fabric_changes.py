# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of a fabric: more devices, or lost devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...fabric.api import Device, FabricSnapshot
from ...kube.api_resources import COMPOSABLE_RESOURCES
from ...planning.settings import Settings
from .capture import Capture
from .captured_engine import engine_of
from .evictions import evicted, without_devices
from .options import Options, listed


@dataclass(frozen=True, slots=True)
class MoreFree:
    """Adds ``count`` free devices of a model on a fabric. A negative ``count`` removes devices."""

    model: str
    fabric: int
    count: int

    def made(self, capture: Capture) -> Capture:
        """Return the capture after the change."""
        return replace(capture, fabric=with_free(capture.fabric, {(self.model, self.fabric): self.count}))


@dataclass(frozen=True, slots=True)
class LoseAttached:
    """Attached devices (by the CDI Manager's UIDs) break. The pods that use them are created again
    and wait."""

    devices: tuple[str, ...]

    def made(self, capture: Capture) -> Capture:
        """Return the capture after the change."""
        state = engine_of(capture).state
        found = [each for uid in self.devices for each in state.resources.values("device", uid)]
        users = [claim for each in found if (claim := state.user(each))]
        pods = [uid for claim in users for _name, uid in claim.pods]
        after = evicted(capture, pods, [claim.uid for claim in users])
        after = without_devices(after, {each.name for each in found})
        return replace(after, fabric=without_attached(after.fabric, self.devices))


def with_free(fabric: FabricSnapshot, more: Mapping[tuple[str, int], int]) -> FabricSnapshot:
    """Add free devices. Counts that the manager does not give stay unknown."""
    free = {key: max(0, n + more.get(key, 0)) for key, n in fabric.free.items()}
    return replace(fabric, free=free)


def without_attached(fabric: FabricSnapshot, uids: Iterable[str]) -> FabricSnapshot:
    """Remove these devices from their machines."""
    gone = set(uids)
    machines = {uid: replace(machine, devices=tuple(d for d in machine.devices if d.uid not in gone))
                for uid, machine in fabric.machines.items()}
    return replace(fabric, machines=machines)


def returned(fabric: FabricSnapshot, devices: Iterable[Device]) -> FabricSnapshot:
    """Move these attached devices to the free devices of their fabric."""
    found = list(devices)
    where = {device.uid: machine.fabric for machine in fabric.machines.values() for device in machine.devices}
    more = Counter((device.model, fabric_id) for device in found if (fabric_id := where.get(device.uid)) is not None)
    return with_free(without_attached(fabric, [device.uid for device in found]), more)


def device_uids(capture: Capture) -> list[str]:
    """Return the UIDs of attached devices that have a ComposableResource."""
    found = {(raw.get("status") or {}).get("cdi_device_id") for raw in capture.of(COMPOSABLE_RESOURCES.plural)}
    return [device.uid for machine in capture.fabric.machines.values() for device in machine.devices
            if device.uid in found]


def read_add_devices(options: Options, capture: Capture) -> MoreFree:
    """Return the change. Raise BadChange."""
    options.only("add_devices", ("model", "fabric", "count"))
    model, fabric = _pool(options, capture)
    return MoreFree(model, fabric, options.count())


def read_lose_devices(options: Options, capture: Capture) -> MoreFree | LoseAttached:
    """Return the change, by the number of free devices or by the names of attached devices.

    Raise BadChange.
    """
    options.only("lose_devices", ("model", "fabric", "count", "devices"))
    if "devices" in options.given:
        options.only("lose_devices with devices", ("devices",))
        return LoseAttached(_attached(options, capture))
    model, fabric = _pool(options, capture)
    free = capture.fabric.free[model, fabric]
    if not free:
        raise options.bad("count", f"no device of {model} is free on fabric {fabric}. Name attached devices in devices")
    return MoreFree(model, fabric, -options.count(most=free))


def _attached(options: Options, capture: Capture) -> tuple[str, ...]:
    known = device_uids(capture)
    for name in options.names("devices"):
        if name not in known:
            raise options.bad("devices", f"{name} is not attached. Attached are {listed(known) or 'none'}")
    return tuple(options.given["devices"])


def _pool(options: Options, capture: Capture) -> tuple[str, int]:
    """Return model and fabric. Only fabrics that count their free devices are allowed."""
    model = options.one_of("model", [m.cdi_model_name for m in Settings.from_dict(capture.settings).models])
    fabrics = sorted(fabric for name, fabric in capture.fabric.free if name == model)
    return model, options.one_of("fabric", fabrics)
