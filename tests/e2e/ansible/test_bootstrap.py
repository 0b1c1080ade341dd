# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts and cluster are set up by all roles from ``examples/site``, serve a claim, and are left as they were."""

from __future__ import annotations

import json
import os
import shutil
import sys
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.hardware.agent_identity import DAEMON_SET
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.label_chain import operator_says_ready
from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played, play, stored, well, whole_nodes
from ansible_collections.composable.infra.tests.e2e.support.support import all_free, await_served, delete_all, wait_for
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

STAGE: dict[str, t.Any] = {"nodes": 3, "devices": {A100: 1}}
SITE = ROOT / "examples" / "site"
REDFISH = ROOT / "examples" / "site-redfish"
CREDENTIALS = ("username", "password", "realm", "client_id", "client_secret")
CONFIGMAP = "/api/v1/namespaces/composable-infra/configmaps/composable-infra-config"
AGENT_PODS = "/api/v1/namespaces/composable-infra/pods?labelSelector=app.kubernetes.io/component%3Dlab-node-agent"
STAND_INS = ROOT / "extensions" / "molecule" / "node_prepare" / "stand_ins"
PLUGIN = "/apis/apps/v1/namespaces/dra-driver-nvidia-gpu/daemonsets/dra-driver-nvidia-gpu-kubelet-plugin"
DEVICE_CLASS = "/apis/resource.k8s.io/v1/deviceclasses/gpu.nvidia.com"
LINE = "quiet splash=silent"
RELEASES = {"node-0": 'ID=ubuntu\nVERSION_ID="24.04"\n', "node-1": 'ID="sles"\nVERSION_ID="15.6"\n',
            "node-2": 'ID=ubuntu\nVERSION_ID="24.04"\n'}
FOLDERS = ("proc", "etc/default", "etc/modprobe.d", "etc/systemd/system", "sys/module/nvidia_drm/parameters")
FOREIGN = ("gpu-operator", "somebody-else")
Run = t.Callable[..., Played]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders that stand for the hosts' roots, and one with stand-ins for their commands, beside them."""
    folder = tmp_path_factory.mktemp("hosts")
    for command in Path(shutil.copytree(STAND_INS, folder / "bin")).iterdir():
        command.chmod(0o755)
    for name, release in RELEASES.items():
        files = {"etc/os-release": release, "proc/cmdline": f"BOOT_IMAGE=/vmlinuz {LINE}\n", "proc/modules": "",
                 "etc/default/grub": f'GRUB_CMDLINE_LINUX_DEFAULT="{LINE}"\nGRUB_CMDLINE_LINUX=""\n',
                 "sys/module/nvidia_drm/parameters/modeset": "N\n"}
        for path in FOLDERS:
            (folder / name / path).mkdir(parents=True)
        for path, text in files.items():
            (folder / name / path).write_text(text, encoding="utf-8")
    return folder


def roots(hosts: Path) -> dict[str, str]:
    """Text of all files of the hosts, and where links lead; what was copied aside before a change is left out."""
    paths = [path for name in RELEASES for path in sorted((hosts / name).rglob("*"))]
    return {str(path.relative_to(hosts)): str(path.readlink()) if path.is_symlink() else path.read_text("utf-8")
            for path in paths if not path.is_dir() and not path.name.endswith("~")}


