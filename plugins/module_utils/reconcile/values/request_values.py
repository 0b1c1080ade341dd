# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a ComposabilityRequest into its value."""

from __future__ import annotations

from sys import intern

from ...kube.objects import cohdi
from ...kube.objects.autoscaling import read_return_idle
from ...kube.watch.parts import interned
from ...model.request import Request
from ...model.value import Json


def read_request(raw: Json) -> Request:
    """Return the value of a ComposabilityRequest. Raise KeyError, TypeError or ValueError for an
    object without what the API requires."""
    meta, spec = raw["metadata"], raw["spec"]["resource"]
    return Request(
        name=meta["name"], uid=meta["uid"], model=intern(spec["model"]), size=int(spec["size"]),
        deleting=bool(meta.get("deletionTimestamp")), force_detach=bool(spec.get("force_detach")),
        type=intern(spec.get("type") or "gpu"), return_idle=read_return_idle(raw), claims=cohdi.read_claims(raw),
        other_spec=spec.get("other_spec") or {}, node=intern(spec.get("target_node") or ""),
        namespace=intern(meta.get("namespace") or ""), version=str(meta.get("resourceVersion") or ""),
        generation=int(meta.get("generation") or 0), created=str(meta.get("creationTimestamp") or ""),
        deleted=str(meta.get("deletionTimestamp") or ""), labels=cohdi.labels_of(meta),
        annotations=cohdi.annotations_of(meta),
        finalizers=cohdi.finalizers_of(meta), spec=interned(spec),
        status=interned(raw.get("status") or {}))
