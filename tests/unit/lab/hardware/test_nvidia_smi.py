# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-ins of nvidia-smi and modprobe: words, exit codes, and what it changes on the node."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.hardware.node import faults, modprobe, nvidia_smi
from ansible_collections.composable.infra.lab.hardware.node.commands import give_commands, write_commands
from ansible_collections.composable.infra.tests.unit.lab.hardware.conftest import Bench

FIRST = "0000:10:00.0"
QUERY = ("--query-gpu=uuid,pci.bus_id", "--format=csv,noheader")


@pytest.fixture
def node(bench: Bench, tmp_path: Path) -> Bench:
    """A node with two GPUs and its commands."""
    write_commands(tmp_path / "commands")
    give_commands(bench.root, tmp_path / "commands")
    bench.plug("a", "b")
    return bench


@pytest.fixture(autouse=True)
def root(node: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the commands are told that the node is."""
    monkeypatch.setenv("NODE_ROOT", str(node.root))


def run(_node: Bench, *arguments: str, command: Callable[[Sequence[str]], int] = nvidia_smi.main) -> tuple[int, str]:
    """Exit code and last line of a command."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = command(arguments)
    return code, (said.getvalue().strip().splitlines() or [""])[-1]


@pytest.mark.parametrize(("command", "code", "said"), [
    (("nvidia-smi", "-L"), 0, "GPU 0: H100 (UUID: GPU-a)\nGPU 1: H100 (UUID: GPU-b)\n"),
    (("modprobe", "ext9"), 1, "modprobe: FATAL: Module ext9 not found in directory /lib/modules/simulated\n"),
])
def test_commands_are_programs_of_the_node(node: Bench, command: tuple[str, ...], code: int, said: str) -> None:
    done = subprocess.run([str(node.root / "usr/bin" / command[0]), *command[1:]], capture_output=True, text=True,
                          env={**os.environ, "NODE_ROOT": str(node.root)}, timeout=30, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (code, said)


def test_first_use_makes_the_files_of_every_bound_device(node: Bench) -> None:
    assert run(node, *QUERY) == (0, "GPU-b, 00000000:11:00.0")
    assert node.dev() == ["nvidia0", "nvidia1"]
    information = (node.root / "proc/driver/nvidia/gpus" / FIRST / "information").read_text(encoding="utf-8")
    assert "GPU UUID: \t GPU-a\n" in information
    assert [device.touched for device in node.devices().values()] == [True, True]


def test_device_without_a_driver_is_not_seen(node: Bench) -> None:
    node.kernel.unbind(FIRST)
    node.kernel.unbind("0000:11:00.0")
    assert run(node, "-L") == (6, "No devices were found")
    assert node.dev() == []


def test_list(node: Bench) -> None:
    assert run(node, "-L") == (0, "GPU 1: H100 (UUID: GPU-b)")


def test_device_that_cannot_be_started_is_told_in_the_kernel_log(node: Bench) -> None:
    node.fault(faults.DRIVER_FAILS)
    assert run(node, *QUERY) == (6, "No devices were found")
    assert len(node.said("RmInitAdapter failed")) == 2
    assert node.dev() == []


@pytest.mark.parametrize("named", ["GPU-a", FIRST, "00000000:10:00.0", "0"])
def test_persistence_mode_is_set_by_any_name_of_the_device(node: Bench, named: str) -> None:
    run(node, "-L")
    assert run(node, "-i", named, "-pm", "1") == (0, "All done.")
    assert [device.persistence for device in node.devices().values()] == [True, False]
    run(node, "-i", named, "-pm", "0")
    assert not node.devices()["a"].persistence


def test_draining_device_is_seen_by_drain_only(node: Bench) -> None:
    run(node, "-L")
    state = "The current drain state of GPU 00000000:10:00.0 is:"
    assert run(node, "drain", "-p", FIRST, "-q") == (0, f"{state} not draining.")
    assert run(node, "drain", "-p", FIRST, "-m", "1")[0] == 0
    assert run(node, "drain", "-p", FIRST, "-q") == (0, f"{state} draining.")
    assert run(node, *QUERY) == (0, "GPU-b, 00000000:11:00.0")
    assert run(node, "-i", "GPU-a", "-pm", "0")[0] == 6
    assert run(node, "drain", "-p", FIRST, "-m", "0")[0] == 0
    assert run(node, "-i", "GPU-a", "-pm", "0")[0] == 0


def test_device_with_persistence_mode_is_not_drained(node: Bench) -> None:
    run(node, "-i", "GPU-a", "-pm", "1")
    assert run(node, "drain", "-p", FIRST, "-m", "1")[0] == 255
    assert not node.devices()["a"].draining


@pytest.mark.parametrize(("drained", "held"), [(False, False), (True, True)])
def test_device_that_is_not_drained_or_held_is_not_removed(node: Bench, drained: bool, held: bool) -> None:
    run(node, "-L")
    if drained:
        run(node, "drain", "-p", FIRST, "-m", "1")
    if held:
        node.open(0)
    assert run(node, "drain", "-p", FIRST, "-r")[0] == 255
    # A plain file here: the write to it would show.
    assert node.sysfs(FIRST, "remove") == ""


def test_removal_is_the_kernels(node: Bench) -> None:
    run(node, "-L")
    run(node, "drain", "-p", FIRST, "-m", "1")
    assert run(node, "drain", "-p", FIRST, "-r") == (0, "Successfully removed GPU 00000000:10:00.0")
    assert node.sysfs(FIRST, "remove") == "1"


def test_lost_device_is_an_error_beside_the_others(node: Bench) -> None:
    run(node, "-L")
    node.plug("b")
    code, _last = run(node, "-L")
    assert code == 15
    assert run(node, "-i", FIRST, "-pm", "0")[0] == 15


@pytest.mark.parametrize("line", ["--fly", "--query-gpu=colour --format=csv,noheader", "drain -p", "drain -p 0 -x",
                                  "-i 0 -pm 2", "--query-gpu=uuid"])
def test_what_it_does_not_know_is_an_error(node: Bench, line: str) -> None:
    assert run(node, *line.split())[0] == 2


def test_without_the_driver_nothing_is_told(node: Bench) -> None:
    assert run(node, "-r", "nvidia_uvm", command=modprobe.main) == (0, "")
    (node.root / "sys/module/nvidia").rmdir()
    assert run(node, "-L")[0] == 9


def test_modules_are_loaded_with_what_they_need_and_stay_while_needed(node: Bench) -> None:
    assert run(node, "-a", "nvidia_drm", command=modprobe.main) == (0, "")
    assert (node.root / "sys/module/nvidia_modeset").is_dir()
    assert run(node, "-r", "nvidia_modeset", command=modprobe.main)[0] == 1
    assert run(node, "-r", "nvidia_drm", "nvidia_modeset", "nvidia_uvm", command=modprobe.main) == (0, "")
    assert run(node, "-r", "nvidia", command=modprobe.main) == (1, "modprobe: FATAL: Module nvidia is in use.")
    assert run(node, "ext9", command=modprobe.main)[0] == 1
