# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The providers of nodes: what they ask of Cluster API, AWX and Redfish, once, and what they say when that fails.

The servers of AWX and Redfish are stand-ins that know the few paths which are used; Cluster API's objects are on the
fake API server, and nobody makes Machines of replicas there.
"""

from __future__ import annotations

import json
import ssl
import threading
import typing as t
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ansible_collections.composable.infra.controller.autoscaler.errors import ProviderError
from ansible_collections.composable.infra.controller.autoscaler.providers.cluster_api import DELETE_MACHINE
from ansible_collections.composable.infra.controller.autoscaler.providers.node_provider import NodeProvider
from ansible_collections.composable.infra.controller.autoscaler.providers.table import PROVIDERS, provider_of
from ansible_collections.composable.infra.lab.autoscaling.processes import Certificates as Issued
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import ApiResource
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError, Conflict
from ansible_collections.composable.infra.plugins.module_utils.model.node import Node
from ansible_collections.composable.infra.plugins.module_utils.planning.settings import BadSetting
from ansible_collections.composable.infra.plugins.module_utils.reconcile.autoscaler_config import NodeGroup, Shape
from ansible_collections.composable.infra.tests.unit.reconcile import objects
from ansible_collections.composable.infra.tests.unit.reconcile.fake_api import FakeApi

Json = dict[str, t.Any]
DEPLOYMENTS = ApiResource("cluster.x-k8s.io/v1beta2", "machinedeployments", "MachineDeployment", True)
MACHINES = ApiResource("cluster.x-k8s.io/v1beta2", "machines", "Machine", True)
TOKEN = "secret-token"


def build(api: FakeApi, nodes: list[str], **provider: t.Any) -> NodeProvider:
    """The provider of a group with these nodes."""
    group = NodeGroup("gpu", Shape(), provider=provider)
    return provider_of(group, api.client, lambda: [Node(name) for name in nodes])


def test_each_kind_that_the_configuration_knows_is_in_the_table() -> None:
    from ansible_collections.composable.infra.plugins.module_utils.reconcile import autoscaler_config as config

    assert set(PROVIDERS) == set(config.PROVIDERS)


def test_group_without_a_provider_says_so() -> None:
    found = build(FakeApi(), [], kind="none")
    assert found.coming() == 0
    assert found.removable("a") == "group gpu has no provider of nodes in the configuration"
    with pytest.raises(ProviderError, match="no provider of nodes"):
        found.grow(1)


# Cluster API


@pytest.fixture
def api() -> FakeApi:
    """A MachineDeployment of two, with a Machine for each of its nodes."""
    made = FakeApi()
    made.put(DEPLOYMENTS, {"kind": "MachineDeployment", "metadata": objects.meta("md", "capi"),
                           "spec": {"replicas": 2}})
    for number in range(2):
        machine = {**objects.meta(f"md-{number}", "capi"), "labels": {"cluster.x-k8s.io/deployment-name": "md"}}
        made.put(MACHINES, {"kind": "Machine", "metadata": machine, "spec": {},
                            "status": {"nodeRef": {"name": f"node-{number}"}}})
    return made


CAPI = {"kind": "cluster-api", "namespace": "capi", "machine_deployment": "md"}


def replicas(api: FakeApi) -> int:
    """Of the MachineDeployment."""
    return int(api.one(DEPLOYMENTS, "md", "capi")["spec"]["replicas"])


def test_cluster_api_grows_by_replicas_and_knows_what_is_coming(api: FakeApi) -> None:
    nodes = ["node-0", "node-1"]
    found = build(api, nodes, **CAPI)
    assert found.coming() == 0
    found.grow(2)
    assert (replicas(api), found.coming()) == (4, 2)
    nodes.append("node-2")
    assert found.coming() == 1


def test_cluster_api_counts_no_node_that_leaves(api: FakeApi) -> None:
    """It is a Node until it is drained; the replicas are lowered at once."""
    found = build(api, ["node-0", "node-1"], **CAPI)
    found.shrink("node-1")
    assert (replicas(api), found.coming()) == (1, 0)
    found.grow(1)
    assert (replicas(api), found.coming()) == (2, 1)
    raw = api.one(MACHINES, "md-0", "capi")
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    api.put(MACHINES, raw)
    assert found.coming() == 2, "somebody else deletes that one, and it is replaced"


def test_cluster_api_counts_a_node_whose_machine_is_only_marked(api: FakeApi) -> None:
    """As after a crash between both writes: the replicas still count it."""
    api.client.merge_patch(MACHINES, "md-1", {"metadata": {"annotations": {DELETE_MACHINE: "true"}}}, "capi")
    assert build(api, ["node-0", "node-1"], **CAPI).coming() == 0


def test_cluster_api_has_the_machine_of_the_node_go_and_one_replica_once(api: FakeApi) -> None:
    found = build(api, ["node-0", "node-1"], **CAPI)
    found.shrink("node-1")
    found.shrink("node-1")
    assert replicas(api) == 1
    notes = {raw["metadata"]["name"]: (raw["metadata"].get("annotations") or {}).get(DELETE_MACHINE)
             for raw in api.of(MACHINES)}
    assert notes == {"md-0": None, "md-1": "true"}
    found.shrink("node-9")
    assert replicas(api) == 1, "no machine, no replica"


def test_cluster_api_after_a_crash_between_both_writes_lowers_the_replicas(api: FakeApi) -> None:
    api.client.merge_patch(MACHINES, "md-1", {"metadata": {"annotations": {DELETE_MACHINE: "true"}}}, "capi")
    build(api, ["node-0", "node-1"], **CAPI).shrink("node-1")
    assert replicas(api) == 1


def test_cluster_api_loses_no_change_of_others(api: FakeApi) -> None:
    api.fail("merge_patch", DEPLOYMENTS, Conflict(409, "Conflict", "changed"), times=1)
    build(api, [], **CAPI).grow(1)
    assert replicas(api) == 3
    api.fail("merge_patch", DEPLOYMENTS, Conflict(409, "Conflict", "changed"))
    with pytest.raises(ProviderError, match="cannot write MachineDeployment capi/md: other clients changed it"):
        build(api, [], **CAPI).grow(1)


def test_cluster_api_that_cannot_be_read_is_an_error_of_the_provider(api: FakeApi) -> None:
    api.fail("get", DEPLOYMENTS, ApiError(403, "Forbidden", "no rights"))
    with pytest.raises(ProviderError, match="MachineDeployment capi/md: no rights"):
        build(api, [], **CAPI).coming()


@pytest.mark.parametrize(("more", "said"), [
    ({"namespace": ""}, "nodes.gpu.provider.namespace"), ({"machine_deployment": 1}, "provider.machine_deployment"),
    ({"api_version": "v2"}, "must be one of v1beta2, v1beta1")])
def test_cluster_api_names_what_is_wrong(more: Json, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        build(FakeApi(), [], **{**CAPI, **more})


# AWX and Redfish


class Service:
    """``answers``: by method and path, a body or a function of the request's body. ``calls``: what came in."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], Json | Callable[[Json], Json] | int] = {}
        self.calls: list[tuple[str, str, Json, str]] = []
        self.url = ""


