# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command lines and configuration files of the control plane, computed from the lab's layout.

The flags follow kwokctl's process runtime, with a separate user for every component.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.composable.infra.lab.binaries.releases import Release
from ansible_collections.composable.infra.lab.processes.supervisor import Command

ISSUER = "https://kubernetes.default.svc.cluster.local"
CONTROLLERS = (
    "daemonset-controller",
    "deployment-controller",
    "device-taint-eviction-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourceclaim-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)
REAL_NODE_LABEL = "lab.composable.infra/real"
LOOPBACK = "127.0.0.1"
QPS, BURST = 1000, 2000


def audit_log_in(state_dir: Path) -> Path:
    """Return the path of the audit log in a lab's folder."""
    return state_dir / "logs" / "audit.log"


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports on 127.0.0.1. The API server's port is at the layout's address."""

    etcd: int
    etcd_peer: int
    apiserver: int
    scheduler: int
    controller_manager: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Binaries by component, folders and ports for the command lines.

    The API server listens on `address`. Pods of real nodes cannot use 127.0.0.1 of the machine.
    """

    state_dir: Path
    binaries: Mapping[str, Path]
    ports: Ports
    release: Release
    real_nodes: int = 0
    address: str = LOOPBACK

    @property
    def pki(self) -> Path:
        """Return the folder of certificates and keys."""
        return self.state_dir / "pki"

    @property
    def server(self) -> str:
        """Return the URL of the API server."""
        return f"https://{self.address}:{self.ports.apiserver}"

    @property
    def audit_log(self) -> Path:
        """Return the path of the API server's audit log."""
        return audit_log_in(self.state_dir)

    def kubeconfig(self, component: str) -> Path:
        """Return the kubeconfig of a component."""
        return self.state_dir / "kubeconfigs" / f"{component}.yaml"

    def config(self, name: str) -> Path:
        """Return the path of a configuration file."""
        return self.state_dir / "config" / name


def etcd(layout: Layout) -> Command:
    """Return the command of etcd without fsync, because a lab may lose its data."""
    client = f"http://127.0.0.1:{layout.ports.etcd}"
    peer = f"http://127.0.0.1:{layout.ports.etcd_peer}"
    flags = [
        "--name=lab",
        f"--data-dir={layout.state_dir / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=lab={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]
    return _command(layout, "etcd", flags)


def apiserver(layout: Layout, audit: bool = False) -> Command:
    """Return the command of kube-apiserver with RBAC, client certificates and service account
    tokens.

    With `audit`, it logs writes.
    """
    pki = layout.pki
    flags = [
        f"--etcd-servers=http://127.0.0.1:{layout.ports.etcd}",
        f"--bind-address={layout.address}",
        f"--secure-port={layout.ports.apiserver}",
        f"--tls-cert-file={pki / 'kube-apiserver.crt'}",
        f"--tls-private-key-file={pki / 'kube-apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={pki / 'service-account.key'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",
        # Nodes are created ready. Removing a taint from hundreds of nodes would only delay the
        # start.
        "--disable-admission-plugins=TaintNodesByCondition",
        "--allow-privileged=true",
        # Unused, but without it components with delegated authentication log errors all the time.
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    ]
    if layout.real_nodes:
        flags.append(f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}")
        flags.append(f"--kubelet-client-key={pki / 'kubelet-client.key'}")
        # No DNS resolves the names of real nodes.
        flags.append("--kubelet-preferred-address-types=InternalIP")
    if audit:
        flags.append(f"--audit-policy-file={layout.config('audit.yaml')}")
        flags.append(f"--audit-log-path={layout.audit_log}")
        # In MiB. The default rotates the log after 100, and a reader would miss the earlier part.
        flags.append("--audit-log-maxsize=8192")
    if layout.release.runtime_config:
        flags.append(f"--runtime-config={','.join(layout.release.runtime_config)}")
    return _command(layout, "kube-apiserver", [*flags, *_gates(layout, "kube-apiserver")])


def scheduler(layout: Layout) -> Command:
    """Return the command of kube-scheduler. Its configuration comes from
    scheduler_configuration()."""
    name = "kube-scheduler"
    flags = [f"--config={layout.config('scheduler.yaml')}", f"--secure-port={layout.ports.scheduler}"]
    return _command(layout, name, [*flags, *_delegated(layout, name), *_gates(layout, name)])


def controller_manager(layout: Layout) -> Command:
    """Return the command of kube-controller-manager with the controllers for pods, claims and
    nodes."""
    name = "kube-controller-manager"
    pki = layout.pki
    # A late heartbeat on a busy machine must not lose a node.
    flags = [
        f"--kubeconfig={layout.kubeconfig(name)}",
        f"--secure-port={layout.ports.controller_manager}",
        f"--service-account-private-key-file={pki / 'service-account.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        f"--controllers={','.join((*CONTROLLERS, *layout.release.controllers))}",
        f"--kube-api-qps={QPS}",
        f"--kube-api-burst={BURST}",
        "--node-monitor-grace-period=300s",
    ]
    return _command(layout, name, [*flags, *_delegated(layout, name), *_gates(layout, name)])


def kwok(layout: Layout) -> Command:
    """Return the command of kwok, which simulates the kubelets of nodes without one."""
    some, every = f"--manage-nodes-with-label-selector=!{REAL_NODE_LABEL}", "--manage-all-nodes=true"
    flags = [
        f"--kubeconfig={layout.kubeconfig('kwok')}",
        some if layout.real_nodes else every,
        f"--config={layout.config('stages.yaml')}",
        "--node-lease-duration-seconds=40",
        "--cidr=10.64.0.1/10",
    ]
    # kwok also reads a configuration in the home folder, so set another home.
    return Command("kwok", (str(layout.binaries["kwok"]), *flags), {"HOME": str(layout.state_dir)})


def scheduler_configuration(layout: Layout, binding_timeout: float | None) -> dict[str, Any]:
    """Return a KubeSchedulerConfiguration.

    `binding_timeout` is how many seconds a pod waits for its devices (1.35 and later).
    """
    document: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {
            "kubeconfig": str(layout.kubeconfig("kube-scheduler")),
            "qps": QPS,
            "burst": BURST,
        },
    }
    if binding_timeout is not None:
        arguments = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "DynamicResourcesArgs",
            "bindingTimeout": f"{round(binding_timeout * 1000)}ms",
        }
        plugins = [{"name": "DynamicResources", "args": arguments}]
        document["profiles"] = [{"schedulerName": "default-scheduler", "pluginConfig": plugins}]
    return document


def _delegated(layout: Layout, name: str) -> list[str]:
    kubeconfig = layout.kubeconfig(name)
    return [
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={layout.state_dir / 'serving' / name}",
    ]


def _gates(layout: Layout, component: str) -> list[str]:
    gates = layout.release.feature_gates(component)
    return [f"--feature-gates={gates}"] if gates else []


def _command(layout: Layout, component: str, flags: list[str]) -> Command:
    return Command(component, (str(layout.binaries[component]), *flags))
