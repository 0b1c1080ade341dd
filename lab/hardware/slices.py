# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ResourceSlice that the vendor's DRA plugin publishes for a node, from the devices on its bus.

Attributes and names follow dra-driver-nvidia-gpu 0.4: pool = node, device gpu-<minor>, identity by
`uuid`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ansible_collections.composable.infra.lab.hardware.node.bus import root_complex
from ansible_collections.composable.infra.lab.names import DRIVER

_DEFAULTS = {
    "brand": "Nvidia",
    "architecture": "Hopper",
    "cudacomputecapability": "9.0.0",
    "driverversion": "580.82.7",
    "cudadriverversion": "13.0.0",
    "memory": "80Gi",
}


class Gpu(Protocol):
    """The values that the plugin reads of a device."""

    @property
    def uuid(self) -> str:
        """Return the GPU's UUID."""

    @property
    def model(self) -> str:
        """Return the fabric's name of the model."""

    @property
    def address(self) -> str:
        """Return the PCI address."""

    @property
    def minor(self) -> int:
        """Return the driver's number."""

    @property
    def properties(self) -> Mapping[str, Any]:
        """Return the fabric's properties of the model."""


def slice_name(node: str) -> str:
    """Return the name of a node's slice. It is fixed, so that a restarted simulator finds the slice
    again."""
    return f"{node}-{DRIVER}-lab"


def device_entry(device: Gpu) -> dict[str, Any]:
    """Return the entry of one GPU in `spec.devices`."""
    own = dict(device.properties)
    properties = {**_DEFAULTS, **_plain(own.pop("attributes", None) or {}), **_plain(own)}
    attributes = {
        "type": {"string": "gpu"},
        "uuid": {"string": device.uuid},
        "productName": {"string": str(properties.get("productname") or device.model)},
        "brand": {"string": str(properties["brand"])},
        "architecture": {"string": str(properties["architecture"])},
        "cudaComputeCapability": {"version": semantic(str(properties["cudacomputecapability"]))},
        "driverVersion": {"version": semantic(str(properties["driverversion"]))},
        "cudaDriverVersion": {"version": semantic(str(properties["cudadriverversion"]))},
        "resource.kubernetes.io/pciBusID": {"string": device.address},
        "resource.kubernetes.io/pcieRoot": {"string": root_complex(device.address)},
    }
    capacity = {"memory": {"value": str(properties["memory"])}}
    return {"name": f"gpu-{device.minor}", "attributes": attributes, "capacity": capacity}


def device_entries(devices: Iterable[Gpu]) -> list[dict[str, Any]]:
    """Return `spec.devices` for the devices of a node."""
    return [device_entry(device) for device in sorted(devices, key=lambda device: device.minor)]


def node_slice(node: str, devices: list[dict[str, Any]], generation: int) -> dict[str, Any]:
    """Return the ResourceSlice of `node`, the only slice of its pool."""
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
        "devices": devices,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": slice_name(node)},
        "spec": spec,
    }


def semantic(version: str) -> str:
    """Return `version` as three numbers without leading zeros, as the API requires ("580.82.07" ->
    "580.82.7")."""
    parts = [str(int(part)) for part in version.split(".") if part.isdigit()]
    return ".".join([*parts, "0", "0", "0"][:3])


def _plain(properties: Mapping[str, Any]) -> dict[str, Any]:
    # Fabric descriptions use product_name, the vendor's attributes productName.
    return {key.replace("_", "").replace("-", "").lower(): value for key, value in properties.items()}
