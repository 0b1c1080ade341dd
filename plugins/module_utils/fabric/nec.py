# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NEC CDI Manager (CDIM): asynchronous, one layout-apply at a time for all machines, devices asked for by name.

What an apply is and how a lost reply is made good is in ``nec_apply``; what the documents mean in ``nec_wire``. CDIM
lists free devices, so ``free`` and ``snapshot`` are counted in its list of resources. It does not tell a GPU's UUID:
``Device.serial`` is None unless a manager puts it into ``serialNumber``.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Iterable
from dataclasses import replace

from . import nec_steps as steps_of
from . import nec_wire as wire
from .batches import HANDLES, Batches, Wish, task_of
from .config import FabricConfig
from .errors import FabricError, Missing
from .fm_wire import Unreadable
from .nec_apply import FORGOTTEN, PREFIX, Applier, revived
from .nec_steps import Progress, Want
from .parallel import outcomes
from .session import Session
from .types import Capabilities, Device, FabricSnapshot, Machine, Started, Task
from .verdicts import Call, malformed

T = t.TypeVar("T")


class NecManager:
    """Client of one CDIM. Thread-safe; see ``types.Fabric``. Calls that come during an apply share the next one."""

    capabilities: t.Final = Capabilities(
        asynchronous=True, batch=True, concurrent_per_machine=True, names_device=False, lists_all=True, lists_free=True
    )

    def __init__(self, config: FabricConfig) -> None:
        self._resources = Session(config, wire.read_error)
        self._layouts = self._resources
        if config.layout_endpoint:
            self._layouts = Session(config, wire.read_error, config.layout_endpoint)
        self._applier = Applier(self._read_layout, self._look, config.attach_timeout)
        self._batches: Batches[Want] = Batches(self._applier.work)

    def machines(self) -> tuple[Machine, ...]:
        """All nodes."""
        return self._look().machines()

    def machine(self, uid: str) -> Machine:
        """One node; Missing when CDIM does not know it."""
        found = next((m for m in self.machines() if steps_of.same(m.uid, uid)), None)
        if found is None:
            raise Missing(f"cannot read machine {uid}: the CDI Manager knows no such machine")
        return found

    def free(self, machine_uid: str, model: str) -> int:
        """Devices of ``model`` that could be connected to the machine now."""
        layout = self._look()
        node = layout.node(machine_uid)
        if node is None:
            raise Missing(f"cannot count free {model}: the CDI Manager knows no machine {machine_uid}")
        return len(layout.free(model, layout.fabric(node)))

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Two listings, whatever is asked for."""
        taken, layout = time.time(), self._look()
        machines = {machine.uid: machine for machine in layout.machines()}
        fabrics = sorted({m.fabric for m in machines.values() if m.fabric is not None})
        free = {(m, f): len(layout.free(m, f)) for m in dict.fromkeys(models) for f in fabrics}
        return FabricSnapshot(machines, free, taken)

    def devices(self) -> tuple[Device, ...]:
        """Every device that can be composed, free ones too."""
        return self._look().devices()

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
        started: Started | None = None,
    ) -> Task:
        """Attach ``count`` devices. CDIM takes no mark of a request, so ``token`` is of no use to it.

        Refused with ``device``: that device was connected, but it is not healthy.
        """
        return task_of(self._batches.run("", [Want(machine_uid, model, kind)] * count, started))

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None) -> Task:
        """Detach one device; one that is not connected to the machine is done."""
        return task_of(self._batches.run("", [Want(machine_uid, device=device_uid)], started))

    def resume(self, handle: str) -> Task:
        """Wait for an apply of an earlier process; Missing when neither it nor its effect is there."""
        wishes = []
        for result in outcomes(self._resume, handle.split(HANDLES)):
            wish = result if isinstance(result, Wish) else Wish(Want(""))
            if isinstance(result, FabricError):
                wish.fail(result)
            wishes.append(wish)
        return replace(task_of(wishes), handle=handle)

    def close(self) -> None:
        """Close all kept connections."""
        self._resources.close()
        self._layouts.close()

    def _resume(self, handle: str) -> Wish[Want]:
        told = steps_of.told(handle)
        step = revived(told, self._look())
        progress = self._applier.wait(told["apply"]) if told["apply"] else Progress(FORGOTTEN, "")
        if progress and progress.status == FORGOTTEN and not step.is_done(self._look()):
            raise Missing(f"cannot wait for layout apply {told['apply']!r}: neither it nor its effect is there")
        self._applier.finish(told["apply"], {told["number"]: step})
        return step.wish

    def _look(self) -> wire.Layout:
        calls = [
            Call("GET", f"{PREFIX}/resources?detail=true", "list the resources"),
            Call("GET", f"{PREFIX}/nodes?detail=true", "list the nodes"),
        ]
        found = outcomes(self._resources.call, calls)
        for result in found:
            if isinstance(result, FabricError):
                raise result
        try:
            return wire.layout(*found)
        except Unreadable as error:
            raise malformed(calls[0], str(error)) from None

    def _read_layout(self, call: Call, read: Callable[[t.Any], T]) -> T:
        body = self._layouts.call(call)
        try:
            return read(body)
        except Unreadable as error:
            raise malformed(call, str(error)) from None
