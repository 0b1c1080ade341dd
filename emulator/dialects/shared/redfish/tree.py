# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths of a Redfish service, with resources, collections in pages, $expand, ETags and
metadata.
"""

from __future__ import annotations

import hashlib
import json
import re
import typing as t
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ....pool.parts import MEMORY
from ....pool.pool import PooledDevice
from . import fabrics
from .documents import BLOCKS, ROOT, Documents, Json, fabric_path, part_path, ref, refs, status
from .sessions import Sessions
from .tasks import TASKS, Tasks

DEEPEST: t.Final = 2
_ACTION: t.Final = re.compile(r"/Actions(/|$)")


@dataclass(frozen=True, slots=True)
class Listing:
    """A collection, with the type of its members and their paths."""

    kind: str
    paths: list[str]


Found = Json | Listing | None
Maker = Callable[..., Found]


class Tree:
    """Find the resource of a path."""

    def __init__(self, docs: Documents, sessions: Sessions, tasks: Tasks) -> None:
        self.docs = docs
        self.sessions = sessions
        self.tasks = tasks
        self._patterns = {tuple(path.split("/")): make for path, make in self._table().items()}

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Json | None:
        """Return a resource, or a page of a collection by the query, with its ETag.

        None for none.
        """
        found = self._find(path)
        if found is None:
            return None
        levels = self._levels(query or {})
        body = self._page(path, found, query or {}) if isinstance(found, Listing) else self._whole(path, found)
        return self._expanded(body, levels) if levels else body

    def _find(self, path: str) -> Found:
        words = path.removeprefix(ROOT).strip("/").split("/")
        for pattern, make in self._patterns.items():
            if len(pattern) == len(words) and all(p in ("*", w) for p, w in zip(pattern, words, strict=True)):
                return make(*(word for p, word in zip(pattern, words, strict=True) if p == "*"))
        return None

    def _table(self) -> dict[str, Maker]:
        return {**self._services(), **self._machines(), **self._blocks(), **self._fabrics()}

    def _services(self) -> dict[str, Maker]:
        tasks, sessions = self.tasks, self.sessions
        return {
            "": self.docs.root,
            "SessionService": self._session_service,
            "SessionService/Sessions": lambda: _list(
                "Session", f"{ROOT}/SessionService/Sessions", (s.ident for s in sessions.alive())),
            "SessionService/Sessions/*": self._session,
            "TaskService": self._task_service,
            "TaskService/Tasks": lambda: _list("Task", TASKS, tasks.known),
            "TaskService/Tasks/*": self._task,
        }

    def _machines(self) -> dict[str, Maker]:
        docs = self.docs
        return {
            "Systems": lambda: _list("ComputerSystem", f"{ROOT}/Systems", docs.pool.machines),
            "Systems/*": docs.system,
            "Systems/*/Processors": self._system_processors,
            "Chassis": lambda: _list("Chassis", f"{ROOT}/Chassis", (b.id for b in docs.context.spec.topology.boxes)),
            "Chassis/*": lambda box: fabrics.box(docs, box),
            "Chassis/*/Processors": lambda box: self._in_box("Processor", box, memory=False),
            "Chassis/*/Memory": lambda box: self._in_box("Memory", box, memory=True),
            "Chassis/*/MemoryDomains": lambda box: self._in_box("MemoryDomain", box, memory=True),
            "Chassis/*/Processors/*": lambda box, uid: self._of_device(box, uid, docs.part, memory=False),
            "Chassis/*/Memory/*": lambda box, uid: self._of_device(box, uid, docs.part, memory=True),
            "Chassis/*/MemoryDomains/*": lambda box, uid: self._of_device(
                box, uid, lambda device: fabrics.domain(docs, device), memory=True),
            "Chassis/*/MemoryDomains/*/MemoryChunks": lambda box, uid: self._of_device(
                box, uid, lambda device: Listing("MemoryChunks", [fabrics.chunk_path(device)]), memory=True),
            "Chassis/*/MemoryDomains/*/MemoryChunks/1": lambda box, uid: self._of_device(
                box, uid, lambda device: fabrics.chunk(docs, device), memory=True),
        }

    def _blocks(self) -> dict[str, Maker]:
        docs = self.docs
        if not docs.options.blocks:
            return {}
        where = "CompositionService"
        return {
            where: docs.composition,
            f"{where}/ResourceBlocks": lambda: _list("ResourceBlock", BLOCKS, self._all_blocks()),
            f"{where}/ResourceBlocks/*": docs.block,
            f"{where}/ResourceZones": lambda: _list("Zone", f"{ROOT}/{where}/ResourceZones", docs.numbers()),
            f"{where}/ResourceZones/*": lambda ident: self._numbered(ident, docs.block_zone),
        }

    def _fabrics(self) -> dict[str, Maker]:
        docs = self.docs
        if not docs.options.fabrics:
            return {}
        made: dict[str, Maker] = {
            "Fabrics": lambda: _list("Fabric", f"{ROOT}/Fabrics", docs.numbers()),
            "Fabrics/*": lambda ident: self._numbered(ident, lambda n: fabrics.fabric(docs, n)),
        }
        for name, (kind, idents, make) in _OF_FABRIC.items():
            if name != "Connections" or docs.connects():
                made[f"Fabrics/*/{name}"] = self._fabric_list(name, kind, idents)
                made[f"Fabrics/*/{name}/*"] = self._fabric_part(make)
        made["Fabrics/*/Switches/*/Ports"] = lambda ident, switch: self._numbered(
            ident, lambda n: _ports(docs.ports.of_switch(n, switch)))
        made["Fabrics/*/Switches/*/Ports/*"] = lambda ident, switch, place: self._numbered(
            ident, lambda n: fabrics.port(docs, n, switch, place))
        return made

    def _fabric_list(self, name: str, kind: str, idents: _Idents) -> Maker:
        return lambda ident: self._numbered(
            ident, lambda n: _list(kind, fabric_path(n, f"/{name}"), idents(self.docs, n)))

    def _fabric_part(self, make: _Part) -> Maker:
        return lambda ident, uid: self._numbered(ident, lambda n: make(self.docs, n, uid))

    def _numbered(self, ident: str, make: Callable[[int], Found]) -> Found:
        known = {str(number): number for number in self.docs.numbers()}
        return make(known[ident]) if ident in known else None

    def _all_blocks(self) -> list[str]:
        return [*self.docs.pool.machines, *(device.spec.uid for device in self.docs.devices())]

    def _system_processors(self, uid: str) -> Found:
        if uid not in self.docs.pool.machines:
            return None
        return Listing("Processor", [part_path(d) for d in self.docs.pool.shown(uid) if d.kind != MEMORY])

    def _in_box(self, kind: str, box: str, *, memory: bool) -> Found:
        if fabrics.box(self.docs, box) is None:
            return None
        name = {"Processor": "Processors", "MemoryDomain": "MemoryDomains"}.get(kind, kind)
        inside = [d for d in self.docs.devices() if d.spec.box == box and (d.kind == MEMORY) is memory]
        return _list(kind, f"{ROOT}/Chassis/{box}/{name}", (d.spec.uid for d in inside))

    def _of_device(self, box: str, uid: str, make: Callable[[PooledDevice], Found], *, memory: bool) -> Found:
        device = self.docs.device(uid)
        fits = device is not None and device.spec.box == box and (device.kind == MEMORY) is memory
        return make(device) if device is not None and fits else None

    def _session_service(self) -> Json:
        return {
            "@odata.type": "#SessionService.v1_2_0.SessionService", "Id": "SessionService", "Name": "Session Service",
            "Status": status(), "ServiceEnabled": True, "SessionTimeout": self.sessions.timeout,
            "Sessions": ref(f"{ROOT}/SessionService/Sessions"),
        }

    def _session(self, ident: str) -> Json | None:
        session = self.sessions.find(ident)
        if session is None:
            return None
        return {"@odata.type": "#Session.v1_8_0.Session", "Id": ident, "Name": "Session", "UserName": session.user}

    def _task(self, ident: str) -> Json | None:
        task = self.tasks.find(ident)
        return None if task is None else self.tasks.document(task)

    def _task_service(self) -> Json:
        return {
            "@odata.type": "#TaskService.v1_3_0.TaskService", "Id": "TaskService", "Name": "Task Service",
            "Status": status(), "ServiceEnabled": True, "CompletedTaskOverWritePolicy": "Manual",
            "LifeCycleEventOnTaskStateChange": False, "Tasks": ref(TASKS),
        }

    def _whole(self, path: str, body: Json) -> Json:
        body = {"@odata.id": f"{ROOT}/" if path.rstrip("/") == ROOT else path.rstrip("/"), **body}
        return {**body, "@odata.etag": etag(body)} if self.docs.options.etags else body

    def _page(self, path: str, listing: Listing, query: Mapping[str, str]) -> Json:
        size, skip = self.docs.options.page, int(query.get("$skip", "0"))
        shown = listing.paths[skip:skip + size] if size else listing.paths[skip:]
        name = f"{listing.kind}Collection"
        body = {
            "@odata.type": f"#{name}.{name}", "@odata.id": path, "Name": f"{listing.kind} Collection",
            "Members@odata.count": len(listing.paths), "Members": refs(shown),
        }
        if skip + len(shown) < len(listing.paths):
            more = "".join(f"&{key}={value}" for key, value in query.items() if key == "$expand")
            body["Members@odata.nextLink"] = f"{path}?$skip={skip + len(shown)}{more}"
        return body

    def _levels(self, query: Mapping[str, str]) -> int:
        asked = query.get("$expand", "") if self.docs.options.expand else ""
        depth = re.fullmatch(r"\.(?:\(\$levels=(\d+)\))?", asked)
        return min(int(depth[1] or 1), DEEPEST) if depth else 0

    def _expanded(self, body: Json, levels: int) -> Json:
        """Replace references, except under Links, by their resources, ``levels`` deep."""
        return {key: value if key == "Links" or _ACTION.search(key) else self._inside(value, levels)
                for key, value in body.items()}

    def _inside(self, value: t.Any, levels: int) -> t.Any:
        if isinstance(value, list):
            return [self._inside(entry, levels) for entry in value]
        if not isinstance(value, dict):
            return value
        if set(value) != {"@odata.id"}:
            return self._expanded(value, levels)
        found = self.get(value["@odata.id"])
        if found is None:
            return value
        return self._expanded(found, levels - 1) if levels > 1 else found


_Idents = Callable[[Documents, int], Iterable[object]]
_Part = Callable[[Documents, int, str], Json | None]
_OF_FABRIC: t.Final[dict[str, tuple[str, _Idents, _Part]]] = {
    "Switches": (
        "Switch", lambda docs, n: (s.id for s in docs.context.spec.topology.switches if s.fabric == n), fabrics.switch),
    "Endpoints": (
        "Endpoint", lambda docs, n: (*(m.uid for m in docs.machines(n)), *(d.spec.uid for d in docs.devices(n))),
        fabrics.endpoint),
    "Zones": ("Zone", fabrics.zone_idents, fabrics.zone),
    "Connections": (
        "Connection", lambda docs, n: (d.spec.uid for d in docs.devices(n) if docs.is_composed(d)), fabrics.connection),
}


def etag(body: Json) -> str:
    """Return a tag of the whole content, always the same for the same content."""
    return f'"{hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]}"'


def _ports(found: list[str] | None) -> Listing | None:
    return None if found is None else Listing("Port", found)


def _list(kind: str, path: str, idents: Iterable[object]) -> Listing:
    return Listing(kind, [f"{path}/{ident}" for ident in idents])
