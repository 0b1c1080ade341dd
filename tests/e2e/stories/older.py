# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An older version of this collection: its sources, and processes that run them beside those of today."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import typing as t
from dataclasses import asdict
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.lab.hardware.agents_options import AgentsOptions
from ansible_collections.composable.infra.tests.e2e.support.support import wait_for
from ansible_collections.composable.infra.tests.unit.house.files import ROOT

# This version knows none of the annotations and fields that came since.
OLD = "ec795beef7d5e2b57a485494db5f6228e0a5d983"
AGENTS = f"{front_doors.PACKAGE}.lab.hardware.agents"


def sources(folder: Path) -> Path:
    """Write the sources of the older version into `folder`.

    Returns: what PYTHONPATH has to name. The test is skipped if this checkout lacks the commit.
    """
    target = folder / "ansible_collections/composable/infra"
    target.mkdir(parents=True)
    archive = folder / "old.tar"
    command = ["git", "-C", str(ROOT), "archive", f"--output={archive}", OLD]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(f"the commit {OLD} is not in this checkout")
    with tarfile.open(archive) as opened:
        opened.extractall(target, filter="data")
    return folder


def _runs_older_sources(module: str, stage: Stage, version: Path) -> None:
    where = [sys.executable, "-c", f"import importlib.util as u; print(u.find_spec({module!r}).origin)"]
    env = {**front_doors.environment(stage), "PYTHONPATH": str(version)}
    assert subprocess.check_output(where, env=env, text=True).startswith(str(version))


def controller(stage: Stage, version: Path) -> front_doors.Process:
    """Start a controller of the older version, and wait until it leads."""
    _runs_older_sources(f"{front_doors.PACKAGE}.controller", stage, version)
    process = front_doors.Process(
        "old-controller", front_doors.controller_command(stage), stage, PYTHONPATH=str(version)
    )
    process.wait_for("leading as")
    return process


def agent(
    stage: Stage, node: str, dra_driver: str = "", version: Path | None = None
) -> front_doors.Process:
    """Start the agent of one node, and wait until it works.

    Args:
        dra_driver: the name of the agent as a DRA driver. Empty if the vendor's plugin serves.
        version: what `sources` has returned. Without it the agent is that of today.
    """
    name, env = f"agent-{node}", {}
    if version is not None:
        _runs_older_sources(AGENTS, stage, version)
        name, env = f"old-{name}", {"PYTHONPATH": str(version)}
    wanted = AgentsOptions(str(stage.lab.state_dir), (node,), dra_driver=dra_driver)
    given = stage.folder / f"{name}.json"
    options: dict[str, t.Any] = asdict(wanted)
    given.write_text(json.dumps(options), encoding="utf-8")
    wanted.ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", AGENTS, str(given)]
    process = front_doors.Process(name, command, stage, **env)
    try:
        wait_for(f"{name} works", wanted.ready.exists)
    except BaseException:
        process.stop()
        raise
    return process
