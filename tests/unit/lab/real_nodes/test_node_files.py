# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written for a real node: configuration, identity, images, and what its first process is told."""

from __future__ import annotations

import hashlib
import json
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from ansible_collections.composable.infra.lab.control_plane.certificates import Authority
from ansible_collections.composable.infra.lab.real_nodes import cni, containerd, images, kubelet, namespace
from ansible_collections.composable.infra.lab.real_nodes.node import HARDWARE, RealNode, real_node_names


@pytest.fixture
def node(tmp_path: Path) -> RealNode:
    found = RealNode("real-0", 7, tmp_path / "lab")
    (found.folder / "config").mkdir(parents=True)
    return found


def test_two_nodes_share_nothing(tmp_path: Path) -> None:
    nodes = [RealNode(name, number, tmp_path) for number, name in enumerate(real_node_names(2), 1)]
    for share in ("address", "pod_range", "cgroup", "folder", "hardware", "bin"):
        assert len({getattr(node, share) for node in nodes}) == 2, share


@pytest.mark.parametrize("lower", [True, False])
def test_containerd_injects_devices_and_runs_the_named_runtime(node: RealNode, lower: bool) -> None:
    document = tomllib.loads(containerd.configuration(node, "runc", lower_oom_scores=lower))
    plugins = document["plugins"]
    runtime = plugins["io.containerd.cri.v1.runtime"]
    assert document["version"] == 4
    assert plugins["io.containerd.server.v1.grpc"]["address"] == containerd.SOCKET
    assert plugins["io.containerd.cri.v1.images"]["pinned_images"]["sandbox"] == images.PAUSE
    assert runtime["enable_cdi"] is True
    assert runtime["restrict_oom_score_adj"] is not lower
    assert runtime["cni"] == {"bin_dirs": [str(node.bin)], "conf_dir": str(node.folder / "cni")}
    options = runtime["containerd"]["runtimes"]["runc"]["options"]
    assert options == {"BinaryName": str(node.bin / "runc"), "SystemdCgroup": False}


def test_kubelet_asks_the_api_server_who_may_ask_it(node: RealNode, tmp_path: Path) -> None:
    kubelet.write_configuration(node, tmp_path / "pki")
    document = yaml.safe_load(node.config("kubelet.yaml").read_text())
    assert document["authentication"]["anonymous"] == {"enabled": False}
    assert document["authorization"] == {"mode": "Webhook"}
    assert document["cgroupRoot"] == "/composable-lab-7"
    assert document["address"] == document["healthzBindAddress"] == "10.99.0.7"
    assert document["providerID"].startswith("fsas-cdi://")
    assert f"--hostname-override={node.name}" in kubelet.command(node)


def test_kubelet_is_a_node_for_the_api_server(node: RealNode, tmp_path: Path) -> None:
    kubelet.write_identity(node, Authority(tmp_path / "pki"), "https://127.0.0.1:1", "lab-x")
    client = x509.load_pem_x509_certificate((tmp_path / "pki" / "kubelet-real-0.crt").read_bytes())
    serving = x509.load_pem_x509_certificate((tmp_path / "pki" / "kubelet-real-0-serving.crt").read_bytes())
    names = {oid: client.subject.get_attributes_for_oid(oid)[0].value
             for oid in (NameOID.ORGANIZATION_NAME, NameOID.COMMON_NAME)}
    alternative = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names == {NameOID.ORGANIZATION_NAME: "system:nodes", NameOID.COMMON_NAME: "system:node:real-0"}
    assert [str(entry) for entry in alternative.get_values_for_type(x509.IPAddress)] == ["10.99.0.7"]
    assert yaml.safe_load(node.config("kubeconfig.yaml").read_text())["current-context"] == "real-0@lab-x"


def test_pod_network_has_a_range_of_its_own(node: RealNode) -> None:
    (plugin,) = json.loads(cni.configuration(node))["plugins"]
    assert plugin["ipam"]["ranges"] == [[{"subnet": "10.98.7.0/24"}]]
    assert plugin["ipMasq"] is False


def test_first_process_joins_the_group_and_sees_the_hardware(node: RealNode) -> None:
    namespace.write_plan(node)
    plan = json.loads(node.config("plan.json").read_text())
    binds = {target: source for source, target in plan["binds"]}
    assert binds["/proc/driver"] == str(node.hardware / "proc" / "driver")
    assert binds[HARDWARE] == str(node.hardware)
    assert list(binds).index("/proc/driver") < list(binds).index(f"{HARDWARE}/proc")
    assert binds["/var/lib/kubelet"] == str(node.folder / "kubelet")
    assert all(file.endswith(f"/{node.cgroup}/programs/cgroup.procs") for file in plan["cgroups"])
    assert plan["containerd"]["environment"]["PATH"].startswith(f"{node.bin}:")
    made = set(plan["tmpfs"]) | set(binds) - {"/proc/driver", f"{HARDWARE}/proc"}
    assert made == set(namespace.MOUNT_POINTS)
    arguments = namespace.command(node).arguments
    assert arguments[0] == "unshare"
    assert "--uts" in arguments, "the name is the node's, not the machine's"
    assert plan["hostname"] == node.name
    assert "--kill-child" in arguments


def test_images_are_whole(tmp_path: Path) -> None:
    program, archive = tmp_path / "program", tmp_path / "images.tar"
    program.write_bytes(b"\x7fELF and so on")
    images.write_images(archive, program)
    with tarfile.open(archive) as tar:
        content = {member.name: _read(tar, member) for member in tar.getmembers()}
    index = json.loads(content["index.json"])
    entrypoints, users = {}, {}
    for entry in index["manifests"]:
        manifest = json.loads(_blob(content, entry))
        config = json.loads(_blob(content, manifest["config"]))
        (layer,) = manifest["layers"]
        assert config["rootfs"]["diff_ids"] == [layer["digest"]]
        assert b"\x7fELF and so on" in _blob(content, layer)
        entrypoints[entry["annotations"]["io.containerd.image.name"]] = config["config"]["Entrypoint"]
        users[entry["annotations"]["io.containerd.image.name"]] = config["config"]["User"]
    assert entrypoints == {images.PAUSE: ["/workload", "pause"], images.WORKLOAD: ["/workload"],
                           images.COLLECTION: ["/workload"]}
    # A pod that must not run as root leaves it to the image to say as whom.
    assert users == {images.PAUSE: "", images.WORKLOAD: "", images.COLLECTION: "65532"}


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    handle = tar.extractfile(member)
    assert handle is not None
    return handle.read()


def _blob(content: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    blob = content["blobs/" + descriptor["digest"].replace(":", "/")]
    assert len(blob) == descriptor["size"]
    assert f"sha256:{hashlib.sha256(blob).hexdigest()}" == descriptor["digest"]
    return blob
