# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command lines, configuration, nodes, ports, options and the state folder."""

from __future__ import annotations

import dataclasses
import fcntl
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.composable.infra.lab import names, state
from ansible_collections.composable.infra.lab.api import object_path
from ansible_collections.composable.infra.lab.binaries.releases import COMPONENTS, RELEASES
from ansible_collections.composable.infra.lab.control_plane import bootstrap, components, nodes
from ansible_collections.composable.infra.lab.control_plane.components import Layout, Ports
from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.options import LabOptions
from ansible_collections.composable.infra.lab.processes.ports import PortClaim, is_free
from ansible_collections.composable.infra.lab.processes.supervisor import Command, Processes

CONTROL_PLANE = (components.etcd, components.apiserver, components.scheduler, components.controller_manager,
                 components.kwok)  # fmt: skip


def layout_in(folder: Path, series: str = "1.36") -> Layout:
    paths = {component: Path("/bin") / component for component in COMPONENTS}
    return Layout(folder, paths, Ports(1, 2, 3, 4, 5), RELEASES[series])


def test_controllers_of_a_release_run_beside_the_usual_ones(tmp_path: Path) -> None:
    usual = layout_in(tmp_path)
    gangs = dataclasses.replace(usual, release=RELEASES["1.36"].with_gangs())
    found = [part for layout in (usual, gangs) for part in components.controller_manager(layout).arguments
             if part.startswith("--controllers=")]
    assert found[1] == f"{found[0]},podgroup-protection-controller"


@pytest.mark.parametrize("series", sorted(RELEASES))
def test_every_component_listens_on_loopback_only(tmp_path: Path, series: str) -> None:
    for component in CONTROL_PLANE:
        command = component(layout_in(tmp_path, series))
        urls = [part for part in command.arguments if "address" in part or "urls" in part]
        assert all("127.0.0.1" in part for part in urls), command.name
        assert command.arguments[0] == f"/bin/{command.name}"


def test_apiserver_listens_where_pods_of_real_nodes_reach_it(tmp_path: Path) -> None:
    layout = dataclasses.replace(layout_in(tmp_path), real_nodes=1, address="10.99.0.7")
    assert "--bind-address=10.99.0.7" in components.apiserver(layout).arguments
    assert layout.server == "https://10.99.0.7:3"


def test_every_component_uses_credentials_of_its_own(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    for component, name in ((components.controller_manager, "kube-controller-manager"), (components.kwok, "kwok")):
        assert f"--kubeconfig={tmp_path}/kubeconfigs/{name}.yaml" in component(layout).arguments
    connection = components.scheduler_configuration(layout, None)["clientConnection"]
    assert connection["kubeconfig"] == f"{tmp_path}/kubeconfigs/kube-scheduler.yaml"
    assert (connection["qps"], connection["burst"]) == (1000, 2000)


def test_only_the_administrator_is_in_system_masters() -> None:
    masters = [file for file, (_user, groups) in bootstrap.USERS.items() if "system:masters" in groups]
    assert masters == ["admin"]
    assert len({user for user, _groups in bootstrap.USERS.values()}) == len(bootstrap.USERS)


def test_apiserver_authorizes_by_rbac(tmp_path: Path) -> None:
    arguments = components.apiserver(layout_in(tmp_path)).arguments
    assert "--authorization-mode=Node,RBAC" in arguments
    assert any("resource.k8s.io/v1beta2=true" in part for part in arguments)


def test_kwok_leaves_real_nodes_alone(tmp_path: Path) -> None:
    simulated = layout_in(tmp_path)
    mixed = dataclasses.replace(simulated, real_nodes=1)
    assert "--manage-all-nodes=true" in components.kwok(simulated).arguments
    assert "--manage-nodes-with-label-selector=!lab.composable.infra/real" in components.kwok(mixed).arguments
    assert f"--kubelet-client-key={mixed.pki}/kubelet-client.key" in components.apiserver(mixed).arguments


def test_audit_is_on_request(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    quiet, loud = (components.apiserver(layout, audit).arguments for audit in (False, True))
    assert not any(part.startswith("--audit") for part in quiet)
    assert f"--audit-log-path={layout.audit_log}" in loud
    assert "--audit-log-maxsize=8192" in loud, "a burst of 1,000 pods writes more than the 100 MiB of the default"


@pytest.mark.parametrize(("timeout", "written"), [(30, "30000ms"), (1.5, "1500ms")])
def test_binding_timeout_reaches_the_plugin(tmp_path: Path, timeout: float, written: str) -> None:
    document = components.scheduler_configuration(layout_in(tmp_path), timeout)
    (plugin,) = document["profiles"][0]["pluginConfig"]
    assert plugin["name"] == "DynamicResources"
    assert plugin["args"]["bindingTimeout"] == written


def test_without_binding_timeout_the_scheduler_keeps_its_default(tmp_path: Path) -> None:
    assert "profiles" not in components.scheduler_configuration(layout_in(tmp_path), None)


def test_node_names_its_machine() -> None:
    node = nodes.node_object("node-7", "v1.36.3")
    assert node["spec"]["providerID"] == f"fsas-cdi://{names.machine_uuid('node-7')}"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-7"
    assert {key: node["status"]["allocatable"][key] for key in ("cpu", "memory", "pods")} == {
        "cpu": "32",
        "memory": "256Gi",
        "pods": "110",
    }


def test_machine_uuid_is_what_the_fabric_uses() -> None:
    assert names.machine_uuid("node-0") == "114419c3-6a66-5f30-b83f-57fd5dd0979a"
    assert names.machine_uuid("node-0") != names.machine_uuid("node-1")


@pytest.mark.parametrize(
    ("conditions", "taints", "ready"),
    [
        ([{"type": "Ready", "status": "True"}], [], True),
        ([{"type": "Ready", "status": "True"}], [{"key": "node.kubernetes.io/not-ready"}], False),
        ([{"type": "Ready", "status": "False"}], [], False),
        ([{"type": "MemoryPressure", "status": "True"}], [], False),
        ([], [], False),
    ],
)
def test_ready_nodes(conditions: list[Any], taints: list[Any], ready: bool) -> None:
    assert nodes.is_ready({"status": {"conditions": conditions}, "spec": {"taints": taints}}) is ready


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (LabOptions(nodes=-1), "nodes=-1"),
        (LabOptions(nodes=5001), "0 to 5000"),
        (LabOptions(binding_timeout=0.5), "at least 1 second"),
        (LabOptions(binding_timeout=5, kubernetes="1.34"), "needs 1.35 or later"),
        (LabOptions(kubernetes="1.20"), "not known"),
        (LabOptions(name="Bad_Name"), "lab name 'Bad_Name'"),
        (LabOptions(name=""), "lab name ''"),
    ],
)
def test_options_that_are_refused(options: LabOptions, message: str) -> None:
    with pytest.raises(LabError, match=message):
        options.check()


