# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulator of cfm-service before one memory appliance, with a blade for each fabric of the document.

It does at its edges what the source of https://github.com/Seagate/cfm does at 8264116. Comments name the place. Of the
interface it has what the driver uses, all else is an unknown page.

A device of the document is a memory region that can be composed, and its model must have the size. The blocks of a
blade are shared by all sizes, so the document should have as many devices of a size as fit. Settings:

- ``ports``: how many ports of its blade lead to each machine, 4 if absent. One more port of each blade has no cable.
- ``blocks``, ``block_mib``: blocks of each of the four channels, and their size. If absent, 1024 MiB, and as many as
  all devices need.
- ``statuses``: false for a blade whose firmware does not tell the states of all blocks at once.
- ``offline``: names of machines, and ids of blades (``blade-1``), that are not online.
"""

from __future__ import annotations

import asyncio
import json
import re
import typing as t
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass

from aiohttp import web

from ansible_collections.composable.infra.emulator.admin.request_log import ENTRY
from ansible_collections.composable.infra.emulator.context import EmulatorContext
from ansible_collections.composable.infra.emulator.dialects.managers import Row, register
from ansible_collections.composable.infra.emulator.pool.journal import Journal
from ansible_collections.composable.infra.emulator.pool.pool import ATTACHED, FREE, VANISHED, PoolError

NAME: t.Final = "composable.cfm.cfm"
SETTINGS: t.Final = ("ports", "blocks", "block_mib", "statuses", "offline")
APPLIANCE: t.Final = "cma-1"
BLADES: t.Final = f"/cfm/v1/appliances/{APPLIANCE}/blades"
CHANNELS: t.Final = 4
NOT_IMPLEMENTED: t.Final = "not implemented"
# HTTP status and message of the status codes (pkg/common/status.go).
CODES: t.Final[Mapping[int, tuple[int, str]]] = {
    8: (409, "Assign Memory Failed"), 9: (409, "Unassign Memory Failed"),
    12: (409, "Blade Get Memory By Id Failure"), 14: (409, "Blade Free Memory Failure"),
    16: (409, "Blade Get Memory Resource Blocks Failure"), 41: (404, "Appliance Id Does Not Exist"),
    42: (404, "Blade Id Does Not Exist"), 43: (404, "Host Id Does Not Exist"), 44: (404, "Memory Id Does Not Exist"),
    45: (404, "Port Id Does Not Exist"), 46: (404, "Resource Id Does Not Exist"),
}
ASSIGN, UNASSIGN, NO_REGION, FREEING, NO_BLOCKS = 8, 9, 12, 14, 16
APPLIANCE_ID, BLADE_ID, HOST_ID, MEMORY_ID, PORT_ID, RESOURCE_ID = 41, 42, 43, 44, 45, 46
Json = dict[str, t.Any]
Answer = Callable[[web.Request], Awaitable[web.Response]]


class Failure(Exception):
    """An error of cfm-service. ``code``: its status code."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code, self.words = code, words


