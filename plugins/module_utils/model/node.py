# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Node as its object says, read once when the object comes."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import field

from .value import Value, filled, value

Json = Mapping[str, t.Any]


@value(frozen=True, slots=True)
class Node(Value):
    """The parts of a Node that plans read. Images, addresses and heartbeats are none of them.

    - ``provider_id``: empty for none. ``machine`` is the UID of the machine that it names.
    - ``taints``: as in the object. ``unschedulable``: the node is cordoned.
    - ``ready``: its condition Ready is True.
    - ``allocatable``, ``capacity``: amounts by resource, as Kubernetes quantities.
    """

    name: str
    uid: str = ""
    version: str = field(default="", compare=False)
    created: str = ""
    deleted: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    provider_id: str = ""
    machine: str = ""
    taints: tuple[Json, ...] = ()
    unschedulable: bool = False
    ready: bool = False
    allocatable: Mapping[str, t.Any] = field(default_factory=dict)
    capacity: Mapping[str, t.Any] = field(default_factory=dict)
    namespace: str = ""

    def as_object(self) -> dict[str, t.Any]:
        """Return the object as JSON. Fields that no reader uses are missing."""
        meta = {"name": self.name, "uid": self.uid, "resourceVersion": self.version,
                "creationTimestamp": self.created, "deletionTimestamp": self.deleted, "labels": {**self.labels}}
        spec = {"providerID": self.provider_id, "taints": [*self.taints], "unschedulable": self.unschedulable}
        status = {"allocatable": {**self.allocatable}, "capacity": {**self.capacity},
                  "conditions": [{"type": "Ready", "status": "True" if self.ready else "False"}]}
        return {"apiVersion": "v1", "kind": "Node", "metadata": filled(meta), "spec": filled(spec), "status": status}