def test_default_options_are_allowed() -> None:
    LabOptions().check()
    LabOptions(nodes=0, binding_timeout=1, kubernetes="1.35.x").check()


def test_folders_follow_the_xdg_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert names.default_state_dir("mine") == Path("/state/composable-infra/labs/mine")
    assert names.cache_dir() == Path("/cache/composable-infra")
    with pytest.raises(LabError):
        names.default_state_dir("../up")


def test_claimed_port_is_not_given_twice() -> None:
    with PortClaim() as first, PortClaim() as second:
        taken = [claim.take() for claim in (first, second) for _number in range(20)]
        assert len(set(taken)) == 40
        assert not second._claim(taken[0])
    with PortClaim() as later:
        assert later._claim(taken[0])


def test_listening_port_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not is_free(server.getsockname()[1])


def test_temporary_folder_when_none_is_named() -> None:
    folder = state.fresh_folder(None)
    folder.rmdir()
    assert folder.name.startswith("composable-infra-lab-")


def test_foreign_folder_is_neither_used_nor_removed(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(LabError, match="is not empty and holds no lab"):
        state.fresh_folder(tmp_path)
    state.remove_folder(tmp_path)
    assert (tmp_path / "letter").exists()


def test_remains_of_a_dead_lab_are_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "lock").touch()
    (folder / "etcd").mkdir()
    assert state.fresh_folder(folder) == folder
    assert list(folder.iterdir()) == []


def test_folder_of_a_living_lab_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "lock").touch()
    some = Processes(folder)
    some.start(Command("etcd", ("sleep", "1000")))
    try:
        with pytest.raises(LabError, match=r"a lab is already up in .*\(etcd\)"):
            state.fresh_folder(folder)
    finally:
        some.stop_all()


def test_lab_that_is_just_being_started_is_refused(tmp_path: Path) -> None:
    with state.lock_folder(tmp_path), pytest.raises(LabError, match="another lab is starting in"):
        state.fresh_folder(tmp_path)
    with (tmp_path / "lock").open() as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_description_is_read_back(tmp_path: Path) -> None:
    written = state.Description("lab", "1.36.3", 2, "https://127.0.0.1:1", "https://127.0.0.1:2", True)
    written.write(tmp_path)
    assert state.Description.read(tmp_path) == written
    (tmp_path / "lab.json").write_text("{}")
    with pytest.raises(LabError, match="does not describe a lab"):
        state.Description.read(tmp_path)
    with pytest.raises(LabError, match="start a lab with 'lab up'"):
        state.Description.read(tmp_path / "absent")


@pytest.mark.parametrize(
    ("version", "kind", "path"),
    [
        ("v1", "Namespace", "/api/v1/namespaces/x"),
        ("v1", "ServiceAccount", "/api/v1/namespaces/n/serviceaccounts/x"),
        ("rbac.authorization.k8s.io/v1", "Role", "/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles/x"),
        ("resource.k8s.io/v1", "DeviceClass", "/apis/resource.k8s.io/v1/deviceclasses/x"),
    ],
)
def test_object_paths(version: str, kind: str, path: str) -> None:
    metadata = {"name": "x", "namespace": "n"}
    assert object_path({"apiVersion": version, "kind": kind, "metadata": metadata}) == path


def test_written_files_name_the_right_users(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    bootstrap.write_files(layout, LabOptions(name="mine", binding_timeout=5))
    assert {path.stem for path in (tmp_path / "kubeconfigs").iterdir()} == set(bootstrap.USERS)
    document = yaml.safe_load(layout.kubeconfig("admin").read_text())
    assert document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:3"
    options, *stages = list(yaml.safe_load_all(layout.config("stages.yaml").read_text()))
    assert options["options"]["podPlayStageParallelism"] > 4, "by default kubelets would wait for each other"
    assert {stage["spec"]["resourceRef"]["kind"] for stage in stages} == {"Node", "Pod"}
