# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labs side by side, interrupted, killed and broken: each ends without leaving a process behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.control_plane.cluster import Lab, LabError, LabOptions
from ansible_collections.composable.infra.lab.hardware.options import import_path
from ansible_collections.composable.infra.tests.e2e.support.lab_support import bare_pod, wait_for

COMMAND = [sys.executable, "-m", "ansible_collections.composable.infra.lab"]


def run_lab(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": import_path()}
    return subprocess.run(
        [*COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def processes_of(folder: Path) -> list[int]:
    """Pids of all live processes whose command line names the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z" and any(os.fsencode(folder) in part for part in command[1:]):
                found.append(int(entry.name))
    return found


def test_two_labs_side_by_side_and_down_leaves_nothing(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    starts = [run_lab("up", "--state-dir", str(first), "--nodes", "1")]
    try:
        other = Lab.up(LabOptions(nodes=3, state_dir=second, name="second", binding_timeout=30, audit=True))
        assert starts[0].returncode == 0, starts[0].stderr
        again = run_lab("up", "--state-dir", str(first))
        status = run_lab("status", "--state-dir", str(first))
        kubeconfig = run_lab("env", "--state-dir", str(first)).stdout
        assert again.returncode == 1
        assert "already up" in again.stderr
        assert status.returncode == 0, status.stdout
        assert kubeconfig.strip() == f"export KUBECONFIG={first}/kubeconfigs/admin.yaml"
        assert Lab.load(first).server != other.server
        other.api.request("POST", "/api/v1/namespaces/default/pods", bare_pod("audited"))
        audited = [json.loads(line)["objectRef"].get("name") for line in other.audit_log.read_text().splitlines()]
        assert "audited" in audited
        assert [len(lab.api.get("/api/v1/nodes")["items"]) for lab in (Lab.load(first), other)] == [1, 3]
    finally:
        down = run_lab("down", "--state-dir", str(first))
        Lab.load(second).down()
    assert down.returncode == 0
    assert processes_of(tmp_path) == []
    assert not first.exists()
    assert not second.exists()
    assert run_lab("down", "--state-dir", str(first)).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_foreground_lab_dies_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "mine"
    environment = {**os.environ, "PYTHONPATH": import_path()}
    with (tmp_path / "out").open("w+") as out:
        parent = subprocess.Popen(
            [*COMMAND, "up", "--foreground", "--nodes", "1", "--state-dir", str(folder)], env=environment, stdout=out
        )
        try:
            wait_for("the lab", lambda: "KUBECONFIG=" in (tmp_path / "out").read_text(), 120)
            assert len(processes_of(folder)) > 5
        finally:
            parent.send_signal(number)
            parent.wait(30)
        wait_for("the end of all processes", lambda: not processes_of(folder), 10)
    # Only an end that cannot be handled may leave files.
    assert folder.exists() == (number == signal.SIGKILL)


def test_interrupted_start_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "broken-off"
    environment = {**os.environ, "PYTHONPATH": import_path()}
    starting = subprocess.Popen(
        [*COMMAND, "up", "--state-dir", str(folder)], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for("a first process", (folder / "processes.json").exists, 60)
    finally:
        starting.send_signal(signal.SIGINT)
        _out, errors = starting.communicate(timeout=60)
    assert starting.returncode == 130
    assert "Traceback" not in errors
    assert processes_of(folder) == []
    assert not folder.exists()


def test_component_that_dies_at_the_start_is_shown_with_its_log(tmp_path: Path) -> None:
    binaries = tmp_path / "bin"
    binaries.mkdir()
    script = binaries / "etcd"
    script.write_text(
        '#!/bin/sh\ncase "$1" in --version) echo "etcd Version: 3.6.99";; *) echo no disk; exit 1;; esac\n'
    )
    script.chmod(0o755)
    with pytest.raises(LabError, match=r"(?s)etcd ended .*no disk"):
        Lab.up(LabOptions(nodes=0, state_dir=tmp_path / "state", binaries=binaries))
    assert processes_of(tmp_path / "state") == []
