# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the JSON of a Liqid Director. This file sends nothing.

The Director describes a device in three places. ``predevice`` has its group and its machine, ``status`` has its id and
its state, and ``device/info`` has its model. The device's name joins them. The words for a kind of device differ by
place, see ``KINDS``.
"""

from __future__ import annotations

import re
import typing as t
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ansible_collections.composable.infra.plugins.module_utils.fabric.api import Device, Machine
from ansible_collections.composable.infra.plugins.module_utils.fabric.drivers.shared.replies import Unreadable
from ansible_collections.composable.infra.plugins.module_utils.fabric.http.request import ErrorBody

Json = dict[str, t.Any]
NOT_EDITED: t.Final = "not in edit mode"
# Words in a device's state that say that it must not be chosen. The Director's full list is not published.
BROKEN: t.Final = ("offline", "failed", "absent", "missing")
SUCCESS: t.Final = "SUCCESS"
FAILURE: t.Final = "FAILURE"


@dataclass(frozen=True, slots=True)
class Words:
    """How the Director names a kind of device: in ``predevice``, in ``device/info/…`` and in ``relate/…``."""

    predevice: str
    info: str
    relate: str


# Network and storage devices are left out: a node may have started from them.
KINDS: t.Final[Mapping[str, Words]] = {
    "gpu": Words("gpu", "gpu", "gpu"),
    "memory": Words("mem", "mem", "memory"),
    "fpga": Words("fpga", "fpga", "fpga"),
}


@dataclass(frozen=True, slots=True)
class Part:
    """A device, and the whole object of ``status`` that requests about it must have."""

    device: Device
    status: Json


@dataclass(frozen=True, slots=True)
class Layout:
    """One group: its object, its machines' objects by name, and its devices by uid. ``twice``: names of two machines.

    If several machines of the group have the same name, it is in ``twice`` only, and their devices are left out.
    ``on``: devices by the name of their machine.
    """

    group: Json
    machines: Mapping[str, Json]
    parts: Mapping[str, Part]
    twice: tuple[str, ...] = ()
    on: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)

    def devices(self) -> tuple[Device, ...]:
        """Return all devices of the group."""
        return tuple(part.device for part in self.parts.values())

    def machine(self, name: str) -> Machine:
        """Return a machine with its devices. Its name must be in ``machines``."""
        return Machine(name, name, _number(self.machines[name].get("fabr_id")), self.on.get(name, ()))

    def free(self, model: str, fabric: int | None, kind: str | None = None) -> list[Part]:
        """Return the devices that a machine of the fabric could get now. ``kind`` None: any."""
        return [part for part in self.parts.values() if part.device.state == "free" and part.device.model == model
                and part.device.fabric == fabric and part.device.health != "Critical"
                and kind in (None, part.device.kind)]


def layout(group: str, replies: Mapping[str, list[Json]]) -> Layout:
    """Return the layout of a group.

    Args:
        group: Name of the group.
        replies: Entries of the replies, by path: ``group``, ``machine``, ``predevice``, ``status`` and the info words.

    Raises:
        KeyError: There is no group of this name.
        Unreadable: An entry lacks what is needed.
    """
    found = next((each for each in replies["group"] if each.get("group_name") == group), None)
    if found is None:
        raise KeyError(group)
    number = _number(found.get("grp_id"))
    own = [each for each in replies["machine"] if _number(each.get("grp_id")) == number]
    names = Counter(_text(each, "mach_name") for each in own)
    machines = {_text(each, "mach_name"): each for each in own if names[_text(each, "mach_name")] == 1}
    named = {_number(each.get("mach_id")): name for name, each in machines.items()}
    statuses = {each.get("name"): each for each in replies["status"]}
    infos = {words.info: {each.get("name"): each for each in replies[words.info]} for words in KINDS.values()}
    parts: dict[str, Part] = {}
    for entry in replies["predevice"]:
        kind = next((kind for kind, words in KINDS.items() if words.predevice == entry.get("dev_type")), "")
        machine, status = _number(entry.get("mach_id")), statuses.get(entry.get("name"))
        if not kind or status is None or _number(entry.get("grp_id")) != number:
            continue
        if machine is not None and machine not in named:
            continue
        info = infos[KINDS[kind].info].get(entry.get("name"), {})
        part = Part(_device(kind, status, info, named.get(machine)), status)
        parts[part.device.uid] = part
    on: dict[str, tuple[Device, ...]] = {}
    for part in parts.values():
        if part.device.machine:
            on[part.device.machine] = (*on.get(part.device.machine, ()), part.device)
    twice = tuple(sorted(name for name, count in names.items() if count > 1))
    return Layout(found, machines, parts, twice, on)


def _device(kind: str, status: Json, info: Json, machine: str | None) -> Device:
    serial = str(info.get("serial_num") or "")
    size = _number(status.get("capacity(MB)"))
    return Device(
        uid=_text(status, "dev_id"), model=str(info.get("model") or "unknown"), kind=kind,
        fabric=_number(status.get("fabr_id")), machine=machine, state="attached" if machine else "free",
        health=health(str(status.get("device_state") or "")), name=_text(status, "name"), box=_box(status),
        # A node knows a GPU by its UUID. The number on a label is of no use to it.
        serial=serial if serial.startswith("GPU-") else None, size=size if kind == "memory" else None,
    )


def health(state: str) -> str:
    """Return the health of a device by its ``device_state``. Only ``active | online`` is known to be well."""
    words = {word.strip() for word in state.casefold().split("|")}
    if words == {"active", "online"}:
        return "OK"
    return "Critical" if words == {""} or words & set(BROKEN) else "Warning"


def _box(status: Json) -> str | None:
    where = status.get("location")
    if not isinstance(where, dict) or not {"rack", "shelf", "node"} <= where.keys():
        return None
    return f"{where['rack']}-{where['shelf']}-{where['node']}"


def data(body: t.Any) -> list[t.Any]:
    """Return what a reply is about. Raises Unreadable."""
    response = body.get("response") if isinstance(body, dict) else None
    found = response.get("data") if isinstance(response, dict) else None
    if not isinstance(found, list):
        raise Unreadable("it has no response.data")
    return found


def objects(body: t.Any) -> list[Json]:
    """Return the entries of a list. Raises Unreadable."""
    found = data(body)
    if not all(isinstance(each, dict) for each in found):
        raise Unreadable("response.data has an entry that is not an object")
    return found


def read_error(body: t.Any) -> ErrorBody | None:
    """Return the words of an error. A reply with status 200 may be an error too."""
    response = body.get("response") if isinstance(body, dict) else None
    if not isinstance(response, dict):
        return None
    errors, code = response.get("errors"), response.get("code", 0)
    if not errors and code == 0:
        return None
    listed = [each for each in errors if isinstance(each, dict)] if isinstance(errors, list) else []
    words = "; ".join(str(each.get("message")) for each in listed) or str(errors or f"code {code}")
    return ErrorBody(str(listed[0].get("code") if listed else code), words)


def task_path(found: list[t.Any]) -> str:
    """Return where the end of a command can be read, without the host. Raises Unreadable."""
    try:
        address = urlsplit(str(found[0]["links"][0]["href"]))
    except (IndexError, KeyError, TypeError):
        raise Unreadable("it has no links.href of the command") from None
    if not address.path.startswith("/"):
        raise Unreadable("links.href of the command is not an address")
    return address.path + (f"?{address.query}" if address.query else "")


def task_state(body: t.Any) -> str:
    """Return SUCCESS, FAILURE, or any other text while the command goes on. Raises Unreadable."""
    found = objects(body)
    return str(found[0].get("command_execution_state") or "") if found else ""


def named_in(text: str, machines: Collection[Json]) -> Json | None:
    """Return the machine that an error names, by its number or by its name."""
    found = re.search(r"\bmachine\s+['\"]?([\w.-]+)", text, re.IGNORECASE)
    word = found[1] if found else ""
    number = int(word, 0) if re.fullmatch("0[xX][0-9a-fA-F]+|[1-9][0-9]*", word) else None
    by_number = (each for each in machines if number is not None and _number(each.get("mach_id")) == number)
    return next(by_number, None) or next((each for each in machines if word and each.get("mach_name") == word), None)


def _text(entry: Json, key: str) -> str:
    found = entry.get(key)
    if not isinstance(found, str) or not found:
        raise Unreadable(f"an entry has no {key}")
    return found


def _number(value: t.Any) -> int | None:
    """Return a number that the Director writes as a number or as a text, None for ``n/a``."""
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and re.fullmatch("[0-9]+", value) else None
