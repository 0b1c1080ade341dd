# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks work on the nodes by SSH, and write nothing about a node that they do not reach.

Each node's host is a real sshd on a loopback address, in a play with the keywords of the shipped ones. A release was
requested of each node. The buses of the machines are empty, so a node that is reached has removed its device.
"""

from __future__ import annotations

import getpass
import json
import re
import threading
import time
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.host import machine
from ansible_collections.composable.infra.tests.e2e.support.played import Json, Played, play, well
from ansible_collections.composable.infra.tests.integration.kube.api_server import FakeApi
from ansible_collections.composable.infra.tests.integration.over_ssh import sshd
from ansible_collections.composable.infra.tests.integration.over_ssh.sshd import Sshd
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

pytestmark = pytest.mark.skipif(bool(sshd.missing()), reason=sshd.missing() or "nothing is missing")

CRO, DRA = "cro.hpsys.ibm.ie.com/v1alpha1", "resource.k8s.io/v1"
NODES = ("well", "off", "new-key", "other-uuid", "other-name", "busy")
RELEASE = "2026-11-26T00:00:00.000000Z"
UUIDS = {node: f"00000000-0000-0000-0000-00000000000{number}" for number, node in enumerate(NODES)}
TASKS = ROOT / "playbooks/tasks"


def resource(node: str, address: str) -> Json:
    """A ComposableResource whose device the node is requested to release."""
    steps = [{"step": step, "at": RELEASE} for step in ("OnBus", "Bound", "Touched", "PluginRestarted", "Announced")]
    evidence = {"version": 1, "phase": "Ready", "device": f"d-{node}", "by": "ssh", "uuid": f"GPU-{node}",
                "address": address, "steps": steps}
    return {"apiVersion": CRO, "kind": "ComposableResource",
            "metadata": {"name": f"gpu-{node}", "uid": node, "labels": {"composable.infra/target-node": node},
                         "annotations": {"composable.infra/release": RELEASE,
                                         "composable.infra/node": json.dumps(evidence)}},
            "spec": {"type": "gpu", "model": "A100", "target_node": node},
            "status": {"state": "Online", "device_id": f"GPU-{node}", "cdi_device_id": f"d-{node}"}}


def node_object(name: str, address: str) -> Json:
    return {"metadata": {"name": name, "uid": name, "labels": {}}, "spec": {},
            "status": {"nodeInfo": {"systemUUID": UUIDS[name]},
                       "addresses": [{"type": "InternalIP", "address": address}]}}


def serve(api: FakeApi, nodes: list[Json], resources: list[Json]) -> None:
    kinds: dict[str, list[tuple[str, str, list[Json]]]] = {
        "v1": [("nodes", "Node", nodes)],
        DRA: [("resourceslices", "ResourceSlice", []), ("resourceclaims", "ResourceClaim", [])],
        CRO: [("composableresources", "ComposableResource", resources)]}
    api.on("GET /version", {"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
    api.on("GET /api", {"kind": "APIVersions", "versions": ["v1"]})
    api.on("GET /apis", {"kind": "APIGroupList", "groups": [
        {"name": one.partition("/")[0], "preferredVersion": version, "versions": [version]}
        for one in (DRA, CRO) for version in ({"groupVersion": one, "version": one.partition("/")[2]},)]})
    for group, found in kinds.items():
        path = f"/api{'s' if '/' in group else ''}/{group}"
        api.on(f"GET {path}", {"kind": "APIResourceList", "groupVersion": group, "resources": [
            {"name": name, "singularName": kind.lower(), "namespaced": False, "kind": kind,
             "verbs": ["get", "list", "patch"]} for name, kind, _items in found]})
        for name, kind, items in found:
            api.on(f"GET {path}/{name}", {"kind": f"{kind}List", "apiVersion": group,
                                          "metadata": {"resourceVersion": "1"}, "items": items})
    for one in resources:
        path = f"/apis/{CRO}/composableresources/{one['metadata']['name']}"
        api.on(f"GET {path}", one)
        api.on(f"PATCH {path}", one)


class Site:
    """Nodes with an sshd each, a cluster that knows them, and the play."""

    def __init__(self, folder: Path, api: FakeApi) -> None:
        self.folder, self.api = folder, api
        self.nodes: tuple[str, ...] = ()
        self.key = sshd.new_key(folder / "key")
        self.sshd: dict[str, Sshd] = {}
        self.hosts: dict[str, dict[str, object]] = {}

    def root(self, node: str) -> Path:
        return self.folder / f"root-{node}"

    def is_machine(self, node: str, uuid: str, name: str = "") -> None:
        """Give the host of a node this system UUID and host name."""
        for path, text in (("sys/class/dmi/id/product_uuid", uuid), ("proc/sys/kernel/hostname", name or node)):
            (self.root(node) / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root(node) / path).write_text(f"{text}\n", encoding="ascii")

    def serve(self, *nodes: str, without_address: str = "") -> None:
        """Start the sshd of each node, and show each of them and its resource to the API server's clients."""
        self.nodes = nodes
        self.sshd = {node: Sshd(self.folder / f"sshd-{node}", self.key, f"127.0.0.{number}")
                     for number, node in enumerate(nodes, 2)}
        self.hosts = {node: {**one.host(), "composable_node_root": str(self.root(node))}
                      for node, one in self.sshd.items()}
        for node in nodes:
            (self.root(node) / "sys/bus/pci/devices").mkdir(parents=True)
            self.is_machine(node, UUIDS[node])
        serve(self.api, [node_object(node, one.address) for node, one in self.sshd.items()],
              [resource(node, "" if node == without_address else "0000:10:00.0") for node in nodes])

    def play(self, *options: str, rounds: int = 1, **variables: t.Any) -> Played:
        """Play rounds of the nodes' part, with the keywords of the shipped playbooks."""
        entry = {"name": "c", "cluster": {"server": self.api.url}}
        access = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [entry],
                  "users": [{"name": "c", "user": {"token": "t"}}],
                  "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}
        kubeconfig = self.folder / "kubeconfig"
        kubeconfig.write_text(json.dumps(access), encoding="utf-8")
        inventory = self.folder / "hosts.json"
        inventory.write_text(json.dumps({"all": {"children": {"composable_nodes": {"hosts": self.hosts}}}}),
                             encoding="utf-8")
        given = {"kubeconfig": str(kubeconfig), "node_become": False, "node_timeout": 5}
        book = [{"hosts": "localhost", "connection": "local", "become": False, "gather_facts": False,
                 "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
                 "tasks": [*[{"ansible.builtin.include_tasks": str(TASKS / "node_work.yml")}] * rounds,
                           {"ansible.builtin.include_tasks": str(TASKS / "node_unserved.yml")}]}]
        found = {"given": given, "node_hosts_of": {node: node for node in self.nodes}, **variables}
        return play(self.folder / "play", book, found, "-i", str(inventory), *options, TMPDIR=str(self.folder),
                    ANSIBLE_ASYNC_DIR=str(self.jobs), ANSIBLE_SSH_ARGS="-o ControlMaster=no", ANSIBLE_TIMEOUT="5",
                    K8S_AUTH_KUBECONFIG=str(kubeconfig))

    @property
    def jobs(self) -> Path:
        return self.folder / "jobs"

    @property
    def removed(self) -> list[str]:
        """Nodes about whose device Removed was written; everything else that was written fails the test."""
        found = []
        for request in self.api.requests:
            if request.method != "GET":
                told = json.loads(request.body["metadata"]["annotations"]["composable.infra/node"])
                assert told["phase"] == "Removed", told
                found.append(request.path.rpartition("gpu-")[2])
        return sorted(found)


