# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The place of each kind of object in the Kubernetes API: one table instead of discovery calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

Object = dict[str, Any]
"""A Kubernetes object as decoded JSON. Treated as immutable once it is in a store."""
# Returns the part of an object that is kept.
Trim = Callable[[Object], Object]


@dataclass(frozen=True, slots=True)
class ApiResource:
    """One API resource. ``group_version`` is ``v1`` or ``group/version``."""

    group_version: str
    plural: str
    kind: str
    namespaced: bool

    def path(
        self, name: str | None = None, namespace: str | None = None, subresource: str | None = None
    ) -> str:
        """Return the URL path of the collection (no ``name``) or of one object.

        A namespaced collection without ``namespace`` is the collection of all namespaces. Raise
        ValueError for a combination that the API does not have.
        """
        if name is not None and not name:
            raise ValueError(f"the name of a {self.kind} must not be empty")
        if self.namespaced and name is not None and not namespace:
            raise ValueError(f"{self.kind} {name!r} needs a namespace")
        if subresource and name is None:
            raise ValueError(f"subresource {subresource!r} of {self.kind} needs a name")
        return self._join(name, namespace if self.namespaced else None, subresource)

    def _join(self, name: str | None, namespace: str | None, subresource: str | None) -> str:
        path = f"/apis/{self.group_version}" if "/" in self.group_version else f"/api/{self.group_version}"
        if namespace:
            path += f"/namespaces/{quote(namespace, safe='')}"
        path += f"/{self.plural}"
        if name is not None:
            path += f"/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


_DRA = "resource.k8s.io/v1"
_CRO = "cro.hpsys.ibm.ie.com/v1alpha1"

CLAIMS = ApiResource(_DRA, "resourceclaims", "ResourceClaim", True)
SLICES = ApiResource(_DRA, "resourceslices", "ResourceSlice", False)
RESOURCE_CLAIM_TEMPLATES = ApiResource(_DRA, "resourceclaimtemplates", "ResourceClaimTemplate", True)
DEVICE_CLASSES = ApiResource(_DRA, "deviceclasses", "DeviceClass", False)

NODES = ApiResource("v1", "nodes", "Node", False)
PODS = ApiResource("v1", "pods", "Pod", True)
POD_TEMPLATES = ApiResource("v1", "podtemplates", "PodTemplate", True)
EVENTS = ApiResource("v1", "events", "Event", True)
NAMESPACES = ApiResource("v1", "namespaces", "Namespace", False)
CONFIG_MAPS = ApiResource("v1", "configmaps", "ConfigMap", True)
SECRETS = ApiResource("v1", "secrets", "Secret", True)

LEASES = ApiResource("coordination.k8s.io/v1", "leases", "Lease", True)
GATE_LEASES = ApiResource("composable.infra/v1alpha1", "gateleases", "GateLease", True)
CRDS = ApiResource("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", False)

PROVISIONING_REQUESTS = ApiResource("autoscaling.x-k8s.io/v1", "provisioningrequests", "ProvisioningRequest", True)

COMPOSABILITY_REQUESTS = ApiResource(_CRO, "composabilityrequests", "ComposabilityRequest", False)
COMPOSABLE_RESOURCES = ApiResource(_CRO, "composableresources", "ComposableResource", False)
