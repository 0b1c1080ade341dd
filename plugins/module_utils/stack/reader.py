# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the state of a cluster's GPU stack as plain values.

Resources that the user may not read are left out and named in `problems`. Resources that are not
served are left out.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ..kube.api_resources import (
    CLAIMS,
    COMPOSABLE_RESOURCES,
    CRDS,
    DEVICE_CLASSES,
    LEASES,
    NODES,
    SECRETS,
    SLICES,
    ApiResource,
)
from ..kube.client.verbs import Client
from ..kube.coordination.agent_leases import AGENT_LABELS
from ..kube.errors import ApiError, NotFound, NotServed
from ..kube.objects import taints
from ..model.value import Json
from . import facts

_CONFIG_MAPS = ApiResource("v1", "configmaps", "ConfigMap", True)
_DAEMON_SETS = ApiResource("apps/v1", "daemonsets", "DaemonSet", True)
_HOSTS = ApiResource("metal3.io/v1alpha1", "baremetalhosts", "BareMetalHost", True)
_MACHINES = ApiResource("machine.openshift.io/v1beta1", "machines", "Machine", True)
_METAL_MACHINES = ApiResource("infrastructure.cluster.x-k8s.io/v1beta1", "metal3machines", "Metal3Machine", True)
_POLICIES = ApiResource("nvidia.com/v1", "clusterpolicies", "ClusterPolicy", False)
_CLUSTERS = ApiResource("nvidia.com/v1alpha1", "gpuclusters", "GPUCluster", False)
# API groups with resources that the checks need.
_CLAIM_TEMPLATES = ApiResource("resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate", True)
_GROUPS = (
    "resource.k8s.io",
    "nvidia.com",
    "nfd.k8s-sigs.io",
    "nfd.openshift.io",
    "operators.coreos.com",
    "metal3.io",
    "machine.openshift.io",
    "infrastructure.cluster.x-k8s.io",
    "machineconfiguration.openshift.io",
    "cro.hpsys.ibm.ie.com",
    "monitoring.coreos.com",
)


class Reader:
    """Reads a cluster once. Raises ApiError only if the API server does not answer at all."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.problems: list[str] = []
        self._served: set[str] = set()

    def read(self) -> Json:
        """Return all values and `problems`."""
        version = str(self._client.raw("GET", "/version").get("gitVersion", ""))
        self._served = set(self._tried("the served APIs", self._discover, set()))
        metrics = self._tried("the API server's feature gates", lambda: self._client.text("/metrics"), "")
        found: Json = {
            "kubernetes": version,
            "served": sorted(self._served),
            "gates": facts.gates(metrics),
            **self._hardware(),
            **self._software(),
            **self._use(),
            **self._hands(),
        }
        return {**found, "problems": self.problems}

    def _hardware(self) -> Json:
        machines = facts.machines_of_hosts(self._list(_HOSTS), self._list(_MACHINES) + self._list(_METAL_MACHINES))
        return {"nodes": sorted((facts.node(item, machines) for item in self._list(NODES)), key=_name)}

    def _software(self) -> Json:
        secrets = self._list(SECRETS, field_selector="type=helm.sh/release.v1")
        return {
            "releases": facts.releases(secrets),
            "daemon_sets": sorted((facts.daemon_set(item) for item in self._list(_DAEMON_SETS)), key=_place),
            "crds": sorted(item["metadata"]["name"] for item in self._list(CRDS)),
            "cluster_policies": [facts.with_state(item) for item in self._list(_POLICIES)],
            "gpu_clusters": [facts.with_state(item) for item in self._list(_CLUSTERS)],
            **self._selectors(),
        }

    def _selectors(self) -> Json:
        classes = self._list(DEVICE_CLASSES)
        asked = [*self._list(_CLAIM_TEMPLATES), *self._list(CLAIMS)]
        return {
            "device_classes": sorted(item["metadata"]["name"] for item in classes),
            "class_selectors": {item["metadata"]["name"]: facts.selectors(item.get("spec")) for item in classes},
            "requests": sorted((r for item in asked for r in facts.requests(item)), key=_object),
        }

    def _use(self) -> Json:
        return {
            "slices": facts.devices(self._list(SLICES)),
            "claims": sorted((c for c in map(facts.claim, self._list(CLAIMS)) if c["devices"]), key=_place),
            "composable_resources": sorted((facts.composable(item) for item in self._list(COMPOSABLE_RESOURCES)),
                                           key=_name),
            "taint_rules": sorted(item["metadata"]["name"] for item in self._taint_rules()),
        }

    def _taint_rules(self) -> list[Json]:
        """List the DeviceTaintRules in the newest served version, which has all of them."""
        versions = [ApiResource(f"resource.k8s.io/{version}", "devicetaintrules", "DeviceTaintRule", False)
                    for version in taints.VERSIONS]
        served = [each for each in versions if f"{each.group_version}/{each.plural}" in self._served]
        return self._list(served[0]) if served else []

    def _hands(self) -> Json:
        """Read who does node operations, and which node agents are alive."""
        settings = self._list(_CONFIG_MAPS, field_selector="metadata.name=composable-infra-config")
        labels = ",".join(f"{key}={value}" for key, value in AGENT_LABELS.items())
        leases, now = self._list(LEASES, label_selector=labels), self._client.server_time()
        return {
            "controllers": sorted((facts.controllers(item) for item in settings), key=lambda item: item["namespace"]),
            "agents": sorted((facts.agent(item, now) for item in leases), key=lambda item: item["node"]),
        }

    def _discover(self) -> set[str]:
        groups = self._client.raw("GET", "/apis").get("groups") or []
        versions = [str(v["groupVersion"]) for g in groups if g.get("name") in _GROUPS for v in g.get("versions") or []]
        return {f"{gv}/{name}" for gv in versions for name in self._resources_of(gv)}

    def _resources_of(self, group_version: str) -> list[str]:
        found = self._client.raw("GET", f"/apis/{group_version}").get("resources") or []
        return [str(item["name"]) for item in found if "/" not in str(item["name"])]

    def _list(
        self, resource: ApiResource, field_selector: str | None = None, label_selector: str | None = None
    ) -> list[Json]:
        group = resource.group_version.partition("/")[0]
        if group in _GROUPS and f"{resource.group_version}/{resource.plural}" not in self._served:
            return []
        found: list[Json] = self._tried(
            f"{resource.plural} of {resource.group_version}",
            lambda: self._client.list(
                resource, field_selector=field_selector, label_selector=label_selector
            ).items,
            [],
        )
        return found

    def _tried(self, what: str, get: Callable[[], t.Any], otherwise: t.Any) -> t.Any:
        try:
            return get()
        except (NotFound, NotServed):
            return otherwise
        except ApiError as error:
            self.problems.append(f"{what} could not be read: {error}")
            return otherwise


def _name(item: Json) -> str:
    return str(item["name"])


def _object(item: Json) -> str:
    return str(item["object"])


def _place(item: Json) -> tuple[str, str]:
    return str(item["namespace"]), str(item["name"])
