# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the process of the node agents, in a JSON file, so that the process can be
restarted."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.hardware.options import import_path
from ansible_collections.composable.infra.lab.processes.supervisor import Command
from ansible_collections.composable.infra.plugins.module_utils.node.options import RESCANS

NAME = "agents"
_PACKAGE = __package__ or ""


@dataclass(frozen=True, slots=True)
class AgentsOptions:
    """Options of the node agents. They are named like the agent's options, with times in
    seconds."""

    state_dir: str
    nodes: tuple[str, ...]
    event_patience: float = 0.5
    search_patience: float = 10.0
    patience: float = 10.0
    announce_patience: float = 30.0
    rescan: str = "port"
    dra_driver: str = ""

    @property
    def file(self) -> Path:
        """Return the path of these options for the process."""
        return Path(self.state_dir) / "config" / "agents.json"

    @property
    def ready(self) -> Path:
        """Return the path that exists once every agent works and has a Lease."""
        return Path(self.state_dir) / "agents.ready"

    def check(self) -> None:
        """Raise LabError with the field if a value is not allowed."""
        if self.rescan not in RESCANS:
            raise LabError(f"rescan={self.rescan!r} is not allowed: use one of {', '.join(RESCANS)}")
        for name in ("event_patience", "search_patience", "patience", "announce_patience"):
            if getattr(self, name) <= 0:
                raise LabError(f"{name}={getattr(self, name):g} is not allowed: more than 0 seconds")

    @classmethod
    def from_file(cls, path: Path) -> AgentsOptions:
        """Return the options in a file."""
        raw = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**raw, "nodes": tuple(raw["nodes"])})


def agents_command(options: AgentsOptions) -> Command:
    """Write the options and return the command."""
    options.check()
    options.ready.unlink(missing_ok=True)
    options.file.parent.mkdir(parents=True, exist_ok=True)
    options.file.write_text(json.dumps(asdict(options)), encoding="utf-8")
    return Command(NAME, (sys.executable, "-m", f"{_PACKAGE}.agents", str(options.file)), {"PYTHONPATH": import_path()})