@pytest.fixture(scope="module")
def run(stage: Stage, hosts: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``run("bootstrap", "--check")``: a playbook with the example as its inventory, and what the lab has otherwise."""
    folder = tmp_path_factory.mktemp("bootstrap")
    path = os.pathsep.join([str(hosts / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    otherwise = folder / "lab.json"
    otherwise.write_text(json.dumps(_otherwise(stage, hosts)), encoding="utf-8")

    def start(name: str, *options: str) -> Played:
        return play(folder, f"composable.infra.{name}", {}, "-i", str(SITE), *options, "-e", f"@{otherwise}", PATH=path,
                    ANSIBLE_VAULT_PASSWORD_FILE=str(SITE / "vault_password.txt"))

    return start


def _otherwise(stage: Stage, hosts: Path) -> Json:
    """Addresses and secrets of the lab; its hosts are folders, and its charts are stand-ins."""
    fabric = stage.config()["fabric"]
    return {
        "ansible_connection": "local", "node_prepare_root": f"{hosts}/{{{{ inventory_hostname }}}}",
        "composable_kubeconfig": str(stage.lab.kubeconfig), "composable_wait_timeout": 120,
        "composable_chart_mirror": str(ROOT / "tests" / "charts"),
        "site_fabric_endpoint": fabric["endpoint"], "site_fabric_tenant": fabric["tenant"],
        "site_fabric_ca": Path(stage.emulator.ca_path).read_text(encoding="utf-8"),
        "site_models": stage.config()["device_info"], **{f"vault_fabric_{name}": fabric[name] for name in CREDENTIALS},
        "uninstall_crds": "true", "composable_uninstall_hosts": "true"}


@dataclass(frozen=True)
class Bare:
    """Objects, nodes and the hosts' files before anything."""

    objects: dict[str, str]
    nodes: dict[str, Json]
    files: dict[str, str]


@pytest.fixture(scope="module")
def bare(stage: Stage, hosts: Path, run: Run) -> Iterator[Bare]:
    """A cluster without anything of ours (a lab brings CRDs, RBAC, a DeviceClass and a plugin along), and its hosts.

    Somebody else made one of the namespaces that the roles want, and one that they do not know. The lab's node agents
    go, too: their pods and accounts are among what it brings along.
    """
    _end_agents(stage)
    for path in (DEVICE_CLASS, PLUGIN):
        stage.lab.api.request("DELETE", path)
    for name in FOREIGN:
        stage.lab.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    files = roots(hosts)
    well(run("uninstall"))
    with operator_says_ready(stage.lab):
        yield Bare(stored(stage.lab), whole_nodes(stage.lab), files)


@pytest.fixture(scope="module")
def installed(bare: Bare, run: Run) -> Played:
    """Bootstrap has run."""
    return well(run("bootstrap"))


def test_upgrade_of_a_cluster_that_was_never_set_up_is_refused(bare: Bare, run: Run) -> None:
    refused = run("upgrade")
    assert refused.status != 0
    assert "run composable.infra.bootstrap" in "".join(refused.failures)


def test_check_mode_on_a_fresh_cluster_writes_nothing(
    stage: Stage, bare: Bare, hosts: Path, run: Run
) -> None:
    assert well(run("bootstrap", "--check")).changed
    assert stored(stage.lab) == bare.objects
    assert roots(hosts) == bare.files
    assert not (hosts / "calls").exists()


def test_every_role_has_done_its_part(stage: Stage, hosts: Path, installed: Played) -> None:
    report = str(installed.result("verify : Report the findings")["msg"])
    for words in ("node-feature-discovery 0.19.0 is deployed", "gpu-operator v26.7.0 is deployed",
                  "dra-driver-nvidia-gpu 0.4.1 is deployed", "ClusterPolicy cluster-policy is ready",
                  "node node-1: 0 GPUs, ready to attach"):
        assert words in report
    files = roots(hosts)
    for name in RELEASES:
        assert "hpbussize=8" in files[f"{name}/etc/default/grub"]
        assert "blacklist nouveau" in files[f"{name}/etc/modprobe.d/composable-infra.conf"]
    assert stage.lab.api.get(CONFIGMAP)["data"]
    assert stage.lab.api.exists("/api/v1/namespaces/composable-monitoring")


def test_a_second_run_changes_nothing(stage: Stage, hosts: Path, installed: Played, run: Run) -> None:
    assert installed.changed
    before, files = stored(stage.lab), roots(hosts)
    assert well(run("bootstrap")).changed == []
    assert well(run("bootstrap", "--check")).changed == []
    assert well(run("upgrade")).changed == []
    assert stored(stage.lab) == before
    assert roots(hosts) == files


def test_the_second_inventory_puts_a_redfish_manager_in_place(stage: Stage, installed: Played, run: Run) -> None:
    before = stored(stage.lab)
    done = well(run("bootstrap", "-i", str(REDFISH), "--tags", "controllers", "--check", "--diff"))
    assert done.changed
    assert "manager: redfish" in json.dumps(done.document)
    assert stored(stage.lab) == before


@pytest.fixture(scope="module")
def config_path(stage: Stage, installed: Played, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration that bootstrap has stored, with the Secret where this process can read it.

    But for the hold time: the site keeps an idle device for ten minutes.
    """
    folder = tmp_path_factory.mktemp("pod")
    config = yaml.safe_load(stage.lab.api.get(CONFIGMAP)["data"]["config.yml"])
    fabric = stage.config()["fabric"]
    for name in CREDENTIALS:
        (folder / name).write_text(fabric[name], encoding="utf-8")
    (folder / "certificate").write_bytes(Path(stage.emulator.ca_path).read_bytes())
    config["fabric"]["credentials_dir"] = str(folder)
    assert config["device_no_removal_duration"] == 600
    config["device_no_removal_duration"] = stage.config()["device_no_removal_duration"]
    path = folder / "config.yml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


@pytest.fixture
def agents(stage: Stage, installed: Played) -> Iterator[None]:
    """The lab's node agents, as accounts that bootstrap has made: those that a lab brings are gone."""
    stage.lab.start_agents()
    yield
    _end_agents(stage)


def _end_agents(stage: Stage) -> None:
    stage.lab.stop_agents()
    stage.lab.api.request("DELETE", DAEMON_SET)
    wait_for("the agents' pods are gone", lambda: not stage.lab.api.get(AGENT_PODS)["items"])


@pytest.mark.usefixtures("agents")
def test_a_claim_runs_with_what_was_stored_and_stands_in_the_way_of_uninstall(
    stage: Stage, config_path: Path, run: Run, timeline: Timeline, open_process: OpenProcess
) -> None:
    stage.config_path = config_path
    stage.kubeconfig = stage.lab.service_account_kubeconfig("composable-infra", "composable-infra")
    open_process(front_doors.controller, stage)
    stage.pod("train", A100)
    await_served(stage, timeline, "train")
    before = stored(stage.lab)
    refused = run("uninstall")
    assert refused.status != 0
    assert "claim default/train" in "".join(refused.failures)
    assert f"{A100} " in "".join(refused.failures)
    assert set(stored(stage.lab)) == set(before)
    delete_all(stage)
    wait_for("the device is returned", lambda: all_free(stage))


def test_uninstall_leaves_the_api_server_and_the_hosts_as_they_were(
    stage: Stage, bare: Bare, hosts: Path, installed: Played, run: Run
) -> None:
    check = well(run("uninstall", "--check"))
    said = " ".join(str(result.get("msg")) for _name, result in check.tasks)
    for part in ("monitoring", "controllers", "nvidia_dra_driver", "gpu_operator", "nfd"):
        assert f"{part}: " in said
    well(run("uninstall"))
    # what the nodes announce of themselves is not ours
    left = {name for name in stored(stage.lab) if not name.startswith("resourceslices /node-")}
    assert {f"namespaces /{name}" for name in FOREIGN} <= left
    assert left == {name for name in bare.objects if not name.startswith("resourceslices /node-")}
    assert whole_nodes(stage.lab) == bare.nodes
    assert roots(hosts) == bare.files
    assert well(run("uninstall")).changed == []
