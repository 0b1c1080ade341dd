# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the node simulator is told what to simulate: a JSON file, so that it can be started again unchanged."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.processes import Command

RESCANS = ("auto", "manual")
_PACKAGE = __package__ or ""


@dataclass(frozen=True, slots=True)
class HardwareOptions:
    """Which nodes, which API server, which fabric. announce_delay in seconds; rescan is one of RESCANS."""

    state_dir: Path
    server: str
    emulator_url: str
    emulator_ca: Path | None
    nodes: tuple[str, ...]
    announce_delay: float = 0.05
    rescan: str = "auto"

    @property
    def file(self) -> Path:
        """Where these options are written for the simulator."""
        return self.state_dir / "config" / "hardware.json"

    @property
    def ready(self) -> Path:
        """Exists once the simulator has seen the fabric."""
        return self.state_dir / "hardware.ready"

    def check(self) -> None:
        """LabError when a value is not allowed; names the field."""
        if self.rescan not in RESCANS:
            raise LabError(f"rescan={self.rescan!r} is not allowed: use one of {', '.join(RESCANS)}")
        if self.announce_delay < 0:
            raise LabError(f"announce_delay={self.announce_delay:g} is not allowed: at least 0 seconds")
        if not self.emulator_url.startswith("https://"):
            raise LabError(f"emulator_url={self.emulator_url!r} is not allowed: it must begin with https://")

    def to_json(self) -> dict[str, Any]:
        """As written to `file`."""
        return {
            "state_dir": str(self.state_dir),
            "server": self.server,
            "emulator_url": self.emulator_url,
            "emulator_ca": str(self.emulator_ca) if self.emulator_ca else None,
            "nodes": list(self.nodes),
            "announce_delay": self.announce_delay,
            "rescan": self.rescan,
        }

    @classmethod
    def from_file(cls, path: Path) -> HardwareOptions:
        """As read from `file`."""
        raw = json.loads(path.read_text(encoding="utf-8"))
        ca = raw["emulator_ca"]
        return cls(
            Path(raw["state_dir"]),
            raw["server"],
            raw["emulator_url"],
            Path(ca) if ca else None,
            tuple(raw["nodes"]),
            raw["announce_delay"],
            raw["rescan"],
        )


def hardware_command(options: HardwareOptions) -> Command:
    """Write the options and return the simulator's command line."""
    options.check()
    options.ready.unlink(missing_ok=True)
    options.file.parent.mkdir(parents=True, exist_ok=True)
    options.file.write_text(json.dumps(options.to_json()), encoding="utf-8")
    arguments = (sys.executable, "-m", _PACKAGE, str(options.file))
    return Command("hardware", arguments, {"PYTHONPATH": import_path()})


def import_path() -> str:
    """PYTHONPATH for a child process that shall find this collection where this process found it."""
    # The folder that holds ansible_collections.
    root = Path(__file__).absolute().parents[5]
    inherited = os.environ.get("PYTHONPATH")
    return f"{root}{os.pathsep}{inherited}" if inherited else str(root)
