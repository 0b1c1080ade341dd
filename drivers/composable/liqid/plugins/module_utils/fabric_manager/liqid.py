# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of Liqid Matrix, over the REST service of a Liqid Director.

It was written from what public repositories tell about the service, and has never met a Director. ``layout`` says what
is read, and ``edits`` how a machine is changed. The driver works in one group. A machine's uid is its name, because the
Director tells no UUID of a machine, and because the number of a machine may be given to another one later.
"""

from __future__ import annotations

import time
import typing as t
from collections import Counter
from collections.abc import Iterable

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import (
    Capabilities,
    Device,
    FabricSnapshot,
    Machine,
    Proof,
    Started,
    Task,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.replies import Unreadable
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    BadConfiguration,
    FabricError,
    Missing,
    Refused,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.external import register
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.http_status import malformed
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import Request
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.session import Session
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations.batches import Batches, task_of
from ansible_collections.composable.infra.plugins.module_utils.fabric.operations.parallel import outcomes
from ansible_collections.composable.infra.plugins.module_utils.fabric.registry import DriverOption, ManagerEntry

from ..director import layout as wire
from ..director.edits import PREFIX, Edits, Want, missing

NAME: t.Final = "composable.liqid.liqid"
OPTIONS: t.Final = {
    "group": DriverOption(required=True), "cancel_edits_after": DriverOption(type="float", default=0.0),
}
# The paths that a layout is read from. Without ``filter=false`` the Director leaves out devices of groups.
READS: t.Final = {
    "group": "group", "machine": "machine", "predevice": "predevice", "status": "status?filter=false",
    **{words.info: f"device/info/{words.info}" for words in wire.KINDS.values()},
}


class LiqidDriver:
    """Client of one Liqid Director, for one group. It is thread-safe. See ``FabricManager`` for its methods."""

    def __init__(self, config: FabricConfig) -> None:
        """Check the driver's options. Send nothing yet. Raises BadConfiguration."""
        self._group, after = str(config.driver_options["group"]), float(config.driver_options["cancel_edits_after"])
        if not self._group:
            raise BadConfiguration("driver_options.group", "", "it must be the name of a group")
        if not 0 <= after < config.attach_timeout:
            raise BadConfiguration("driver_options.cancel_edits_after", after, "it must be a number of seconds below "
                                   f"attach_timeout ({config.attach_timeout:g}), or 0")
        self._session = Session(config, wire.read_error)
        self._edits = Edits(self._session, self._look, after)
        self._batches: Batches[Want] = Batches(self._edits.work)

    @property
    def capabilities(self) -> Capabilities:
        """Return what the Director can do. It is asynchronous as soon as it has answered a change with status 202."""
        return Capabilities(asynchronous=self._edits.asynchronous, batch=True, lists_free=True, kinds=tuple(wire.KINDS))

    def machines(self) -> tuple[Machine, ...]:
        """Return the machines of the group, except those that share a name."""
        layout = self._look()
        return tuple(layout.machine(name) for name in layout.machines)

    def machine(self, uid: str) -> Machine:
        """Return a machine. Raises Missing if the group has no machine of this name, or several."""
        return self._having(uid, f"cannot read machine {uid}").machine(uid)

    def free(self, machine_uid: str, model: str) -> int:
        """Return how many devices of the group the machine could get now."""
        layout = self._having(machine_uid, f"cannot count free {model} for machine {machine_uid}")
        return len(layout.free(model, layout.machine(machine_uid).fabric))

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Return machines and numbers of free devices, by the same requests as ``machines``."""
        taken, layout = time.time(), self._look()
        machines = {name: layout.machine(name) for name in layout.machines}
        fabrics = {found.fabric for found in machines.values() if found.fabric is not None}
        found = {(model, fabric): layout.free(model, fabric) for model in models for fabric in fabrics}
        boxes = Counter((*key, part.device.box) for key, parts in found.items() for part in parts if part.device.box)
        return FabricSnapshot(machines, {key: len(parts) for key, parts in found.items()}, taken, read=time.time(),
                              free_in_boxes=dict(boxes))

    def devices(self) -> tuple[Device, ...]:
        """Return the devices of the group."""
        return self._look().devices()

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "gpu",
        started: Started | None = None, proof: Proof | None = None,
    ) -> Task:
        """Attach ``count`` devices by one edit. The Director takes no mark of a request, so ``token`` is not sent."""
        return task_of(self._batches.run("", [Want(machine_uid, model, kind)] * count, started, proof))

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        """Detach one device. A device that is not on the machine is done."""
        return task_of(self._batches.run("", [Want(machine_uid, device=device_uid)], started, proof))

    def resume(self, handles: tuple[str, ...]) -> Task:
        """Wait for changes that a newer Director had accepted."""
        results = outcomes(self._edits.resume, handles)
        for result in results:
            if isinstance(result, FabricError):
                raise result
        return Task(True, tuple(result.device for result in results if isinstance(result, wire.Part)), handles)

    def close(self) -> None:
        """Close all kept connections. There is no session to end, each request has the login."""
        self._edits.close()
        self._session.close()

    def _having(self, machine: str, purpose: str) -> wire.Layout:
        layout = self._look()
        if machine not in layout.machines:
            raise missing(purpose, layout, machine)
        return layout

    def _look(self) -> wire.Layout:
        """Return the layout of the group, by requests at the same time."""
        replies = {}
        for word, found in zip(READS, outcomes(self._listed, READS), strict=True):
            if isinstance(found, FabricError):
                raise found
            replies[word] = found
        try:
            return wire.layout(self._group, replies)
        except KeyError:
            groups = sorted(str(each.get("group_name")) for each in replies["group"])
            raise Refused(f"driver_options.group: the Liqid Director has no group {self._group!r}. Allowed are "
                          f"{', '.join(groups) or 'none'}") from None
        except Unreadable as error:
            raise malformed(_read("group"), self._session.redact(str(error))) from None

    def _listed(self, word: str) -> list[wire.Json]:
        request = _read(word)
        try:
            return wire.objects(self._edits.ask(request)[1])
        except Unreadable as error:
            raise malformed(request, self._session.redact(str(error))) from None
        except Missing:
            if READS[word].startswith("device/info/"):
                return []
            raise


def _read(word: str) -> Request:
    return Request("GET", f"{PREFIX}/{READS[word]}", f"read {READS[word].partition('?')[0]}")


register(NAME, ManagerEntry(auth=("basic", "none"), schemes=("http", "https"), options=OPTIONS), LiqidDriver,
         interface=1)
