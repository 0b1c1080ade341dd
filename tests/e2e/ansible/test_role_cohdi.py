# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From CoHDI to our controllers and back: no object and no device is lost, and neither side stands in the other's way.

Nothing of CoHDI works here: its pods only seem to run, and the test writes the objects that it would have written.
"""

from __future__ import annotations

import sys
import typing as t
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage, pod_body
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.names import machine_uuid
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    CLAIMS,
    COMPOSABILITY_REQUESTS,
    COMPOSABLE_RESOURCES,
    NODES,
    PODS,
    SLICES,
    ApiResource,
)
from ansible_collections.composable.infra.plugins.module_utils.kube.objects import cohdi
from ansible_collections.composable.infra.plugins.module_utils.planning.pool.plan import PoolSnapshot, slice_spec
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import Settings
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.tests.e2e.ansible.role_controllers_support import (
    CONFIG,
    OPTIONS,
)
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.lab_support import phase
from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played, play, role, well
from ansible_collections.composable.infra.tests.e2e.support.support import OPENED, attached, run_pods, wait_for
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

STAGE: dict[str, t.Any] = {"devices": {A100: 2}}
CRO = "/apis/cro.hpsys.ibm.ie.com/v1alpha1"
DRA = "/api/v1/namespaces/composable-dra"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SECRETS = {"username": "gpu", "password": "correct-horse", "realm": "r", "client_id": "c", "client_secret": "battery"}
SETTINGS: Json = {**CONFIG, "fabric": {**CONFIG["fabric"], "endpoint": "https://fabric-manager.example.com:8443"}}
# what the chart cannot do without
NEEDED: Json = {"cohdi_host_aliases": [{"ip": "192.0.2.7", "hostnames": ["fabric-manager.example.com"]}],
                "cohdi_webhook_ca": "ca", "cohdi_webhook_certificate": "certificate", "cohdi_webhook_key": "key"}
OPERATOR = "/apis/apps/v1/namespaces/composable-resource-operator-system/deployments"
Run = t.Callable[..., Played]
PLACES = {"composable-dra": ["composable-dra-driver", "dds-controller-manager"],
          "composable-resource-operator-system": ["composable-resource-operator-controller-manager"]}


@pytest.fixture(scope="module")
def lab(stage: Stage) -> Lab:
    """The lab of the file's stage."""
    return stage.lab


@pytest.fixture(scope="module")
def run(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``run("--check", cohdi_state="paused")``: the role, or another part, with the file's options."""
    folder = tmp_path_factory.mktemp("cohdi")

    def start(*options: str, part: str = "cohdi", **variables: t.Any) -> Played:
        given = {"composable_kubeconfig": str(lab.kubeconfig), "composable_wait_timeout": 60,
                 "composable_helm_binary": str(Path(sys.executable).parent / "helm"),
                 "composable_chart_mirror": str(ROOT / "tests" / "charts"),
                 "composable_registry_mirror": "mirror.example.com:5000/gpu",
                 "controllers_config": SETTINGS, "controllers_credentials": SECRETS, **NEEDED}
        return play(folder, role(part), {**given, **variables}, *options)

    return start


@pytest.fixture(scope="module")
def device(lab: Lab, installed: Played) -> str:
    """A ComposableResource, as either side's operator makes one."""
    body = {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposableResource", "metadata": {"name": "gpu-1"},
            "spec": {"type": "gpu", "model": "A100 40G", "target_node": "node-0"}}
    return str(lab.api.request("POST", f"{CRO}/composableresources", body)["metadata"]["uid"])


@pytest.fixture(scope="module")
def installed(run: Run) -> Played:
    """The chart is installed."""
    return well(run())


def replicas(lab: Lab) -> list[int]:
    return [lab.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")["spec"]["replicas"]
            for namespace, names in PLACES.items() for name in names]


def releases(lab: Lab) -> list[str]:
    """Secrets in which Helm keeps its revisions."""
    return sorted(item["metadata"]["name"] for item in lab.api.get("/api/v1/secrets")["items"]
                  if item["type"] == "helm.sh/release.v1")


def policies(lab: Lab) -> list[str]:
    return [hook["failurePolicy"] for item in lab.api.get(WEBHOOKS)["items"] for hook in item["webhooks"]]


def test_values_come_from_our_configuration(lab: Lab, installed: Played) -> None:
    table = yaml.safe_load(lab.api.get(f"{DRA}/configmaps/composable-dra-dds")["data"]["device-info"])
    assert table == CONFIG["device_info"]
    assert set(lab.api.get(f"{DRA}/secrets/composable-dra-secret")["data"]) == set(SECRETS)
    assert not [text for text in ("correct-horse", "battery") if text in installed.output]


def test_definitions_that_were_there_are_the_charts_now(lab: Lab, installed: Played) -> None:
    """The lab has brought them, as our role does; Helm refuses such."""
    for name in ("composabilityrequests", "composableresources"):
        found = lab.api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}.cro.hpsys.ibm.ie.com")
        assert found["metadata"]["annotations"]["meta.helm.sh/release-name"] == "cohdi"


