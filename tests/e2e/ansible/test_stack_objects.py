# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every object that the roles write is valid, without a field too many, for the vendors' own CRDs and schemas."""

from __future__ import annotations

import base64
import functools
import json
import typing as t
from pathlib import Path

import jsonschema
import pytest
import yaml

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.support.played import Json, play, well
from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tests.unit.stack.vendor_charts import (
    vendor,
)

PLACES = {
    "ClusterPolicy": "/apis/nvidia.com/v1/clusterpolicies",
    "GPUCluster": "/apis/nvidia.com/v1alpha1/gpuclusters",
    "NodeFeatureRule": "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
}
CRDS = [
    "gpu-operator-v26.7.0/crds/nvidia.com_clusterpolicies.yaml",
    "gpu-operator-v26.7.0/crds/nvidia.com_gpuclusters.yaml",
    "node-feature-discovery-v0.19.0/crds/nfd-api-crds.yaml",
]
FABRICS = [{"id": "1", "models": ["a100", "h100"], "nodes": ["node-0", "node-1"]}]


@pytest.fixture(scope="module")
def lab(stage_factory: StageFactory) -> Lab:
    """A lab whose API server holds the vendors' CRDs."""
    found = stage_factory(nodes=1).lab
    for name in CRDS:
        chart, _slash, path = name.partition("/")
        for document in yaml.safe_load_all((vendor(chart) / path).read_text(encoding="utf-8")):
            if document:
                found.api.apply(document)
    for place in PLACES.values():
        found.processes.wait_until(place, functools.partial(found.api.exists, place), 30)
    return found


@pytest.fixture(scope="module")
def client(lab: Lab) -> Client:
    """Speaks to it as its administrator."""
    return Client(Connection.load(str(lab.kubeconfig)))


def evaluated(folder: Path, role: str, expression: str, **variables: t.Any) -> t.Any:
    """What an expression is worth among the role's own variables."""
    files = [str(ROOT / "roles" / role / part / "main.yml") for part in ("defaults", "vars")]
    task = {"name": "Say it", "ansible.builtin.debug": {"msg": "{{ (" + expression + ") | to_json }}"}}
    book: list[Json] = [
        {
            "name": "Evaluate",
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "vars_files": files,
            "tasks": [task],
        }
    ]
    said = well(play(folder, book, variables)).result("Say it")["msg"]
    return json.loads(said) if isinstance(said, str) else said


def template(role: str, name: str) -> str:
    """The expression that renders a template of the role."""
    return f"(lookup('ansible.builtin.template', '{ROOT}/roles/{role}/templates/{name}') | from_yaml)"


def strictly(client: Client, document: Json) -> None:
    """Let the API server judge it; a field that it does not know is an error. Nothing is stored."""
    query = {"fieldValidation": "Strict", "dryRun": "All"}
    client.raw("POST", PLACES[document["kind"]], document, query=query)


def test_a_field_too_many_is_seen(client: Client) -> None:
    wrong = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "GPUCluster",
        "metadata": {"name": "gpu-cluster"},
        "spec": {"draDriver": {"repositry": "x"}},
    }
    with pytest.raises(ApiError, match="repositry"):
        strictly(client, wrong)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {
            "composable_driver_shape": "container",
            "composable_driver_branch": 595,
            "composable_registry_mirror": "m:5000/x",
        },
        {
            "composable_platform": "rke2",
            "gpu_operator_device_plugin": True,
            "gpu_operator_sharing_config": "shared",
            "gpu_operator_dcgm": True,
            "gpu_operator_dcgm_exporter": True,
            "gpu_operator_mig_manager": True,
            "composable_image_pull_secrets": ["pull"],
        },
        {"composable_platform": "openshift", "composable_driver_shape": "container"},
    ],
    ids=["host driver", "container driver", "all operands", "OpenShift"],
)
def test_cluster_policy(client: Client, tmp_path: Path, variables: Json) -> None:
    document = evaluated(tmp_path, "gpu_operator", template("gpu_operator", "cluster_policy.yml.j2"), **variables)
    strictly(client, document)
    assert document["spec"]["driver"]["enabled"] is (variables.get("composable_driver_shape") == "container")


