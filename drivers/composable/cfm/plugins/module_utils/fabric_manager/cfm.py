# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of Seagate's Composable Fabric Manager (cfm-service): memory regions of CXL memory appliances.

A machine is a host of cfm-service, a device is a memory region that has a port, and a model is the size of a region.
Sources: api/cfm-openapi.yaml and the Go source of https://github.com/Seagate/cfm at 8264116. No code of it is used.

==================================================  ============================================================
Request, below ``/cfm/v1``                          For
==================================================  ============================================================
``GET /hosts``, ``/hosts/H``                        hosts and whether they are online
``GET /hosts/H/ports``                              how many ports a host has, only while a blade is not online
``GET /appliances``, ``/appliances/A/blades``       blades; below, B is ``/appliances/A/blades/B``
``GET B``, ``B/ports``, ``B/ports/P``               whether it is online, its ports and the host at each
``GET B/memory``, ``B/memory/M``                    regions, their sizes and ports
``GET B/statusresources``, ``B/resources``, ``/R``  free blocks of memory
``POST B/memory``                                   ``{"Port", "memorySizeMiB", "QoS"}``: compose a region on a port
``DELETE B/memory/M``                               take a region from its port and free it
``PATCH B/memory/M``                                unassign first, where the DELETE could take another region
==================================================  ============================================================