def test_the_operator_is_told_address_and_port(lab: Lab, installed: Played) -> None:
    (item,) = lab.api.get(OPERATOR)["items"]
    (container,) = item["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "FTI_CDI_ENDPOINT", "value": "192.0.2.7:8443"}]
    assert container["image"] == "mirror.example.com:5000/gpu/cohdi/composable-resource-operator:v0.2.0"


@pytest.mark.parametrize("name", NEEDED)
def test_what_the_chart_would_refuse_is_refused_before(run: Run, name: str) -> None:
    refused = run(**{name: [] if name == "cohdi_host_aliases" else ""})
    assert refused.status != 0
    (told,) = refused.failures
    assert told.startswith(f"{name} is missing. Upstream's chart needs ")


def test_another_release_that_has_the_definitions_is_named(installed: Played, run: Run) -> None:
    refused = run(cohdi_release="second")
    assert refused.status != 0
    assert "belong to the release cohdi/cohdi" in "".join(refused.failures)
    assert refused.changed == []


def test_a_second_run_changes_nothing(lab: Lab, installed: Played, run: Run) -> None:
    assert installed.changed
    assert well(run()).changed == []
    assert well(run("--check")).changed == []
    assert replicas(lab) == [1, 1, 1]


def test_paused_it_stops_and_keeps_what_it_knows(lab: Lab, device: str, run: Run) -> None:
    check = well(run("--check", cohdi_state="paused"))
    assert check.changed
    assert replicas(lab) == [1, 1, 1]
    well(run(cohdi_state="paused"))
    assert (replicas(lab), policies(lab)) == ([0, 0, 0], ["Ignore"])
    assert lab.api.get(f"{CRO}/composableresources/gpu-1")["metadata"]["uid"] == device
    assert well(run(cohdi_state="paused")).changed == []


def test_paused_its_webhook_does_not_refuse_what_others_write(lab: Lab, device: str) -> None:
    assert policies(lab) == ["Ignore"]
    resource: Json = {"type": "gpu", "model": "A100 40G", "size": 0, "target_node": "node-0"}
    body = {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposabilityRequest",
            "metadata": {"name": "ours"}, "spec": {"resource": resource}}
    lab.api.request("POST", f"{CRO}/composabilityrequests", body)
    lab.api.request("DELETE", f"{CRO}/composabilityrequests/ours")


def test_it_comes_back_with_the_same_devices(lab: Lab, device: str, run: Run) -> None:
    well(run())
    assert (replicas(lab), policies(lab)) == ([1, 1, 1], ["Fail"])
    assert lab.api.get(f"{CRO}/composableresources/gpu-1")["metadata"]["uid"] == device


def test_resumed_it_goes_on_with_the_values_that_it_had(lab: Lab, device: str, run: Run) -> None:
    """Nothing but the state is given: a release of somebody else's stays as it is."""
    revisions = releases(lab)
    nothing = {name: "" for name in NEEDED if name != "cohdi_host_aliases"}
    bare: Json = {**nothing, "cohdi_host_aliases": [], "composable_chart_mirror": "", "controllers_config": {}}
    well(run(cohdi_state="paused", **bare))
    check = well(run("--check", cohdi_state="resumed", **bare))
    assert check.changed
    assert (replicas(lab), policies(lab)) == ([0, 0, 0], ["Ignore"])
    well(run(cohdi_state="resumed", **bare))
    assert (replicas(lab), policies(lab)) == ([1, 1, 1], ["Fail"])
    assert well(run(cohdi_state="resumed", **bare)).changed == []
    assert releases(lab) == revisions
    assert lab.api.get(f"{CRO}/composableresources/gpu-1")["metadata"]["uid"] == device


def test_one_component_alone_is_paused(lab: Lab, device: str, run: Run) -> None:
    well(run(cohdi_state="paused", cohdi_components=["scaler"]))
    assert (replicas(lab), policies(lab)) == ([1, 0, 1], ["Fail"])
    refused = run(part="controllers", **OPTIONS, controllers_components=["scaler", "operator"])
    assert refused.status != 0
    assert "composable-resource-operator-controller-manager" in "".join(refused.failures)
    assert "dds-controller-manager" not in "".join(refused.failures)
    well(run())
    refused = run(part="controllers", **OPTIONS, controllers_components=["scaler"])
    assert "dds-controller-manager" in "".join(refused.failures)


def test_what_was_to_be_paused_and_is_not_there_is_named_and_nothing_is_changed(
    lab: Lab, device: str, run: Run
) -> None:
    path = "/apis/apps/v1/namespaces/composable-dra/deployments"
    gone = lab.api.get(f"{path}/dds-controller-manager")
    lab.api.request("DELETE", f"{path}/dds-controller-manager")
    wait_for("the Deployment is gone", lambda: not lab.api.exists(f"{path}/dds-controller-manager"))
    refused = run(cohdi_state="paused")
    assert refused.status != 0
    assert "dynamic-device-scaler" in "".join(refused.failures)
    others = lab.api.get("/apis/apps/v1/deployments")["items"]
    assert [item["spec"]["replicas"] for item in others if item["metadata"]["namespace"].startswith("comp")] == [1, 1]
    kept = {k: v for k, v in gone["metadata"].items() if k in ("name", "namespace", "labels", "annotations")}
    lab.api.request("POST", path, {**gone, "metadata": kept})
    well(run())
    assert replicas(lab) == [1, 1, 1]


def test_it_is_not_removed_while_a_device_is_attached(lab: Lab, device: str, run: Run) -> None:
    refused = run(cohdi_state="absent")
    assert refused.status != 0
    assert "A100 40G on node node-0" in "".join(refused.failures)
    assert replicas(lab) == [1, 1, 1]
    lab.api.request("DELETE", f"{CRO}/composableresources/gpu-1")
    body = {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposabilityRequest", "metadata": {"name": "asks"},
            "spec": {"resource": {"type": "gpu", "model": "A100 40G", "size": 1}}}
    well(run(cohdi_state="paused"))
    lab.api.request("POST", f"{CRO}/composabilityrequests", body)
    assert "ComposabilityRequest asks" in "".join(run(cohdi_state="absent").failures)
    lab.api.request("DELETE", f"{CRO}/composabilityrequests/asks")
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
        "name": "ours", "labels": {"app.kubernetes.io/part-of": "composable-infra"}}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}
    lab.api.request("POST", "/apis/apps/v1/namespaces/default/deployments", deployment)
    for state in ("absent", "resumed"):
        assert "while our controllers run (namespace default)" in "".join(run(cohdi_state=state).failures)
    assert replicas(lab) == [0, 0, 0]
    lab.api.request("DELETE", "/apis/apps/v1/namespaces/default/deployments/ours")
    well(run(cohdi_state="absent"))
    assert policies(lab) == []
    assert not lab.api.exists("/api/v1/namespaces/cohdi")
    assert well(run(cohdi_state="absent")).changed == []
    # the definitions went with the chart; the lab had brought them
    assert not lab.api.exists(f"{CRO}/composableresources")
    for path in sorted((ROOT / "deploy" / "crds").glob("compos*.yaml")):
        lab.api.apply(yaml.safe_load(path.read_text(encoding="utf-8")))
    wait_for("the definitions are served", lambda: lab.api.exists(f"{CRO}/composableresources")
             and lab.api.exists(f"{CRO}/composabilityrequests"))


