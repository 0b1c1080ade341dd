# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role that runs the controllers in a cluster: accepted by a real API server, idempotent, reversible."""

from __future__ import annotations

import base64
import itertools
import json
import re
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.controller import gate_reaper, main
from ansible_collections.composable.infra.controller.access import Access
from ansible_collections.composable.infra.controller.agent.main import parser
from ansible_collections.composable.infra.lab.control_plane.bootstrap import (
    DEPLOY,
    agent_documents,
    documents,
    policy_documents,
    shipped_documents,
)
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.plugins.module_utils.kube.client.connection import Connection
from ansible_collections.composable.infra.plugins.module_utils.kube.client.verbs import Client
from ansible_collections.composable.infra.plugins.module_utils.kube.objects.pods import GATE
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig
from ansible_collections.composable.infra.tests.e2e.ansible.role_controllers_support import (
    CONFIG,
    OPTIONS,
    PASSWORD,
)
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.support.lab_support import wait_for
from ansible_collections.composable.infra.tests.e2e.support.played import (
    Json,
    Played,
    definition,
    listable,
    play,
    role,
    stored,
    well,
)

NAMESPACE = "/api/v1/namespaces/composable-infra"
APPS = "/apis/apps/v1/namespaces/composable-infra"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PLUGINS = "dra-driver-nvidia-gpu"
FLOWS = [("/apis/flowcontrol.apiserver.k8s.io/v1", name) for name in ("flowschemas", "prioritylevelconfigurations")]
Run = t.Callable[..., Played]


@pytest.fixture(scope="module")
def lab(stage_factory: StageFactory) -> Lab:
    """A lab of the file's own, since the role takes its namespace away. The vendor's plugin has its namespace."""
    made = stage_factory(nodes=2).lab
    made.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLUGINS}})
    account = f"/api/v1/namespaces/{PLUGINS}/serviceaccounts/default"
    wait_for("what the control plane puts into a namespace", lambda: made.api.exists(account))
    return made


@pytest.fixture(scope="module")
def run(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``run("--check", controllers_state="absent")``: the role with the file's options."""
    folder = tmp_path_factory.mktemp("role")

    def start(*options: str, **variables: t.Any) -> Played:
        given = {"composable_kubeconfig": str(lab.kubeconfig), "composable_wait_timeout": 60}
        return play(folder, role("controllers", **{**OPTIONS, **variables}), given, *options)

    return start


@pytest.fixture(scope="module")
def bare(lab: Lab, run: Run) -> dict[str, str]:
    """The API server without anything of ours (a lab brings CRDs and RBAC along), as it was stored then."""
    well(run(controllers_state="absent", controllers_remove_crds=True))
    # the lab has made the namespace, so the role has left it there
    lab.api.request("DELETE", NAMESPACE)
    wait_for("the namespace is gone", lambda: not lab.api.exists(NAMESPACE))
    return stored(lab)


@pytest.fixture(scope="module")
def installed(bare: dict[str, str], run: Run) -> Played:
    """The role has run."""
    return well(run())


def test_check_mode_on_an_empty_cluster_writes_nothing(lab: Lab, bare: dict[str, str], run: Run) -> None:
    check = well(run("--check"))
    assert check.changed
    assert stored(lab) == bare


def test_first_run_changes_and_a_second_does_not(lab: Lab, installed: Played, run: Run) -> None:
    assert installed.changed
    before = stored(lab)
    assert well(run()).changed == []
    assert well(run("--check", "--diff")).changed == []
    assert stored(lab) == before


def test_manifests_are_what_the_role_has_applied_in_its_order(
    lab: Lab, installed: Played, run: Run, tmp_path: Path
) -> None:
    options: Json = {"controllers_credentials": {}, "controllers_credentials_secret": "composable-infra-credentials",
                     "controllers_pull_secret_dockerconfig": "", "controllers_agent_plugin_namespaces": [PLUGINS]}
    well(run(**options))
    well(run(**options, controllers_state="manifests", controllers_manifests=str(tmp_path)))
    applied, created = as_applied(lab)
    written = [[(f"{each['kind']} {each['metadata'].get('namespace', '')}/{each['metadata']['name']}", each)
                for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))]
               for path in sorted(tmp_path.glob("*.yaml"))]
    served = {name.partition(" ")[0] for name in applied}
    everything = {name: each for objects in written for name, each in objects if not name.startswith("Mutating")}
    assert {name: applied.get(name) for name in everything} == everything
    ours = {name for name in applied if re.search(r"[/-]composable[.-]infra|/composab|/gateleases", name)}
    # not served everywhere, with a token, made by the cluster, what the role notes
    others = ("Mutating", "Secret", "ControllerRevision", "ConfigMap composable-infra/composable-infra-objects")
    assert {name for name in ours if not name.startswith(others)} <= set(everything)
    assert served >= {"Deployment", "DaemonSet", "ValidatingAdmissionPolicy", "ClusterRole"}
    steps = [[created[name] for name, _each in objects if name in created] for objects in written]
    assert all(max(before) <= min(after) for before, after in itertools.pairwise(filter(None, steps)))
    well(run())