def test_gpu_cluster(client: Client, tmp_path: Path) -> None:
    document = evaluated(
        tmp_path,
        "gpu_operator",
        template("gpu_operator", "gpu_cluster.yml.j2"),
        gpu_operator_mode="gpu_cluster",
        composable_registry_mirror="m:5000",
    )
    strictly(client, document)
    assert document["spec"]["draDriver"]["repository"] == "m:5000/nvidia"


@pytest.mark.parametrize("pinned", [False, True])
def test_node_feature_rules(client: Client, tmp_path: Path, pinned: bool) -> None:
    rules = evaluated(
        tmp_path,
        "nfd",
        "nfd_driver_rules + " + template("nfd", "fabric_rules.yml.j2"),
        nfd_fabrics=FABRICS,
        nfd_pin_gpu_present=pinned,
    )
    assert [len(rule["labels"]) for rule in rules] == [1, 4 if pinned else 3]
    strictly(
        client,
        {
            "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
            "kind": "NodeFeatureRule",
            "metadata": {"name": "composable-infra"},
            "spec": {"rules": rules},
        },
    )


@pytest.mark.parametrize("item", [{"name": "any"}, {"name": "a100", "expression": 'device.driver == "x" && true'}])
def test_device_class(client: Client, tmp_path: Path, item: Json) -> None:
    document = evaluated(tmp_path, "nvidia_dra_driver", template("nvidia_dra_driver", "device_class.yml.j2"), item=item)
    strictly(client, document)
    expression = document["spec"]["selectors"][0]["cel"]["expression"]
    assert expression == item.get("expression", "device.driver == 'gpu.nvidia.com'")


def test_values_of_nfd_pass_the_charts_schema(tmp_path: Path) -> None:
    schema = json.loads((vendor("node-feature-discovery-v0.19.0") / "values.schema.json").read_text(encoding="utf-8"))
    values = evaluated(tmp_path, "nfd", "nfd_chart_values", composable_image_pull_secrets=["pull"])
    jsonschema.validate(values, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**values, "postDeleteCleanup": "yes please"}, schema)


def test_machine_config_of_rhcos(tmp_path: Path) -> None:
    document = evaluated(
        tmp_path,
        "node_prepare",
        template("node_prepare", "machine_config.yml.j2"),
        node_prepare_kernel_parameters=["pci=realloc=on"],
    )
    assert document["metadata"]["labels"]["machineconfiguration.openshift.io/role"] == "worker"
    assert document["spec"]["kernelArguments"] == ["pci=realloc=on", "modprobe.blacklist=nouveau"]
    (file,) = document["spec"]["config"]["storage"]["files"]
    text = base64.b64decode(file["contents"]["source"].partition(",")[2]).decode()
    assert file["path"] == "/etc/modprobe.d/composable-infra.conf"
    assert "\nblacklist nouveau\n" in text
    assert "\noptions nvidia-drm modeset=0\n" in text


@pytest.mark.parametrize(
    ("role", "channel", "package"),
    [("nfd", "nfd_channel", "nfd"), ("gpu_operator", "gpu_operator_channel", "gpu-operator-certified")],
)
def test_subscription_of_olm(tmp_path: Path, role: str, channel: str, package: str) -> None:
    said = {channel: "stable", "composable_platform": "openshift"}
    items = evaluated(tmp_path, role, template(role, "subscription.yml.j2"), **said)["items"]
    assert [item["kind"] for item in items] == ["OperatorGroup", "Subscription"]
    assert {item["metadata"]["namespace"] for item in items} == {items[0]["metadata"]["name"]}
    assert (items[1]["spec"]["name"], items[1]["spec"]["channel"]) == (package, "stable")
