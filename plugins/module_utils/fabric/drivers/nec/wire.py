# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NEC CDIM's JSON without I/O: the layout of all devices and nodes, and its free devices.

Two generations are supported. The product connects devices to adapters. A node has a
``sourceFabricAdapter`` (status *eesv*) with a link to a ``destinationFabricAdapter`` (*eeio*), and
devices are connected to the latter. A procedure names ``sourceDeviceID`` and
``destinationDeviceID``. The open source CDIM connects devices to a CPU, with ``targetCPUID`` and
``targetDeviceID``. A connected device has a link of type ``eeio``, ``destinationFabricAdapter`` or
``CPU``, or the id of the node in ``nodeIDs``. A single resource is at the top level or below
``resource``.
"""

from __future__ import annotations

import typing as t
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...api import Device, Machine
from ...http.request import ErrorBody
from ..shared.replies import Unreadable

KINDS: t.Final[Mapping[str, str]] = {"gpu": "gpu"}
HOST_ADAPTER: t.Final = "sourcefabricadapter"
IO_ADAPTER: t.Final = "destinationfabricadapter"
CPU: t.Final = "cpu"
_CONNECTED: t.Final = ("eeio", IO_ADAPTER, CPU)
_HEALTH: t.Final = {"ok": "OK", "warning": "Warning", "critical": "Critical"}
# CDIM does not number fabrics. Without a switch, all devices are on one fabric.
ONLY_FABRIC: t.Final = 1


@dataclass(frozen=True, slots=True)
class Part:
    """A device of any type, also an adapter or a CPU. ``role`` is eesv or eeio for an adapter."""

    uid: str
    type: str
    model: str = ""
    state: str = ""
    health: str = ""
    role: str = ""
    switch: str = ""
    serial: str | None = None
    detected: bool = True
    available: bool = True
    links: tuple[tuple[str, str], ...] = ()
    nodes: tuple[str, ...] = ()

    @property
    def connected_to(self) -> str | None:
        """Uid of the adapter or CPU to which the device is connected."""
        return next((uid for kind, uid in self.links if kind in _CONNECTED), None)

    @property
    def usable(self) -> bool:
        """Whether the device can be attached: found, in use, enabled and healthy."""
        return self.detected and self.available and (self.state, self.health) == ("enabled", "ok")


@dataclass(frozen=True, slots=True)
class Node:
    """A machine. ``parts`` are the uids of its devices."""

    uid: str
    name: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """All devices and nodes at one moment.

    ``owners`` has the uid of the node by the uid of its adapter, its CPU or a listed device.
    """

    parts: Mapping[str, Part]
    nodes: tuple[Node, ...]
    owners: Mapping[str, str] = field(default_factory=dict)

    def node(self, uid: str) -> Node | None:
        """Return the node with this id in any case."""
        return next((n for n in self.nodes if n.uid.casefold() == uid.casefold()), None)

    def source(self, node: Node) -> Part | None:
        """Return the node's connection point: its *eeio* adapter, or else its CPU."""
        own = [self.parts[uid] for uid in node.parts if uid in self.parts and self.parts[uid].detected]
        for host in own:
            if host.type == HOST_ADAPTER and host.role in ("eesv", ""):
                for kind, uid in host.links:
                    found = self.parts.get(uid)
                    if kind == IO_ADAPTER and found and found.type == IO_ADAPTER and found.role in ("eeio", ""):
                        return found
        return next((part for part in own if part.type == CPU), None)

    def fabric(self, node: Node) -> int | None:
        """Return the fabric of the node, or None if nothing can be connected to it."""
        source = self.source(node)
        return number(source.switch) if source else None

    def owner(self, uid: str) -> str | None:
        """Return the uid of the node that has the device."""
        part = self.parts[uid]
        if part.nodes:
            return part.nodes[0]
        return self.owners.get(part.connected_to or "") or self.owners.get(uid)

    def is_free(self, part: Part) -> bool:
        """Return whether the device can be attached to a node now."""
        return part.usable and part.connected_to is None and self.owner(part.uid) is None

    def free(self, model: str, fabric: int | None, kind: str = "gpu") -> list[Part]:
        """Return the devices that can be attached to a node of this fabric now, sorted by uid."""
        fits = (p for p in self.parts.values() if KINDS.get(p.type) == kind and p.model.casefold() == model.casefold())
        return sorted((p for p in fits if number(p.switch) == fabric and self.is_free(p)), key=lambda p: p.uid)

    def device(self, part: Part) -> Device:
        """Convert a part to ``api.Device``."""
        owner = self.owner(part.uid)
        return Device(
            uid=part.uid, model=part.model, kind=KINDS.get(part.type, part.type), fabric=number(part.switch),
            machine=owner, state="attached" if owner else "free", health=health(part), serial=part.serial,
        )

    def devices(self) -> tuple[Device, ...]:
        """Return all composable devices."""
        return tuple(self.device(part) for part in self.parts.values() if part.type in KINDS and part.detected)

    def machines(self) -> tuple[Machine, ...]:
        """Return all nodes with their attached devices."""
        on: dict[str, list[Device]] = {}
        for device in self.devices():
            if device.machine is not None:
                on.setdefault(device.machine, []).append(device)
        return tuple(Machine(n.uid, n.name, self.fabric(n), tuple(on.get(n.uid, ()))) for n in self.nodes)


