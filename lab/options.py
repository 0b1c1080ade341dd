# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a lab."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ansible_collections.composable.infra.lab.binaries.releases import DEFAULT_SERIES, find_release
from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.names import check_lab_name


@dataclass(frozen=True, slots=True)
class LabOptions:
    """Options of a lab.

    kubernetes: "1.36", "1.36.x" or exact. binding_timeout: seconds that the scheduler waits for
    binding conditions (1.35 and later), or None for its default of 600. state_dir: None for a
    temporary folder. binaries: a folder to search first. foreground: the processes end with this
    process in any case, otherwise they stay until down(). ready_seconds: limit for each step of the
    start. audit: the API server logs writes with their bodies. feature_gates: False for the
    defaults of the release. real_nodes: nodes with a kubelet and a containerd, beside the simulated
    `nodes`. They need root on Linux. plugin_start: seconds that the vendor's plugin takes to start
    on them. gangs: the scheduler's own gang scheduling, with its gates.
    """

    nodes: int = 2
    kubernetes: str = DEFAULT_SERIES
    binding_timeout: float | None = None
    state_dir: Path | None = None
    name: str = "lab"
    binaries: Path | None = None
    foreground: bool = True
    ready_seconds: float = 60.0
    audit: bool = False
    feature_gates: bool = True
    real_nodes: int = 0
    plugin_start: float = 0.0
    gangs: bool = False

    def check(self) -> None:
        """Raise LabError with the field if a value is not allowed."""
        check_lab_name(self.name)
        release = find_release(self.kubernetes)
        if self.gangs:
            release.with_gangs()
        if not 0 <= self.nodes <= 5000:
            raise LabError(f"nodes={self.nodes} is not allowed: use 0 to 5000")
        if not 0 <= self.real_nodes <= 50:
            raise LabError(f"real_nodes={self.real_nodes} is not allowed: use 0 to 50")
        if self.plugin_start < 0:
            raise LabError(f"plugin_start={self.plugin_start:g} is not allowed: at least 0 seconds")
        if self.binding_timeout is not None and self.binding_timeout < 1:
            raise LabError(f"binding_timeout={self.binding_timeout:g} is not allowed: at least 1 second")
        if self.binding_timeout is not None and not release.binding_timeout:
            raise LabError(f"binding_timeout cannot be set on Kubernetes {release.kubernetes}: it needs 1.35 or later")
