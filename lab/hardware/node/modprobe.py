# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for `modprobe` on a simulated node, with the modules of the vendor's driver.

NODE_ROOT is the node's folder. A module is a folder in sys/module, as in the kernel.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.composable.infra.lab.hardware.node.records import GPU_DRIVER, Records

NEEDS = {"nvidia": "", "nvidia_uvm": "nvidia", "nvidia_modeset": "nvidia", "nvidia_drm": "nvidia_modeset",
         "cxl_pci": "", "cxl_mem": "cxl_pci"}


def main(arguments: Sequence[str]) -> int:
    """Load modules, or unload them with -r. Return the exit code."""
    modules = Path(os.environ["NODE_ROOT"]) / "sys" / "module"
    names = [name.replace("-", "_") for name in arguments if not name.startswith("-")]
    for name in names:
        if name not in NEEDS:
            print(f"modprobe: FATAL: Module {name} not found in directory /lib/modules/simulated", file=sys.stderr)
            return 1
        if "-r" in arguments:
            if _in_use(modules, name):
                print(f"modprobe: FATAL: Module {name} is in use.", file=sys.stderr)
                return 1
            if (modules / name).exists():
                (modules / name).rmdir()
        else:
            _load(modules, name)
    return 0


def _load(modules: Path, name: str) -> None:
    if NEEDS[name]:
        _load(modules, NEEDS[name])
    (modules / name).mkdir(exist_ok=True)


def _in_use(modules: Path, name: str) -> bool:
    needed = any((modules / other).exists() for other, needs in NEEDS.items() if needs == name)
    devices = Records(modules.parents[1]).devices()
    return needed or (name == "nvidia" and any(device.driver == GPU_DRIVER for device in devices))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
