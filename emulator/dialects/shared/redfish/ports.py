# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports of switches, one for each cable that ends at the switch."""

from __future__ import annotations

import typing as t
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from ....pool.fabric_spec import FabricSpec
from ....pool.topology import Switch

ROOT: t.Final = "/redfish/v1/Fabrics"
Json = dict[str, t.Any]


def path(switch: Switch) -> str:
    """Return the path of a switch's ports."""
    return f"{ROOT}/{switch.fabric}/Switches/{switch.id}/Ports"


@dataclass(frozen=True, slots=True)
class Port:
    """A port. ``place``: its number.

    ``far``: the far end of its cable, a machine's name or the id of a box or switch.
    """

    place: str
    far: str
    type: str
    lanes: int


class Ports:
    """The ends of a fabric's cables. They are computed once, since no cable is ever moved."""

    def __init__(self, spec: FabricSpec) -> None:
        self._switches = {switch.id: switch for switch in spec.topology.switches}
        self._of: defaultdict[str, dict[str, Port]] = defaultdict(dict)
        self._at: defaultdict[str, list[str]] = defaultdict(list)
        for link in spec.topology.links:
            for near, far in ((link.start, link.end), (link.end, link.start)):
                if near in self._switches:
                    self._add(near, Port(str(len(self._of[near]) + 1), far, link.type, link.lanes))
        self._machines = {machine.name: machine.uid for machine in spec.machines}
        self._ends = {machine.uid: machine.name for machine in spec.machines}
        self._ends |= {device.uid: device.box for device in spec.devices}
        self._boxes: defaultdict[str, list[str]] = defaultdict(list)
        for device in spec.devices:
            self._boxes[device.box].append(device.uid)

    def _add(self, near: str, port: Port) -> None:
        self._of[near][port.place] = port
        self._at[port.far].append(f"{path(self._switches[near])}/{port.place}")

    def of_switch(self, number: int, ident: str) -> list[str] | None:
        """Return the paths of a switch's ports, None if the fabric has no such switch."""
        switch = self._switches.get(ident)
        if switch is None or switch.fabric != number:
            return None
        return [f"{path(switch)}/{place}" for place in self._of[ident]]

    def of_endpoint(self, uid: str) -> list[str]:
        """Return the paths of ports at the ends of a machine's cables, or of the cables of a
        device's box.
        """
        return self._at.get(self._ends.get(uid, ""), [])

    def port(self, number: int, ident: str, place: str, there: t.Callable[[str], bool]) -> Json | None:
        """Return one port. ``there``: returns whether a machine or device with this uid exists."""
        switch, found = self._switches.get(ident), self._of[ident].get(place)
        if switch is None or switch.fabric != number or found is None:
            return None
        return {
            "@odata.type": "#Port.v1_18_0.Port", "Id": place, "Name": f"Port {place}", "PortId": place,
            "PortType": self._kind(found), "PortProtocol": found.type, "Width": found.lanes,
            "ActiveWidth": found.lanes, "LinkState": "Enabled", "LinkStatus": "LinkUp",
            "Status": {"State": "Enabled", "Health": "OK"}, "Links": self._links(switch, found, there),
        }

    def _kind(self, port: Port) -> str:
        if port.far in self._switches:
            return "InterswitchPort"
        return "UpstreamPort" if port.far in self._machines else "DownstreamPort"

    def _links(self, switch: Switch, port: Port, there: t.Callable[[str], bool]) -> Json:
        other = self._switches.get(port.far)
        if other is None:
            uids = (uid for uid in self._uids(port.far) if there(uid))
            return {"AssociatedEndpoints": _refs(f"{ROOT}/{switch.fabric}/Endpoints/{uid}" for uid in uids)}
        beyond = (place for place in self._at[switch.id] if place.startswith(f"{path(other)}/"))
        return {"ConnectedSwitches": _refs([path(other).rpartition("/")[0]]), "ConnectedSwitchPorts": _refs(beyond)}

    def _uids(self, far: str) -> list[str]:
        """Return the endpoints at the far end, of a machine or of the devices of a box."""
        return [self._machines[far]] if far in self._machines else self._boxes[far]


def _refs(paths: Iterable[str]) -> list[Json]:
    return [{"@odata.id": each} for each in paths]
