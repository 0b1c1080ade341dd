# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Table of what each vendor's devices need on a node. Sources: the manuals of the vendors' tools.

In commands, ``{address}`` is the PCI address and ``{memdev}`` the name of a CXL memory device.
Standard library only, Python 3.8, because the file runs on nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DEVICE_FILES, OFFLINE = "device files", "offline"


@dataclass(frozen=True)
class Vendor:
    """A vendor's devices, with the commands and names of their steps. Missing ones are empty.

    ``pci_vendors`` (empty for all) and ``pci_classes`` (prefixes) select the devices, and
    ``uuid_begins`` is the start of their UUIDs. ``driver`` is the kernel's driver, or empty for the
    driver that the kernel finds. ``modules`` are loaded before the driver is bound. ``touch`` is
    the first use after that, and lists ``<uuid>, <address>``.

    ``pause`` makes the vendor's software close the device. ``resume`` undoes it, unless ``pause``
    wrote ``paused_before``. ``services`` maps processes to the host's units, which are stopped
    while they use the device. ``kernel_clients`` are module parameters. If one is on, the kernel
    itself may use the device. ``drain`` keeps new users away, and ``undrain`` allows them again.
    ``drained`` is a query that answers ``drained_says``. Without ``drain``, the driver is unbound.
    ``remove`` removes the device from the bus, or else the kernel does. ``last_unloads`` are
    modules to unload before the last device of the driver is removed. ``idle_by`` is DEVICE_FILES
    if no process may have its files open, or OFFLINE if the drain itself also fails for a device in
    use. ``plugin_selectors`` are labels of the vendor's DRA plugin pod, one set for each chart.
    ``dra_driver`` is the driver of its ResourceSlices.
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
    # The charts 25.x, 0.4.x, and the GPU Operator's GPUCluster. Its controller has the same name
    # label.
    plugin_selectors=({"nvidia-dra-driver-gpu-component": "kubelet-plugin"},
                      {"dra-driver-nvidia-gpu-component": "kubelet-plugin"},
                      {"app.kubernetes.io/component": "nvidia-dra-driver-kubelet-plugin"}),
    dra_driver="gpu.nvidia.com")

# These have no UUID, and no tool drains or removes them. The driver is unbound. DRM files show
# users.
AMD = Vendor(
    name="amd", pci_vendors=("1002",), pci_classes=("03", "12"), driver="amdgpu", modules=("amdgpu",),
    dra_driver="gpu.amd.com", plugin_selectors=(
        {"app.kubernetes.io/name": "k8s-gpu-dra-driver", "app.kubernetes.io/component": "kubeletplugin"},))

# The kernel selects i915 or xe.
INTEL = Vendor(
    name="intel", pci_vendors=("8086",), pci_classes=("03",), plugin_selectors=(
        {"app": "intel-gpu-resource-driver"}, {"app": "intel-gpu-resource-driver-kubelet-plugin"}),
    dra_driver="gpu.intel.com")

CXL_MEMORY = Vendor(
    name="cxl-memory", pci_classes=("0502",), driver="cxl_pci", modules=("cxl_pci", "cxl_mem"),
    drain=("cxl", "disable-memdev", "{memdev}"), undrain=("cxl", "enable-memdev", "{memdev}"), idle_by=OFFLINE)

GENERIC_PCI = Vendor(name="generic-pci")

# The first row that fits a device applies.
VENDORS = (NVIDIA, AMD, INTEL, CXL_MEMORY, GENERIC_PCI)
DRA_DRIVERS = frozenset(vendor.dra_driver for vendor in VENDORS if vendor.dra_driver)


def vendor_of(pci_vendor: str, pci_class: str) -> Vendor:
    """Return the row for a device with this PCI vendor and class, hexadecimal without 0x."""
    return next(v for v in VENDORS
                if (not v.pci_vendors or pci_vendor in v.pci_vendors)
                and (not v.pci_classes or pci_class.startswith(v.pci_classes)))


def may_be(uuid: str, pci_vendor: str, pci_class: str) -> bool:
    """Return whether a device of this PCI vendor and class may have this UUID, empty if unknown."""
    rows = [v for v in VENDORS if v.uuid_begins and uuid.startswith(v.uuid_begins)]
    return not rows or vendor_of(pci_vendor, pci_class) in rows


def fill(argv: tuple[str, ...], **names: str) -> list[str]:
    """Return the command with names such as ``address`` inserted."""
    return [word.format(**names) for word in argv]
