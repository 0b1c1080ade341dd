# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Driver for NEC CDI Manager (CDIM), which is asynchronous and runs one layout-apply at a time.

``layout_apply`` has the requests and the recovery from lost replies. ``wire`` has the meaning of
the documents. Requests name devices. CDIM lists free devices, so ``free`` and ``snapshot`` count
them in its list of resources. CDIM does not report the UUID of a GPU. ``Device.serial`` is None
unless a manager puts the UUID into ``serialNumber``.
"""

from __future__ import annotations

import functools
import time
import typing as t
from collections.abc import Iterable
from dataclasses import replace

from ...api import Capabilities, Device, FabricSnapshot, Machine, Proof, Started, Task
from ...config import FabricConfig
from ...errors import FabricError, Missing
from ...http.http_status import malformed
from ...http.request import Request
from ...http.session import Session
from ...operations import polling
from ...operations.batches import Batches, PendingOperation, task_of
from ...operations.parallel import outcomes
from ...operations.polling import Patience
from ..shared.replies import Unreadable, read_reply
from . import procedures as steps_of
from . import wire
from .layout_apply import COMPLETED, FORGOTTEN, PREFIX, Applier, revived
from .procedures import CONNECT, Progress, Step, WantedDevice


class NecDriver:
    """Client of one CDIM. Thread-safe. See ``api.FabricManager``.

    Calls during an apply share the next apply.
    """

    capabilities: t.Final = Capabilities(asynchronous=True, batch=True, lists_free=True)

    def __init__(self, config: FabricConfig) -> None:
        self._resources = Session(config, wire.read_error)
        self._layouts = self._resources
        if config.layout_endpoint:
            self._layouts = Session(config, wire.read_error, config.layout_endpoint)
        self._applier = Applier(functools.partial(read_reply, self._layouts), self._look, config.attach_timeout)
        self._batches: Batches[WantedDevice] = Batches(self._applier.work)

    def machines(self) -> tuple[Machine, ...]:
        """Return all nodes."""
        return self._look().machines()

    def machine(self, uid: str) -> Machine:
        """Return one node. Raise Missing if CDIM does not know it."""
        found = next((m for m in self.machines() if steps_of.same(m.uid, uid)), None)
        if found is None:
            raise Missing(f"cannot read machine {uid}: the CDI Manager knows no such machine")
        return found

    def free(self, machine_uid: str, model: str) -> int:
        """Return how many devices of ``model`` can be connected to the machine now."""
        layout = self._look()
        node = layout.node(machine_uid)
        if node is None:
            raise Missing(f"cannot count free {model}: the CDI Manager knows no machine {machine_uid}")
        return len(layout.free(model, layout.fabric(node)))

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Read the two lists, and count the free devices in them."""
        taken, layout = time.time(), self._look()
        machines = {machine.uid: machine for machine in layout.machines()}
        fabrics = sorted({m.fabric for m in machines.values() if m.fabric is not None})
        free = {(m, f): len(layout.free(m, f)) for m in dict.fromkeys(models) for f in fabrics}
        return FabricSnapshot(machines, free, taken)

    def devices(self) -> tuple[Device, ...]:
        """Return every composable device, with the free devices."""
        return self._look().devices()

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
        started: Started | None = None, proof: Proof | None = None,
    ) -> Task:
        """Attach ``count`` devices. CDIM does not support ``token``.

        Raise Refused with ``device`` if an unhealthy device was connected.
        """
        return task_of(self._batches.run("", [WantedDevice(machine_uid, model, kind)] * count, started, proof))

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        """Detach one device. Do nothing if it is not connected to the machine."""
        return task_of(self._batches.run("", [WantedDevice(machine_uid, device=device_uid)], started, proof))

    def resume(self, handles: tuple[str, ...]) -> Task:
        """Wait for an apply of an earlier process.

        Raise Missing if neither the apply nor its effect is there, or if the device was moved after
        the apply.
        """
        operations = []
        for result in outcomes(self._resume, handles):
            pending = result if isinstance(result, PendingOperation) else PendingOperation(WantedDevice(""))
            if isinstance(result, FabricError):
                pending.fail(result)
            operations.append(pending)
        return replace(task_of(operations), handles=handles)

    def close(self) -> None:
        """Close all idle connections."""
        self._resources.close()
        self._layouts.close()

    def _resume(self, handle: str) -> PendingOperation[WantedDevice]:
        told = steps_of.told(handle)
        step = revived(told, self._look())
        progress = self._applier.wait(told["apply"]) if told["apply"] else Progress(FORGOTTEN, "")
        if progress and progress.status == FORGOTTEN and not step.is_done(self._look()):
            raise Missing(f"cannot wait for layout apply {told['apply']!r}: the CDI Manager shows "
                          "neither it nor its effect")
        if progress and (progress.status == COMPLETED or step.is_anothers(self._look())) and not self._is_seen(step):
            where = "not" if step.operation == CONNECT else "still"
            raise Missing(f"cannot wait for layout apply {told['apply']!r}: it has ended, and device {step.part.uid} "
                          f"is {where} on machine {step.machine}, so another client has moved it since")
        self._applier.finish(told["apply"], {told["number"]: step})
        return step.pending

    def _is_seen(self, step: Step) -> bool:
        """Return whether the lists show the effect of an apply. They may be late."""
        notice = Patience(polling.NOTICE_SECONDS)
        while not step.is_done(self._look()):
            if notice.over:
                return False
            notice.pause()
        return True

    def _look(self) -> wire.Layout:
        requests = [
            Request("GET", f"{PREFIX}/resources?detail=true", "list the resources"),
            Request("GET", f"{PREFIX}/nodes?detail=true", "list the nodes"),
        ]
        bodies = []
        for outcome in outcomes(self._resources.call, requests):
            if isinstance(outcome, FabricError):
                raise outcome
            bodies.append(outcome.body)
        try:
            return wire.layout(*bodies)
        except Unreadable as error:
            raise malformed(requests[0], str(error)) from None