def test_a_manager_that_the_chart_does_not_speak_to_is_refused(run: Run) -> None:
    refused = run(cohdi_config={**CONFIG, "fabric": {**CONFIG["fabric"], "manager": "nec"}})
    assert refused.status != 0
    assert "cohdi_config.fabric.manager: nec is not usable" in "".join(refused.failures)


@dataclass(frozen=True)
class Used:
    """A device that CoHDI has attached and a pod uses, and the pool that CoHDI has published of the others."""

    uid: str
    resource: str
    pool: str

    def evidence(self, stage: Stage) -> Json:
        """What must stay as it is, whoever works."""
        resource = stage.client.get(COMPOSABLE_RESOURCES, self.resource)
        meta = resource["metadata"]
        device = next(d for d in stage.emulator.state()["devices"] if d["uid"] == self.uid)
        return {"resource": [resource["spec"], resource["status"], meta["uid"], meta.get("deletionTimestamp")],
                "device": device, "pod": stage.client.get(PODS, "works", namespace="default"),
                "claim": stage.client.get(CLAIMS, "works", namespace="default"),
                "pool": stage.client.get(SLICES, self.pool)["metadata"]["uid"],
                "effects": [e["effect"] for e in stage.emulator.effects() if e["device"] == self.uid]}


@pytest.fixture(scope="module")
def settings(stage: Stage) -> Json:
    """The stage's configuration and credentials as variables of the roles."""
    config = stage.config()
    fabric = config["fabric"]
    credentials = {name: fabric.pop(name) for name in SECRETS}
    return {"controllers_config": config, "controllers_image": "registry.example.com/composable/infra:1",
            "controllers_credentials": {**credentials, "certificate": Path(fabric.pop("ca_path")).read_text("utf-8")}}


