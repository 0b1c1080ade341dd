# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts a controller with input that may be bad, and reads what it says."""

from __future__ import annotations

import sys
import typing as t
from dataclasses import dataclass
from pathlib import Path

import yaml

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.tests.e2e.support.support import OPENED, PATIENCE, wait_for


@dataclass(frozen=True)
class Ended:
    """``status`` is None for a process that still ran when it had said what was waited for."""

    status: int | None
    text: str

    @property
    def errors(self) -> list[str]:
        """Lines of level ERROR."""
        return [line for line in self.text.splitlines() if " ERROR " in line]


def write_config(stage: Stage, name: str, data: t.Any) -> Path:
    """A configuration file beside the stage's own; text is written as it is."""
    path = stage.folder / f"{name}.yml"
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data), encoding="utf-8")
    path.chmod(0o600)
    return path


def with_fabric(stage: Stage, **changes: t.Any) -> dict[str, t.Any]:
    """The stage's configuration with other values for the CDI Manager; None removes one."""
    config = stage.config()
    fabric = {**config["fabric"], **changes}
    return {**config, "fabric": {k: v for k, v in fabric.items() if v is not None}}


def command(stage: Stage, *args: str, config: Path | None = None, kubeconfig: Path | None = None) -> list[str]:
    """Command line of a controller."""
    return [sys.executable, "-m", f"{front_doors.PACKAGE}.controller", "--config", str(config or stage.config_path),
            "--kubeconfig", str(kubeconfig or stage.kubeconfig), "--listen", "127.0.0.1:0", *args]


def begin(stage: Stage, name: str, *args: str, **paths: t.Any) -> front_doors.Process:
    """Start a controller without waiting for anything."""
    return OPENED.add(front_doors.Process(name, command(stage, *args, **paths), stage))


def launch(stage: Stage, *args: str, until: str | None = None, **paths: t.Any) -> Ended:
    """Run a controller until it ends, or until its log holds a text."""
    process = begin(stage, f"controller-{len(list(stage.folder.glob('controller-*')))}", *args, **paths)
    try:
        wait_for(f"it ends or says {until!r}", lambda: _has_ended(process, until), PATIENCE)
        return Ended(process.process.poll(), process.text())
    finally:
        OPENED.stop(process)


def _has_ended(process: front_doors.Process, until: str | None) -> bool:
    return process.process.poll() is not None or bool(until and until in process.text())