def layout(resources: t.Any, nodes: t.Any) -> Layout:
    """Read ``/resources?detail=true`` and ``/nodes?detail=true``. Raise Unreadable."""
    parts = {part.uid: part for part in map(_part, _list(resources, "resources")) if part}
    found = tuple(node for node in map(_node, _list(nodes, "nodes")) if node)
    bare = Layout(parts, found)
    owners = {uid: node.uid for node in found for uid in node.parts}
    owners |= {source.uid: node.uid for node in found if (source := bare.source(node))}
    return Layout(parts, found, owners)


def number(switch: str) -> int:
    """Return a stable fabric number for the name of a switch, which may be a number itself."""
    if not switch:
        return ONLY_FABRIC
    return int(switch) if switch.isascii() and switch.isdigit() else zlib.crc32(switch.encode())


def health(part: Part) -> str:
    """Return a health value of ``api.Device``. It is Unknown unless the device is enabled."""
    return _HEALTH.get(part.health, "Unknown") if part.state == "enabled" else "Unknown"


def one(body: t.Any) -> Part:
    """Read one resource at the top level or below ``resource``. Raise Unreadable."""
    inner = body.get("resource", body) if isinstance(body, dict) else None
    part = _part(inner)
    if part is None:
        raise Unreadable("it has no device.deviceID")
    return part


def _part(entry: t.Any) -> Part | None:
    raw = entry.get("device") if isinstance(entry, dict) else None
    if not isinstance(raw, dict) or not _text(raw.get("deviceID")):
        return None
    status, annotation = _dict(raw.get("status")), _dict(entry.get("annotation"))
    serial = _text(raw.get("serialNumber"))
    specific = _dict(_dict(raw.get("attribute")).get("deviceSpecificInformation"))
    return Part(
        uid=_text(raw.get("deviceID")), type=_text(raw.get("type")).lower(), model=_text(raw.get("model")),
        state=_text(status.get("state")).lower(), health=_text(status.get("health")).lower(),
        role=_text(specific.get("status")).lower(), switch=_text(raw.get("deviceSwitchInfo")),
        # A node sees the UUID of a GPU, but not the number on its label.
        serial=serial if serial.startswith("GPU-") else None,
        detected=entry.get("detected") is not False, available=annotation.get("available") is not False,
        links=tuple(_links(raw)), nodes=tuple(n for n in _items(entry.get("nodeIDs")) if isinstance(n, str) and n),
    )


def _links(raw: dict[str, t.Any]) -> Iterable[tuple[str, str]]:
    for link in _items(raw.get("links")):
        if isinstance(link, dict) and _text(link.get("deviceID")):
            yield _text(link.get("type")).lower(), _text(link.get("deviceID"))


def _node(entry: t.Any) -> Node | None:
    uid = _text(entry.get("id")) if isinstance(entry, dict) else ""
    if not uid:
        return None
    parts = (_text(_dict(_dict(r).get("device")).get("deviceID")) for r in _items(entry.get("resources")))
    return Node(uid, _text(entry.get("name")) or uid, tuple(p for p in parts if p))


def read_error(body: t.Any) -> ErrorBody | None:
    """Read ``{code, message, details}``. Return None for another format."""
    if not isinstance(body, dict) or not _text(body.get("message")):
        return None
    words = [_text(body.get("message")), _text(body.get("details"))]
    return ErrorBody(_text(body.get("code")) or None, ": ".join(w for w in words if w))


def _list(body: t.Any, key: str) -> list[t.Any]:
    found = body.get(key) if isinstance(body, dict) else None
    if not isinstance(found, list):
        raise Unreadable(f"it has no {key}")
    if (count := total(body)) > len(found):
        raise Unreadable(f"it lists {len(found)} of {count} {key}")
    return found


def total(body: dict[str, t.Any]) -> int:
    """Return the number of entries that a list reports, or 0 if it reports none."""
    said = [body.get(key) for key in ("count", "totalCount")]
    return max((each for each in said if isinstance(each, int) and not isinstance(each, bool)), default=0)


def _dict(value: t.Any) -> dict[str, t.Any]:
    return value if isinstance(value, dict) else {}


def _items(value: t.Any) -> list[t.Any]:
    return value if isinstance(value, list) else []


def _text(value: t.Any) -> str:
    return value if isinstance(value, str) else ""
