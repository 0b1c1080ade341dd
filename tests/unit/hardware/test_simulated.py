# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole suite on a simulated node, with DESTRUCTIVE=1: it works, and tells the simulation from a real GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ansible_collections.composable.infra.lab.hardware import nodes as module
from ansible_collections.composable.infra.tests.hardware import settled
from ansible_collections.composable.infra.tests.unit.hardware.program_support import (
    needs_no_gpu,
)
from ansible_collections.composable.infra.tests.unit.lab.hardware.nodes_support import (
    FakeWatcher,
)
from ansible_collections.composable.infra.tests.unit.lab.hardware.test_nodes import (
    Nodes,
)

# A device file of the simulation is a plain file, and its kernel takes every write.
TOLD_APART = {"test_reads.py::test_numbers_of_its_files", "test_bus.py::test_wrong_unbind_is_refused"}

pytestmark = needs_no_gpu


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the program says on a node with one GPU, without CUDA and the container toolkit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(FakeWatcher, "put", raising=False)
        patch.setattr(module, "FabricWatcher", FakeWatcher)
        nodes = Nodes(tmp_path_factory.mktemp("lab"))
        nodes.show(node_0="a")
        root = nodes.folder / "node-0"
        (root / "proc/1/fd").mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "ansible_collections.composable.infra.tests.hardware"], capture_output=True,
            text=True, timeout=300, check=False,
            env={**os.environ, "HARDWARE_ROOT": str(root), "DESTRUCTIVE": "1",
                 "PATH": f"{root / 'usr/bin'}:{os.environ['PATH']}"})
        assert nodes.gpus() == ["0000:10:00.0"]
        assert (root / "sys/bus/pci/devices/0000:10:00.0/driver").is_symlink()
    return done.stdout


def test_only_what_tells_them_apart_fails(printed: str) -> None:
    failed = {line.split()[1].removeprefix("tests/hardware/") for line in printed.splitlines()
              if line.startswith("FAILED ")}
    assert failed == TOLD_APART


def test_what_was_settled_is_listed_at_the_end(printed: str) -> None:
    _before, _title, table = printed.partition("Lines of docs/contributors/simulation.md on this node:\n")
    for limit in settled.limits():
        assert f"  {limit.line}\n" in table
    assert "  settled      Only the hardware shows that a device gets its BARs\n" in table
    assert "  not settled  A write that the kernel refuses is not answered with an error.\n" in table
    assert "test_use.py::test_container_computes: nvidia-ctk is missing: install the NVIDIA Container Toolkit" in table
