# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the node simulator, in a JSON file, so that it can be restarted unchanged."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.processes.supervisor import Command

RESCANS = ("auto", "manual")
# Bus numbers 0x10 to 0x9f.
_MOST_SLOTS = 144
_PACKAGE = __package__ or ""


@dataclass(frozen=True, slots=True)
class HardwareOptions:
    """Nodes, API server and fabric of the simulator.

    rescan: with "auto" an event reports a new device to the node, with "manual" only a rescan finds
    it. plugin_start: seconds from the start of the vendor's plugin to its slice. plugin_grace:
    seconds that a slice stays without its plugin. slots: hot-plug ports of a node at its start.
    real_nodes: control group by name of a node with a kubelet. Its hardware is simulated, its
    plugin is not.
    """

    state_dir: Path
    server: str
    emulator_url: str
    emulator_ca: Path | None
    nodes: tuple[str, ...]
    rescan: str = "auto"
    plugin_start: float = 0.3
    plugin_grace: float = 30.0
    slots: int = 8
    real_nodes: Mapping[str, str] = field(default_factory=dict)

    @property
    def every_node(self) -> tuple[str, ...]:
        """Return simulated and real nodes."""
        return (*self.nodes, *self.real_nodes)

    @property
    def file(self) -> Path:
        """Return the path of these options for the simulator."""
        return self.state_dir / "config" / "hardware.json"

    @property
    def ready(self) -> Path:
        """Return the path that exists after the first poll of the fabric."""
        return self.state_dir / "hardware.ready"

    def check(self) -> None:
        """Raise LabError with the field if a value is not allowed."""
        if self.rescan not in RESCANS:
            raise LabError(f"rescan={self.rescan!r} is not allowed: use one of {', '.join(RESCANS)}")
        for name in ("plugin_start", "plugin_grace"):
            if getattr(self, name) < 0:
                raise LabError(f"{name}={getattr(self, name):g} is not allowed: at least 0 seconds")
        if not 1 <= self.slots <= _MOST_SLOTS:
            raise LabError(f"slots={self.slots} is not allowed: use 1 to {_MOST_SLOTS}")
        if not self.emulator_url.startswith("https://"):
            raise LabError(f"emulator_url={self.emulator_url!r} is not allowed: it must begin with https://")

    def to_json(self) -> dict[str, Any]:
        """Return the options as written to `file`."""
        return {
            "state_dir": str(self.state_dir),
            "server": self.server,
            "emulator_url": self.emulator_url,
            "emulator_ca": str(self.emulator_ca) if self.emulator_ca else None,
            "nodes": list(self.nodes),
            "rescan": self.rescan,
            "plugin_start": self.plugin_start,
            "plugin_grace": self.plugin_grace,
            "slots": self.slots,
            "real_nodes": dict(self.real_nodes),
        }

    @classmethod
    def from_file(cls, path: Path) -> HardwareOptions:
        """Return the options in a file."""
        raw = json.loads(path.read_text(encoding="utf-8"))
        ca = raw["emulator_ca"]
        return cls(
            Path(raw["state_dir"]),
            raw["server"],
            raw["emulator_url"],
            Path(ca) if ca else None,
            tuple(raw["nodes"]),
            raw["rescan"],
            raw["plugin_start"],
            raw["plugin_grace"],
            raw["slots"],
            raw["real_nodes"],
        )


def hardware_command(options: HardwareOptions) -> Command:
    """Write the options and return the simulator's command."""
    options.check()
    options.ready.unlink(missing_ok=True)
    options.file.parent.mkdir(parents=True, exist_ok=True)
    options.file.write_text(json.dumps(options.to_json()), encoding="utf-8")
    arguments = (sys.executable, "-m", _PACKAGE, str(options.file))
    return Command("hardware", arguments, {"PYTHONPATH": import_path()})


def import_path() -> str:
    """Return the PYTHONPATH with which a child process finds this collection in the same place."""
    # The folder of ansible_collections.
    root = Path(__file__).absolute().parents[5]
    inherited = os.environ.get("PYTHONPATH")
    return f"{root}{os.pathsep}{inherited}" if inherited else str(root)
