# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep new users away from a leaving device, by the vendor's drain or by unbinding its driver.

Standard library only, Python 3.8, because the file runs on nodes.
"""

from __future__ import annotations

from . import bus, pci
from .evidence import COMMAND_FAILED, NOT_PROVEN, OPEN_ON_NODE, NodeTrouble
from .host import Host, NotEnded, Output, Undo
from .options import Options
from .vendors import OFFLINE, Vendor, fill

_UNSUPPORTED = ("not supported", "not_supported")
_IN_USE = ("in use", "is busy", "active region")


def drain(host: Host, device: pci.PciDevice, vendor: Vendor, options: Options, undo: Undo) -> bool:
    """Stop new users of the device. Present users keep it open.

    Return False without a change if the vendor's tool cannot drain this device, as in virtual
    machines. Raise NodeTrouble.
    """
    names = {"address": device.address, "memdev": pci.memdev(host.root, device.address)}
    if vendor.idle_by == OFFLINE and not names["memdev"]:
        raise NodeTrouble(NOT_PROVEN, f"{device.address} shows no memory device, so its users cannot be found")
    argv, ask = (fill(command, **names) for command in (vendor.drain, vendor.drained))

    def back() -> None:
        undrain(host, device, vendor, options)

    try:
        done = host.run(argv, options.patience)
    except NotEnded:  # The command may have taken effect.
        undo.later(back)
        raise
    if is_unsupported(done):
        return False
    if done.code:
        raise refused(argv, done)
    undo.later(back)
    if ask:
        _confirm(host.must(ask, options.patience), ask, vendor)
    return True


def undrain(host: Host, device: pci.PciDevice, vendor: Vendor, options: Options) -> None:
    """Allow users again. A device that was not drained stays unchanged.

    Raise NodeTrouble(CommandFailed).
    """
    argv = fill(vendor.undrain, address=device.address, memdev=pci.memdev(host.root, device.address))
    done = host.run(argv, options.patience)
    if done.code and not is_unsupported(done):
        raise refused(argv, done)


def _confirm(said: str, ask: list[str], vendor: Vendor) -> None:
    if vendor.drained_says not in said or f"not {vendor.drained_says}" in said:
        raise NodeTrouble(COMMAND_FAILED, f"{' '.join(ask)} does not confirm that new users stay away: {said.strip()}")


def unbind(host: Host, device: pci.PciDevice, options: Options, undo: Undo) -> None:
    """Unbind the device's driver. Raise NodeTrouble(CommandFailed)."""
    if device.driver is None:
        return
    driver = device.driver
    undo.later(lambda: bus.bind(host.root, device.address, driver, options.patience))
    if not bus.unbind(host.root, device, options.patience):
        raise NodeTrouble(COMMAND_FAILED, f"driver {driver} did not release {device.address} within "
                                          f"{options.patience:g} s")


def refused(argv: list[str], done: Output) -> NodeTrouble:
    """Return the error for a command that refused."""
    reason = OPEN_ON_NODE if says(done, _IN_USE) else COMMAND_FAILED
    return NodeTrouble(reason, f"{' '.join(argv)} ended with {done.code}: {done.said}")


def is_unsupported(done: Output) -> bool:
    """Return whether the vendor's tool reported that it cannot do this with the device."""
    return done.code != 0 and says(done, _UNSUPPORTED)


def says(done: Output, words: tuple[str, ...]) -> bool:
    """Return whether the command wrote one of the words, in any case."""
    text = (done.out + done.err).lower()
    return any(word in text for word in words)
