# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of AWX attach and detach with node_operations ssh, on two real nodes, by real SSH.

Each node has a kubelet, and an sshd inside its namespaces with a host key of its own. ansible-runner
starts the shipped playbooks from a private data directory, as AWX does: with the hosts that an update
of the inventory found, extra variables, a machine credential whose key is in an ssh-agent, and the
environment of the credential types. Host keys are checked. AWX itself is not there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.real_nodes.node import HARDWARE, RealNode
from ansible_collections.composable.infra.lab.real_nodes.requirements import missing
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import (
    COMPOSABLE_RESOURCES,
)
from ansible_collections.composable.infra.tests.e2e.conftest import StageFactory
from ansible_collections.composable.infra.tests.e2e.support import by_hand, node_evidence
from ansible_collections.composable.infra.tests.e2e.support.played import environment
from ansible_collections.composable.infra.tests.e2e.support.support import (
    assert_served,
    await_served,
    changes_asked,
    delete_all,
    mark,
    states,
    wait_for,
)
from ansible_collections.composable.infra.tests.integration.awx.credential_support import (
    injected,
    inputs_of,
)
from ansible_collections.composable.infra.tests.integration.over_ssh import sshd
from ansible_collections.composable.infra.tests.integration.over_ssh.sshd import Sshd
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

pytestmark = pytest.mark.skipif(
    bool(sshd.missing() or missing()),
    reason=sshd.missing() or missing() or "nothing is missing",
)
Json = dict[str, t.Any]
GROUP = "gpu_nodes"
# Seconds after which a job that hangs is ended.
LONGEST = 500


@pytest.fixture(scope="module")
def stage(stage_factory: StageFactory) -> Stage:
    """Two real nodes, and no node agent."""
    return stage_factory(nodes=0, real_nodes=2, devices={A100: 2}, handover="gated", hands="ssh", attach=0.5)


@dataclass
class Job:
    """How a job has ended."""

    status: int
    output: str


def first_process(stage: Stage, node: RealNode) -> int:
    """The first process of a real node, as this machine numbers it: the child of unshare."""
    parent = stage.lab.processes.record(node.name).pid
    (child,) = Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split()
    return int(child)


