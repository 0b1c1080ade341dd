# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ComposabilityRequest as its object says, read once when the object comes."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import field

from .value import Json, Value, filled, value


@value(frozen=True, slots=True)
class Request(Value):
    """A ComposabilityRequest.

    ``type``: the kind of devices in CoHDI's terms. ``return_idle``: devices that have been idle
    since before this moment, in epoch seconds, need not stay. ``claims``: recorded UIDs of the
    claims for which its size was set. ``other_spec``: what else its node must have, in CoHDI's
    terms. ``node``: empty if it names none.

    The parts of the object from ``namespace`` on are for writers and people.

    - ``created``, ``deleted``: its creationTimestamp and its deletionTimestamp.
    - ``annotations``: all but the note of ``kubectl apply``.
    - ``spec``: ``spec.resource``, ``status``: the status, both as JSON.
    """

    name: str
    uid: str
    model: str
    size: int
    deleting: bool = False
    force_detach: bool = False
    type: str = "gpu"
    return_idle: float = 0.0
    claims: tuple[str, ...] = ()
    other_spec: Mapping[str, t.Any] = field(default_factory=dict)
    node: str = ""
    namespace: str = ""
    version: str = field(default="", compare=False)
    generation: int = 0
    created: str = ""
    deleted: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    spec: Json = field(default_factory=dict)
    status: Json = field(default_factory=dict)

    @property
    def policy(self) -> str:
        """Return its allocation policy, empty for the default."""
        return str(self.spec.get("allocation_policy") or "")

    @property
    def error(self) -> str:
        """Return the error of its status, empty for none."""
        return str(self.status.get("error") or "")

    def annotation(self, name: str) -> str:
        """Return the text of an annotation, empty if it is absent."""
        return self.annotations.get(name, "")

    def as_object(self) -> Json:
        """Return the object as JSON. Empty fields are missing."""
        meta = {"name": self.name, "namespace": self.namespace, "uid": self.uid, "resourceVersion": self.version,
                "creationTimestamp": self.created, "deletionTimestamp": self.deleted, "labels": {**self.labels},
                "finalizers": [*self.finalizers], "generation": self.generation, "annotations": {**self.annotations}}
        found = {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposabilityRequest",
                 "metadata": filled(meta), "spec": {"resource": self.spec}}
        return {**found, "status": self.status} if self.status else found
