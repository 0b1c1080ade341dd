# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CM's JSON without I/O, and the decision whether a resize can rely on its counter.

A machine has one *resspec* for each model, with the limits, the number of devices
(``device_count``) and the devices. A resize names the wanted number. It is not documented whether
CM counts devices that it is still adding. The driver reads this from the document. If it cannot, it
waits until CM is at rest.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ...api import Device, Size
from ..shared.fsas import health
from ..shared.replies import Unreadable

COMPLETE: t.Final = "ADD_COMPLETE"
ADD_FAILED: t.Final = "ADD_FAILED"
REMOVE_FAILED: t.Final = "REMOVE_FAILED"
ENDED: t.Final = (COMPLETE, ADD_FAILED, REMOVE_FAILED)


@dataclass(frozen=True, slots=True)
class Entry:
    """A device of a resspec.

    ``device.uid`` is CM's ``res_uuid``, and ``device.serial`` its ``device_id``.

    ``device`` is None until CM names the device.
    """

    device: Device | None
    status: str
    reason: str
    op_status: str

    @property
    def uid(self) -> str:
        """The uid of the device, or empty without a device."""
        return self.device.uid if self.device else ""

    @property
    def ended(self) -> bool:
        """Whether CM has finished, with or without success."""
        return self.status in ENDED

    @property
    def leaving(self) -> bool:
        """Whether the device is being removed. Every unknown status means work in progress."""
        return not self.ended and ("REMOV" in self.status or "DELET" in self.status)

    @property
    def there(self) -> bool:
        """Whether the machine has the device, which is true until its removal is complete."""
        return self.status in (COMPLETE, REMOVE_FAILED) or self.leaving


@dataclass(frozen=True, slots=True)
class Spec:
    """One resspec of a machine."""

    uuid: str
    kind: str
    model: str
    size: Size
    count: int
    entries: tuple[Entry, ...]

    def entry(self, uid: str) -> Entry | None:
        """Return the device with this uid."""
        return next((e for e in self.entries if e.uid == uid), None)

    @property
    def sure(self) -> bool:
        """Whether ``count`` plus n requests exactly n new devices, however CM counts.

        This is true at rest. While CM adds devices, it is true only if CM certainly counts them, so
        that the count exceeds the ended devices. A device without a name or a leaving device makes
        it false.
        """
        busy = [e for e in self.entries if not e.ended]
        if not busy:
            return True
        if any(e.leaving or e.device is None for e in busy):
            return False
        kept = sum(e.there for e in self.entries)
        return self.count > kept + self._failed and self.count >= kept + len(busy)

    @property
    def _failed(self) -> int:
        return sum(e.status == ADD_FAILED for e in self.entries)

    @property
    def nameless_failures(self) -> tuple[str, ...]:
        """The failure reasons of devices without a name."""
        found = (e for e in self.entries if e.device is None and e.status == ADD_FAILED)
        return tuple(e.reason or "no reason" for e in found)

    @property
    def counted_failures(self) -> int:
        """How many of these failures ``count`` includes. CM removes devices only by name."""
        others = sum(e.device is not None or e.status != ADD_FAILED for e in self.entries)
        return max(0, min(len(self.nameless_failures), self.count - others))

    def without(self, uids: Iterable[str]) -> int:
        """Return the ``device_count`` of a request that removes these devices.

        CM may not count a device that failed to attach.
        """
        entries = [e for e in self.entries if e.uid in set(uids)]
        failed_count = self.count != sum(e.there for e in self.entries) or not self._failed
        return self.count - sum(failed_count or e.status != ADD_FAILED for e in entries)


@dataclass(frozen=True, slots=True)
class MachineDocument:
    """CM's document of one machine."""

    uid: str
    name: str
    specs: tuple[Spec, ...]

    def devices(self) -> tuple[Device, ...]:
        """Return the devices that the machine has."""
        found = (e for spec in self.specs for e in spec.entries if e.device and e.there)
        return tuple(replace(e.device, state="detaching" if e.leaving else "attached") for e in found if e.device)

    def fabric(self) -> int | None:
        """Return the fabric of the devices, or None if no device names it."""
        return next((d.fabric for d in self.devices() if d.fabric is not None), None)

    def spec(self, kind: str, model: str) -> Spec | None:
        """Return the resspec for devices of this kind and model."""
        return next((s for s in self.specs if (s.kind, s.model) == (kind, model)), None)

    def holder(self, uid: str) -> Spec | None:
        """Return the resspec that lists this device in any status."""
        return next((s for s in self.specs if s.entry(uid)), None)


