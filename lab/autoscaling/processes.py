# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the provider and the real Cluster Autoscaler as processes, each with certificates."""

from __future__ import annotations

import os
import re
import sys
import typing as t
from pathlib import Path

import yaml

from ansible_collections.composable.infra.lab.binaries.cache import BinaryCache
from ansible_collections.composable.infra.lab.control_plane.certificates import Authority
from ansible_collections.composable.infra.lab.demo.front_doors import PACKAGE, Process
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.lab.errors import LabError

VARIABLE, VERSION = "CLUSTER_AUTOSCALER", "1.36.1"
SERVER_NAME = "localhost"
RESOURCE = "nvidia.com/gpu"
_PORT = re.compile(r"answering Cluster Autoscaler on port (\d+)")
Json = dict[str, t.Any]


def find_cluster_autoscaler() -> Path | None:
    """Return the binary of the variable CLUSTER_AUTOSCALER, or from the lab's cache, or None.

    There is no released binary, and the Go module proxy does not serve it. Raise LabError if the
    variable names no program.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if not os.access(named, os.X_OK):
            raise LabError(f"{VARIABLE}: {named!r} is no program")
        return Path(named)
    return BinaryCache().find("cluster-autoscaler", VERSION)


class Certificates:
    """An authority, a server certificate for the provider, and a client certificate for Cluster
    Autoscaler."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        self.ca = authority.certificate
        self.server = authority.issue_server("provider", names=(SERVER_NAME,), addresses=("127.0.0.1",))
        self.client = authority.issue_client("cluster-autoscaler", "cluster-autoscaler")
        self.strange_client = Authority(folder / "strange").issue_client("stranger", "stranger")


def groups(**more: t.Any) -> Json:
    """Return a configuration with one vertical group and one group of all real nodes."""
    return {"vertical": [{"id": "vertical", "devices": {RESOURCE: 8}}], "nodes": [{"id": "nodes"}],
            "provision_timeout": 60, **more}


def start_provider(stage: Stage, config: Json, certificates: Certificates, name: str = "provider") -> Process:
    """Start a process of the provider with the shipped RBAC. It answers when it leads."""
    path = stage.folder / "autoscaler.yml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    account = stage.lab.service_account_kubeconfig("composable-infra", "composable-infra-autoscaler")
    return Process(name, [
        sys.executable, "-m", f"{PACKAGE}.controller.autoscaler", "--config", str(stage.config_path),
        "--autoscaler-config", str(path), "--kubeconfig", str(account), "--address", "127.0.0.1:0",
        "--listen", "127.0.0.1:0", "--tls-cert-file", str(certificates.server.certificate),
        "--tls-private-key-file", str(certificates.server.key), "--client-ca-file", str(certificates.ca)], stage)


def provider(stage: Stage, config: Json, certificates: Certificates) -> tuple[Process, int]:
    """Start the provider. Return its process and port when it answers."""
    process = start_provider(stage, config, certificates)
    try:
        process.wait_for("answering Cluster Autoscaler")
        found = _PORT.search(process.text())
        assert found
        return process, int(found[1])
    except BaseException:
        process.stop()
        raise


def cluster_autoscaler(stage: Stage, binary: Path, port: int, certificates: Certificates, *flags: str) -> Process:
    """Start the real program with short times: a loop each second, nodes unneeded for 5 s, 20 s of
    backoff."""
    config = stage.folder / "cloud-config.yml"
    config.write_text(yaml.safe_dump({
        "address": f"{SERVER_NAME}:{port}", "cacert": str(certificates.ca), "key": str(certificates.client.key),
        "cert": str(certificates.client.certificate), "grpc_timeout": "5s"}), encoding="utf-8")
    return Process("cluster-autoscaler", [
        str(binary), "--cloud-provider=externalgrpc", f"--cloud-config={config}",
        f"--kubeconfig={stage.lab.kubeconfig}", "--leader-elect=false", "--address=127.0.0.1:0",
        "--scan-interval=1s", "--scale-down-unneeded-time=5s",
        "--scale-down-delay-after-add=1s", "--scale-down-delay-after-failure=1s",
        "--unremovable-node-recheck-timeout=1s",
        "--initial-node-group-backoff-duration=20s", "--max-node-group-backoff-duration=20s",
        "--node-group-backoff-reset-timeout=20s", "--node-info-cache-expire-time=60s", "--max-node-provision-time=120s",
        "--new-pod-scale-up-delay=0s", "--skip-nodes-with-local-storage=false", "--v=4", *flags], stage)
