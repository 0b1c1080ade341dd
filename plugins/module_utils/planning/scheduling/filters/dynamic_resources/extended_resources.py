# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Extended resources of a DeviceClass (KEP-5004): the claim that kube-scheduler will make for them.

Source: ``extendeddynamicresources.go`` of kube-scheduler 1.36, ``extendedresourcecache.go`` of
``k8s.io/dynamic-resource-allocation``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...framework.quantity import amount
from ...snapshot import GatedPod, Json

PREFIX = "deviceclass.resource.kubernetes.io/"
"""Prefix before the name of a DeviceClass: the resource that each class always serves."""


def classes_by_resource(classes: Mapping[str, Json]) -> dict[str, str]:
    """Return the DeviceClass of each resource.

    If several name the same resource, the newest wins, then the first by name.
    """
    found = {PREFIX + name: name for name in classes}
    for name in sorted(classes, reverse=True):
        said = (classes[name].get("spec") or {}).get("extendedResourceName")
        if said and (said not in found or _created(classes[found[said]]) <= _created(classes[name])):
            found[said] = name
    return found


def _created(raw: Json) -> str:
    return str(raw["metadata"].get("creationTimestamp") or "")


def extended_resources(pod: Json, served: Mapping[str, str]) -> frozenset[str]:
    """Return the resources of a raw pod that are ``served`` by a DeviceClass. Raise BadQuantity."""
    containers = (*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ()))
    return frozenset(name for container in containers for name in _requests(container)
                     if name in served and _count(container, name))


def special_claim(pod: GatedPod, served: Mapping[str, str]) -> Json | None:
    """Return the claim that kube-scheduler will make for the pod's extended resources, None if it
    requests none.

    ``served``: as from ``classes_by_resource``. The UID is ``PodRef.special_claim``. Raise
    BadQuantity.
    """
    requests = [request for resource in sorted(extended_resources(pod.raw, served))
                for request in _device_requests(pod.raw["spec"], resource, served[resource])]
    if not requests:
        return None
    return {"metadata": {"name": f"{pod.ref.name}-extended-resources", "namespace": pod.ref.namespace,
                         "uid": pod.ref.special_claim}, "spec": {"devices": {"requests": requests}}}


def _device_requests(spec: Json, resource: str, device_class: str) -> list[Json]:
    """Return the requests of the claim by container.

    Each long-running container has its own devices. An init container uses the devices of later
    containers. The largest number that an init container needs in addition is added.
    """
    starting = spec.get("initContainers") or ()
    containers = (*starting, *(spec.get("containers") or ()))
    brief = [i for i, each in enumerate(starting) if each.get("restartPolicy") != "Always"]
    own = [0 if i in brief else _count(each, resource) for i, each in enumerate(containers)]
    found = [(f"container-{i}", count) for i, count in enumerate(own) if count]
    found += _largest([(f"container-{i}", _count(containers[i], resource) - sum(own[i:])) for i in brief])
    return [{"name": f"{name}-{resource}", "exactly": {"deviceClassName": device_class, "count": count}}
            for name, count in found]


def _largest(more: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    return [most] if more and (most := max(more, key=lambda each: each[1]))[1] > 0 else []


def _requests(container: Json) -> Json:
    found: Json = (container.get("resources") or {}).get("requests") or {}
    return found


def _count(container: Json, resource: str) -> int:
    return amount(resource, str(_requests(container).get(resource, 0)))