def document(body: t.Any) -> MachineDocument:
    """Read ``data.cluster.machine``. Raise Unreadable."""
    found = _below(body, "data", "cluster", "machine")
    uid = _text(found.get("uuid"))
    if uid is None:
        raise Unreadable("it has no data.cluster.machine.uuid")
    specs = found.get("resspecs")
    if not isinstance(specs, list):
        raise Unreadable("it has no data.cluster.machine.resspecs")
    read = tuple(_spec(spec, uid) for spec in specs if isinstance(spec, dict))
    return MachineDocument(uid, _text(found.get("name")) or uid, read)


def _spec(raw: dict[str, t.Any], machine: str) -> Spec:
    uuid, kind, model = _text(raw.get("spec_uuid")), _text(raw.get("type")) or "", _model(raw)
    devices = raw.get("devices") or ()
    if not isinstance(devices, (list, tuple)):
        raise Unreadable("the devices of a resspec are no list")
    entries = tuple(_entry(d, machine, kind, model) for d in devices if isinstance(d, dict))
    count = _number(raw.get("device_count"))
    if uuid is None or count is None:
        raise Unreadable("a resspec has no spec_uuid or no device_count")
    size = Size(_number(raw.get("min_resspec_count")), _number(raw.get("max_resspec_count")))
    return Spec(uuid, kind, model, size, count, entries)


def _entry(raw: dict[str, t.Any], machine: str, kind: str, model: str) -> Entry:
    found = raw.get("detail")
    detail = found if isinstance(found, dict) else {}
    serial = _text(raw.get("device_id"))
    uid, op_status = _text(detail.get("res_uuid")), str(detail.get("res_op_status") or "")
    device = Device(
        uid=uid, model=model, kind=kind, fabric=_number(detail.get("fabric_id")), machine=machine, state="attached",
        health=health(op_status), serial=serial, name=_text(detail.get("res_name")),
    ) if uid and serial else None
    return Entry(device, str(raw.get("status") or "").upper(), _text(raw.get("status_reason")) or "", op_status)


def _model(raw: dict[str, t.Any]) -> str:
    """Return the value of the condition ``model eq …``."""
    selector = raw.get("selector")
    expression = selector.get("expression") if isinstance(selector, dict) else None
    conditions = expression.get("conditions") if isinstance(expression, dict) else None
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and (condition.get("column"), condition.get("operator")) == ("model", "eq"):
            return _text(condition.get("value")) or ""
    return ""


def groups(body: t.Any) -> tuple[str, ...]:
    """Return the UUIDs of the node groups. Raise Unreadable."""
    found = body.get("nodegroups") if isinstance(body, dict) else None
    if not isinstance(found, list):
        raise Unreadable("it has no nodegroups")
    return tuple(g["uuid"] for g in found if isinstance(g, dict) and _text(g.get("uuid")))


def members(body: t.Any) -> tuple[str, ...]:
    """Return the UUIDs of the machines of one node group. Raise Unreadable."""
    found = body.get("mach_ids") if isinstance(body, dict) else None
    if not isinstance(found, list):
        raise Unreadable("it has no mach_ids")
    return tuple(m for m in found if _text(m))


def increase_body(spec: Spec, number: int) -> dict[str, t.Any]:
    """Return the body of a resize by ``number`` more devices."""
    return {"increase_resource_count": {"spec_uuid": spec.uuid, "device_count": spec.count + number}}


def remove_body(spec: Spec, uids: list[str]) -> dict[str, t.Any]:
    """Return the body of a resize without these devices."""
    ids = [e.device.serial for uid in uids if (e := spec.entry(uid)) and e.device]
    return {"remove_resources": {"spec_uuid": spec.uuid, "device_count": spec.without(uids), "devices": ids}}


def _below(body: t.Any, *path: str) -> dict[str, t.Any]:
    for number, key in enumerate(path):
        body = body.get(key) if isinstance(body, dict) else None
        if not isinstance(body, dict):
            raise Unreadable(f"it has no {'.'.join(path[: number + 1])}")
    return t.cast("dict[str, t.Any]", body)


def _text(value: t.Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: t.Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
