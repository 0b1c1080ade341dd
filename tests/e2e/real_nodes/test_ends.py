# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real nodes end clean: processes, mounts, network, control groups, addresses and kernel settings, however they end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab
from ansible_collections.composable.infra.lab.hardware.options import import_path
from ansible_collections.composable.infra.lab.real_nodes import addresses, cgroups, guard, sysctls
from ansible_collections.composable.infra.lab.real_nodes.ledger import ROOT, Ledger
from ansible_collections.composable.infra.lab.real_nodes.node import HARDWARE, RealNode
from ansible_collections.composable.infra.tests.e2e.support import real_pods
from ansible_collections.composable.infra.tests.e2e.support.lab_support import wait_for

COMMAND = [sys.executable, "-m", "ansible_collections.composable.infra.lab"]
UP = ("up", "--nodes", "0", "--real-nodes", "1")


def lab_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": import_path()}
    return subprocess.run(
        [*COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@contextlib.contextmanager
def foreground(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """`lab up --foreground`, up when this returns and killed at the end."""
    environment = {**os.environ, "PYTHONPATH": import_path()}
    command = [*COMMAND, *UP, "--foreground", "--state-dir", str(folder)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "is up" in process.stdout.readline()
            yield process
        finally:
            process.kill()


def routes(node: RealNode) -> str:
    """Routes to the node's pods."""
    done = subprocess.run(["ip", "route", "show", "root", node.pod_range], capture_output=True, text=True, check=True)
    return done.stdout


def groups(node: RealNode) -> list[Path]:
    """Control groups of the node."""
    return [folder / node.cgroup for folder in cgroups.hierarchies() if (folder / node.cgroup).exists()]


def assert_as_before(node: RealNode, settings: dict[str, str]) -> None:
    """Nothing of the node is left; kernel settings and folders are the last lab's to restore."""
    assert cgroups.members(groups(node)) == set()
    assert groups(node) == []
    assert node.address not in addresses.present()
    wait_for("no route to a pod", lambda: not routes(node))
    if not Ledger().labs():
        assert sysctls.read() == settings
        assert not Path(HARDWARE).exists()


def assert_at_work(lab: Lab, node: RealNode) -> set[int]:
    """The node has all that is to be cleared away, a pod included; its processes."""
    real_pods.run(lab, real_pods.real_pod("p", node.name))
    members = cgroups.members(groups(node))
    assert len(members) > 5
    assert node.address in addresses.present()
    assert routes(node)
    return members


@pytest.fixture
def settings() -> dict[str, str]:
    """Kernel settings as they were before the first lab that is up with real nodes."""
    Ledger().sweep()
    noted = ROOT / "machine.json"
    return dict(json.loads(noted.read_text())["sysctls"]) if noted.exists() else sysctls.read()


def test_killed_lab_is_cleared_away_by_its_guard(tmp_path: Path, settings: dict[str, str]) -> None:
    folder = tmp_path / "lab"
    with foreground(folder) as process:
        lab = Lab.load(folder)
        (node,) = lab.real_nodes
        watch = lab.processes.record(guard.NAME)
        members = assert_at_work(lab, node)
        process.kill()
        process.wait()
    # The kernel ends everything in the node's namespaces with their first process.
    wait_for("the end of all processes", lambda: not any(Path(f"/proc/{pid}").exists() for pid in members))
    wait_for("the end of the guard", lambda: not watch.alive)
    assert_as_before(node, settings)
    assert lab_command("down", "--state-dir", str(folder)).returncode == 0
    assert not folder.exists()


def test_lab_is_taken_down_though_its_node_and_its_guard_were_killed(tmp_path: Path, settings: dict[str, str]) -> None:
    folder = tmp_path / "lab"
    up = lab_command(*UP, "--state-dir", str(folder))
    try:
        assert up.returncode == 0, up.stderr
        lab = Lab.load(folder)
        (node,) = lab.real_nodes
        healthy = lab_command("status", "--state-dir", str(folder))
        members = assert_at_work(lab, node)
        for name in (guard.NAME, node.name):
            os.kill(lab.processes.record(name).pid, signal.SIGKILL)
        wait_for("the end of all processes", lambda: not any(Path(f"/proc/{pid}").exists() for pid in members))
        broken = lab_command("status", "--state-dir", str(folder))
    finally:
        down = lab_command("down", "--state-dir", str(folder))
    assert (healthy.returncode, broken.returncode, down.returncode) == (0, 3, 0)
    assert_as_before(node, settings)
