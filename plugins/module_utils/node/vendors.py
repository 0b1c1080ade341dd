# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the vendors' devices need on a node, as a table. Sources: the vendors' manuals of their tools.

In commands, ``{address}`` is the PCI address and ``{memdev}`` the name of a CXL memory device. Standard library only,
Python 3.8: it travels to nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DEVICE_FILES, OFFLINE = "device files", "offline"


@dataclass(frozen=True)
class Vendor:
    """A row: which devices it is for, and the commands and names that their steps need; empty where there are none.

    ``pci_vendors`` (empty for all) and ``pci_classes`` (prefixes) say for which devices the row is, ``uuid_begins`` how
    their UUIDs begin. ``driver`` is the kernel's, empty for the one that it finds; ``modules`` are loaded before it is
    bound. ``touch`` is the first use after that, and lists ``<uuid>, <address>``.

    ``pause`` makes the vendor's software let go of the device; ``resume`` undoes it, unless ``pause`` said
    ``paused_before``. ``services`` are units of the host that are stopped while they hold the device: process name to
    unit. ``kernel_clients`` are module parameters; with one of them on, the kernel itself may hold the device.
    ``drain`` keeps new users away, ``undrain`` lets them in again; ``drained`` asks, and answers ``drained_says``.
    Without ``drain`` the driver is unbound. ``remove`` takes the device off the bus; without it the kernel is asked.
    ``last_unloads`` are modules that must go before the last device of its driver is removed.
    ``idle_by``: DEVICE_FILES, nobody has its files open; or OFFLINE, the drain itself fails for a device in use, too.
    ``plugin_selectors``: labels of the vendor's DRA plugin pod, one set for each of its charts. ``dra_driver``: the
    driver of its ResourceSlices.
    """

    name: str
    uuid_begins: str = ""
    pci_vendors: tuple[str, ...] = ()
    pci_classes: tuple[str, ...] = ()
    driver: str = ""
    modules: tuple[str, ...] = ()
    touch: tuple[str, ...] = ()
    pause: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    paused_before: str = ""
    services: Mapping[str, str] = field(default_factory=dict)
    kernel_clients: tuple[tuple[str, str], ...] = ()
    drain: tuple[str, ...] = ()
    undrain: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()
    drained_says: str = ""
    remove: tuple[str, ...] = ()
    last_unloads: tuple[str, ...] = ()
    idle_by: str = DEVICE_FILES
    plugin_selectors: tuple[Mapping[str, str], ...] = ()
    dra_driver: str = ""


NVIDIA = Vendor(
    name="nvidia", uuid_begins="GPU-", pci_vendors=("10de",), pci_classes=("03", "12"), driver="nvidia",
    modules=("nvidia", "nvidia_uvm"),
    touch=("nvidia-smi", "--query-gpu=uuid,pci.bus_id", "--format=csv,noheader"),
    pause=("nvidia-smi", "-i", "{address}", "-pm", "0"), resume=("nvidia-smi", "-i", "{address}", "-pm", "1"),
    paused_before="already",
    # The kernel cuts the names of processes after 15 characters.
    services={"nvidia-persiste": "nvidia-persistenced", "nv-hostengine": "nvidia-dcgm"},
    kernel_clients=(("nvidia_drm", "modeset"),),
    drain=("nvidia-smi", "drain", "-p", "{address}", "-m", "1"),
    undrain=("nvidia-smi", "drain", "-p", "{address}", "-m", "0"),
    drained=("nvidia-smi", "drain", "-p", "{address}", "-q"), drained_says="draining",
    remove=("nvidia-smi", "drain", "-p", "{address}", "-r"),
    last_unloads=("nvidia_drm", "nvidia_modeset", "nvidia_uvm"),
    # The charts 25.x, 0.4.x, and the GPU Operator's GPUCluster. The name of the chart is that of its controller, too.
    plugin_selectors=({"nvidia-dra-driver-gpu-component": "kubelet-plugin"},
                      {"dra-driver-nvidia-gpu-component": "kubelet-plugin"},
                      {"app.kubernetes.io/component": "nvidia-dra-driver-kubelet-plugin"}),
    dra_driver="gpu.nvidia.com")

# They have no UUID, and no tool that drains or removes one: the driver is unbound. Users are told by their DRM files.
AMD = Vendor(
    name="amd", pci_vendors=("1002",), pci_classes=("03", "12"), driver="amdgpu", modules=("amdgpu",),
    dra_driver="gpu.amd.com", plugin_selectors=(
        {"app.kubernetes.io/name": "k8s-gpu-dra-driver", "app.kubernetes.io/component": "kubeletplugin"},))

# i915 or xe: the kernel knows which.
INTEL = Vendor(
    name="intel", pci_vendors=("8086",), pci_classes=("03",), plugin_selectors=(
        {"app": "intel-gpu-resource-driver"}, {"app": "intel-gpu-resource-driver-kubelet-plugin"}),
    dra_driver="gpu.intel.com")

CXL_MEMORY = Vendor(
    name="cxl-memory", pci_classes=("0502",), driver="cxl_pci", modules=("cxl_pci", "cxl_mem"),
    drain=("cxl", "disable-memdev", "{memdev}"), undrain=("cxl", "enable-memdev", "{memdev}"), idle_by=OFFLINE)

GENERIC_PCI = Vendor(name="generic-pci")

# The first row that suits a device is its row.
VENDORS = (NVIDIA, AMD, INTEL, CXL_MEMORY, GENERIC_PCI)
DRA_DRIVERS = frozenset(vendor.dra_driver for vendor in VENDORS if vendor.dra_driver)


def vendor_of(pci_vendor: str, pci_class: str) -> Vendor:
    """The row for a device with this PCI vendor and class, hexadecimal without 0x."""
    return next(v for v in VENDORS
                if (not v.pci_vendors or pci_vendor in v.pci_vendors)
                and (not v.pci_classes or pci_class.startswith(v.pci_classes)))


def may_be(uuid: str, pci_vendor: str, pci_class: str) -> bool:
    """Whether a device of this PCI vendor and class may have this UUID, which may be empty for not known."""
    rows = [v for v in VENDORS if v.uuid_begins and uuid.startswith(v.uuid_begins)]
    return not rows or vendor_of(pci_vendor, pci_class) in rows


def fill(argv: tuple[str, ...], **names: str) -> list[str]:
    """The command with the names put in, such as ``address``."""
    return [word.format(**names) for word in argv]
