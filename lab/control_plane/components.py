# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command lines and configuration files of the control plane, as a function of the lab's layout.

Flags follow what kwokctl's process runtime uses, with a user of its own for every component.
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
    """Path of the audit log below a lab's folder."""
    return state_dir / "logs" / "audit.log"


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports on 127.0.0.1, that of the API server at the layout's address."""

    etcd: int
    etcd_peer: int
    apiserver: int
    scheduler: int
    controller_manager: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything the command lines refer to: binaries by component, folders, ports.

    `address`: where the API server listens; pods of real nodes reach the machine, but not its 127.0.0.1.
    """

    state_dir: Path
    binaries: Mapping[str, Path]
    ports: Ports
    release: Release
    real_nodes: int = 0
    address: str = LOOPBACK

    @property
    def pki(self) -> Path:
        """Folder of certificates and keys."""
        return self.state_dir / "pki"

    @property
    def server(self) -> str:
        """URL of the API server."""
        return f"https://{self.address}:{self.ports.apiserver}"

    @property
    def audit_log(self) -> Path:
        """What the API server writes when it audits."""
        return audit_log_in(self.state_dir)

    def kubeconfig(self, component: str) -> Path:
        """Kubeconfig of one component."""
        return self.state_dir / "kubeconfigs" / f"{component}.yaml"

    def config(self, name: str) -> Path:
        """A configuration file."""
        return self.state_dir / "config" / name


def etcd(layout: Layout) -> Command:
    """etcd without fsync: a lab's data may be lost."""
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
    """kube-apiserver with RBAC, client certificates and service account tokens; `audit`: it logs writes."""
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
        # Nodes are created ready; a taint to be taken off each of hundreds only delays the start.
        "--disable-admission-plugins=TaintNodesByCondition",
        "--allow-privileged=true",
        # Unused, but components that delegate authentication complain all the time without it.
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    ]
    if layout.real_nodes:
        flags.append(f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}")
        flags.append(f"--kubelet-client-key={pki / 'kubelet-client.key'}")
        # Nobody resolves the names of real nodes.
        flags.append("--kubelet-preferred-address-types=InternalIP")
    if audit:
        flags.append(f"--audit-policy-file={layout.config('audit.yaml')}")
        flags.append(f"--audit-log-path={layout.audit_log}")
        # In MiB; by default it is begun anew after 100, and who reads it would miss what came before.
        flags.append("--audit-log-maxsize=8192")
    if layout.release.runtime_config:
        flags.append(f"--runtime-config={','.join(layout.release.runtime_config)}")
    return _command(layout, "kube-apiserver", [*flags, *_gates(layout, "kube-apiserver")])


def scheduler(layout: Layout) -> Command:
    """kube-scheduler; its configuration comes from scheduler_configuration()."""
    name = "kube-scheduler"
    flags = [f"--config={layout.config('scheduler.yaml')}", f"--secure-port={layout.ports.scheduler}"]
    return _command(layout, name, [*flags, *_delegated(layout, name), *_gates(layout, name)])


def controller_manager(layout: Layout) -> Command:
    """kube-controller-manager with the controllers that pods, claims and nodes need."""
    name = "kube-controller-manager"
    pki = layout.pki
    # A lab on a busy machine must not lose its nodes because a heartbeat was late.
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
    """kwok, which plays the kubelets of all nodes but those that have one."""
    some, every = f"--manage-nodes-with-label-selector=!{REAL_NODE_LABEL}", "--manage-all-nodes=true"
    flags = [
        f"--kubeconfig={layout.kubeconfig('kwok')}",
        some if layout.real_nodes else every,
        f"--config={layout.config('stages.yaml')}",
        "--node-lease-duration-seconds=40",
        "--cidr=10.64.0.1/10",
    ]
    # kwok reads a configuration from the home folder as well; the lab's must be the only one.
    return Command("kwok", (str(layout.binaries["kwok"]), *flags), {"HOME": str(layout.state_dir)})


def scheduler_configuration(layout: Layout, binding_timeout: float | None) -> dict[str, Any]:
    """KubeSchedulerConfiguration; `binding_timeout`: seconds that a pod waits for its devices (1.35+)."""
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