A blade or a host that is not online has empty lists. Nothing is concluded from them: its status is read before and
after its parts.
"""

from __future__ import annotations

import contextlib
import threading
import time
import typing as t
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from urllib.parse import quote

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import (
    Capabilities,
    Device,
    FabricSnapshot,
    Machine,
    Proof,
    Size,
    Started,
    Task,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.config import FabricConfig
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.replies import (
    Unreadable,
    healthy,
    read_reply,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import (
    Busy,
    FabricError,
    Missing,
    Refused,
    Unavailable,
    Uncertain,
    Withdrawn,
    gravest,
)
from ansible_collections.composable.infra.plugins.module_utils.fabric.external import register
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.http_status import malformed
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import ErrorBody, Request
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.session import Session
from ansible_collections.composable.infra.plugins.module_utils.fabric.registry import DriverOption, ManagerEntry

from .. import cfm_view as view
from ..cfm_view import Blade, Block, Port, Region, View

NAME: t.Final = "composable.cfm.cfm"
HOSTS: t.Final = "/cfm/v1/hosts"
APPLIANCES: t.Final = "/cfm/v1/appliances"
# Messages of status codes (pkg/common/status.go): not enough free blocks for a compose, and no such region.
NO_BLOCKS: t.Final = "Blade Get Memory Resource Blocks Failure"
PARTIAL: t.Final = 206

T = t.TypeVar("T")


class CfmDriver:
    """Client of one cfm-service. Thread-safe; see ``FabricManager``."""

    capabilities: t.Final = Capabilities(asynchronous=False, batch=False, lists_free=False, kinds=("memory",))

    def __init__(self, config: FabricConfig) -> None:
        self._config = config
        self._session = Session(config, read_error)
        self._qos: int = config.driver_options["qos"]
        self._blocks: dict[str, Block] = {}
        # cfm-service carries out one request at a time. Waiting here lets attaches choose different ports.
        self._attaching = threading.Lock()

    def machines(self) -> tuple[Machine, ...]:
        """All hosts of which cfm-service shows all memory."""
        return tuple(self._view().machines().values())

    def machine(self, uid: str) -> Machine:
        """One host. Raises Missing if it is unknown, Unavailable if cfm-service does not show all its memory."""
        return known(self._view(uid), uid)

    def free(self, machine_uid: str, model: str) -> int:
        """Regions of the size that the blades on the fabric of the host have memory for."""
        size, seen = view.size_of(model), self._view(machine_uid)
        return self._free_on(seen, known(seen, machine_uid).fabric, size)

    def snapshot(self, models: Iterable[str]) -> FabricSnapshot:
        """Hosts, and for how many regions of each size there is memory. Ports limit the number for each host."""
        taken, wanted = time.time(), tuple(models)
        seen = self._view()
        machines, free, problems = seen.machines(), dict[tuple[str, int], int](), dict[str, str]()
        sizes = {uid: limits(seen, machine, wanted) for uid, machine in machines.items()}
        for model in wanted:
            for fabric in {found.fabric for found in machines.values() if found.fabric is not None}:
                try:
                    free[model, fabric] = self._free_on(seen, fabric, view.size_of(model))
                except FabricError as error:
                    problems[f"{model}/{fabric}"] = str(error)
        return FabricSnapshot(
            machines, free, taken, problems, time.time(), sizes, unconfirmed="; ".join(seen.hidden.values()),
        )

    def devices(self) -> tuple[Device, ...]:
        """All regions that have a port."""
        return tuple(self._view().devices())

    def attach(
        self, machine_uid: str, model: str, count: int = 1, token: str | None = None, kind: str = "memory",
        started: Started | None = None, proof: Proof | None = None,
    ) -> Task:
        """Compose ``count`` regions, one after the other, each on a free port of the host."""
        if kind not in self.capabilities.kinds:
            raise Refused(f"kind: {kind!r} is not allowed. cfm-service attaches memory")
        size = view.size_of(model)
        came, errors = list[Device](), list[FabricError]()
        with self._attaching:
            seen = self._view(machine_uid)
            known(seen, machine_uid)
            ports = seen.free_ports(machine_uid)
            for _number in range(count):
                try:
                    came.append(self._attach_one(seen, machine_uid, ports, size, proof))
                except FabricError as error:
                    errors.append(error)
        if errors:
            raise errors[0] if count == 1 else gravest(tuple(errors), tuple(came))
        return Task(True, tuple(came))

    def detach(self, machine_uid: str, device_uid: str, started: Started | None = None,
               proof: Proof | None = None) -> Task:
        """Free a region. One that has no port any more is freed too, one of another host stays."""
        found = self._find(machine_uid, device_uid)
        if found is None:
            return Task(True)
        blade, region, device = found
        try:
            self._free(blade, region, proof)
        except (Missing, Busy):
            if self._find(machine_uid, device_uid) is not None:
                raise
        return Task(True, (device,))

    def resume(self, handles: tuple[str, ...]) -> Task:
        """Answer Missing. cfm-service replies when it is done, so there is never an operation to wait for."""
        raise Missing(f"cannot wait for operation {', '.join(handles)}: cfm-service has no operations")

    def close(self) -> None:
        """Close all kept connections."""
        self._session.close()

    def _view(self, host: str | None = None) -> View:
        """Read the blades and all hosts, or one ``host``, of which it raises Missing."""
        before = self._hosts(host)
        blades = self._blades()
        after = self._hosts(host)
        hosts = tuple(uid for uid in before if uid in after)
        hidden = {uid: f"host {uid} is not online, so cfm-service does not show its memory" for uid in hosts
                  if {before[uid], after[uid]} != {view.ONLINE}}
        away = [blade.uid for blade in blades if not blade.online]
        for uid in hosts:
            links = sum(port.host == uid for blade in blades for port in blade.ports)
            if away and uid not in hidden and links < len(self._members(f"{at(HOSTS, uid)}/ports", f"host {uid}")):
                hidden[uid] = f"blade {', '.join(away)} is not online, and host {uid} may have memory of it"
        return View(blades, view.fabrics(blades), hosts, hidden)

    def _hosts(self, host: str | None) -> dict[str, str]:
        """Return the status of each host, or of one."""
        found = {}
        for uid in self._members(HOSTS, "the hosts") if host is None else (host,):
            try:
                found[uid] = self._read(at(HOSTS, uid), f"host {uid}", view.status)
            except Missing:
                if host is not None:
                    raise
        return found

    def _blades(self) -> tuple[Blade, ...]:
        with steadily():
            return tuple(
                self._blade(f"{at(APPLIANCES, appliance)}/blades", appliance, ident)
                for appliance in self._members(APPLIANCES, "the memory appliances")
                for ident in self._members(f"{at(APPLIANCES, appliance)}/blades", f"the blades of {appliance}")
            )

    def _blade(self, path: str, appliance: str, ident: str) -> Blade:
        path, uid = at(path, ident), f"{appliance}/{ident}"
        first = self._read(path, f"blade {uid}", view.status)
        ports = tuple(self._read(at(f"{path}/ports", each), f"port {each} of blade {uid}", view.port)
                      for each in self._members(f"{path}/ports", f"the ports of blade {uid}"))
        regions = tuple(self._regions(path, uid))
        if {first, self._read(path, f"blade {uid}", view.status)} != {view.ONLINE}:
            return Blade(path, uid, False)
        return Blade(path, uid, True, ports, regions)

    def _regions(self, path: str, uid: str) -> Iterable[Region]:
        for ident in self._members(f"{path}/memory", f"the memory of blade {uid}"):
            try:
                yield self._read(at(f"{path}/memory", ident), f"memory region {uid}/{ident}", view.region)
            except Missing:
                continue  # freed since the list was read

    def _free_on(self, seen: View, fabric: int | None, size: int) -> int:
        return sum(view.regions(self._blocks_of(blade), size, self._qos) for blade in seen.blades
                   if blade.online and seen.fabrics[blade.path] == fabric)

    def _blocks_of(self, blade: Blade) -> list[Block]:
        """Return the blocks of a blade. Their places and sizes do not change, so each is read once."""
        with steadily():
            states = self._read(f"{blade.path}/statusresources", f"the free memory of blade {blade.uid}", view.states)
            idents = self._members(f"{blade.path}/resources", f"the memory blocks of blade {blade.uid}")
            return [self._block(blade, ident, states.get(ident)) for ident in idents]

    def _block(self, blade: Blade, ident: str, unused: bool | None) -> Block:
        path = at(f"{blade.path}/resources", ident)
        block = self._blocks.get(path)
        if block is None or unused is None:
            block = self._read(path, f"memory block {blade.uid}/{ident}", view.block)
            self._blocks[path] = block
        return replace(block, unused=block.unused if unused is None else unused)

    def _attach_one(
        self, seen: View, host: str, ports: list[tuple[Blade, Port]], size: int, proof: Proof | None,
    ) -> Device:
        """Compose a region on the first of ``ports`` whose blade has the memory. Remove the port from the list."""
        what = f"cannot attach a {view.model_of(size)} to host {host}"
        if not ports:
            raise Refused(f"{what}: it has no free port on a blade")
        steps = {}
        for blade in {blade.path: blade for blade, _port in ports}.values():
            blocks = self._blocks_of(blade)
            steps[blade.uid] = view.step(blocks, self._qos)
            if view.regions(blocks, size, self._qos):
                taken = next(each for each in ports if each[0].path == blade.path)
                ports.remove(taken)
                return self._compose(seen, *taken, size, proof)
        if all(not least or size % least for least in steps.values()):
            shown = ", ".join(f"{least} MiB on blade {uid}" for uid, least in steps.items())
            raise Refused(f"{what}: with qos {self._qos}, sizes are multiples of {shown}")
        raise Refused(f"{what}: no blade on which the host has a free port has so much free memory", exhausted=True)

    def _compose(self, seen: View, blade: Blade, port: Port, size: int, proof: Proof | None) -> Device:
        model = view.model_of(size)
        request = Request(
            "POST", f"{blade.path}/memory", f"attach a {model} to host {port.host}",
            body={"Port": port.ident, "memorySizeMiB": size, "QoS": self._qos},
            timeout=self._config.attach_timeout, effect=True, proof=proof,
        )
        try:
            with steadily():
                response = self._session.call(request)
            region = view.region(response.body)
        except Busy as error:
            if error.code == NO_BLOCKS:
                raise Refused(error.message, exhausted=True, code=error.code, detail=error.detail) from None
            raise
        except Unreadable as error:
            raise malformed(request, self._session.redact(str(error))) from None
        if response.status == PARTIAL:
            raise self._taken_back(blade, region, port, proof)
        if region.port != port.ident:
            raise malformed(request, f"the region is on port {region.port!r}, not {port.ident!r}")
        device = seen.device(self._with_health(blade, port), region)
        if region.size != size:
            refusal = Refused(f"{device.uid} was attached to host {port.host} with {region.size} MiB instead of "
                              f"{size} MiB. Return it")
            refusal.device = device
            raise refusal
        return healthy(device, f"health of its port {port.ident}")

    def _with_health(self, blade: Blade, port: Port) -> Blade:
        """Return the blade with the port as it is since it has the region. Unreadable: as it was before."""
        path = at(f"{blade.path}/ports", port.ident)
        try:
            now = self._read(path, f"port {port.ident} of blade {blade.uid}", view.port)
        except FabricError:
            return blade
        ports = tuple(replace(each, health=now.health) if each == port else each for each in blade.ports)
        return replace(blade, ports=ports)

    def _taken_back(self, blade: Blade, region: Region, port: Port, proof: Proof | None) -> FabricError:
        """Free a region that was composed but not assigned, because another client took the port meanwhile."""
        uid = f"{blade.uid}/{region.ident}"
        try:
            self._free(blade, Region(region.ident, region.size, ""), proof)
        except Withdrawn:
            raise
        except FabricError as error:
            return Uncertain(f"memory region {uid} was composed for port {port.ident}, but not assigned to it. Free "
                             f"the region by hand if cfm-service still shows it: {error}")
        return Busy(f"cannot attach a {view.model_of(region.size)} to host {port.host}: another client took port "
                    f"{port.ident} of blade {blade.uid}")

    def _find(self, host: str, device_uid: str) -> tuple[Blade, Region, Device] | None:
        """Return the region if it is the host's, or nobody's because a detach of it was cut off."""
        seen = self._view(host)
        known(seen, host)
        for blade in seen.blades:
            for region in blade.regions:
                device = seen.device(blade, region)
                if device.uid == device_uid and (device.machine == host or not region.port):
                    return blade, region, device
        return None

    def _free(self, blade: Blade, region: Region, proof: Proof | None) -> None:
        others = blade.mistaken_for(region) if region.port else []
        path, purpose = at(f"{blade.path}/memory", region.ident), f"detach memory region {blade.uid}/{region.ident}"
        if any(region.port in other.port for other in others):
            named = ", ".join(each.ident for each in others)
            raise Refused(f"cannot {purpose}: cfm-service could detach {named} instead. Detach {named} first")
        if others:
            # With the port named, cfm-service refuses to take another region from its host.
            body = {"Port": region.port, "Operation": "unassign"}
            self._change("PATCH", path, purpose, proof, body)
        self._change("DELETE", path, purpose, proof)

    def _change(self, method: str, path: str, purpose: str, proof: Proof | None, body: t.Any = None) -> None:
        self._session.call(Request(method, path, purpose, body=body, timeout=self._config.attach_timeout, effect=True,
                                   reads=False, proof=proof))

    def _members(self, path: str, what: str) -> list[str]:
        return self._read(path, what, view.members)

    def _read(self, path: str, what: str, read: Callable[[t.Any], T]) -> T:
        return read_reply(self._session, Request("GET", path, f"read {what}"), read)


@contextlib.contextmanager
def steadily() -> Iterator[None]:
    """Raise Unavailable in place of Missing, which is kept for hosts, if a part of an appliance is gone."""
    try:
        yield
    except Missing as error:
        raise Unavailable(f"a memory appliance changed while it was read: {error}") from None


def known(seen: View, host: str) -> Machine:
    """Return a host with its memory. Raises Unavailable if not all of it is shown, Missing for an unknown host."""
    if host in seen.hidden:
        raise Unavailable(f"cannot read host {host}: {seen.hidden[host]}")
    found = seen.machines().get(host)
    if found is None:
        raise Missing(f"cannot read host {host}: cfm-service no longer knows it")
    return found


def limits(seen: View, machine: Machine, models: Iterable[str]) -> dict[str, Size]:
    """Return how many regions of each model a host can have: those that it has, and its free ports."""
    free = len(seen.free_ports(machine.uid))
    return {model: Size(None, free + sum(each.model == model for each in machine.devices)) for model in models}


def at(collection: str, ident: str) -> str:
    """Return the address of a member of a collection."""
    return f"{collection}/{quote(ident, safe='')}"


def read_error(body: t.Any) -> ErrorBody | None:
    """Return the words of an error: a status message, or the text with which a request is refused unread."""
    if isinstance(body, str):
        return ErrorBody(None, body)
    status = body.get("status") if isinstance(body, dict) else None
    return ErrorBody(str(status.get("message")), str(body.get("details"))) if isinstance(status, dict) else None


register(NAME, ManagerEntry(
    auth=("none", "basic"), options={"qos": DriverOption(type="int", default=4, choices=(1, 2, 4, 8))},
), CfmDriver, interface=1)