@pytest.fixture(scope="module")
def used(stage: Stage, run: Run, settings: Json) -> Used:
    """CoHDI is installed, has attached one device to node-0 and published the other; a pod runs with the first."""
    config = EngineConfig.from_dict(stage.config())
    device, = connect(config.fabric).attach(machine_uuid("node-0"), A100).devices
    resource = "gpu-3f1c9d52-8a64-4f0e-b7a1-0c5d2e9b6a11"
    _write_as_its_operator(stage, resource, {"device_id": str(device.serial), "cdi_device_id": device.uid})
    _work_on_node_as_its_operator(stage, "node-0")
    pool = _write_as_its_driver(stage, config.settings)
    # only now, since nobody answers for its webhook
    well(run(**settings))
    stage.claim("works", A100, local=True)
    stage.client.create(PODS, pod_body("works", "node-0"))
    wait_for("a running pod", lambda: phase(stage.lab, "default", "works") == "Running")
    return Used(device.uid, resource, pool)


def _write_as_its_operator(stage: Stage, name: str, ids: dict[str, str]) -> None:
    """A request of its scaler, and the resource of its operator."""
    spec = {"type": "gpu", "model": A100, "target_node": "node-0"}
    whole = {**spec, "size": 1, "allocation_policy": "samenode"}
    child = {"state": "Online", "node_name": "node-0", **ids}
    labels = {cohdi.MANAGED_BY: "composability-x7k2p"}
    objects: list[tuple[ApiResource, Json, Json, Json]] = [
        (COMPOSABILITY_REQUESTS, {"name": "composability-x7k2p"}, {"resource": whole},
         {"state": "Running", "scalarResource": whole, "resources": {name: child}}),
        (COMPOSABLE_RESOURCES, {"name": name, "labels": labels}, spec, {"state": "Online", **ids})]
    for kind, meta, body, status in objects:
        stage.client.create(kind, {"apiVersion": cohdi.GROUP_VERSION, "kind": kind.kind, "spec": body,
                                   "metadata": {**meta, "finalizers": [cohdi.FINALIZER]}})
        stage.client.merge_patch(kind, meta["name"], {"status": status}, subresource="status")


def _work_on_node_as_its_operator(stage: Stage, node: str) -> None:
    """What it does by exec and by deleting the vendor's plugin pod; our agent keeps still beside it."""
    folder = stage.lab.node_folder(node)
    wait_for("the driver has the device", lambda: by_hand.bound(folder))
    by_hand.run(folder, "nvidia-smi")
    by_hand.restart_plugin(stage.lab, node)


def _write_as_its_driver(stage: Stage, table: Settings) -> str:
    """Labels of the nodes, and the pool with the one device that is left; the name of its slice."""
    model, = table.models
    name = model.k8s_device_name
    spec = slice_spec(PoolSnapshot(model, 1, 1), table, [f"{name}-0"], 1, 1)
    made = stage.client.create(SLICES, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": spec,
                                        "metadata": {"generateName": "gpu.nvidia.com-"}})
    for node in stage.lab.nodes:
        labels = {"cohdi.io/fabric": "1", f"cohdi.io/{name}": "true"}
        stage.client.merge_patch(NODES, node, {"metadata": {"labels": labels}})
    return str(made["metadata"]["name"])


def test_a_device_in_use_stays_on_the_way_to_ours_and_back(
    stage: Stage, used: Used, settings: Json, run: Run, timeline: Timeline, open_process: OpenProcess
) -> None:
    before = used.evidence(stage)
    well(run(cohdi_state="paused", **settings))
    well(run(part="controllers", **settings))
    assert used.evidence(stage) == before
    stage.kubeconfig = stage.lab.service_account_kubeconfig("composable-infra", "composable-infra")
    process = open_process(front_doors.controller, stage)
    # ours work: they serve another pod and return its device, which is not in use any more
    run_pods(stage, timeline, lambda: None, {"later": (A100, 1)}, {"later": "node-1"})
    stage.delete_pod("later")
    wait_for("its device is returned", lambda: len(attached(stage)) == 1)
    assert used.evidence(stage) == before
    OPENED.stop(process)
    well(run(part="controllers", controllers_state="absent", **settings))
    well(run(**settings))
    assert replicas(stage.lab) == [1, 1, 1]
    assert used.evidence(stage) == before
    assert len(before["effects"]) == 1
