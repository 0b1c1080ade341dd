# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show what the vendor's driver has in /proc, and the files in /dev that its programs make at first
use.

This follows the NVIDIA driver. `information` exists as soon as the driver is bound, with a UUID of
question marks until a program has used the device. A device file is a plain file here, with the
device number as its text. Standard library only, because each `nvidia-smi` imports this module.
"""

from __future__ import annotations

from pathlib import Path

from ansible_collections.composable.infra.lab.hardware.node.records import BusDevice, Records

UNKNOWN_UUID = "GPU-????????-????-????-????-????????????"


def show(root: Path, device: BusDevice) -> None:
    """Write the files of a bound device in /proc/driver/nvidia/gpus. `root` is the node's
    folder."""
    rows = {
        # The driver knows the product, not the fabric's name of the model.
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
    # On real nodes /proc/driver is a mount, and a file can be renamed only within a mount.
    temporary = folder / "information.new"
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(folder / "information")


def touch(records: Records, device: BusDevice) -> BusDevice:
    """Use a device for the first time, so that its files appear. Return the changed device.

    The caller holds the lock.
    """
    touched = device.but(touched=True)
    (records.root / "dev" / f"nvidia{device.minor}").write_text(f"{device.number}\n", encoding="ascii")
    show(records.root, touched)
    records.save(touched)
    return touched
