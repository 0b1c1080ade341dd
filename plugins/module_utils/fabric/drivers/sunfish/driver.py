# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sunfish, in the two ways in which it can be asked, chosen by what its service root shows.

Where agents have registered their fabrics, Sunfish shows them as one Redfish tree, and a change is passed on to the
agent that owns the resource: then it is generic Redfish composition, with everything that ``redfish`` can do.

Where the root shows neither composition nor fabrics there is only what CoHDI sends: PATCH of ``Systems/System`` with a
node's name and how many GPUs of a model it shall have (``counts``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from ...api import (
    Capabilities,
    Device,
    FabricManager,
    FabricSnapshot,
    Machine,
    MachinePower,
    PowerManager,
    Proof,
    Started,
    Task,
)
from ...errors import Refused
from ..shared.redfish.resources import ServiceRoot


class SunfishDriver:
    """Client of one Sunfish service. Thread-safe; see ``api.FabricManager``.

    ``tree`` drives it as a Redfish service, ``counts`` by numbers of devices; ``read_root`` reads the service root.
    """

    def __init__(self, tree: FabricManager, counts: FabricManager, read_root: Callable[[], ServiceRoot]) -> None:
        self._tree = tree
        self._counts = counts
        self._read_root = read_root
        self._lock = threading.Lock()
        self._chosen: FabricManager | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Those of the tree until the service was seen to have none."""
        return (self._chosen or self._tree).capabilities

    def way(self) -> FabricManager:
        """The one that this service can be asked in. Raises FabricError."""
        with self._lock:
            if self._chosen is None:
                root = self._read_root()
                self._chosen = self._tree if root.composition or root.fabrics else self._counts
            return self._chosen

    def machines(self) -> tuple[Machine, ...]:
        """All systems with their composable devices."""
        return self.way().machines()

    def machine(self, uid: str) -> Machine:
        """One machine; Missing when Sunfish does not show it."""
        return self.way().machine(uid)

    def free(self, machine_uid: str, model: str) -> int:
        """Devices of ``model`` that could be attached to the machine now. Refused where Sunfish does not count them."""
        return self.way().free(machine_uid, model)

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Machines, and free devices where Sunfish shows them."""
        return self.way().snapshot(models)

    def devices(self) -> tuple[Device, ...]:
        """Every device that Sunfish shows."""
        return self.way().devices()

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
        started: Started | None = None, proof: Proof | None = None,
    ) -> Task:
        """Attach ``count`` devices."""
        return self.way().attach(machine_uid, model, count, token, kind, started, proof)

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        """Detach one device."""
        return self.way().detach(machine_uid, device_uid, started, proof)

    def resume(self, handles: tuple[str, ...]) -> Task:
        """Wait for an operation that an earlier process began."""
        return self.way().resume(handles)

    def power(self, machine_uid: str) -> MachinePower:
        """Power of a machine, where agents have registered it."""
        return self._powering().power(machine_uid)

    def reset(self, machine_uid: str, reset_type: str) -> None:
        """Passed on to the agent that owns the machine."""
        self._powering().reset(machine_uid, reset_type)

    def _powering(self) -> PowerManager:
        way = self.way()
        if not isinstance(way, PowerManager):
            raise Refused("cannot switch machines: this Sunfish has no agents, it only takes numbers of devices")
        return way

    def close(self) -> None:
        """Close all kept connections."""
        self._tree.close()
        self._counts.close()
