# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet's configuration, certificates and command on a real node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ansible_collections.composable.infra.lab.control_plane.certificates import Authority
from ansible_collections.composable.infra.lab.control_plane.components import REAL_NODE_LABEL
from ansible_collections.composable.infra.lab.control_plane.kubeconfig import client_user, write_kubeconfig
from ansible_collections.composable.infra.lab.names import provider_id
from ansible_collections.composable.infra.lab.real_nodes.containerd import SOCKET
from ansible_collections.composable.infra.lab.real_nodes.node import RealNode

PORT = 10250


def write_identity(node: RealNode, authority: Authority, server: str, cluster: str) -> None:
    """Write certificates of the lab's authority for the Node authorizer, and the kubelet's
    kubeconfig."""
    client = authority.issue_client(f"kubelet-{node.name}", f"system:node:{node.name}", ("system:nodes",))
    authority.issue_server(_serving(node), (node.name,), (node.address,))
    user = client_user(client)
    write_kubeconfig(node.config("kubeconfig.yaml"), server, authority.certificate, node.name, user, cluster)


def write_configuration(node: RealNode, pki: Path) -> None:
    """Write the configuration file."""
    document = configuration(node, pki)
    node.config("kubelet.yaml").write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def configuration(node: RealNode, pki: Path) -> dict[str, Any]:
    """Return the KubeletConfiguration with separate control groups and without changes to the
    firewall."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "port": PORT,
        "healthzBindAddress": node.address,
        "tlsCertFile": str(pki / f"{_serving(node)}.crt"),
        "tlsPrivateKeyFile": str(pki / f"{_serving(node)}.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "providerID": provider_id(node.name),
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        # A failed Prepare is retried after this time.
        "syncFrequency": "5s",
        # Other programs of this machine share disk and memory.
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%"},
        "imageGCHighThresholdPercent": 100,
    }


def command(node: RealNode) -> list[str]:
    """Return the command of the kubelet."""
    return [
        str(node.bin / "kubelet"),
        f"--config={node.config('kubelet.yaml')}",
        f"--kubeconfig={node.config('kubeconfig.yaml')}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        f"--node-labels={REAL_NODE_LABEL}=true",
    ]


def _serving(node: RealNode) -> str:
    return f"kubelet-{node.name}-serving"
