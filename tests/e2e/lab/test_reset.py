# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab that was put back is as it was after its start: what came is gone, what changed or went is there again."""

from __future__ import annotations

import pytest

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.tests.e2e.support.lab_support import bare_pod

DEFAULT = "/api/v1/namespaces/default"
CLASS = "/apis/resource.k8s.io/v1/deviceclasses/gpu.nvidia.com"
DEFINITION = {"metadata": {"name": "things.example.com"}, "spec": {
    "group": "example.com", "names": {"kind": "Thing", "plural": "things", "singular": "thing"}, "scope": "Cluster",
    "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}


def disturb(lab: Lab) -> None:
    """Add objects, some of which do not want to go, change one, delete one, and leave a folder of a node."""
    api = lab.api
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": "extra"}})
    kept = {"metadata": {"name": "kept", "finalizers": ["example.com/nobody-removes-this"]}}
    api.request("POST", "/api/v1/namespaces/extra/configmaps", kept)
    api.request("POST", f"{DEFAULT}/pods", bare_pod("left"))
    api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    lab.processes.wait_until("the new kind", lambda: api.exists("/apis/example.com/v1/things"), 30)
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", **kept}
    api.request("POST", "/apis/example.com/v1/things", thing)
    label = {"metadata": {"labels": {"example.com/a": "b"}}}
    api.request("PATCH", DEFAULT, label, "application/merge-patch+json")
    api.request("DELETE", CLASS)
    lab.node_folder("node-0").mkdir(parents=True)


def test_what_tests_left_is_gone(lab: Lab) -> None:
    snapshot = lab.snapshot()
    before = lab.api.get("/api/v1/nodes/node-0")["metadata"]["uid"]
    disturb(lab)
    lab.reset(snapshot, 3)
    assert not lab.api.exists("/api/v1/namespaces/extra")
    assert not lab.api.exists("/apis/example.com/v1/things")
    assert not lab.api.exists(f"{DEFAULT}/pods/left")
    assert "example.com/a" not in lab.api.get(DEFAULT)["metadata"]["labels"]
    assert lab.api.exists(CLASS)
    assert not lab.node_folder("node-0").exists()
    nodes = {node["metadata"]["name"]: node["metadata"]["uid"] for node in lab.api.get("/api/v1/nodes")["items"]}
    assert list(nodes) == ["node-0", "node-1", "node-2"]
    assert nodes["node-0"] != before, "the nodes are fresh"


def test_a_lab_without_its_scheduler_is_not_put_back(lab: Lab) -> None:
    snapshot = lab.snapshot()
    lab.stop_component("kube-scheduler")
    try:
        with pytest.raises(LabError, match="kube-scheduler does not run"):
            lab.reset(snapshot, 2)
    finally:
        lab.start_component("kube-scheduler")
