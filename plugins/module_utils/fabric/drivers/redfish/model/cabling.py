# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the neighbors of each switch from its ports and their links. No I/O.

A port names endpoints or switches. If it names no endpoints, an endpoint may name the port.
Otherwise, the path of the port at the other end shows its owner. A port without any of these has no
link.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ....api import Link, Switch
from ...shared.redfish import device_kinds
from ...shared.redfish.resources import Port
from .resource_tree import SwitchTree
from .service_model import ServiceModel

MACHINE, BOX, SWITCH, DEVICE = "machine", "box", "switch", "device"
_PORTS: t.Final = "/Ports/"
_CHASSIS: t.Final = "/redfish/v1/Chassis/"
End = tuple[str, str]
"""(kind, uid or id), as in ``api.Link``."""


def cabling(
    shown: ServiceModel, fabrics: Mapping[str, Iterable[SwitchTree]]
) -> tuple[tuple[Switch, ...], dict[str, tuple[str, ...]]]:
    """Return the switches of all ``fabrics`` (by path), and the ids of switches by device uid."""
    trees = [(shown.numbers[uri], tree) for uri, found in fabrics.items() for tree in found]
    ends = _Ends(shown, {tree.switch.uri: _ident(tree) for _number, tree in trees})
    switches, of_device = [], defaultdict[str, dict[str, None]](dict)
    for number, tree in trees:
        switches.append(_switch(number, tree, ends))
        for uid in (uid for port in tree.ports for uid in ends.devices_at(port)):
            of_device[uid][_ident(tree)] = None
    return tuple(switches), {uid: tuple(found) for uid, found in of_device.items()}


def _ident(tree: SwitchTree) -> str:
    return tree.switch.ident or tree.switch.uri.rpartition("/")[2]


@dataclass(slots=True)
class _Sum:
    """Totals of the ports that lead to one end."""

    ports: int = 0
    down: int = 0
    gbps: float = 0.0

    def add(self, port: Port) -> None:
        self.ports += 1
        self.down += not port.is_up()
        self.gbps += (port.speed or 0.0) if port.is_up() else 0.0


def _switch(number: int, tree: SwitchTree, ends: _Ends) -> Switch:
    found = defaultdict[End, _Sum](_Sum)
    for port in tree.ports:
        for end in ends.of(port):
            found[end].add(port)
    links = tuple(Link(*end, each.ports, each.down, round(each.gbps, 3)) for end, each in sorted(found.items()))
    return Switch(_ident(tree), number, tree.switch.name or _ident(tree), device_kinds.worst(tree.switch.status), links)


class _Ends:
    """Finds the far ends of ports. ``switches`` are ids by path."""

    def __init__(self, shown: ServiceModel, switches: Mapping[str, str]) -> None:
        self._switches = switches
        self._machines = {host.system.uri: uid for uid, host in shown.hosts.items()}
        self._boxes = {unit.box for unit in shown.units.values() if unit.box}
        self._units = {unit.endpoint.uri: unit for unit in shown.units.values() if unit.endpoint}
        self._owners = shown.owners
        self._named = defaultdict[str, list[str]](list)
        for endpoint in (each for fabric in shown.tree.fabrics for each in fabric.endpoints):
            for port in endpoint.switch_ports:
                self._named[port].append(endpoint.uri)

    def of(self, port: Port) -> set[End]:
        """Return each far end of the port once."""
        found = {end for uri in self._endpoints(port) if (end := self._of_endpoint(uri))}
        near = (*port.switches, *(uri.partition(_PORTS)[0] for uri in port.switch_ports))
        found |= {(SWITCH, self._switches[uri]) for uri in near if uri in self._switches}
        return found or set(self._by_path(port))

    def devices_at(self, port: Port) -> Iterator[str]:
        """Return the uids of the devices at the far end."""
        return (self._units[uri].uid for uri in self._endpoints(port) if uri in self._units)

    def _endpoints(self, port: Port) -> dict[str, None]:
        return dict.fromkeys((*port.endpoints, *self._named.get(port.uri, ())))

    def _of_endpoint(self, uri: str) -> End | None:
        if uri in self._owners:
            return MACHINE, self._owners[uri]
        unit = self._units.get(uri)
        if unit is None:
            return None
        return (BOX, unit.box) if unit.box else (DEVICE, unit.uid)

    def _by_path(self, port: Port) -> Iterator[End]:
        for uri in port.far_ports:
            box = uri.removeprefix(_CHASSIS).partition("/")[0] if uri.startswith(_CHASSIS) else ""
            if box in self._boxes:
                yield BOX, box
            yield from ((MACHINE, uid) for system, uid in self._machines.items() if uri.startswith(f"{system}/"))
