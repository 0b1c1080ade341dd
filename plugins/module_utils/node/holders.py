# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds a device on a node: make the vendor's own software let go, and prove that nobody else has it.

Standard library only, Python 3.8: it travels to nodes.
"""

from __future__ import annotations

from . import pci
from .evidence import NOT_PROVEN, OPEN_ON_NODE, NodeTrouble
from .host import Host, Undo
from .options import Options
from .probe import NotProven
from .vendors import Vendor, fill

_ON = ("Y", "1")


class Holders:
    """Holders of one device."""

    def __init__(self, host: Host, device: pci.PciDevice, vendor: Vendor, options: Options) -> None:
        self.host, self.device, self.vendor, self.options = host, device, vendor, options

    def pause(self, undo: Undo) -> None:
        """Have the vendor's software let go of the device. Raises NodeTrouble."""
        argv, back = (fill(c, address=self.device.address) for c in (self.vendor.pause, self.vendor.resume))
        if argv:
            said = self.host.must(argv, self.options.patience)
            if not (self.vendor.paused_before and self.vendor.paused_before in said):
                undo.later(lambda: self.host.must(back, self.options.patience))

    def stop_services(self, undo: Undo) -> None:
        """Stop the units of the host that hold the device; other devices of the node do without them meanwhile."""
        users = self._users() if self.vendor.services else []
        for process, unit in self.vendor.services.items():
            if any(user.endswith(f"({process})") for user in users):
                self._stop(unit, undo)

    def _stop(self, unit: str, undo: Undo) -> None:
        """A process of that name may as well be a pod's; then the host's unit is not active, and it stays."""
        if self.host.run(["systemctl", "is-active", "--quiet", unit], self.options.patience).code == 0:
            undo.later(lambda: self.host.must(["systemctl", "start", unit], self.options.patience))
            self.host.must(["systemctl", "stop", unit], self.options.patience)

    def prove_idle(self) -> None:
        """Returns when it is proven that nobody has the device open. Raises NodeTrouble(OpenOnNode or NotProven)."""
        for module, parameter in self.vendor.kernel_clients:
            if self._parameter(module, parameter) in _ON:
                raise NodeTrouble(NOT_PROVEN, f"{module} runs with {parameter} on, so the kernel itself may hold "
                                              f"{self.device.address}; set its option {parameter}=0 and reboot")
        users = self._users()
        if users:
            raise NodeTrouble(OPEN_ON_NODE, f"{self.device.address} is open on the node by {', '.join(users)}; end "
                                            "them, or wait until they end")

    def _parameter(self, module: str, parameter: str) -> str:
        path = self.host.root / "sys/module" / module / "parameters" / parameter
        try:
            return path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise NodeTrouble(NOT_PROVEN, f"{path} cannot be read: {error}") from None

    def _users(self) -> list[str]:
        try:
            return pci.users(self.host.root, self.device)
        except NotProven as error:
            raise NodeTrouble(NOT_PROVEN, f"{error}; whether {self.device.address} is idle cannot be told") from None
