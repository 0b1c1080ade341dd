# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One connection serves the tasks of kubernetes.core and ours: AAP's credential for a bearer token, and one block."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.support.played import Json, play, role, well
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
TASKS: list[Json] = [
    {"name": "Theirs", "kubernetes.core.k8s_info": {"kind": "Namespace", "name": "default"}},
    {"name": "Ours as a module", "composable.infra.stack_info": {}},
    {"name": "Ours in process", "composable.infra.owned_namespace": {"name": "habits"}},
]


@pytest.fixture(scope="module")
def lab(stage_factory: StageFactory) -> Lab:
    """A lab of the file's own."""
    return stage_factory(nodes=1).lab


@pytest.fixture(scope="module")
def token(lab: Lab) -> str:
    """Of an account that may do everything."""
    lab.api.request("POST", BINDINGS, {
        "metadata": {"name": "habits"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}})
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    return str(lab.api.request("POST", path, {"spec": {}})["status"]["token"])


@pytest.fixture(scope="module")
def where(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """URL of the API server, and the file with its certificate authority."""
    path = lab.service_account_kubeconfig("composable-infra", "composable-infra")
    config = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    cluster = config["clusters"][0]["cluster"]
    if named := cluster.get("certificate-authority"):
        return str(cluster["server"]), str(named)
    authority = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    return str(cluster["server"]), str(authority)


def book(**defaults: Json) -> list[Json]:
    return [{"name": "Habits", "hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": TASKS,
             **({"module_defaults": defaults} if defaults else {})}]


def test_the_credential_for_a_bearer_token(where: tuple[str, str], token: str, tmp_path: Path) -> None:
    """AAP sets these four variables."""
    played = well(play(tmp_path, book(), {}, K8S_AUTH_HOST=where[0], K8S_AUTH_API_KEY=token, K8S_AUTH_VERIFY_SSL="True",
                       K8S_AUTH_SSL_CA_CERT=where[1], HOME=str(tmp_path)))
    assert [r["metadata"]["name"] for r in played.result("Theirs")["resources"]] == ["default"]
    assert [node["name"] for node in played.result("Ours as a module")["stack"]["nodes"]] == ["node-0"]
    assert token not in played.output


def test_one_block_of_defaults(where: tuple[str, str], token: str, tmp_path: Path) -> None:
    block = {"host": where[0], "api_key": token, "ssl_ca_cert": where[1], "verify_ssl": True}
    groups = {"group/kubernetes.core.k8s": block, "group/composable.infra.cluster": block}
    played = well(play(tmp_path, book(**groups), {}, HOME=str(tmp_path)))
    assert played.result("Ours in process")["namespace"]["metadata"]["name"] == "habits"
    assert token not in played.output


def content(where: tuple[str, str], token: str) -> Json:
    """A kubeconfig as a dictionary."""
    return {"apiVersion": "v1", "kind": "Config", "current-context": "habits",
            "clusters": [{"name": "c", "cluster": {"server": where[0], "certificate-authority": where[1]}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "habits", "context": {"cluster": "c", "user": "u"}}]}


def test_a_kubeconfig_as_a_dictionary(where: tuple[str, str], token: str, tmp_path: Path) -> None:
    block = {"kubeconfig": content(where, token)}
    groups = {"group/kubernetes.core.k8s": block, "group/composable.infra.cluster": block}
    played = well(play(tmp_path, book(**groups), {}, "-vvv", HOME=str(tmp_path)))
    assert [node["name"] for node in played.result("Ours as a module")["stack"]["nodes"]] == ["node-0"]
    assert played.result("Ours in process")["namespace"]["metadata"]["name"] == "habits"
    assert token not in played.output


def test_a_role_takes_the_dictionary_for_its_modules_and_for_helm(
    where: tuple[str, str], token: str, tmp_path: Path
) -> None:
    given = {"composable_kubeconfig": content(where, token), "composable_context": "habits",
             "composable_chart_mirror": str(ROOT / "tests" / "charts"), "composable_wait_timeout": 60,
             "composable_helm_binary": str(Path(sys.executable).parent / "helm"), "nfd_wait": False}
    assert well(play(tmp_path, role("nfd"), given, HOME=str(tmp_path))).changed
    played = well(play(tmp_path, role("verify"), {**given, "verify_stop": False}, HOME=str(tmp_path)))
    assert "node-feature-discovery 0.19.0" in played.output
    assert token not in played.output


def test_in_the_name_of_somebody_who_may_nothing(where: tuple[str, str], token: str, tmp_path: Path) -> None:
    env = {"K8S_AUTH_HOST": where[0], "K8S_AUTH_API_KEY": token, "K8S_AUTH_SSL_CA_CERT": where[1],
           "HOME": str(tmp_path), "K8S_AUTH_IMPERSONATE_USER": "ann", "K8S_AUTH_IMPERSONATE_GROUPS": "a,b"}
    refused = play(tmp_path, [{**book()[0], "tasks": TASKS[2:]}], {}, **env)
    assert 'User "ann" cannot' in "".join(refused.failures)
    groups = {**env, "K8S_AUTH_IMPERSONATE_GROUPS": "a,system:masters"}
    assert well(play(tmp_path, [{**book()[0], "tasks": TASKS[2:]}], {}, **groups)).status == 0


def test_the_inventory_connects_by_the_same_variables(where: tuple[str, str], token: str, tmp_path: Path) -> None:
    (tmp_path / "my.cluster.yml").write_text("plugin: composable.infra.cluster\n", encoding="utf-8")
    plays: list[Json] = [{"name": "Hosts", "hosts": "all", "connection": "local", "gather_facts": False, "tasks": [
        {"name": "Say it", "ansible.builtin.debug": {"var": "composable_node"}}]}]
    env = {"K8S_AUTH_HOST": where[0], "K8S_AUTH_API_KEY": token, "HOME": str(tmp_path)}
    options = ("-i", str(tmp_path / "my.cluster.yml"))
    untrusted = play(tmp_path, plays, {}, *options, **env)
    assert "is not trusted" in untrusted.output
    played = well(play(tmp_path, plays, {}, *options, **env, K8S_AUTH_VERIFY_SSL="false"))
    assert played.result("Say it")["composable_node"] == "node-0"


def test_a_wrong_token_is_a_sentence(where: tuple[str, str], tmp_path: Path) -> None:
    only_ours = [{**book()[0], "tasks": TASKS[2:]}]
    refused = play(tmp_path, only_ours, {}, K8S_AUTH_HOST=where[0], K8S_AUTH_API_KEY="of-nobody",
                   K8S_AUTH_SSL_CA_CERT=where[1], HOME=str(tmp_path))
    assert refused.status != 0
    assert "refuses the credentials (401" in "".join(refused.failures)
