# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Driver for Sunfish, in two modes by the content of the service root.

With registered agents, Sunfish shows their fabrics as one Redfish tree and passes each change to
the agent that owns the resource. Then the driver uses generic Redfish composition (``redfish``).

If the root shows neither composition nor fabrics, the driver sends the request that CoHDI sends. It
is a PATCH of ``Systems/System`` with the name of a node and the wanted number of GPUs of a model
(``counts``).
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
    """Client of one Sunfish service. Thread-safe. See ``api.FabricManager``.

    ``tree`` is the Redfish driver, ``counts`` sets numbers of devices, and ``read_root`` reads the
    service root.
    """

    def __init__(self, tree: FabricManager, counts: FabricManager, read_root: Callable[[], ServiceRoot]) -> None:
        self._tree = tree
        self._counts = counts
        self._read_root = read_root
        self._lock = threading.Lock()
        self._chosen: FabricManager | None = None

    @property
    def capabilities(self) -> Capabilities:
        """The abilities of the tree, or of ``counts`` once the service is known to have no tree."""
        return (self._chosen or self._tree).capabilities

    def way(self) -> FabricManager:
        """Return the driver that fits this service. Raise FabricError."""
        with self._lock:
            if self._chosen is None:
                root = self._read_root()
                self._chosen = self._tree if root.composition or root.fabrics else self._counts
            return self._chosen

    def machines(self) -> tuple[Machine, ...]:
        """Return all systems with their composable devices."""
        return self.way().machines()

    def machine(self, uid: str) -> Machine:
        """Return one machine. Raise Missing if Sunfish does not show it."""
        return self.way().machine(uid)

    def free(self, machine_uid: str, model: str) -> int:
        """Return how many devices of ``model`` can be attached to the machine now.

        Raise Refused if Sunfish does not count them.
        """
        return self.way().free(machine_uid, model)

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Return the machines, and the free devices if Sunfish shows them."""
        return self.way().snapshot(models)

    def devices(self) -> tuple[Device, ...]:
        """Return every device that Sunfish shows."""
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
        """Return the power of a machine that an agent has registered."""
        return self._powering().power(machine_uid)

    def reset(self, machine_uid: str, reset_type: str) -> None:
        """Pass the reset to the agent that owns the machine."""
        self._powering().reset(machine_uid, reset_type)

    def _powering(self) -> PowerManager:
        way = self.way()
        if not isinstance(way, PowerManager):
            raise Refused("cannot switch machines: this Sunfish has no agents, it only takes numbers of devices")
        return way

    def close(self) -> None:
        """Close all idle connections."""
        self._tree.close()
        self._counts.close()
