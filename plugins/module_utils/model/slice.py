# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ResourceSlice as its object says, read once when the object comes."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import field

from .value import Json, Value, filled, value

DeviceKey = tuple[str, str, str]
"""Driver, pool and device."""


@value(frozen=True, slots=True)
class SliceDevice:
    """A device of a ResourceSlice. ``uuid`` is empty for none.

    ``common`` is its entry without the UUID, which no other device has. Equal ones are in memory
    once.
    """

    name: str
    uuid: str
    common: Json

    @property
    def entry(self) -> Json:
        """Return its entry in the ResourceSlice, which must not be changed."""
        if not self.uuid:
            return self.common
        return {**self.common, "attributes": {**self.common["attributes"], "uuid": {"string": self.uuid}}}


@value(frozen=True, slots=True)
class Shown:
    """``whole``: whole devices by UUID and by PCI address. ``parts``: all entries of each device,
    the whole first.

    ``sick``: devices that their driver keeps from new claims, each with its taint.
    """

    whole: Mapping[str, DeviceKey]
    parts: Mapping[str, tuple[DeviceKey, ...]]
    sick: tuple[tuple[DeviceKey, str], ...] = ()


NOTHING: t.Final = Shown({}, {})


@value(frozen=True, slots=True)
class Slice(Value):
    """A ResourceSlice of a node, or of a pool that belongs to no node (``node`` is empty).

    - ``generation``, ``count``: of its pool, and how many slices the pool has.
    - ``shown``: the devices that it shows, by their names on the node. A pool shows none.
    - ``more``: the other fields of its spec.
    - ``whole``: the object of a pool's slice, since its publisher writes it again. None for a node.
    - ``created``: its creationTimestamp.
    """

    name: str
    uid: str
    version: str = field(compare=False)
    created: str
    node: str
    driver: str
    pool: str
    generation: int
    count: int
    devices: tuple[SliceDevice, ...]
    shown: Shown = NOTHING
    more: Json = field(default_factory=dict)
    whole: Json | None = None
    namespace: str = ""

    def as_object(self) -> Json:
        """Return the object as JSON. Fields that no reader uses are missing."""
        if self.whole is not None:
            return self.whole
        meta = {"name": self.name, "uid": self.uid, "resourceVersion": self.version,
                "creationTimestamp": self.created}
        pool = {"name": self.pool, "generation": self.generation, "resourceSliceCount": self.count}
        return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
                "metadata": filled(meta),
                "spec": {**self.more, "driver": self.driver, "nodeName": self.node, "pool": pool,
                         "devices": [device.entry for device in self.devices]}}
