# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record the objects of a lab's API server after its start, and restore them later.

A start of a control plane costs 5 s of processor time, a restore 0.5 s. So tests share a lab and
restore it for each other. New objects are deleted with grace period 0 and without their finalizers.
Changed objects are written back, and missing objects are created again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ansible_collections.composable.infra.lab.api import Api, ApiRefusal
from ansible_collections.composable.infra.lab.errors import LabError

Json = dict[str, Any]
# (path of the kind, namespace or "", name)
_Key = tuple[str, str, str]
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EVENTS = "/api/v1/events"
ACCOUNTS, CONFIG_MAPS = "/api/v1/serviceaccounts", "/api/v1/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/leases"
# The API server writes these for its own services.
_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
# The same objects as those of the group "".
_TWICE = "/apis/events.k8s.io/v1/events"
_ROUNDS = 40
_NOW = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "propagationPolicy": "Background"}


@dataclass(frozen=True, slots=True)
class _Kind:
    """A resource of the API: path of its group and version, plural name, whether it has
    namespaces."""

    root: str
    plural: str
    namespaced: bool

    @property
    def path(self) -> str:
        """Return the URL path of all its objects."""
        return f"{self.root}/{self.plural}"

    def of(self, namespace: str, name: str) -> str:
        """Return the URL path of one object."""
        scope = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{self.root}{scope}/{self.plural}/{name}"


class Snapshot:
    """All objects of a lab at one moment, without its Nodes. The caller of a restore makes new
    Nodes."""

    def __init__(self, api: Api) -> None:
        """Read the objects. Raise LabError if the API server does not answer."""
        self._api = api
        self._objects = {key: obj for key, obj, _kind in self._read()}

    def restore(self) -> None:
        """Restore the snapshot in the API server. Raise LabError with the objects that could not be
        removed.

        First stop the processes that write objects (controllers, agents, hardware).
        """
        left: list[str] = []
        for _round in range(_ROUNDS):
            left = self._round()
            if not left:
                return
        raise LabError(f"the lab could not be put back: {', '.join(left[:5])} were not restored")

    def objects(self) -> dict[str, list[Json]]:
        """Return the recorded objects by the URL path of their kind."""
        found: dict[str, list[Json]] = {}
        for (path, _namespace, _name), obj in self._objects.items():
            found.setdefault(path, []).append(obj)
        return found

    def _round(self) -> list[str]:
        """Undo the current differences. Return what differed, for the next round to check again."""
        found = {key: (obj, kind) for key, obj, kind in self._read()}
        differing = []
        for namespace in {key[1] for key in found if key[0] == EVENTS}:
            self._try("DELETE", f"/api/v1/namespaces/{namespace}/events", {})
        # Delete CRDs last. With a CRD the API server removes its objects and waits for finalizers.
        for key, (obj, kind) in sorted(found.items(), key=lambda each: each[0][0] == DEFINITIONS):
            if self._left_alone(key):
                continue
            if key not in self._objects:
                differing.append("/".join(filter(None, key)))
                self._delete(kind, obj)
            elif _content(obj) != _content(self._objects[key]):
                differing.append("/".join(filter(None, key)))
                self._put(kind, self._objects[key], obj["metadata"]["resourceVersion"])
        for key in self._objects.keys() - found.keys():
            if not self._left_alone(key):
                differing.append("/".join(filter(None, key)))
                self._create(key)
        return differing

    def _left_alone(self, key: _Key) -> bool:
        """Return whether components may write the object at any time."""
        path, namespace, name = key
        if path in (EVENTS, _SERVICES) or (path == LEASES and namespace.startswith("kube-")):
            return True
        of_namespace = (path, name) in ((ACCOUNTS, "default"), (CONFIG_MAPS, "kube-root-ca.crt"))
        return (of_namespace and (NAMESPACES, "", namespace) in self._objects) or (
            path in (ACCOUNTS, CONFIG_MAPS) and namespace.startswith("kube-"))

    def _read(self) -> Iterator[tuple[_Key, Json, _Kind]]:
        for kind in self._kinds():
            try:
                items = self._api.get(kind.path)["items"]
            except ApiRefusal as error:
                if error.status not in (404, 405):
                    raise
                continue
            for obj in items:
                meta = obj["metadata"]
                yield (kind.path, meta.get("namespace", ""), meta["name"]), obj, kind

    def _kinds(self) -> Iterator[_Kind]:
        for root in ("/api", "/apis"):
            for group in self._api.request("GET", root, accept=DISCOVERY)["items"]:
                served: dict[str, _Kind] = {}
                for version in group["versions"]:
                    base = "/".join(filter(None, (root, group["metadata"].get("name"), version["version"])))
                    for entry in version.get("resources", []):
                        kind = _Kind(base, entry["resource"], entry["scope"] == "Namespaced")
                        if {"list", "delete", "create"} <= {*entry["verbs"]} and kind.path not in (NODES, _TWICE):
                            served.setdefault(kind.plural, kind)
                yield from served.values()

    def _delete(self, kind: _Kind, obj: Json) -> None:
        meta = obj["metadata"]
        path = kind.of(meta.get("namespace", ""), meta["name"])
        if kind.path == NAMESPACES:
            self._try("DELETE", path, _NOW)
            self._try("PUT", f"{path}/finalize", {**obj, "spec": {"finalizers": []}})
            return
        if meta.get("finalizers"):
            patch = {"metadata": {"finalizers": None}}
            self._try("PATCH", path, patch, "application/merge-patch+json")
        self._try("DELETE", path, _NOW)

    def _put(self, kind: _Kind, wanted: Json, version: str) -> None:
        meta = wanted["metadata"]
        body = {**wanted, "metadata": {**meta, "resourceVersion": version}}
        body["metadata"].pop("managedFields", None)
        self._try("PUT", kind.of(meta.get("namespace", ""), meta["name"]), body)

    def _create(self, key: _Key) -> None:
        path, namespace, _name = key
        root, _slash, plural = path.rpartition("/")
        scope = f"{root}/namespaces/{namespace}/{plural}" if namespace else path
        self._try("POST", scope, _without_history(self._objects[key]))

    def _try(self, method: str, path: str, body: Json, content: str = "application/json") -> None:
        """Send one request. The next round checks objects that are gone, changed or refused."""
        try:
            self._api.request(method, path, body, content)
        except ApiRefusal as error:
            if error.status >= 500:
                raise


def _content(obj: Json) -> str:
    """Return the content to compare, without history and status."""
    return json.dumps({**_without_history(obj), "status": None}, sort_keys=True)


def _without_history(obj: Json) -> Json:
    dropped = ("resourceVersion", "managedFields", "generation", "uid", "creationTimestamp")
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k not in dropped}}