def test_objects_of_a_newer_release_are_removed_by_an_older_one(lab: Lab, installed: Played, run: Run) -> None:
    path = f"{NAMESPACE}/configmaps/composable-infra-objects"
    noted = lab.api.get(path)["data"]
    names = {(each["kind"], each["name"]) for each in json.loads(noted["objects"])}
    assert {("Deployment", "composable-infra"), ("ValidatingAdmissionPolicy", "composable-infra-pods")} <= names
    role_of: Json = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []}
    newer, others = "composable-infra-of-tomorrow", "of-somebody-else"
    for name in (newer, others):
        lab.api.apply({**role_of, "metadata": {"name": name}})
    planted = [{"apiVersion": role_of["apiVersion"], "kind": "ClusterRole", "name": name, "namespace": ""}
               for name in (newer, others)]
    lab.api.apply({"apiVersion": "v1", "kind": "ConfigMap",
                   "metadata": {"name": "composable-infra-objects", "namespace": "composable-infra"},
                   "data": {"version": "99.0.0", "objects": json.dumps([*json.loads(noted["objects"]), *planted])}})
    played = well(run())
    assert not lab.api.exists(f"{RBAC}/clusterroles/{newer}")
    assert lab.api.exists(f"{RBAC}/clusterroles/{others}"), "no object of this role has such a name"
    assert lab.api.exists(f"{RBAC}/clusterroles/composable-infra-scaler")
    changed = [name.rpartition(" : ")[2] for name in played.changed]
    assert changed[0].startswith("Remove objects of another release"), "before anything else is applied"
    assert lab.api.get(path)["data"] == noted
    lab.api.request("DELETE", f"{RBAC}/clusterroles/{others}")


def as_applied(lab: Lab) -> tuple[dict[str, Json], dict[str, str]]:
    """What was last applied of each object, and when it was created. The namespace is made by another module."""
    applied, created = {}, {}
    for path, resource in [*listable(lab), *FLOWS]:
        listed = lab.api.get(f"{path}/{resource}")
        for item in listed["items"]:
            meta = item["metadata"]
            name = f"{listed['kind'].removesuffix('List')} {meta.get('namespace', '')}/{meta['name']}"
            if text := (meta.get("annotations") or {}).get("kubectl.kubernetes.io/last-applied-configuration"):
                applied[name] = {key: value for key, value in json.loads(text).items() if key != "status"}
                created[name] = meta["creationTimestamp"]
    applied["Namespace /composable-infra"] = {"apiVersion": "v1", "kind": "Namespace",
                                              "metadata": {"name": "composable-infra"}}
    return applied, created