def reasons(done: Played) -> dict[str, str]:
    """Why each node did not do its part, as the last failure says."""
    found = re.split(rf"(?:updated\.|;) ({'|'.join(NODES)}): ", done.failures[-1])
    return dict(zip(found[1::2], found[2::2], strict=True))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    api = FakeApi(None)
    made = Site(tmp_path, api)
    yield made
    for one in made.sshd.values():
        one.stop()
    api.stop()


def test_hosts_of_our_inventory_and_a_machine_credential(site: Site, tmp_path: Path) -> None:
    """As a job of AWX: hosts and addresses by the inventory plugin, user and key by the credential."""
    site.serve("well", "off")
    known = tmp_path / "known_hosts"
    known.write_text("".join(one.known_hosts().read_text("utf-8") for one in site.sshd.values()), encoding="utf-8")
    ports = {node: {"ansible_port": one.port, "composable_node_root": str(site.root(node))}
             for node, one in site.sshd.items()}
    site.hosts = {}
    variables = tmp_path / "ports.json"
    variables.write_text(json.dumps({"all": {"hosts": ports}}), encoding="utf-8")
    plugin = tmp_path / "cluster.yml"
    plugin.write_text(json.dumps({"plugin": "composable.infra.cluster"}), encoding="utf-8")
    options = ("-i", str(plugin), "-i", str(variables), "-u", getpass.getuser(), "--private-key", str(site.key),
               "--ssh-common-args", sshd.strict(known))
    well(site.play(*options))
    assert site.removed == ["off", "well"]
    assert all(one.logins for one in site.sshd.values())
    assert [path for path in site.jobs.iterdir() if path.is_file()] == []


def test_only_the_nodes_that_are_reached_are_worked_on(site: Site) -> None:
    """Five of six hosts are off, have another key, are another machine, or are busy. The sixth is worked on twice."""
    site.serve("well", "off", "new-key", "other-uuid", "other-name", "busy")
    site.sshd["off"].stop()
    site.hosts["new-key"]["ansible_ssh_common_args"] = sshd.strict(site.sshd["new-key"].known_hosts(changed=True))
    site.is_machine("other-uuid", "1" * 8)
    site.is_machine("other-name", "", "db-7")
    with machine.alone(site.root("busy")):
        done = site.play(rounds=2)
    assert set(site.removed) == {"well"}
    assert done.status != 0
    said = reasons(done)
    assert sorted(said) == ["busy", "new-key", "off", "other-name", "other-uuid"], done.failures
    assert "Connection refused" in said["off"]
    assert "Host key verification failed" in said["new-key"]
    for node, what in (("other-uuid", "1" * 8), ("other-name", "db-7")):
        assert what in said[node]
        assert UUIDS[node] in said[node]
        assert not (site.root(node) / machine.LOCK).exists()
    assert "Another task of node_device runs on this machine" in said["busy"]


def test_host_that_dies_in_the_midst(site: Site) -> None:
    """Its job waits for a device whose address nobody knows; meanwhile sshd and its sessions end."""
    site.serve("off", "well", without_address="off")
    lock = site.root("off") / machine.LOCK
    ended = threading.Event()

    def die() -> None:
        while not lock.exists() and not ended.is_set():
            time.sleep(0.01)
        site.sshd["off"].stop()

    watcher = threading.Thread(target=die)
    watcher.start()
    done = site.play()
    ended.set()
    watcher.join()
    assert lock.exists()
    assert site.removed == ["well"]
    assert done.status != 0
    assert [*reasons(done)] == ["off"]
