# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_unserved_kinds.py` and others share."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played, Question, play_each
from ansible_collections.composable.infra.tests.integration.kube.api_server import FakeApi, status

CRO, DRA = "cro.hpsys.ibm.ie.com/v1alpha1", "resource.k8s.io/v1"
APPS, ADMISSION, CRDS = "apps/v1", "admissionregistration.k8s.io/v1", "apiextensions.k8s.io/v1"
GROUP: t.Final = CRO.partition("/")[0]
STEPS = [{"step": step, "at": "2026-11-26T00:00:00.000000Z"}
         for step in ("OnBus", "Bound", "Touched", "PluginRestarted", "Announced")]
EVIDENCE = {"version": 1, "phase": "Ready", "device": "d1", "by": "ssh", "uuid": "GPU-1", "address": "0000:10:00.0",
            "steps": STEPS}
RESOURCE: Json = {
    "metadata": {"name": "gpu-1", "uid": "u", "labels": {"composable.infra/target-node": "n1"},
                 "annotations": {"composable.infra/release": "2026-11-26T00:00:00Z",
                                 "composable.infra/node": json.dumps(EVIDENCE)}},
    "spec": {"type": "gpu", "model": "A100", "target_node": "n1"},
    "status": {"state": "Online", "device_id": "GPU-1", "cdi_device_id": "d1"}}
SLICE: Json = {
    "metadata": {"name": "s"},
    "spec": {"driver": "gpu.nvidia.com", "nodeName": "n1",
             "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
             "devices": [{"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-1"}}}]}}
RESULTS = [{"request": "r", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"}]
CLAIM: Json = {
    "metadata": {"name": "training", "namespace": "tenant", "uid": "c"}, "spec": {},
    "status": {"allocation": {"devices": {"results": RESULTS}},
               "reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}]}}
KINDS: t.Final[dict[str, list[tuple[str, str, list[Json]]]]] = {
    "v1": [("nodes", "Node", []), ("pods", "Pod", []), ("namespaces", "Namespace", []),
           ("configmaps", "ConfigMap", [])],
    CRO: [("composableresources", "ComposableResource", [RESOURCE]),
          ("composabilityrequests", "ComposabilityRequest", [])],
    DRA: [("resourceslices", "ResourceSlice", [SLICE]), ("resourceclaims", "ResourceClaim", [CLAIM])],
    APPS: [("deployments", "Deployment", []), ("daemonsets", "DaemonSet", [])],
    ADMISSION: [("validatingadmissionpolicies", "ValidatingAdmissionPolicy", []),
                ("mutatingadmissionpolicies", "MutatingAdmissionPolicy", [])],
    CRDS: [("customresourcedefinitions", "CustomResourceDefinition", [])],
}


def serve(api: FakeApi, sick: str = "", absent: str = "", **holds: list[Json]) -> None:
    """A small cluster. `sick`: the group and version whose discovery is answered with 503; `absent`: one it lacks.

    `holds`: other objects than those of KINDS, by their plural.
    """
    groups = [one for one in KINDS if "/" in one and one != absent]
    api.on("GET /version", {"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
    api.on("GET /api", {"kind": "APIVersions", "versions": ["v1"]})
    api.on("GET /apis", {"kind": "APIGroupList", "groups": [
        {"name": one.partition("/")[0], "preferredVersion": version, "versions": [version]}
        for one in groups for version in ({"groupVersion": one, "version": one.partition("/")[2]},)]})
    for group in ("v1", *groups):
        path = f"/api{'s' if '/' in group else ''}/{group}"
        resources = [{"name": name, "singularName": kind.lower(), "namespaced": kind in ("Pod", "ConfigMap"),
                      "kind": kind, "verbs": ["get", "list"]} for name, kind, _items in KINDS[group]]
        found = {"kind": "APIResourceList", "groupVersion": group, "resources": resources}
        api.on(f"GET {path}", status(503, "ServiceUnavailable") if group == sick else found)
        for name, kind, items in KINDS[group]:
            own = holds.get(name, items)
            listed = {"kind": f"{kind}List", "apiVersion": group, "metadata": {"resourceVersion": "1"}, "items": own}
            api.on(f"GET {path}/{name}", listed)
            for item in own if name == "nodes" else ():
                api.on(f"GET {path}/{name}/{item['metadata']['name']}", {"kind": kind, "apiVersion": group, **item})
    for name, _kind, _items in KINDS[CRO] if absent != CRO else ():
        crd = {"apiVersion": CRDS, "kind": "CustomResourceDefinition", "metadata": {"name": f"{name}.{GROUP}"}}
        api.on(f"GET /apis/{CRDS}/customresourcedefinitions/{name}.{GROUP}", crd)


class Clusters:
    """A server for each question that is put to the roles; one run puts them all."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.apis, self.questions = folder, dict[str, FakeApi](), dict[str, Question]()

    def ask(self, key: str, task: Json, sick: str = "", absent: str = "", holds: Json | None = None,
            **variables: t.Any) -> None:
        """Put a question to a cluster of its own, which `serve` describes, with an empty cache of kinds."""
        api = self.apis[key] = FakeApi(None)
        serve(api, sick, absent, **(holds or {}))
        kubeconfig = self.folder / f"{len(self.apis)}.kubeconfig"
        entry = {"name": "c", "cluster": {"server": api.url}}
        kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [entry],
            "users": [{"name": "c", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}), encoding="utf-8")
        self.questions[key] = Question([task], {"composable_kubeconfig": str(kubeconfig),
                                                "given": {"kubeconfig": str(kubeconfig)}, **variables})

    def answers(self) -> dict[str, Played]:
        """Put the questions. Return what each run did, by key."""
        try:
            return play_each(self.folder, self.questions, TMPDIR=str(self.folder))
        finally:
            for api in self.apis.values():
                api.stop()

    def changes(self, key: str) -> list[str]:
        """Paths that were asked to change."""
        return [request.path for request in self.apis[key].requests if request.method != "GET"]


def include(role: str, tasks: str) -> Json:
    return {"ansible.builtin.include_role": {"name": f"composable.infra.{role}", "tasks_from": tasks}}


# No command helm is needed here: whether it is there is not what is asked.
NO_CLAIMS: Json = {"uninstall_found": {"stack": {"claims": []}}, "composable_helm_binary": "/bin/true"}
