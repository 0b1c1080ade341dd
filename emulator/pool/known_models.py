# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties of real GPUs, so that a lab can name a model and get plausible devices.

Product names are those of NVML, device ids those of the PCI ID repository (pci-ids.ucw.cz), vendor
10de. The last two models are made up. They are a generic PCI device, with a class and a driver that
the node agents do not know, and CXL memory.
"""

from __future__ import annotations

import typing as t


def _gpu(product_name: str, memory: str, device_id: str, architecture: str) -> dict[str, t.Any]:
    return {
        "product_name": product_name, "memory": memory, "vendor_id": "10de", "device_id": device_id,
        "attributes": {"architecture": architecture, "brand": "Nvidia"},
    }


KNOWN_MODELS: t.Final[dict[str, dict[str, t.Any]]] = {
    "NVIDIA-A100-PCIE-40GB": _gpu("NVIDIA A100-PCIE-40GB", "40Gi", "20f1", "Ampere"),
    "NVIDIA-A100-80GB-PCIe": _gpu("NVIDIA A100 80GB PCIe", "80Gi", "20b5", "Ampere"),
    "NVIDIA-H100-PCIe": _gpu("NVIDIA H100 PCIe", "80Gi", "2331", "Hopper"),
    "NVIDIA-L40S": _gpu("NVIDIA L40S", "48Gi", "26b9", "Ada Lovelace"),
    "Tesla-V100-PCIE-16GB": _gpu("Tesla V100-PCIE-16GB", "16Gi", "1db4", "Volta"),
    "Example-Accelerator": {
        "product_name": "Example Accelerator", "memory": "16Gi", "vendor_id": "1234", "device_id": "0001",
        "attributes": {"pci_class": "120000", "driver": "example"},
    },
    "Example-CXL-64G": {
        "kind": "memory", "product_name": "Example CXL 64G", "size": 65536, "vendor_id": "1234", "device_id": "0002",
        "attributes": {"pci_class": "050210", "driver": "cxl_pci"},
    },
}
