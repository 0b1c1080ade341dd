# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the vendor's driver shows of a device in /proc, and which files in /dev its programs make at the first use.

As the NVIDIA driver does it: `information` is there as soon as the driver is bound, with a UUID of question marks until
a program has used the device. A device file is a plain file here, with the device's number as its text. Standard
library only: each `nvidia-smi` imports it.
"""

from __future__ import annotations

from pathlib import Path

from ansible_collections.composable.infra.lab.hardware.node.records import BusDevice, Records

UNKNOWN_UUID = "GPU-????????-????-????-????-????????????"


def show(root: Path, device: BusDevice) -> None:
    """What /proc/driver/nvidia/gpus says of a device that the driver has. `root`: the node's folder."""
    rows = {
        # The driver knows the product, not what the fabric calls it.
        "Model:": str(device.properties.get("product_name") or device.model),
        "IRQ:": "128",
        "GPU UUID:": device.uuid if device.touched else UNKNOWN_UUID,
        "Bus Type:": "PCIe",
        "Bus Location:": device.address,
        "Device Minor:": str(device.minor),
        "GPU Excluded:": "No",
    }
    folder = root / "proc" / "driver" / "nvidia" / "gpus" / device.address
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{name} \t {value}\n" for name, value in rows.items())
    # On real nodes /proc/driver is a mount of its own, and a file can be renamed only within one.
    temporary = folder / "information.new"
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(folder / "information")


def touch(records: Records, device: BusDevice) -> BusDevice:
    """The first use of a device: its files appear. Returns it as it is now; the caller holds the lock."""
    touched = device.but(touched=True)
    (records.root / "dev" / f"nvidia{device.minor}").write_text(f"{device.number}\n", encoding="ascii")
    show(records.root, touched)
    records.save(touched)
    return touched
