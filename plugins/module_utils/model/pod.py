# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Pod as its object says, read once when the object comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from .value import Json, Value, filled, value


@value(frozen=True, slots=True)
class Pod(Value):
    """A Pod, and what decisions about it need.

    - ``created``, ``deleted``: its creationTimestamp, and its deletionTimestamp, which is the end of
      its grace period.
    - ``node``: the node to which it is bound, ``nominated``: the one to which it is nominated. Each
      is empty for none.
    - ``held``: it is gated by this collection and has not ended. ``foreign``: other scheduling gates.
    - ``ended``: it is deleted, succeeded or failed.
    - ``wants_devices``: it requests devices by claims or by extended resources.
    - ``claims``: its ResourceClaims by the entry in ``spec.resourceClaims``, None until created.
    - ``group``: (namespace/name, number of pods) of its group, None for none. ``of_job``: a Job
      controls it.
    - ``unschedulable``: kube-scheduler's message if it could not place the pod.
    - ``not_served``: why its gate was removed without devices, empty if it was not.
    - ``consumes``: the ProvisioningRequest that booked its devices, None for none.
    - ``spec``, ``status``: the other parts of both that are read, as JSON. Equal ones are in memory once.
    - ``whole``: the object of a pod that is not bound, since the planner of gated pods reads it. None
      for a bound pod.
    """

    name: str
    namespace: str
    uid: str
    version: str = field(compare=False)
    created: str
    deleted: str
    labels: Mapping[str, str]
    node: str
    nominated: str
    phase: str
    held: bool
    foreign: tuple[str, ...]
    ended: bool
    wants_devices: bool
    claims: Mapping[str, str | None]
    group: tuple[str, int] | None
    of_job: bool
    unschedulable: str
    not_served: str
    consumes: tuple[str, str] | None
    spec: Json
    status: Json
    notes: Json = field(default_factory=dict)
    whole: Json | None = field(default=None, compare=False)

    @property
    def waits(self) -> bool:
        """Return whether it has no node yet and has not ended."""
        return not (self.node or self.ended)

    def as_object(self) -> Json:
        """Return the object as JSON. Fields that no reader uses are missing."""
        if self.whole is not None:
            return self.whole
        meta = {"name": self.name, "namespace": self.namespace, "uid": self.uid, "resourceVersion": self.version,
                "creationTimestamp": self.created, "deletionTimestamp": self.deleted, "labels": {**self.labels},
                **self.notes}
        made = [{"name": entry, "resourceClaimName": name} for entry, name in self.claims.items() if entry and name]
        special = {"resourceClaimName": self.claims[""]} if self.claims.get("") else None
        status = {"phase": self.phase, "nominatedNodeName": self.nominated, "resourceClaimStatuses": made,
                  "extendedResourceClaimStatus": special, **self.status}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": filled(meta),
                "spec": {"nodeName": self.node, **self.spec}, "status": filled(status)}