@dataclass
class Site:
    """The nodes' sshds, and what AWX has been given."""

    stage: Stage
    folder: Path
    key: Path
    hosts: dict[str, Sshd] = field(default_factory=dict)

    def start(self) -> None:
        """Start an sshd inside each node."""
        for node in self.stage.lab.real_nodes:
            pid = str(first_process(self.stage, node))
            within = ("nsenter", "--target", pid, "--mount", "--pid", "--uts")
            self.hosts[node.name] = Sshd(self.folder / f"sshd-{node.name}", self.key, node.address, within)

    @property
    def known_hosts(self) -> Path:
        """The file with the host keys of both nodes."""
        path = self.folder / "known_hosts"
        lines = [one.known_hosts().read_text("utf-8") for one in self.hosts.values()]
        path.write_text("".join(lines), encoding="utf-8")
        return path

    @property
    def environment(self) -> dict[str, str]:
        """What AWX and its credentials set."""
        fabric = self.stage.emulator.fabric_config()
        form = {name: str(value) for name, value in fabric.items()}
        return {
            **injected(inputs_of(form), self.folder),
            "K8S_AUTH_KUBECONFIG": str(self.stage.lab.kubeconfig),
            "ANSIBLE_HOST_KEY_CHECKING": "True",
            "ANSIBLE_SSH_COMMON_ARGS": f"-F none -o UserKnownHostsFile={self.known_hosts}",
            "ANSIBLE_ASYNC_DIR": str(self.folder / "async"),
            "ANSIBLE_STDOUT_CALLBACK": "default",
        }

    def inventory(self) -> Json:
        """What an update of the inventory source *Nodes of the cluster* finds."""
        command = [str(Path(sys.executable).parent / "ansible-inventory"), "--list", "--export"]
        done = subprocess.run(
            [*command, "-i", str(ROOT / "inventories/cluster.yml")],
            cwd=self.folder,
            env=environment(self.folder, **self.environment),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: Json = json.loads(done.stdout)
        assert sorted(found[GROUP]["hosts"]) == sorted(self.hosts)
        return found

    def run(self, playbook: str, *, swapped: bool = False, **given: t.Any) -> Job:
        """Run a shipped playbook as a job.

        Args:
            swapped: the administrator has given each host the address of the other one.
            given: answers of the survey.
        """
        private = self.folder / f"job-{playbook}-{len(list(self.folder.glob('job-*')))}"
        inventory = self.inventory()
        variables = inventory["_meta"]["hostvars"]
        addresses = list(self.hosts.values())
        for name, one in zip(self.hosts, addresses[::-1] if swapped else addresses, strict=True):
            assert swapped or variables[name]["ansible_host"] == one.address
            # An administrator of AWX adds these to the hosts. A machine of developers has Pythons
            # that discovery takes for usable.
            variables[name] |= {
                "ansible_host": one.address,
                "ansible_port": one.port,
                "ansible_python_interpreter": sys.executable,
                "composable_node_root": HARDWARE,
            }
        config = {**self.stage.config(), "fabric": {}}
        files = {
            "env/extravars": {"composable_config": config, "composable_node_hosts": GROUP, **given},
            "env/envvars": self.environment,
            "env/settings": {"job_timeout": LONGEST},
        }
        for path, content in files.items():
            (private / path).parent.mkdir(parents=True, exist_ok=True)
            (private / path).write_text(json.dumps(content), encoding="utf-8")
        (private / "env/ssh_key").write_text(self.key.read_text("ascii"), encoding="ascii")
        (private / "env/cmdline").write_text("-u root --become-method su", encoding="ascii")
        script = private / "inventory/hosts"
        script.parent.mkdir()
        script.write_text(f"#!{sys.executable}\nprint({json.dumps(inventory)!r})\n", encoding="utf-8")
        script.chmod(0o700)
        (private / "project").symlink_to(ROOT)
        command = [str(Path(sys.executable).parent / "ansible-runner"), "run", str(private)]
        done = subprocess.run(
            [*command, "-p", f"playbooks/{playbook}.yml"],
            env=environment(self.folder),
            capture_output=True,
            text=True,
            check=False,
        )
        return Job(done.returncode, done.stdout + done.stderr)

    def logins(self) -> list[int]:
        """How many times somebody has logged in to each node."""
        return [one.logins for one in self.hosts.values()]


@pytest.fixture(scope="module")
def site(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Both nodes can be logged in to."""
    folder = tmp_path_factory.mktemp("site")
    made = Site(stage, folder, sshd.new_key(folder / "key"))
    made.start()
    yield made
    for one in made.hosts.values():
        one.stop()


def well(job: Job) -> None:
    """Fail with the job's output unless it succeeded."""
    assert job.status == 0, job.output[-6000:]


def evidence(stage: Stage) -> list[tuple[str, str]]:
    """Phase and author of what was written about the devices of each node."""
    return [(each.phase, each.by) for node in stage.lab.real_nodes for each in node_evidence.evidence(stage, node.name)]


def sees_its_device(stage: Stage, pod: str) -> bool:
    """Whether the container of a pod was given a GPU and the one beside it was not."""
    return stage.printed(pod).startswith("devices: GPU_DEVICE_0=GPU-") and stage.printed(pod, "beside").startswith(
        "devices: \n"
    )


def test_jobs_attach_and_return_devices_on_two_real_nodes_by_ssh(stage: Stage, site: Site, timeline: Timeline) -> None:
    # A claim waits for a device of each node, and one job serves both.
    nodes = [node.name for node in stage.lab.real_nodes]
    since, wanted = mark(stage), {f"on-{node}": (A100, 1) for node in nodes}
    for node in nodes:
        stage.pod(f"on-{node}", A100, 1, node)
    well(site.run("attach", timeout=400))
    await_served(stage, timeline, *wanted)
    assert_served(stage, timeline.finish(), since, wanted)
    assert evidence(stage) == [("Ready", "ssh")] * 2
    assert all(site.logins()), "the job has worked on both nodes"
    for pod in wanted:
        wait_for(f"{pod} sees its device and no other", partial(sees_its_device, stage, pod))

    # The addresses of the hosts are mixed up while the devices are to be returned.
    delete_all(stage)
    since = mark(stage)
    refused = site.run("detach", swapped=True, detach_nodes=nodes, detach_timeout=10)
    assert refused.status != 0
    for node in nodes:
        assert f"and not the node {node}" in refused.output
    assert evidence(stage) == [("Ready", "ssh")] * 2
    assert changes_asked(stage, since) == []

    # With the right addresses the devices return.
    well(site.run("detach", detach_nodes=nodes))
    assert states(stage) == ["free"] * 2
    assert sorted(e["method"] for e in changes_asked(stage, since)) == ["DELETE"] * 2
    assert not stage.client.list(COMPOSABLE_RESOURCES).items
    for node in nodes:
        folder = stage.lab.node_folder(node)
        assert by_hand.gpus(folder) == []
        assert "Xid" not in by_hand.kernel_log(folder), "a device left before its node released it"
