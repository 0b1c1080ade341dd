# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real node of a lab: its name, its number on this machine, and its paths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# The kubelet refuses loopback addresses but accepts any other address of the machine.
ADDRESSES = "10.99.0"
POD_RANGES = "10.98"
CGROUP_PREFIX = "composable-lab-"
HARDWARE = "/run/composable-infra/hardware"


def real_node_names(count: int) -> list[str]:
    """Return the names of the first `count` real nodes."""
    return [f"real-{index}" for index in range(count)]


@dataclass(frozen=True, slots=True)
class RealNode:
    """A real node. `number` (1 to 254) is unique among real nodes of all labs on this machine."""

    name: str
    number: int
    state_dir: Path

    @property
    def address(self) -> str:
        """Return its address, which is on the machine's loopback interface."""
        return f"{ADDRESSES}.{self.number}"

    @property
    def pod_range(self) -> str:
        """Return the address range of its pods."""
        return f"{POD_RANGES}.{self.number}.0/24"

    @property
    def cgroup(self) -> str:
        """Return the name of its control group, directly below the root of every hierarchy."""
        return f"{CGROUP_PREFIX}{self.number}"

    @property
    def folder(self) -> Path:
        """Return the folder of its kubelet and containerd, with their configuration."""
        return self.state_dir / "real" / self.name

    @property
    def hardware(self) -> Path:
        """Return the folder of its simulated hardware, like that of a simulated node."""
        return self.state_dir / "nodes" / self.name

    @property
    def bin(self) -> Path:
        """Return the folder with links to its programs."""
        return self.folder / "bin"

    def config(self, name: str) -> Path:
        """Return the path of a configuration file."""
        return self.folder / "config" / name

    def log(self, name: str) -> Path:
        """Return the log of a program: "containerd" or "kubelet"."""
        return self.folder / "logs" / f"{name}.log"
