# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One lab: a control plane, its nodes and their hardware, from Python.

with Lab.up(LabOptions(nodes=2)) as lab:
    run_something(lab.kubeconfig)
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ansible_collections.composable.infra.lab import bootstrap, pids
from ansible_collections.composable.infra.lab.api import Api
from ansible_collections.composable.infra.lab.binaries import find_binaries
from ansible_collections.composable.infra.lab.certificates import Pair
from ansible_collections.composable.infra.lab.components import Layout, audit_log_in
from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.hardware.options import HardwareOptions, hardware_command
from ansible_collections.composable.infra.lab.kubeconfig import token_user, write_kubeconfig
from ansible_collections.composable.infra.lab.names import node_names
from ansible_collections.composable.infra.lab.options import LabOptions
from ansible_collections.composable.infra.lab.ports import PortClaim
from ansible_collections.composable.infra.lab.processes import Processes
from ansible_collections.composable.infra.lab.releases import find_release
from ansible_collections.composable.infra.lab.state import Description, fresh_folder, lock_folder, remove_folder

__all__ = ["ComponentStatus", "Lab", "LabError", "LabOptions"]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """One process of a lab; `rss` in bytes, 0 when it does not run."""

    name: str
    pid: int
    alive: bool
    rss: int
    log: Path


class Lab:
    """A running lab. Lab.up() starts one, Lab.load() finds one that was started elsewhere."""

    def __init__(self, state_dir: Path, description: Description, processes: Processes) -> None:
        self.state_dir = state_dir
        self.description = description
        self.processes = processes
        self.api = Api(description.server, self.ca, Pair(self._pki("admin.crt"), self._pki("admin.key")))

    @classmethod
    def up(cls, options: LabOptions | None = None, progress: Progress = lambda line: None) -> Lab:
        """Start a lab; returns when pods can be scheduled.

        LabError says what failed: no process is left then, and the logs stay in the state folder.
        """
        wanted = options or LabOptions()
        wanted.check()
        known = find_release(wanted.kubernetes)
        release = known if wanted.feature_gates else known.plain()
        binaries = find_binaries(release, wanted.binaries, progress)
        state_dir = fresh_folder(wanted.state_dir)
        processes = Processes(state_dir, foreground=wanted.foreground)
        try:
            with lock_folder(state_dir), PortClaim() as claim:
                layout = Layout(state_dir, binaries, bootstrap.take_ports(claim), release)
                lab = cls._prepare(wanted, layout, processes)
                bootstrap.start(layout, processes, lab.api, wanted)
        except LabError:
            processes.stop_all()
            raise
        except BaseException:
            processes.stop_all()
            remove_folder(state_dir)
            raise
        if wanted.foreground:
            atexit.register(lab.down)
        return lab

    @classmethod
    def _prepare(cls, wanted: LabOptions, layout: Layout, processes: Processes) -> Lab:
        bootstrap.write_files(layout, wanted)
        scheduler = f"https://127.0.0.1:{layout.ports.scheduler}"
        description = Description(
            wanted.name, layout.release.kubernetes, wanted.nodes, layout.server, scheduler, wanted.foreground
        )
        description.write(layout.state_dir)
        return cls(layout.state_dir, description, processes)

    @classmethod
    def load(cls, state_dir: Path) -> Lab:
        """The lab that lives in `state_dir`. LabError when there is none."""
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
        """URL of the API server."""
        return self.description.server

    @property
    def ca(self) -> Path:
        """The lab's certificate authority (PEM)."""
        return self._pki("ca.crt")

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator, the lab's only cluster-admin."""
        return self.state_dir / "kubeconfigs" / "admin.yaml"

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes."""
        return node_names(self.description.nodes)

    @property
    def audit_log(self) -> Path:
        """The API server's audit log: writes with their bodies, one JSON document per line (option `audit`)."""
        return audit_log_in(self.state_dir)

    def node_folder(self, node: str) -> Path:
        """Folder of a node's simulated hardware: `sys/bus/pci/...` and `proc/...` below it."""
        return self.state_dir / "nodes" / node

    def service_account_kubeconfig(self, namespace: str, name: str, seconds: int = 86400) -> Path:
        """Kubeconfig with a token of the ServiceAccount, valid for `seconds`. ApiRefusal if there is none."""
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
        announce_delay: float = 0.05,
        rescan: str = "auto",
        seconds: float = 20.0,
    ) -> None:
        """Connect the nodes to an emulated fabric and return when the node simulator has seen it.

        announce_delay: seconds from a device's appearance on the node to its ResourceSlice. rescan: "auto",
        or "manual" for nodes that find a device only after a write to `sys/bus/pci/rescan`. Called again, it
        replaces the simulator; what the nodes have is kept.
        """
        self.detach_hardware()
        options = HardwareOptions(
            self.state_dir, self.server, emulator_url, ca_path, tuple(self.nodes), announce_delay, rescan
        )
        self.processes.start(hardware_command(options))
        self.processes.wait_until("the node simulator's first look at the fabric", options.ready.exists, seconds)

    def detach_hardware(self) -> None:
        """Stop the node simulator, if there is one. What it announced stays."""
        if any(record.name == "hardware" for record in self.processes.records()):
            self.processes.stop("hardware")

    def stop_component(self, name: str) -> None:
        """Stop one process, for example "kube-apiserver"."""
        self.processes.stop(name)

    def start_component(self, name: str, seconds: float = 60.0) -> None:
        """Start a stopped process again; returns when the API server is ready."""
        self.processes.restart(name)
        self.processes.wait_until("a ready API server", self.api.ready, seconds)

    def log(self, component: str) -> Path:
        """Log file of a component. LabError lists the components when there is no such one."""
        return self.processes.log(self.processes.record(component).name)

    def status(self) -> Sequence[ComponentStatus]:
        """All processes of the lab."""
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

    def down(self) -> None:
        """Stop everything and remove the state folder. May be called twice."""
        atexit.unregister(self.down)
        self.processes.stop_all()
        remove_folder(self.state_dir)

    def _pki(self, name: str) -> Path:
        return self.state_dir / "pki" / name