@pytest.fixture
def service(issued: Issued) -> Iterator[Service]:
    """A server with TLS on the loopback."""
    made = Service()

    class Handler(BaseHTTPRequestHandler):
        """Answers from the table."""

        def do_GET(self) -> None:
            self._do("GET")

        def do_POST(self) -> None:
            self._do("POST")

        def log_message(self, *_unused: object) -> None:
            """Nothing."""

        def _do(self, method: str) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
            made.calls.append((method, self.path, body, str(self.headers.get("Authorization"))))
            found = made.answers.get((method, self.path.partition("?")[0]), 404)
            status = found if isinstance(found, int) else 200
            content = json.dumps(found(body) if callable(found) else found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.server.certificate, issued.server.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    made.url = f"https://localhost:{server.server_port}"
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def awx(service: Service, issued: Issued, tmp_path: Path) -> NodeProvider:
    """Template 12."""
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n", encoding="utf-8")
    service.answers["POST", "/api/v2/job_templates/12/launch/"] = {"job": 1}
    service.answers["GET", "/api/v2/unified_jobs/"] = {"results": []}
    return build(FakeApi(), [], kind="awx", endpoint=service.url, ca_path=str(issued.ca), token_path=str(token),
                 template=12)


def test_awx_launches_a_job_with_what_is_wanted(awx: NodeProvider, service: Service) -> None:
    awx.grow(2)
    (method, path, body, authorization), = service.calls
    assert (method, path, authorization) == ("POST", "/api/v2/job_templates/12/launch/", f"Bearer {TOKEN}")
    assert body["extra_vars"] == {"node_action": "add", "node_group": "gpu", "node_count": 2}


def test_awx_counts_jobs_that_have_not_ended_and_removes_a_node_once(awx: NodeProvider, service: Service) -> None:
    jobs = [{"node_action": "add", "node_group": "gpu", "node_count": 2}, {"node_action": "add", "node_group": "other"},
            {"node_action": "remove", "node_group": "gpu", "node_name": "node-1"}]
    service.answers["GET", "/api/v2/unified_jobs/"] = {
        "results": [{"extra_vars": json.dumps(job)} for job in jobs] + [{"extra_vars": "---"}]}
    assert awx.coming() == 2
    awx.shrink("node-1")
    assert [call for call in service.calls if call[0] == "POST"] == []
    awx.shrink("node-2")
    assert service.calls[-1][2]["extra_vars"]["node_name"] == "node-2"


def test_awx_template_that_takes_no_variables_is_told(awx: NodeProvider, service: Service) -> None:
    service.answers["POST", "/api/v2/job_templates/12/launch/"] = {"ignored_fields": {"extra_vars": {"node_count": 1}}}
    with pytest.raises(ProviderError, match="template 12 ignores the variables node_count"):
        awx.grow(1)


@pytest.fixture
def workflow(awx: NodeProvider, service: Service, issued: Issued, tmp_path: Path) -> NodeProvider:
    """Workflow template 9, whose first node waits for an approval; each launch is workflow job 40."""
    assert awx
    service.answers["POST", "/api/v2/workflow_job_templates/9/launch/"] = {"workflow_job": 40}
    service.answers["GET", "/api/v2/workflow_jobs/40/"] = {"status": "running"}
    service.answers["GET", "/api/v2/workflow_jobs/40/workflow_nodes/"] = {"results": [
        {"summary_fields": {"job": {"id": 7, "name": "may it grow", "type": "workflow_approval", "status": "failed"}}},
        {"summary_fields": {}}]}
    service.answers["GET", "/api/v2/workflow_approvals/7/"] = {"timed_out": False}
    return build(FakeApi(), [], kind="awx", endpoint=service.url, ca_path=str(issued.ca), template=9,
                 token_path=str(tmp_path / "token"), template_kind="workflow_job_templates")


def test_workflow_that_waits_for_its_approval_is_on_its_way(workflow: NodeProvider, service: Service) -> None:
    workflow.grow(2)
    assert service.calls[-1][1] == "/api/v2/workflow_job_templates/9/launch/"
    service.answers["GET", "/api/v2/unified_jobs/"] = {"results": [{"extra_vars": json.dumps(
        {"node_action": "add", "node_group": "gpu", "node_count": 2})}]}
    assert workflow.coming() == 2
    assert workflow.failed() == ""


@pytest.mark.parametrize(("late", "said"), [(False, "was denied"), (True, "was not given in time")])
def test_approval_that_is_not_given_is_told_once(
        workflow: NodeProvider, service: Service, late: bool, said: str) -> None:
    workflow.grow(1)
    service.answers["GET", "/api/v2/workflow_jobs/40/"] = {"status": "failed"}
    service.answers["GET", "/api/v2/workflow_approvals/7/"] = {"timed_out": late}
    assert workflow.failed() == f"workflow_jobs 40 of AWX did not succeed: the approval may it grow {said}"
    assert workflow.failed() == ""


@pytest.mark.parametrize(("status", "said"), [
    ("successful", ""), ("canceled", "jobs 1 of AWX did not succeed: canceled"), ("pending", "")])
def test_job_that_ended_otherwise_says_how(awx: NodeProvider, service: Service, status: str, said: str) -> None:
    awx.grow(1)
    service.answers["GET", "/api/v2/jobs/1/"] = {"status": status}
    assert awx.failed() == said


def test_service_that_refuses_is_told_without_a_secret(awx: NodeProvider, service: Service) -> None:
    service.answers["POST", "/api/v2/job_templates/12/launch/"] = 403
    with pytest.raises(ProviderError) as raised:
        awx.grow(1)
    assert "status 403" in str(raised.value)
    assert TOKEN not in str(raised.value)


def test_certificate_of_a_stranger_is_not_believed(service: Service, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN, encoding="utf-8")
    found = build(FakeApi(), [], kind="awx", endpoint=service.url, token_path=str(token), template=1)
    with pytest.raises(ProviderError, match="certificate"):
        found.coming()


@pytest.mark.parametrize(("more", "said"), [
    ({"template": 0}, "provider.template: 0 is not usable"), ({"endpoint": "http://x"}, "must be an https URL"),
    ({"template_kind": "jobs"}, "must be one of job_templates, workflow_job_templates"),
    ({"token_path": ""}, "must be the path of a file with a token")])
def test_awx_names_what_is_wrong(more: Json, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        build(FakeApi(), [], **{"kind": "awx", "endpoint": "https://x", "token_path": "/t", "template": 1, **more})


@pytest.fixture
def machines(service: Service, issued: Issued, tmp_path: Path) -> tuple[NodeProvider, list[str], dict[str, str]]:
    """(provider, nodes, power by system) of three machines, the first of which is a node."""
    password = tmp_path / "password"
    password.write_text("secret", encoding="utf-8")
    power = {"/redfish/v1/Systems/0": "On", "/redfish/v1/Systems/1": "Off", "/redfish/v1/Systems/2": "Off"}

    def reset(system: str) -> Callable[[Json], Json]:
        def set_power(body: Json) -> Json:
            power[system] = "On" if body["ResetType"] == "On" else "Off"
            service.answers["GET", system] = {"PowerState": power[system]}
            return {}
        return set_power

    for system, state in power.items():
        service.answers["GET", system] = {"PowerState": state}
        service.answers["POST", f"{system}/Actions/ComputerSystem.Reset"] = reset(system)
    nodes = ["node-0"]
    listed = [{"node": f"node-{n}", "endpoint": service.url, "system": system, "ca_path": str(issued.ca),
               "username": "u", "password_path": str(password)} for n, system in enumerate(power)]
    return build_static(listed, nodes), nodes, power


def build_static(listed: list[Json], nodes: list[str], **more: t.Any) -> NodeProvider:
    """A group of listed machines."""
    group = NodeGroup("gpu", Shape(), provider={"kind": "static", "machines": listed, **more})
    return provider_of(group, FakeApi().client, lambda: [Node(name) for name in nodes])


def test_static_powers_spare_machines_on_and_waits_for_their_nodes(
        machines: tuple[NodeProvider, list[str], dict[str, str]]) -> None:
    found, nodes, power = machines
    assert found.coming() == 0
    found.grow(1)
    assert list(power.values()) == ["On", "On", "Off"]
    assert found.coming() == 1
    nodes.append("node-1")
    assert found.coming() == 0
    with pytest.raises(ProviderError, match="cannot power on 2 machines of the list, because only 1 are off"):
        found.grow(2)


@pytest.fixture
def joining(machines: tuple[NodeProvider, list[str], dict[str, str]], service: Service, issued: Issued,
            tmp_path: Path) -> NodeProvider:
    """The same machines, with a template that has them join."""
    token = tmp_path / "token"
    token.write_text(TOKEN, encoding="utf-8")
    service.answers["POST", "/api/v2/job_templates/9/launch/"] = {"job": 1}
    _found, nodes, power = machines
    listed = [{"node": f"node-{n}", "endpoint": service.url, "system": system, "ca_path": str(issued.ca),
               "username": "u", "password_path": str(tmp_path / "password")} for n, system in enumerate(power)]
    join = {"endpoint": service.url, "ca_path": str(issued.ca), "token_path": str(token), "template": 9}
    return build_static(listed, nodes, join=join)


def test_static_launches_the_job_that_has_a_machine_join_and_powers_it_on(joining: NodeProvider,
                                                                          service: Service) -> None:
    """In this order: a machine that is on counts as coming, and nobody would have it join after a crash in between."""
    joining.grow(1)
    posted = [(path, body) for method, path, body, _who in service.calls if method == "POST"]
    assert posted == [
        ("/api/v2/job_templates/9/launch/",
         {"extra_vars": {"node_action": "join", "node_group": "gpu", "node_count": 1, "node_name": "node-1"}}),
        ("/redfish/v1/Systems/1/Actions/ComputerSystem.Reset", {"ResetType": "On"})]
    assert "secret" not in json.dumps([body for _path, body in posted]), "credentials are the template's own"


@pytest.mark.parametrize("answer", [503, {"ignored_fields": {"extra_vars": {"node_name": "node-1"}}}])
def test_static_leaves_a_machine_off_that_nobody_would_have_join(
        joining: NodeProvider, machines: tuple[NodeProvider, list[str], dict[str, str]], service: Service,
        answer: t.Any) -> None:
    service.answers["POST", "/api/v2/job_templates/9/launch/"] = answer
    with pytest.raises(ProviderError, match=r"status 503|template 9 ignores the variables node_name"):
        joining.grow(1)
    assert list(machines[2].values()) == ["On", "Off", "Off"]


@pytest.mark.parametrize(("join", "said"), [
    ("soon", "provider.join: 'soon' is not usable: must be a mapping"), ({}, r"provider.join.endpoint"),
    ({"template": 0}, "provider.join.template: 0 is not usable: must be the number of a template"),
    ({"template_kind": "jobs"}, "must be one of job_templates, workflow_job_templates")])
def test_static_names_what_is_wrong_with_join(join: t.Any, said: str, tmp_path: Path) -> None:
    machine = {"node": "a", "system": "/s", "endpoint": "https://x", "token_path": "/t"}
    whole = {"endpoint": "https://x", "token_path": "/t", "template": 1}
    with pytest.raises(BadSetting, match=said):
        build_static([machine], [], join={**whole, **join} if join and isinstance(join, dict) else join)


def test_static_shuts_down_what_is_its_own(machines: tuple[NodeProvider, list[str], dict[str, str]],
                                           service: Service) -> None:
    found, _nodes, power = machines
    found.shrink("node-0")
    assert power["/redfish/v1/Systems/0"] == "Off"
    found.shrink("node-0")
    assert [call[2]["ResetType"] for call in service.calls if call[0] == "POST"] == ["GracefulShutdown"]
    assert found.removable("node-0") == ""
    assert found.removable("strange") == "node strange is not a machine of the list"


@pytest.mark.parametrize(("listed", "said"), [
    (None, "must list at least one machine"), ([1], r"machines\[0\]: 1 is not usable: must be a mapping"),
    ([{"node": "a"}], r"machines\[0\].system"), ([{"node": "a", "system": "/s"}], "must be an https URL")])
def test_static_names_what_is_wrong(listed: t.Any, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        build_static(listed, [])
