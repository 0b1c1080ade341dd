# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Users of a device on a node: pause the vendor's own software, and prove that no process uses it.

Standard library only, Python 3.8, because the file runs on nodes.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from . import pci
from .evidence import NOT_PROVEN, OPEN_ON_NODE, NodeTrouble
from .host import Host, Undo
from .options import Options
from .probe import NotProven
from .vendors import Vendor, fill

_ON = ("Y", "1")
# The kubelet names a pod's control group by the UID, and the driver systemd writes "_" for "-".
# Static pods have another form of UID, and no tenant creates them.
_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
_PID = re.compile(r"pid (\d+)")


class Holders:
    """Users of one device."""

    def __init__(self, host: Host, device: pci.PciDevice, vendor: Vendor, options: Options) -> None:
        self.host, self.device, self.vendor, self.options = host, device, vendor, options

    def pause(self, undo: Undo) -> None:
        """Pause the vendor's software on the device. Raise NodeTrouble."""
        argv, back = (fill(c, address=self.device.address) for c in (self.vendor.pause, self.vendor.resume))
        if argv:
            said = self.host.must(argv, self.options.patience)
            if not (self.vendor.paused_before and self.vendor.paused_before in said):
                undo.later(lambda: self.host.must(back, self.options.patience))

    def stop_services(self, undo: Undo) -> None:
        """Stop the host's units that use the device. Other devices lack them meanwhile."""
        users = self._users() if self.vendor.services else []
        for process, unit in self.vendor.services.items():
            if any(user.endswith(f"({process})") for user in users):
                self._stop(unit, undo)

    def _stop(self, unit: str, undo: Undo) -> None:
        """Stop a unit if it is active. Otherwise the process belongs to a pod and stays."""
        if self.host.run(["systemctl", "is-active", "--quiet", unit], self.options.patience).code == 0:
            undo.later(lambda: self.host.must(["systemctl", "start", unit], self.options.patience))
            self.host.must(["systemctl", "stop", unit], self.options.patience)

    def prove_idle(self) -> None:
        """Return if no process has the device open. Raise NodeTrouble(OpenOnNode or NotProven)."""
        for module, parameter in self.vendor.kernel_clients:
            if self._parameter(module, parameter) in _ON:
                raise NodeTrouble(NOT_PROVEN, f"{module} runs with {parameter} on, so the kernel itself may hold "
                                              f"{self.device.address}. Set its option {parameter}=0 and reboot")
        users = self._users()
        if users:
            raise NodeTrouble(OPEN_ON_NODE, f"{self.device.address} is open on the node by {', '.join(users)}. "
                                            "End these processes, or wait until they end")

    def is_open_by_pods_alone(self, uids: Collection[str]) -> bool:
        """Return whether processes have the device open, and all belong to these pods.

        ``uids`` are the UIDs of the pods. A process of the host belongs to none. Raise
        NodeTrouble(NotProven).
        """
        try:
            users = self._users()
            return bool(users) and all(pod_of(cgroup_of(self.host.root, user)) in uids for user in users)
        except NotProven as error:
            raise NodeTrouble(NOT_PROVEN, str(error)) from None

    def is_open(self) -> bool:
        """Return whether any process has the device open. Raise NodeTrouble(NotProven)."""
        return bool(self._users())

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
            raise NodeTrouble(NOT_PROVEN, f"cannot find out whether {self.device.address} is idle: {error}") from None


def cgroup_of(root: Path, user: str) -> str:
    """Return the path of the control group of a process, or empty if it has ended.

    ``root`` contains the node's /proc. ``user`` is ``pid <n> (<name>)`` as in ``pci.users``, or the
    name of its folder below /proc. Raise NotProven if it cannot be read.
    """
    found = _PID.match(user)
    process = root / "proc" / (found.group(1) if found else user)
    try:
        text = (process / "cgroup").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    except OSError as error:
        raise NotProven(f"{process / 'cgroup'} cannot be read: {error.strerror}") from None
    paths = [line.split(":", 2)[-1] for line in text.splitlines()]
    return next((path for path in paths if _POD.search(path)), paths[-1] if paths else "")


def pod_of(cgroup: str) -> str:
    """Return the UID of the pod with this control group, or empty for a host process."""
    found = _POD.search(cgroup)
    return found.group(1).replace("_", "-") if found else ""