@dataclass(slots=True)
class Region:
    """A memory region. ``device``: uid of the device of the pool that it is. ``blocks``: channel and place of each."""

    ident: str
    blade: int
    device: str
    blocks: list[list[int]]
    port: str = ""


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a blade. ``machine``: uid of the host at the other end, None without a cable."""

    ident: str
    blade: int
    machine: str | None
    host_port: str = ""


def routes(context: EmulatorContext) -> list[web.RouteDef]:
    """Return everything that is answered below /cfm."""
    cfm = Cfm(context)
    blade = BLADES.replace(APPLIANCE, "{appliance}") + "/{blade}"
    found: list[tuple[str, str, Answer]] = [
        ("GET", "/cfm/v1/hosts", cfm.hosts), ("GET", "/cfm/v1/hosts/{host}", cfm.host),
        ("GET", "/cfm/v1/hosts/{host}/ports", cfm.host_ports),
        ("GET", "/cfm/v1/appliances", cfm.appliances), ("GET", blade.rpartition("/")[0], cfm.all_blades),
        ("GET", blade, cfm.one_blade),
        ("GET", f"{blade}/ports", cfm.ports_of), ("GET", f"{blade}/ports/{{port}}", cfm.port),
        ("GET", f"{blade}/resources", cfm.resources), ("GET", f"{blade}/resources/{{resource}}", cfm.resource),
        ("GET", f"{blade}/statusresources", cfm.statuses),
        ("GET", f"{blade}/memory", cfm.memory), ("POST", f"{blade}/memory", cfm.compose),
        ("GET", f"{blade}/memory/{{memory}}", cfm.region), ("PATCH", f"{blade}/memory/{{memory}}", cfm.assign),
        ("DELETE", f"{blade}/memory/{{memory}}", cfm.free),
    ]
    paths = re.compile("|".join(re.sub(r"{\w+}", "[^/]+", path) for _method, path, _answer in found))

    async def unknown(request: web.Request) -> web.Response:
        """Answer as gorilla/mux with StrictSlash (pkg/api/routers.go): redirect, no such method, or no such page."""
        if paths.fullmatch(request.path.removesuffix("/")) and request.path.endswith("/"):
            raise web.HTTPMovedPermanently(request.path.removesuffix("/"))
        if paths.fullmatch(request.path):
            return web.Response(status=405)
        return web.Response(status=404, text="404 page not found\n")

    return [*(web.route(method, path, cfm.guarded(answer)) for method, path, answer in found),
            web.route("*", "/cfm{rest:.*}", unknown)]


class Cfm:
    """cfm-service, its appliance and its hosts."""

    def __init__(self, context: EmulatorContext) -> None:
        spec, self.pool = context.spec, context.pool
        options = spec.settings[NAME]
        self.models = tuple(spec.models)
        self.block_mib: int = options.get("block_mib", 1024)
        self.tells_statuses: bool = options.get("statuses", True)
        self.offline = set(options.get("offline", ()))
        numbers = sorted({each.fabric for each in spec.devices})
        self.blades = {f"blade-{number}": number for number in numbers}
        need = {number: sum(-(-(each.size or 0) // (CHANNELS * self.block_mib)) for each in spec.devices
                            if each.fabric == number) for number in numbers}
        self.blocks = {number: options.get("blocks", need[number]) for number in numbers}
        self.ports = [port for number in numbers for port in cabled(context, number, options.get("ports", 4))]
        # cfm-service carries out one request at a time: the mutex of pkg/api/api_default_service.go.
        self.mutex = asyncio.Lock()
        self.journal = Journal(context.folder / "cfm.jsonl") if context.folder else None
        self.regions: dict[tuple[int, str], Region] = {}
        self.resets = self.pool.resets
        for record in self.journal.read() if self.journal else ():
            region = Region(**record["region"])
            self.regions.pop((region.blade, region.ident), None)
            if not record["gone"]:
                self.regions[region.blade, region.ident] = region

    def guarded(self, answer: Answer) -> Answer:
        """Return the answer to one request at a time, with errors in cfm-service's form."""

        async def carry_out(request: web.Request, body: bytes) -> web.Response:
            async with self.mutex:
                self.settle()
                try:
                    return await answer(request)
                except Failure as failure:
                    return refusal(request.path, failure)

        async def guard(request: web.Request) -> web.Response:
            # The work goes on if the client goes away.
            response: web.Response = await self.pool.run(carry_out(request, await request.read()))
            return response

        return guard

    # Reads. A collection is sorted by id, and its list is null when it is empty: a nil slice of Go.

    async def hosts(self, request: web.Request) -> web.Response:
        """Answer GET of all hosts."""
        return collection(request, self.pool.machines)

    async def host(self, request: web.Request) -> web.Response:
        """Answer GET of a host."""
        uid = self.host_of(request)
        return web.json_response({
            "id": uid, "ipAddress": "127.0.0.1", "port": 8082, "status": self.online(self.pool.machines[uid].name),
            "ports": {"uri": f"/cfm/v1/hosts/{uid}/ports"}, "memory": {"uri": f"/cfm/v1/hosts/{uid}/memory"},
            "memory-devices": {"uri": f"/cfm/v1/hosts/{uid}/memory-devices"}, "localMemoryMiB": 65536})

    async def host_ports(self, request: web.Request) -> web.Response:
        """Answer GET of a host's ports: none while it is not online (pkg/manager/host.go, GetPorts)."""
        uid = self.host_of(request)
        shown = self.online(self.pool.machines[uid].name) == "online"
        return collection(request, [port.host_port for port in self.ports if port.machine == uid and shown])

    async def appliances(self, request: web.Request) -> web.Response:
        """Answer GET of all appliances."""
        return collection(request, [APPLIANCE])

    async def all_blades(self, request: web.Request) -> web.Response:
        """Answer GET of an appliance's blades."""
        self.appliance_of(request)
        return collection(request, self.blades)

    async def one_blade(self, request: web.Request) -> web.Response:
        """Answer GET of a blade. Of one that is not online, all sums are 0, which Go leaves out."""
        name, number = self.blade_of(request)
        shown = self.online(name) == "online"
        free = sum(self.unused(number, *each) for each in self.places(number)) * self.block_mib if shown else 0
        all_of_it = CHANNELS * self.blocks[number] * self.block_mib if shown else 0
        return web.json_response(without_zero({
            "id": name, "ipAddress": "127.0.0.1", "port": 443, "status": self.online(name),
            **{part: {"uri": f"{request.path}/{part}"} for part in ("ports", "resources", "memory")},
            "totalMemoryAvailableMiB": free, "totalMemoryAllocatedMiB": all_of_it - free}))

    async def ports_of(self, request: web.Request) -> web.Response:
        """Answer GET of a blade's ports: none while it is not online (pkg/manager/blade.go, GetPorts)."""
        name, number = self.blade_of(request)
        shown = self.online(name) == "online"
        return collection(request, [port.ident for port in self.ports if port.blade == number and shown])

    async def port(self, request: web.Request) -> web.Response:
        """Answer GET of a port. The link is found only while the host is online (pkg/manager/port.go, GetDetails)."""
        name, number = self.blade_of(request)
        if self.online(name) != "online":
            return web.json_response({"id": "", "statusHealth": "", "statusState": ""})
        port = self.port_of(number, request.match_info["port"], PORT_ID)
        linked = port.machine is not None and self.online(self.pool.machines[port.machine].name) == "online"
        on = [self.pool.devices[each.device].health for each in self.regions.values()
              if each.blade == number and each.port == port.ident]
        return web.json_response(without_zero({
            "id": port.ident, "gCxlId": f"00-00-00-00-00-00-00-0{port.ident[-1]}:0000",
            "linkedPortUri": f"/cfm/v1/hosts/{port.machine}/ports/{port.host_port}" if linked else "",
            "portProtocol": "CXL", "statusHealth": on[0] if on else "OK", "statusState": "Enabled",
            "linkStatus": "LinkUp" if port.machine else "LinkDown"}))

    async def resources(self, request: web.Request) -> web.Response:
        """Answer GET of a blade's memory blocks."""
        name, number = self.blade_of(request)
        shown = self.online(name) == "online"
        return collection(request, [block_id(self.blocks[number], *each) for each in self.places(number) if shown])

    async def resource(self, request: web.Request) -> web.Response:
        """Answer GET of a memory block."""
        _name, number = self.blade_of(request)
        for place in self.places(number):
            if block_id(self.blocks[number], *place) == request.match_info["resource"]:
                return web.json_response({**self.state(number, place), "capacityMiB": self.block_mib,
                                          "channelId": place[0], "channelResourceIndex": place[1]})
        raise Failure(RESOURCE_ID, f"resource [{request.match_info['resource']}] not found")

    async def statuses(self, request: web.Request) -> web.Response:
        """Answer GET of the states of all blocks: none with old firmware (GetMemoryResourceBlockStatuses)."""
        name, number = self.blade_of(request)
        shown = [self.state(number, each) for each in self.places(number)] if self.tells_statuses else []
        if self.online(name) != "online":
            shown = []
        return web.json_response({"statusCount": len(shown), "resourceStatuses": shown})

    async def memory(self, request: web.Request) -> web.Response:
        """Answer GET of a blade's regions, those without a port too; none while it is not online."""
        name, number = self.blade_of(request)
        shown = self.online(name) == "online"
        return collection(request, [ident for blade, ident in self.regions if blade == number and shown])

    async def region(self, request: web.Request) -> web.Response:
        """Answer GET of a region."""
        name, number = self.blade_of(request)
        if self.online(name) != "online":
            return web.json_response({"id": "", "type": "", "sizeMiB": 0})
        region = self.regions.get((number, request.match_info["memory"]))
        if region is None:
            raise Failure(MEMORY_ID, f"memory [{request.match_info['memory']}] not found")
        return web.json_response(self.shown(region))

    # Changes.

    async def compose(self, request: web.Request) -> web.Response:
        """Answer POST: allocate blocks, then assign the region to the port. 206: allocated only (ComposeMemory)."""
        _name, number = self.blade_of(request)
        asked = await read(request, ("memorySizeMiB", "QoS"), ("Port",))
        if isinstance(asked, web.Response):
            return asked
        blocks = self.find(number, asked["memorySizeMiB"], asked["QoS"])
        size = len(blocks) * self.block_mib
        used = {each.device for each in self.regions.values()}
        device = next((each for name in self.models for each in self.pool.free_devices(number, name, "memory")
                       if each.spec.size == size and each.spec.uid not in used), None)
        # The second case is the emulator's own: its document has no more devices of this size.
        if not blocks or device is None:
            raise Failure(NO_BLOCKS, f"unable to find resources by qos during compose: blade [{number}]")
        request[ENTRY].model = device.spec.model
        region = Region(self.fresh(number), number, device.spec.uid, blocks)
        self.keep(region)
        if not asked.get("Port"):
            return web.json_response(self.shown(region), status=201)
        try:
            await self.connect(region, asked["Port"])
        except Failure:
            return web.json_response(self.shown(region), status=206)
        return web.json_response(self.shown(region), status=201)

    async def assign(self, request: web.Request) -> web.Response:
        """Answer PATCH. What is not assign unassigns (pkg/manager/blade.go, AssignMemory)."""
        _name, number = self.blade_of(request)
        asked = await read(request, ("Port", "Operation"), ())
        if isinstance(asked, web.Response):
            return asked
        ident = request.match_info["memory"]
        if asked["Operation"] != "assign":
            await self.disconnect(number, ident, asked["Port"])
        elif (number, ident) not in self.regions:
            raise Failure(ASSIGN, f"backend session post failure: memory [{ident}]")
        else:
            await self.connect(self.regions[number, ident], asked["Port"])
        return web.json_response({
            "id": ident, "type": "MemoryTypeRegion", "sizeMiB": -1, "bandwidth": -1, "latency": -1,
            "memoryApplianceId": APPLIANCE, "memoryBladeId": request.match_info["blade"],
            "memoryAppliancePort": asked["Port"]})

    async def free(self, request: web.Request) -> web.Response:
        """Answer DELETE. An unknown region is a conflict, not 404 (pkg/manager/blade.go, FreeMemoryById)."""
        _name, number = self.blade_of(request)
        region = self.regions.get((number, request.match_info["memory"]))
        if region is None:
            raise Failure(NO_REGION, f"get memory by id (backend) failure: memory [{request.match_info['memory']}]")
        shown = self.shown(region)
        if region.port:
            await self.disconnect(number, region.ident, "")
        if region.port:
            raise Failure(FREEING, f"free memory by id (backend) failure: memory [{region.ident}]")
        self.keep(region, gone=True)
        return web.json_response(shown)

    async def connect(self, region: Region, port_id: str) -> None:
        """Assign. A port with a region is not available (pkg/backend/httpfish.go, AssignMemory)."""
        port = self.port_of(region.blade, port_id, ASSIGN)
        if any(each.blade == region.blade and each.port == port_id for each in self.regions.values()):
            raise Failure(ASSIGN, f"existing connection found for port [{port_id}]")
        self.keep(region, port_id)
        if port.machine is not None:
            try:
                await self.pool.begin_attach(port.machine, region.device)
            except PoolError as error:
                self.keep(region, "")
                raise Failure(ASSIGN, str(error)) from None

    async def disconnect(self, number: int, ident: str, port_id: str) -> None:
        """Unassign the first region whose address contains the id, if that of its port contains the port's.

        So does pkg/backend/httpfish.go, UnassignMemory. DELETE names no port, and every text contains the empty one.
        """
        found = next((each for each in self.regions.values()
                      if each.blade == number and each.port and ident in each.ident), None)
        if found is None or port_id not in found.port:
            raise Failure(UNASSIGN, f"connection mismatch: portId({port_id}) not connected to memoryId({ident})")
        port = self.port_of(number, found.port, UNASSIGN)
        if port.machine is not None:
            try:
                await self.pool.begin_detach(port.machine, found.device)
            except PoolError as error:
                raise Failure(UNASSIGN, str(error)) from None
        self.keep(found, "")

    # What it is made of.

    def settle(self) -> None:
        """Let the regions be as the pool has the devices: after a reset, a restart, or a device that vanished."""
        if self.resets != self.pool.resets:
            self.resets = self.pool.resets
            for region in list(self.regions.values()):
                self.keep(region, gone=True)
        for region in list(self.regions.values()):
            device = self.pool.devices[region.device]
            if device.state == VANISHED:
                self.keep(region, gone=True)
            elif device.state == FREE and region.port and self.port_of(region.blade, region.port, ASSIGN).machine:
                self.keep(region, "")
        known = {each.device for each in self.regions.values()}
        for device in self.pool.devices.values():
            if device.state == ATTACHED and device.spec.uid not in known:
                number = device.spec.fabric
                taken = {each.port for each in self.regions.values() if each.blade == number}
                port = next(each.ident for each in self.ports if each.blade == number
                            and each.machine == device.machine and each.ident not in taken)
                blocks = self.find(number, device.spec.size or 0, CHANNELS)
                self.keep(Region(self.fresh(number), number, device.spec.uid, blocks), port)

    def fresh(self, number: int) -> str:
        """Return the id of the next region of a blade. Ids are used again."""
        taken = {ident for blade, ident in self.regions if blade == number}
        return next(f"memorychunk{n}" for n in range(len(taken) + 1) if f"memorychunk{n}" not in taken)

    def keep(self, region: Region, port: str = "", gone: bool = False) -> None:
        """Keep a region over a restart, on a port or on none, or forget it."""
        region.port = port
        self.regions.pop((region.blade, region.ident), None)
        if not gone:
            self.regions[region.blade, region.ident] = region
        if self.journal:
            self.journal.write({"region": asdict(region), "gone": gone})

    def find(self, number: int, size: int, qos: int) -> list[list[int]]:
        """Return the blocks for a region: equally many in a row of each of ``qos`` channels, none if there are not.

        So does pkg/manager/blade.go, findResourcesByQoS: it takes the channels with the longest rest first, in groups
        of ``qos``, and in a channel the place that leaves the longest rest.
        """
        width = qos if 0 < qos <= CHANNELS else CHANNELS
        length = -(-size // (self.block_mib * width))
        chosen = [self.place(number, channel, length) for channel in range(CHANNELS)]
        chosen.sort(key=lambda each: -each[0])
        for start in range(0, CHANNELS, width):
            group = chosen[start:start + width]
            if length and all(blocks for _rest, blocks in group):
                return [block for _rest, blocks in group for block in blocks]
        return []

    def place(self, number: int, channel: int, length: int) -> tuple[int, list[list[int]]]:
        """Return the longest row of blocks that would be left in a channel, and the blocks to take."""
        free = [self.unused(number, channel, index) for index in range(self.blocks[number])]
        best: tuple[int, list[list[int]]] = (0, [])
        for start in range(len(free) - length + 1):
            if all(free[start:start + length]):
                left = [*free[:start], *[False] * length, *free[start + length:]]
                rest = max(len(run) for run in "".join(" x"[each] for each in left).split(" "))
                if rest >= best[0]:
                    best = rest, [[channel, start + more] for more in range(length)]
        return best

    def unused(self, number: int, channel: int, index: int) -> bool:
        """Return whether no region has a block."""
        return not any(each.blade == number and [channel, index] in each.blocks for each in self.regions.values())

    def places(self, number: int) -> list[tuple[int, int]]:
        """Return channel and place of all blocks of a blade."""
        return [(channel, index) for channel in range(CHANNELS) for index in range(self.blocks[number])]

    def state(self, number: int, place: tuple[int, int]) -> Json:
        """Return the state of a block."""
        ident = block_id(self.blocks[number], *place)
        state = "Unused" if self.unused(number, *place) else "Composed"
        return {"uri": f"{BLADES}/blade-{number}/resources/{ident}", "id": ident,
                "compositionStatus": {"compositionState": state}}

    def shown(self, region: Region) -> Json:
        """Return a region as it is shown."""
        return without_zero({
            "id": region.ident, "type": "MemoryTypeRegion", "sizeMiB": len(region.blocks) * self.block_mib,
            "bandwidth": -1, "latency": -1, "memoryApplianceId": APPLIANCE, "memoryBladeId": f"blade-{region.blade}",
            "memoryAppliancePort": region.port, "mappedHostId": NOT_IMPLEMENTED, "mappedHostPort": NOT_IMPLEMENTED})

    def online(self, name: str) -> str:
        """Return the status of a host or a blade (pkg/common/common.go)."""
        return "offline" if name in self.offline else "online"

    def host_of(self, request: web.Request) -> str:
        """Return the host of the address. Raises Failure."""
        uid = request.match_info["host"]
        request[ENTRY].machine = uid
        if uid not in self.pool.machines:
            raise Failure(HOST_ID, f"failure: get host by id [{uid}]: host [{uid}] doesn't exist")
        return uid

    def appliance_of(self, request: web.Request) -> None:
        """Check the appliance of the address. Raises Failure."""
        if request.match_info["appliance"] != APPLIANCE:
            raise Failure(APPLIANCE_ID, f"appliance [{request.match_info['appliance']}] doesn't exist")

    def blade_of(self, request: web.Request) -> tuple[str, int]:
        """Return the blade of the address and its fabric. Raises Failure."""
        self.appliance_of(request)
        name = request.match_info["blade"]
        if name not in self.blades:
            raise Failure(BLADE_ID, f"appliance [{APPLIANCE}] blade [{name}] doesn't exist")
        return name, self.blades[name]

    def port_of(self, number: int, ident: str, code: int) -> Port:
        """Return a port of a blade. Raises Failure with the code."""
        for port in self.ports:
            if (port.blade, port.ident) == (number, ident):
                return port
        raise Failure(code, f"port [{ident}] not found on appliance [{APPLIANCE}] blade [blade-{number}]")


def cabled(context: EmulatorContext, number: int, each: int) -> list[Port]:
    """Return the ports of a blade: some to each machine of its fabric, and one without a cable."""
    machines = [found.uid for found in context.spec.machines if found.fabric == number for _port in range(each)]
    return [Port(f"port{n}", number, uid, f"port{n:02d}-00") for n, uid in enumerate(machines)] + [
        Port(f"port{len(machines)}", number, None)]


def block_id(blocks: int, channel: int, index: int) -> str:
    """Return the id of a block, which counts over all channels."""
    return f"resourceblock{channel * blocks + index}"


async def read(request: web.Request, required: tuple[str, ...], optional: tuple[str, ...]) -> Json | web.Response:
    """Return the body, or the refusal of one that the generated server does not hand on (error.mustache, v7.0.0)."""
    try:
        body = json.loads(await request.read())
        unknown = set(body) - {*required, *optional}
    except (ValueError, TypeError) as error:
        return web.json_response(str(error), status=400)
    if unknown:
        return web.json_response(f'json: unknown field "{min(unknown)}"', status=400)
    for name in required:
        if not body.get(name):
            return web.json_response(f"required field '{name}' is zero value.", status=422)
    return t.cast(Json, body)


def collection(request: web.Request, idents: t.Iterable[str]) -> web.Response:
    """Return a collection of the members with these ids."""
    found = [{"uri": f"{request.path}/{ident}"} for ident in sorted(idents)]
    return web.json_response({"memberCount": len(found), "members": found or None})


def without_zero(body: Json) -> Json:
    """Leave out what Go leaves out of an optional field: an empty text and 0."""
    return {name: value for name, value in body.items() if value not in ("", 0)}


def refusal(path: str, failure: Failure) -> web.Response:
    """Return an error as formatErrorResp of pkg/api/api_default_service.go does."""
    status, message = CODES[failure.code]
    details = f"status [{failure.code}][{message}] {failure.words}"
    return web.json_response({"uri": path, "details": details, "status": {"code": failure.code, "message": message}},
                             status=status)


def injected(status: int, text: str) -> Json:
    """Return the body of an injected error."""
    return {"uri": "/cfm/v1", "details": text, "status": {"code": 6, "message": "Backend Interface does not exist"}}


def purpose(method: str, path: str, body: t.Any) -> str:
    """Return what a request is for, so that faults strike the right ones."""
    if method == "PATCH":
        return "attach" if isinstance(body, dict) and body.get("Operation") == "assign" else "detach"
    return {"POST": "attach", "DELETE": "detach"}.get(method, "read")


register(NAME, Row(tells=(), error=injected, purpose=purpose, settings=SETTINGS, routes=routes))
