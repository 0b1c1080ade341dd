# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What composable-resource-operator does by commands in the driver's pod of a node, and with the plugin's pod there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.plugins.module_utils.kube.times import parse_time
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.upstream.loop import PassFailed


@contextmanager
def tried_again(node: str) -> Iterator[None]:
    """A command that fails, a file or a pod that left meanwhile: upstream's reconcile ends with the error and is
    repeated (``ctrl.Result{}, err``)."""
    try:
        yield
    except (AssertionError, LabError, OSError) as error:
        raise PassFailed(f"node {node}: {error}") from error


@dataclass(frozen=True)
class DriverPod:
    """The simulated node stands for the pod: its commands, its /proc and its /dev.

    ``plugin_rest``: seconds that a plugin's pod is at least old before it is deleted.
    """

    lab: Lab
    node: str
    plugin_rest: float

    def announce(self) -> None:
        """Use the devices once, then have the vendor's plugin look again, without asking who else needs it; a pod that
        left meanwhile is an error there."""
        with tried_again(self.node):
            for pod in by_hand.plugin_pods(self.lab, self.node):
                if time.time() - parse_time(pod["metadata"]["creationTimestamp"]) > self.plugin_rest:
                    if by_hand.bound(self._root):
                        by_hand.run(self._root, "nvidia-smi")
                    self.lab.api.request("DELETE", f"{by_hand.PODS}/{pod['metadata']['name']}")

    def in_use(self, device: str) -> bool:
        """Whether a process has the device's file open."""
        with tried_again(self.node):
            rows = self._rows(device)
            links = [link for link in self._root.glob("proc/*/fd/*") if link.is_symlink()]
            return bool(rows) and any(str(link.readlink()) == f"/dev/nvidia{rows['Device Minor']}" for link in links)

    def drain(self, device: str) -> None:
        """Persistence off, the device's file deleted, and the device off the bus; one that is not there is gone."""
        with tried_again(self.node):
            if rows := self._rows(device):
                self._drain(device, rows["Bus Location"], rows["Device Minor"])

    def _drain(self, device: str, where: str, minor: str) -> None:
        by_hand.run(self._root, "nvidia-smi", "-i", device, "-pm", "0")
        if self.in_use(device):
            raise PassFailed(f"/dev/nvidia{minor} is open on node {self.node}")
        (self._root / "dev" / f"nvidia{minor}").unlink(missing_ok=True)
        by_hand.run(self._root, "nvidia-smi", "drain", "-p", where, "-m", "1")
        by_hand.run(self._root, "nvidia-smi", "drain", "-p", where, "-r")

    @property
    def _root(self) -> Path:
        return self.lab.node_folder(self.node)

    def _rows(self, device: str) -> dict[str, str]:
        """What /proc/driver/nvidia/gpus says of the device with this UUID; empty when the driver has none."""
        for path in self._root.glob("proc/driver/nvidia/gpus/*/information"):
            lines = path.read_text(encoding="utf-8").splitlines()
            found = {key.strip(): value.strip() for key, _colon, value in (line.partition(":") for line in lines)}
            if found.get("GPU UUID") == device:
                return found
        return {}
