# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One lab: a control plane, its nodes and their hardware, from Python.

with Lab.up(LabOptions(nodes=2)) as lab:
    run_something(lab.kubeconfig)
"""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

from ansible_collections.composable.infra.lab.api import Api
from ansible_collections.composable.infra.lab.binaries.finder import find_binaries
from ansible_collections.composable.infra.lab.binaries.node_programs import find_node_programs
from ansible_collections.composable.infra.lab.binaries.releases import find_release
from ansible_collections.composable.infra.lab.control_plane import bootstrap
from ansible_collections.composable.infra.lab.control_plane.certificates import Pair
from ansible_collections.composable.infra.lab.control_plane.components import LOOPBACK, Layout, audit_log_in
from ansible_collections.composable.infra.lab.control_plane.kubeconfig import token_user, write_kubeconfig
from ansible_collections.composable.infra.lab.control_plane.nodes import all_ready, create_nodes
from ansible_collections.composable.infra.lab.control_plane.snapshot import Snapshot
from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.hardware.agent_identity import agent_kubeconfig, agents_daemon_set
from ansible_collections.composable.infra.lab.hardware.agents_options import NAME as AGENTS
from ansible_collections.composable.infra.lab.hardware.agents_options import AgentsOptions, agents_command
from ansible_collections.composable.infra.lab.hardware.node import faults
from ansible_collections.composable.infra.lab.hardware.options import HardwareOptions, hardware_command
from ansible_collections.composable.infra.lab.hardware.plugin import daemonset
from ansible_collections.composable.infra.lab.names import node_names
from ansible_collections.composable.infra.lab.options import LabOptions
from ansible_collections.composable.infra.lab.processes import pids
from ansible_collections.composable.infra.lab.processes.ports import PortClaim
from ansible_collections.composable.infra.lab.processes.supervisor import Processes
from ansible_collections.composable.infra.lab.real_nodes import start as real_nodes
from ansible_collections.composable.infra.lab.real_nodes.ledger import Ledger
from ansible_collections.composable.infra.lab.real_nodes.node import RealNode
from ansible_collections.composable.infra.lab.state import Description, fresh_folder, lock_folder, remove_folder

__all__ = ["ComponentStatus", "Lab", "LabError", "LabOptions"]
Progress = Callable[[str], None]
# The plugin's pods are scheduled and started one by one.
_AT_ONCE = 16
_SECONDS_PER_NODE = 0.1


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """A process of a lab. `rss` is in bytes, 0 if it does not run."""

    name: str
    pid: int
    alive: bool
    rss: int
    log: Path


class Lab:
    """A running lab. Lab.up() starts one, Lab.load() finds one that another process started."""

    def __init__(self, state_dir: Path, description: Description, processes: Processes) -> None:
        self.state_dir = state_dir
        self.description = description
        self.processes = processes
        self.api = Api(description.server, self.ca, Pair(self._pki("admin.crt"), self._pki("admin.key")))

    @classmethod
    def up(cls, options: LabOptions | None = None, progress: Progress = lambda line: None) -> Lab:
        """Start a lab and return when pods can be scheduled.

        Raise LabError with the reason of a failure. Then no process is left, and the logs stay in
        the state folder.
        """
        wanted = options or LabOptions()
        wanted.check()
        real_nodes.check(wanted.real_nodes)
        known = find_release(wanted.kubernetes)
        release = known if wanted.feature_gates else known.plain()
        release = release.with_gangs() if wanted.gangs else release
        binaries = find_binaries(release, wanted.binaries, progress)
        if wanted.real_nodes:
            binaries.update(find_node_programs(release, wanted.binaries, progress))
        Ledger().sweep()
        state_dir = fresh_folder(wanted.state_dir)
        processes = Processes(state_dir, foreground=wanted.foreground)
        try:
            with lock_folder(state_dir), PortClaim() as claim:
                nodes = real_nodes.reserve(state_dir, wanted.real_nodes)
                address = nodes[0].address if nodes else LOOPBACK
                layout = Layout(state_dir, binaries, bootstrap.take_ports(claim), release, wanted.real_nodes, address)
                lab = cls._prepare(wanted, layout, processes, nodes)
                bootstrap.start(layout, processes, lab.api, wanted)
                real_nodes.start(nodes, processes, lab.api, layout, wanted.plugin_start)
                bootstrap.wait_ready(layout, processes, lab.api, wanted)
                real_nodes.wait_ready(nodes, processes, lab.api, wanted.ready_seconds)
        except LabError:
            _stop(state_dir, processes)
            raise
        except BaseException:
            _stop(state_dir, processes)
            remove_folder(state_dir)
            raise
        if wanted.foreground:
            atexit.register(lab.down)
        return lab

    @classmethod
    def _prepare(
        cls, wanted: LabOptions, layout: Layout, processes: Processes, nodes: Sequence[RealNode]
    ) -> Lab:
        description = Description(
            wanted.name,
            layout.release.kubernetes,
            wanted.nodes,
            layout.server,
            f"https://127.0.0.1:{layout.ports.scheduler}",
            wanted.foreground,
            wanted.real_nodes,
        )
        description.write(layout.state_dir)
        authority = bootstrap.write_files(layout, wanted)
        real_nodes.prepare(nodes, layout, authority, f"lab-{wanted.name}")
        return cls(layout.state_dir, description, processes)

    @classmethod
    def load(cls, state_dir: Path) -> Lab:
        """Return the lab in `state_dir`. Raise LabError if there is none."""
        path = state_dir.absolute()
        return cls(path, Description.read(path), Processes(path, foreground=False))

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    @property
    def server(self) -> str:
        """Return the URL of the API server."""
        return self.description.server

    @property
    def address(self) -> str:
        """Return this machine's address for its programs and for pods of real nodes."""
        return urlsplit(self.server).hostname or ""

    @property
    def ca(self) -> Path:
        """Return the path of the lab's certificate authority (PEM)."""
        return self._pki("ca.crt")

    @property
    def kubeconfig(self) -> Path:
        """Return the kubeconfig of the administrator, the lab's only cluster-admin."""
        return self.state_dir / "kubeconfigs" / "admin.yaml"

    @property
    def nodes(self) -> list[str]:
        """Return the names of the simulated nodes."""
        return node_names(self.description.nodes)

    @property
    def real_nodes(self) -> list[RealNode]:
        """Return the nodes with their own kubelet."""
        return Ledger().nodes(self.state_dir)

    @property
    def _every_node(self) -> list[str]:
        return [*self.nodes, *(node.name for node in self.real_nodes)]

    @property
    def audit_log(self) -> Path:
        """Return the API server's audit log (option `audit`): writes with bodies, one JSON document
        per line."""
        return audit_log_in(self.state_dir)

    def node_folder(self, node: str) -> Path:
        """Return the folder of a node's simulated hardware, with `sys/bus/pci/...` and
        `proc/...`."""
        return self.state_dir / "nodes" / node

    def service_account_kubeconfig(self, namespace: str, name: str, seconds: int = 86400) -> Path:
        """Return a kubeconfig with a token of the ServiceAccount, valid for `seconds`.

        Raise ApiRefusal if there is no such ServiceAccount.
        """
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        token = self.api.request("POST", path, body)["status"]["token"]
        target = self.state_dir / "kubeconfigs" / f"serviceaccount-{namespace}-{name}.yaml"
        cluster = f"lab-{self.description.name}"
        return write_kubeconfig(target, self.server, self.ca, name, token_user(token), cluster, namespace)

    def attach_hardware(
        self,
        emulator_url: str,
        ca_path: Path | None = None,
        rescan: str = "auto",
        seconds: float = 60.0,
        *,
        plugin_start: float = 0.3,
        plugin_grace: float = 30.0,
    ) -> None:
        """Connect the nodes to an emulated fabric. Return when the vendor's plugin has started on
        all nodes.

        The plugin announces a device only after the device was bound and used and the plugin's pod
        restarted. A removal waits while a process has the device open. A pulled device is lost.

        `rescan` is "auto", or "manual" for nodes that get no event for a new device. `plugin_start`
        and `plugin_grace` are as in HardwareOptions. The start may take `seconds`, plus a tenth of
        a second for each node. A second call replaces the simulator and keeps the devices of the
        nodes. Real nodes get hardware too, but their own plugin announces it.
        """
        self.detach_hardware()
        options = HardwareOptions(
            self.state_dir, self.server, emulator_url, ca_path, tuple(self.nodes), rescan, plugin_start,
            plugin_grace, real_nodes={node.name: node.cgroup for node in self.real_nodes},
        )  # fmt: skip
        command = hardware_command(options)
        for document in daemonset.documents():
            self.api.apply(document)
        self.processes.start(command)
        patience = seconds + _SECONDS_PER_NODE * len(self.nodes)
        self.processes.wait_until("the node simulator's first look at the fabric", options.ready.exists, patience)

    def start_agents(
        self,
        nodes: Sequence[str] = (),
        *,
        event_patience: float = 0.5,
        search_patience: float = 10.0,
        patience: float = 10.0,
        announce_patience: float = 30.0,
        rescan: str = "port",
        dra_driver: str = "",
        seconds: float = 60.0,
    ) -> None:
        """Run the node agents of these nodes, or of all, and return when they work.

        A second call replaces them. Options are as in AgentsOptions. The hardware must be attached.
        The start may take `seconds`, plus a tenth of a second for each node.
        """
        self.stop_agents()
        options = AgentsOptions(
            str(self.state_dir), tuple(nodes or self.nodes), event_patience, search_patience, patience,
            announce_patience, rescan, dra_driver,
        )  # fmt: skip
        command = agents_command(options)
        for document in bootstrap.agent_plugin_documents(own_driver=bool(dra_driver)):
            self.api.apply(document)
        with ThreadPoolExecutor(_AT_ONCE) as executor:
            list(executor.map(self._agent_kubeconfig, options.nodes))
        self.api.apply(agents_daemon_set(options.nodes))
        self.processes.start(command)
        patience_in_all = seconds + _SECONDS_PER_NODE * len(options.nodes)
        self.processes.wait_until("node agents at work", options.ready.exists, patience_in_all)

    def stop_agents(self) -> None:
        """Stop the node agents, if there are any."""
        if any(record.name == AGENTS for record in self.processes.records()):
            self.processes.stop(AGENTS)

    def _agent_kubeconfig(self, node: str) -> Path:
        return agent_kubeconfig(self.api, self.state_dir, self.ca, node)

    def switch_fault(self, node: str, kind: str, on: bool = True) -> frozenset[str]:
        """Switch a fault of a simulated node's hardware. Return the faults that are on now.

        Raise LabError with the allowed values.
        """
        known = self._every_node
        if node not in known:
            raise LabError(f"node {node!r} is not in this lab: use one of {', '.join(known)}")
        folder = self.node_folder(node)
        if not (folder / ".simulated-node").exists():
            raise LabError(f"node {node} has no hardware that can fail: attach the lab's hardware")
        return faults.switch(folder, kind, on)

    def faults(self) -> dict[str, frozenset[str]]:
        """Return the faults that are on, by node."""
        found = {node: faults.read(self.node_folder(node)) for node in self._every_node}
        return {node: kinds for node, kinds in found.items() if kinds}

    def detach_hardware(self) -> None:
        """Stop the node simulator, if there is one. Announced devices stay."""
        if any(record.name == "hardware" for record in self.processes.records()):
            self.processes.stop("hardware")

    def stop_component(self, name: str) -> None:
        """Stop one process, for example "kube-apiserver"."""
        self.processes.stop(name)

    def start_component(self, name: str, seconds: float = 60.0) -> None:
        """Start a stopped process again. Return when the API server is ready."""
        self.processes.restart(name)
        self.processes.wait_until("a ready API server", self.api.ready, seconds)

    def log(self, component: str) -> Path:
        """Return the log file of a component. Raise LabError with the components if there is
        none."""
        return self.processes.log(self.processes.record(component).name)

    def status(self) -> Sequence[ComponentStatus]:
        """Return all processes of the lab."""
        return [
            ComponentStatus(
                record.name,
                record.pid,
                record.alive,
                pids.resident(record.pid) if record.alive else 0,
                self.processes.log(record.name),
            )
            for record in self.processes.records()
        ]

    def snapshot(self) -> Snapshot:
        """Return the current objects of the API server for a later `reset`."""
        return Snapshot(self.api)

    def reset(self, snapshot: Snapshot, nodes: int, seconds: float = 60.0) -> None:
        """Restore a snapshot of the control plane and create `nodes` new nodes. Not for labs with
        real nodes.

        Stop hardware and agents, and remove the folders of the nodes. Raise LabError if a component
        of the control plane does not run, or if an object cannot be removed.
        """
        for record in self.processes.records():
            if record.name not in bootstrap.COMPONENTS:
                self.processes.forget(record.name)
            elif not record.alive:
                raise LabError(f"{record.name} does not run. Start the lab again.")
        self.api.request("DELETE", "/api/v1/nodes")
        self.api.request("DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")
        snapshot.restore()
        shutil.rmtree(self.state_dir / "nodes", ignore_errors=True)
        self.description = replace(self.description, nodes=nodes)
        self.description.write(self.state_dir)
        create_nodes(self.api, self.nodes, self.description.kubernetes)
        self.processes.wait_until("ready nodes", lambda: all_ready(self.api, nodes), seconds)

    def down(self) -> None:
        """Stop everything and remove the state folder. May be called twice."""
        atexit.unregister(self.down)
        _stop(self.state_dir, self.processes)
        remove_folder(self.state_dir)

    def _pki(self, name: str) -> Path:
        return self.state_dir / "pki" / name


def _stop(state_dir: Path, processes: Processes) -> None:
    try:
        real_nodes.stop(state_dir, processes)
    finally:
        processes.stop_all()
