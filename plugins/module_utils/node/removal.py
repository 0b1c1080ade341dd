# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove a device from the bus with a time limit. A removal that hangs in the kernel is reported.

Standard library only, Python 3.8, because the file runs on nodes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from . import bus, left_behind, pci
from .drain import is_unsupported, refused
from .evidence import OPEN_ON_NODE, REMOVAL_HUNG, NodeTrouble
from .host import Host, NotEnded, Undo
from .kernel_log import IN_USE, KernelLog, faults
from .options import Options
from .vendors import Vendor, fill


def unload_last(host: Host, device: pci.PciDevice, vendor: Vendor, options: Options, undo: Undo) -> bool:
    """Unload modules before the last device of their driver is removed. Return True for the last.

    Raise NodeTrouble(OpenOnNode) if a module is in use.
    """
    if any(d.driver == device.driver for d in pci.devices(host.root) if d.address != device.address):
        return False
    for module in vendor.last_unloads:
        if (host.root / "sys/module" / module).exists():
            _unload(host, module, options, undo)
    return True


def _unload(host: Host, module: str, options: Options, undo: Undo) -> None:
    done = host.run(["modprobe", "-r", module], options.patience)
    if done.code:
        raise NodeTrouble(OPEN_ON_NODE, f"module {module} cannot be unloaded before the last device is removed: "
                                        f"{done.said}")
    undo.later(lambda: host.must(["modprobe", module], options.patience))


def remove(host: Host, device: pci.PciDevice, argv: list[str], options: Options) -> None:
    """Remove the device from the bus, by the vendor's command or else by the kernel.

    With ``options.force``, use the kernel even if the vendor's command refuses. Raise NodeTrouble:
    RemovalHung if it does not end, OpenOnNode or CommandFailed if it is refused.
    """
    with KernelLog(host.root) as log:
        try:
            if not (argv and _by_command(host, argv, options)):
                bus.remove(host.root, device.address, options.patience)
            bus.await_gone(host.root, device.address, options.patience)
        except (bus.Hangs, NotEnded) as error:
            raise hung(device.address, _why(log, device.address) or str(error)) from None
    _forget_file(host.root, device)


def _by_command(host: Host, argv: list[str], options: Options) -> bool:
    done = host.run(argv, options.patience, noted=True)
    if done.code and not options.force and not is_unsupported(done):
        raise refused(argv, done)
    return done.code == 0


def _why(log: KernelLog, address: str) -> str:
    return next((f.line for f in faults(log.new_lines(), address) if f.kind == IN_USE), "")


def hung(address: str, said: str) -> NodeTrouble:
    """Return the error for a removal that does not end."""
    return NodeTrouble(REMOVAL_HUNG, f"the removal of {address} hangs in the kernel ({said}). End the processes that "
                                     "still use the device. If the removal does not end then, reboot the node")


def _forget_file(root: Path, device: pci.PciDevice) -> None:
    """Delete the file that the driver leaves, so that no other device or container finds it."""
    if device.minor is not None:
        with contextlib.suppress(OSError):
            os.unlink(str(root / f"dev/nvidia{device.minor}"))


def still_under_way(host: Host, address: str, argv: Sequence[str]) -> list[str]:
    """Return the processes of removals of this device in flight, also of earlier programs.

    ``argv`` is the vendor's command for the removal, or empty.
    """
    found = [bus.removing(host.root, address), left_behind.running(host.root, " ".join(argv)) if argv else ""]
    return [process for process in found if process]


def removal_command(vendor: Vendor, address: str) -> list[str]:
    """Return the vendor's command that removes the device from the bus, or an empty list."""
    return fill(vendor.remove, address=address)
