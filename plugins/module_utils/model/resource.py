# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ComposableResource as its object says, read once when the object comes.

It leaves out what the process remembers and what other objects show.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import field

from .value import Json, Value, filled, value

GROUP_VERSION: t.Final = "cro.hpsys.ibm.ie.com/v1alpha1"
KIND: t.Final = "ComposableResource"
SINCE: t.Final = "lastTransitionTime"


@value(frozen=True, slots=True)
class NodeWork:
    """The recorded node operations on one device.

    ``asked``: the removal was requested. ``prepared``: driver bound, device touched, plugin
    notified. ``removed``: off the bus. ``last_step``: the last step, as evidence.py names it.
    ``trouble``: the problem, in a sentence. ``reason``: its name in evidence.py. ``fatal``: the
    device cannot be used on this node. ``warning``: the device is used in spite of the problem.
    """

    asked: bool = False
    prepared: bool = False
    removed: bool = False
    last_step: str = ""
    trouble: str = ""
    fatal: bool = False
    warning: bool = False
    reason: str = ""


@value(frozen=True, slots=True)
class Condition:
    """A condition of the status. ``since`` is its lastTransitionTime, empty for none.

    ``common`` is the rest. Equal ones are in memory once.
    """

    common: Json
    since: str

    @property
    def entry(self) -> Json:
        """Return it as the status has it, which must not be changed."""
        return {**self.common, SINCE: self.since} if self.since else self.common


@value(frozen=True, slots=True)
class DeviceRecord:
    """The fields of a ComposableResource that plans read. Times are epoch seconds.

    - ``device_uid``: the device at the CDI Manager. ``serial``, ``address``: the UUID and the PCI
      address by which the node knows it. Each is empty if unknown.
    - ``operation``: handle of its attach at an asynchronous CDI Manager.
    - ``hold``: the claim (its UID) that it is reserved for by its annotation, and since when.
    - ``doubt``: why it is unknown whether the device was requested, else empty.
    - ``reclaims``: the device for which CoHDI's upstream syncer made it.
    - ``pool_device``: the pool device that it is, or will be, for one claim. No ResourceSlice of
      the node shows it then.
    """

    name: str
    uid: str
    request: str
    model: str
    node: str
    state: str
    created: float
    device_uid: str = ""
    serial: str = ""
    error: str = ""
    deleting: bool = False
    force_detach: bool = False
    delete_first: bool = False
    last_used: float = 0.0
    in_use: bool = False
    machine: str = ""
    asked: float = 0.0
    present: frozenset[str] = frozenset()
    operation: str = ""
    node_work: NodeWork = NodeWork()
    doubt: str = ""
    reclaims: str = ""
    pool_device: str = ""
    address: str = ""
    hold: tuple[str, float] = ("", 0.0)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names by which the node's ResourceSlices may show the device."""
        return tuple(name for name in (self.serial, self.address.lower()) if name)


@value(frozen=True, slots=True)
class Resource(DeviceRecord, Value):
    """A ComposableResource: its device, and the parts of the object for writers and people.

    - ``created_text``, ``deleted_text``: its creationTimestamp and its deletionTimestamp.
    - ``device_id``: the serial as its status has it.
    - ``annotations``: all but the note of ``kubectl apply``.
    """

    namespace: str = ""
    version: str = field(default="", compare=False)
    type: str = "gpu"
    generation: int = 0
    created_text: str = ""
    deleted_text: str = ""
    device_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    finalizers: tuple[str, ...] = ()
    said: tuple[Condition, ...] = field(default=(), hash=False)

    @property
    def conditions(self) -> tuple[Json, ...]:
        """Return the conditions of the status, which must not be changed."""
        return tuple(each.entry for each in self.said)

    @property
    def reference(self) -> Json:
        """Return what an Event needs of the object."""
        return {"apiVersion": GROUP_VERSION, "kind": KIND,
                "metadata": {"name": self.name, "uid": self.uid, "resourceVersion": self.version}}

    def annotation(self, name: str) -> str:
        """Return the text of an annotation, empty if it is absent."""
        return self.annotations.get(name, "")

    def as_object(self) -> Json:
        """Return the object as JSON. Empty fields are missing."""
        meta = {"name": self.name, "namespace": self.namespace, "uid": self.uid, "resourceVersion": self.version,
                "creationTimestamp": self.created_text, "deletionTimestamp": self.deleted_text,
                "labels": {**self.labels}, "finalizers": [*self.finalizers], "generation": self.generation,
                "annotations": {**self.annotations}}
        spec = {"type": self.type, "model": self.model, "target_node": self.node, "force_detach": self.force_detach}
        status = {"state": self.state, "error": self.error, "device_id": self.device_id,
                  "cdi_device_id": self.device_uid, "conditions": [*self.conditions]}
        found = {"apiVersion": GROUP_VERSION, "kind": KIND, "metadata": filled(meta), "spec": filled(spec),
                 "status": filled(status)}
        return filled(found)