def test_permissions_and_definitions_are_the_shipped_ones(lab: Lab, installed: Played) -> None:
    paths = {"ClusterRole": f"{RBAC}/clusterroles", "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
             "Role": f"{RBAC}/namespaces/composable-infra/roles",
             "RoleBinding": f"{RBAC}/namespaces/composable-infra/rolebindings",
             "ServiceAccount": f"{NAMESPACE}/serviceaccounts", "Namespace": "/api/v1/namespaces",
             "ConfigMap": f"{NAMESPACE}/configmaps",
             "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"}
    for document in shipped_documents():
        there = lab.api.get(f"{paths[document['kind']]}/{document['metadata']['name']}")
        assert there.get("rules") == document.get("rules")
        assert there.get("subjects") == document.get("subjects")
        if document["kind"] == "CustomResourceDefinition":
            assert there["spec"]["versions"] == document["spec"]["versions"]


def test_accounts_are_kept_to_their_own_fields(lab: Lab, installed: Played, run: Run) -> None:
    policies = f"{ADMISSION}/validatingadmissionpolicies"
    for document in policy_documents():
        if document["kind"] == "ValidatingAdmissionPolicy":
            there = lab.api.get(f"{policies}/{document['metadata']['name']}")["spec"]
            assert there["validations"] == document["spec"]["validations"]
    network = lab.api.get("/apis/networking.k8s.io/v1/namespaces/composable-infra/networkpolicies/composable-infra")
    (peer,) = network["spec"]["ingress"][0]["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "monitoring"}
    (reader,) = lab.api.get(f"{RBAC}/clusterrolebindings/composable-infra-metrics")["subjects"]
    assert (reader["name"], reader["namespace"]) == ("prometheus-k8s", "monitoring")
    well(run(controllers_components=["scaler"], controllers_config={**CONFIG, "label_prefix": "gpu.example.com"}))
    deployment = lab.api.get(f"{APPS}/deployments/composable-infra")
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "composable-infra-scaler"
    assert not lab.api.exists(f"{NAMESPACE}/serviceaccounts/composable-infra-operator")
    (label,) = [v["expression"] for v in lab.api.get(f"{policies}/composable-infra-nodes")["spec"]["validations"]
                if "startsWith" in v["expression"]]
    assert "'gpu.example.com/'" in label
    well(run())


def test_pods_are_held_where_the_cluster_can_do_that(lab: Lab, installed: Played, run: Run) -> None:
    served = "mutatingadmissionpolicies" in {r["name"] for r in lab.api.get(ADMISSION)["resources"]}
    policy = f"{ADMISSION}/mutatingadmissionpolicies/composable-infra-gates"
    assert lab.api.exists(policy) == served
    well(run(controllers_gates="never"))
    assert not lab.api.exists(policy)
    well(run())
    assert lab.api.exists(policy) == served


def test_accounts_have_a_priority_level_of_their_own(lab: Lab, installed: Played, run: Run) -> None:
    flows = "/apis/flowcontrol.apiserver.k8s.io/v1"
    paths = {"FlowSchema": f"{flows}/flowschemas", "PriorityLevelConfiguration": f"{flows}/prioritylevelconfigurations"}
    shipped = list(documents(DEPLOY / "flowcontrol" / "flowschemas.yaml"))
    for document in shipped:
        there = lab.api.get(f"{paths[document['kind']]}/{document['metadata']['name']}")["spec"]
        assert there.get("rules") == document["spec"].get("rules")
        assert there.get("limited") == document["spec"].get("limited")
    well(run(controllers_flow_control=False))
    assert not any(lab.api.exists(f"{paths[d['kind']]}/{d['metadata']['name']}") for d in shipped)
    well(run())
    assert all(lab.api.exists(f"{paths[d['kind']]}/{d['metadata']['name']}") for d in shipped)


def test_node_agents_run_on_every_node_and_go_where_others_do_the_work(lab: Lab, installed: Played, run: Run) -> None:
    path = f"{APPS}/daemonsets/composable-infra-agent"
    daemon_set = lab.api.get(path)
    assert daemon_set["status"]["numberReady"] == len(lab.nodes)
    spec = daemon_set["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    args = parser().parse_args([*container["args"], "--node-name", "node-0"])
    assert (str(args.root), args.lease_namespace, args.rescan) == ("/host", "composable-infra", "port")
    assert args.listen == f"0.0.0.0:{container['ports'][0]['containerPort']}"
    assert container["command"][-1] == "ansible_collections.composable.infra.controller.agent"
    assert container["image"] == "registry.example.com/composable/infra:1"
    assert spec["hostPID"]
    assert container["securityContext"]["privileged"]
    policy = f"{ADMISSION}/validatingadmissionpolicies/composable-infra-agent"
    for document in agent_documents():
        if document["kind"] == "ValidatingAdmissionPolicy":
            assert lab.api.get(policy)["spec"]["validations"] == document["spec"]["validations"]
    allowed = f"{RBAC}/namespaces/{PLUGINS}/roles/composable-infra-agent"
    assert lab.api.get(allowed)["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]
    config = lab.api.get(f"{NAMESPACE}/configmaps/composable-infra-config")["data"]["config.yml"]
    assert yaml.safe_load(config)["node_operations"] == "agent"
    well(run(controllers_node_operations="ssh"))
    for gone in (path, policy, allowed, f"{RBAC}/clusterroles/composable-infra-agent"):
        assert not lab.api.exists(gone)
    well(run())
    assert lab.api.exists(path)


def test_two_pods_are_ready_and_run_what_was_asked(lab: Lab, installed: Played) -> None:
    deployment = lab.api.get(f"{APPS}/deployments/composable-infra")
    assert deployment["status"]["readyReplicas"] == 2
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["image"] == "registry.example.com/composable/infra:1"
    assert container["args"][-6:] == ["--only", "publisher", "--only", "scaler", "--only", "operator"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["serviceAccountName"] == "composable-infra"
    budget = lab.api.get("/apis/policy/v1/namespaces/composable-infra/poddisruptionbudgets/composable-infra")
    service = lab.api.get(f"{NAMESPACE}/services/composable-infra")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert service["spec"]["selector"].items() <= labels.items()


def test_gate_reaper_runs_beside_the_scaler_with_an_account_of_its_own(lab: Lab, installed: Played, run: Run) -> None:
    path = f"{APPS}/deployments/composable-infra-gate-reaper"
    deployment = lab.api.get(path)
    assert deployment["status"]["readyReplicas"] == 1
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["serviceAccountName"] == "composable-infra-gate-reaper"
    assert container["command"][-1] == "ansible_collections.composable.infra.controller.gate_reaper"
    args = gate_reaper.parser().parse_args(container["args"])
    assert (args.namespace, args.grace) == ("composable-infra", 120.0)
    lease = lab.api.get(f"{RBAC}/namespaces/composable-infra/roles/composable-infra-gate-reaper")
    assert [rule["resourceNames"] for rule in lease["rules"]] == [["composable-infra-gates"]]
    well(run(controllers_gate_reaper=False))
    assert not lab.api.exists(path)
    assert not lab.api.exists(f"{RBAC}/clusterroles/composable-infra-gate-reaper")
    well(run())
    assert lab.api.exists(path)


MONITORING = "/apis/monitoring.coreos.com/v1/namespaces/composable-infra"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def monitored(lab: Lab, installed: Played) -> Iterator[None]:
    """The cluster knows Prometheus' kinds."""
    kinds = {"servicemonitors": "ServiceMonitor", "podmonitors": "PodMonitor"}
    for plural, kind in kinds.items():
        lab.api.request("POST", DEFINITIONS, definition(plural, kind))
    wait_for("the kinds", lambda: all(lab.api.exists(f"{MONITORING}/{plural}") for plural in kinds))
    yield
    for plural in kinds:
        lab.api.request("DELETE", f"{DEFINITIONS}/{plural}.monitoring.coreos.com")
    wait_for("the kinds are gone", lambda: "monitoring.coreos.com" not in {
        group["name"] for group in lab.api.get("/apis")["groups"]})


@pytest.mark.usefixtures("monitored")
def test_node_agents_are_read_with_a_token_that_permits_nothing_else(lab: Lab, run: Run) -> None:
    well(run(controllers_tls="secret", controllers_wait=False))
    endpoint, = lab.api.get(f"{MONITORING}/podmonitors/composable-infra-agent")["spec"]["podMetricsEndpoints"]
    wanted = endpoint["authorization"]["credentials"]
    secret = f"{NAMESPACE}/secrets/{wanted['name']}"
    wait_for("the token", lambda: wanted["key"] in (lab.api.get(secret).get("data") or {}))
    token = base64.b64decode(lab.api.get(secret)["data"][wanted["key"]]).decode()
    access = Access(Client(Connection.load(str(lab.kubeconfig))))
    assert access.judge("10.0.0.9", "", "/metrics") == 401
    assert [access.judge("10.0.0.9", f"Bearer {token}", path) for path in ("/metrics", "/status")] == [200, 403]
    assert token not in well(run("-vvv", "--diff", controllers_tls="secret", controllers_wait=False)).output
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["ca"]["secret"] == {"name": "composable-infra-tls", "key": "ca.crt"}
    well(run(controllers_service_monitor="never"))
    assert not lab.api.exists(secret)
    assert not lab.api.exists(f"{RBAC}/clusterroles/composable-infra-scrape")
    assert not lab.api.exists(f"{MONITORING}/podmonitors/composable-infra-agent")


def test_traces_and_tls_are_what_the_programs_take(lab: Lab, installed: Played, run: Run) -> None:
    variable = {"name": "OTEL_TRACES_SAMPLER", "value": "always_off"}
    well(run(controllers_tls="self_signed", controllers_otlp_endpoint="http://collector:4318", controllers_wait=False,
             controllers_env=[variable]))
    programs = {"deployments/composable-infra": main.parser(), "daemonsets/composable-infra-agent": parser()}
    for kind, known in programs.items():
        (container,) = lab.api.get(f"{APPS}/{kind}")["spec"]["template"]["spec"]["containers"]
        args = known.parse_args(container["args"])
        assert (args.tls_self_signed, args.otlp_endpoint) == (True, "http://collector:4318")
        assert container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
        assert variable in container["env"]
    well(run())


def test_the_stored_configuration_is_one_that_the_controllers_take(lab: Lab, installed: Played, tmp_path: Path) -> None:
    text = lab.api.get(f"{NAMESPACE}/configmaps/composable-infra-config")["data"]["config.yml"]
    data = yaml.safe_load(text)
    assert data["fabric"].pop("credentials_dir") == "/etc/composable-infra/credentials"
    secret = lab.api.get(f"{NAMESPACE}/secrets/composable-infra-credentials")["data"]
    for key, value in secret.items():
        (tmp_path / key).write_bytes(base64.b64decode(value))
    config = EngineConfig.from_dict({**data, "fabric": {**data["fabric"], "credentials_dir": str(tmp_path)}})
    assert config.fabric.password == PASSWORD
    assert config.lease_namespace == "composable-infra"


def test_no_secret_is_told(lab: Lab, installed: Played, run: Run) -> None:
    again = well(run("-vvv", "--diff", controllers_credentials={**OPTIONS["controllers_credentials"], "realm": "s"}))
    assert again.changed
    for text in (installed.output, again.output, str(lab.api.get(f"{APPS}/deployments"))):
        assert PASSWORD not in text
        assert base64.b64encode(PASSWORD.encode()).decode() not in text


def test_another_configuration_replaces_the_pods(lab: Lab, installed: Played, run: Run) -> None:
    before = lab.api.get(f"{APPS}/deployments/composable-infra")
    well(run(controllers_config={**CONFIG, "scan_interval": 7}))
    after = lab.api.get(f"{APPS}/deployments/composable-infra")
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
    note = "composable.infra/config"
    notes = [d["spec"]["template"]["metadata"]["annotations"][note] for d in (before, after)]
    assert notes[0] != notes[1]


def test_components_that_do_not_run_lose_their_rights(lab: Lab, installed: Played, run: Run) -> None:
    well(run(controllers_components=["scaler"]))
    assert lab.api.exists(f"{RBAC}/clusterroles/composable-infra-scaler")
    assert not lab.api.exists(f"{RBAC}/clusterroles/composable-infra-publisher")
    assert not lab.api.exists(f"{RBAC}/clusterrolebindings/composable-infra-operator")
    well(run())
    assert lab.api.exists(f"{RBAC}/clusterroles/composable-infra-publisher")


@pytest.mark.parametrize(("variables", "words"), [
    ({"controllers_image": ""}, 'controllers_image: "" is not usable'),
    ({"controllers_components": []}, "controllers_components: [] is not usable"),
    ({"controllers_config": {**CONFIG, "workers": 0}}, "workers: 0 is not usable"),
    ({"controllers_handover": "direct"}, "must be the driver of the node agents"),
    ({"controllers_handover": "direct", "controllers_config": {**CONFIG, "handover": "reschedule"}},
     "handover: 'direct' is not usable: the configuration has 'reschedule'"),
    ({"controllers_config": {**CONFIG, "fabric": {**CONFIG["fabric"], "password": PASSWORD}}},
     "fabric.password: is not allowed in the configuration")])
def test_bad_input_is_refused_before_anything_is_written(
    lab: Lab, installed: Played, run: Run, variables: Json, words: str
) -> None:
    before = stored(lab)
    refused = run(**variables)
    assert refused.status != 0
    assert words in "".join(refused.failures)
    assert PASSWORD not in refused.output
    assert stored(lab) == before


def test_definitions_stay_while_an_object_stands_for_a_device(lab: Lab, installed: Played, run: Run) -> None:
    path = "/apis/cro.hpsys.ibm.ie.com/v1alpha1/composableresources"
    body = {"apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1", "kind": "ComposableResource", "metadata": {"name": "gpu-1"},
            "spec": {"type": "gpu", "model": "A100 40G", "target_node": "node-0"}}
    lab.api.request("POST", path, body)
    before = stored(lab)
    refused = run(controllers_state="absent", controllers_remove_crds=True)
    assert refused.status != 0
    assert "gpu-1" in "".join(refused.failures)
    assert stored(lab) == before
    lab.api.request("DELETE", f"{path}/gpu-1")


def test_absent_leaves_the_api_server_as_it_was(lab: Lab, bare: dict[str, str], installed: Played, run: Run) -> None:
    pods = "/api/v1/namespaces/default/pods"
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "held"},
            "spec": {"containers": [{"name": "c", "image": "i"}],
                     "schedulingGates": [{"name": GATE}, {"name": "other.example/gate"}]}}
    lab.api.request("POST", pods, body)
    check = well(run("--check", controllers_state="absent", controllers_remove_crds=True))
    assert check.changed
    well(run(controllers_state="absent", controllers_remove_crds=True))
    assert lab.api.get(f"{pods}/held")["spec"]["schedulingGates"] == [{"name": "other.example/gate"}]
    lab.api.request("DELETE", f"{pods}/held?gracePeriodSeconds=0")
    assert set(stored(lab)) == set(bare)
    assert well(run(controllers_state="absent", controllers_remove_crds=True)).changed == []
