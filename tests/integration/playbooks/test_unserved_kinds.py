# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server that answers 503 at discovery has no empty lists: nothing is released, removed or begun.

kubernetes.core returns no resources and `api_found: false` then, and does not fail.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played, play
from ansible_collections.composable.infra.tests.integration.kube.api_server import FakeApi, status
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

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
            listed = {"kind": f"{kind}List", "apiVersion": group, "metadata": {"resourceVersion": "1"},
                      "items": holds.get(name, items)}
            api.on(f"GET {path}/{name}", listed)
    for name, _kind, _items in KINDS[CRO] if absent != CRO else ():
        crd = {"apiVersion": CRDS, "kind": "CustomResourceDefinition", "metadata": {"name": f"{name}.{GROUP}"}}
        api.on(f"GET /apis/{CRDS}/customresourcedefinitions/{name}.{GROUP}", crd)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    made = FakeApi(None)
    yield made
    made.stop()


def run(api: FakeApi, folder: Path, task: Json, **variables: t.Any) -> Played:
    """One task against the server, with an empty cache of kinds, as in each new container."""
    entry = {"name": "c", "cluster": {"server": api.url}}
    access = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [entry],
              "users": [{"name": "c", "user": {"token": "t"}}],
              "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(access), encoding="utf-8")
    book = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [task]}]
    given = {"composable_kubeconfig": str(kubeconfig), "given": {"kubeconfig": str(kubeconfig)}, **variables}
    return play(folder, book, given, TMPDIR=str(folder))


def include(role: str, tasks: str) -> Json:
    return {"ansible.builtin.include_role": {"name": f"composable.infra.{role}", "tasks_from": tasks}}


def refused(api: FakeApi, done: Played) -> list[str]:
    """Kinds of which the run says that the API server does not tell them; it has changed nothing."""
    assert done.status != 0
    assert [request.path for request in api.requests if request.method != "GET"] == []
    return [message for message in done.failures if "does not mean that there are none" in message]


NODE_WORK: Json = {"ansible.builtin.include_tasks": str(ROOT / "playbooks/tasks/node_work.yml")}
# No command helm is needed here: whether it is there is not what is asked.
NO_CLAIMS: Json = {"uninstall_found": {"stack": {"claims": []}}, "composable_helm_binary": "/bin/true"}
ON_NODES: Json = {"node_hosts_of": {"n1": "localhost"}}


def test_device_of_a_claim_is_not_released(api: FakeApi, tmp_path: Path) -> None:
    serve(api)
    done = run(api, tmp_path, NODE_WORK, **ON_NODES)
    todo = done.result("Choose what to do")["ansible_facts"]["node_todo"]
    assert ([one["device"] for one in todo["release"]], len(todo["write"])) == ([], 1)


@pytest.mark.parametrize("sick", [DRA, CRO])
def test_nothing_is_begun_on_nodes_while_a_kind_is_not_served(api: FakeApi, tmp_path: Path, sick: str) -> None:
    serve(api, sick)
    assert refused(api, run(api, tmp_path, NODE_WORK, **ON_NODES))


@pytest.mark.parametrize(("role", "tasks", "sick", "variables"), [
    ("controllers", "absent", CRO, {"controllers_remove_crds": True}),
    ("controllers", "absent", CRDS, {"controllers_remove_crds": True, "lacking": CRO}),
    ("controllers", "absent", ADMISSION, {}), ("controllers", "rivals", APPS, {}),
    ("controllers", "held_pods", "v1", {}), ("cohdi", "absent", CRO, {}), ("cohdi", "rivals", APPS, {}),
    ("cohdi", "absent", CRDS, {"lacking": CRO}), ("uninstall", "attached", CRO, NO_CLAIMS),
    ("uninstall", "attached", CRDS, {**NO_CLAIMS, "lacking": CRO})])
def test_nothing_is_removed_while_a_kind_is_not_served(
    api: FakeApi, tmp_path: Path, role: str, tasks: str, sick: str, variables: Json
) -> None:
    serve(api, sick, variables.get("lacking", ""))
    assert refused(api, run(api, tmp_path, include(role, tasks), **variables))


def test_cluster_without_the_definitions_has_no_device(api: FakeApi, tmp_path: Path) -> None:
    serve(api, absent=CRO)
    assert run(api, tmp_path, include("uninstall", "attached"), **NO_CLAIMS).status == 0
