# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make hardware` where there is no GPU, what it refuses, and what it says of docs/contributors/simulation.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import pci
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host
from ansible_collections.composable.infra.tests.hardware import node, settled
from ansible_collections.composable.infra.tests.hardware.__main__ import FILES, HERE, NOT_POSSIBLE, main
from ansible_collections.composable.infra.tests.unit.hardware.program_support import (
    needs_no_gpu,
)
from ansible_collections.composable.infra.tests.unit.house.files import ROOT
from ansible_collections.composable.infra.tests.unit.node.made.kernel_files import gpu, plug, process

A, B = "0000:10:00.0", "0000:11:00.0"
PROGRAM = "ansible_collections.composable.infra.tests.hardware"


def sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence that was printed."""
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("make hardware: ")
    assert line.endswith(".")
    assert ". " not in line
    return line


@pytest.mark.parametrize("bus", [True, False])
def test_no_gpu_is_one_sentence_and_no_failure(
        tmp_path: Path, capsys: pytest.CaptureFixture[str], bus: bool) -> None:
    if bus:
        plug(tmp_path, A, pci_class="0x020000")
    assert main([], tmp_path, user=0) == 0
    assert "run it on a node with an NVIDIA GPU" in sentence(capsys)


@needs_no_gpu
def test_the_program_here() -> None:
    done = subprocess.run([sys.executable, "-m", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    assert re.fullmatch(r"make hardware: .+ NVIDIA GPU\.\n", done.stdout)
    assert done.stderr == ""


@needs_no_gpu
def test_each_test_is_skipped_with_the_sentence() -> None:
    """Somebody may as well start pytest on the folder."""
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", str(HERE)], cwd=ROOT,
                          capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r"^(\d+) skipped in ", done.stdout, re.MULTILINE)
    assert found
    assert done.stdout.count("so nothing was tested; run it on a node with an NVIDIA GPU.") == int(found.group(1))


@pytest.mark.parametrize(("driver", "user", "said"), [
    ("nvidia", 1000, "run it again as root"), (None, 0, "modprobe nvidia"), ("nvidia", 0, "install the driver's")])
def test_gpu_that_cannot_be_tested_is_a_failure(
        tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
        driver: str | None, user: int, said: str) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    plug(tmp_path, A, driver=driver)
    assert main([], tmp_path, user=user) == NOT_POSSIBLE
    assert said in sentence(capsys)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node with two GPUs, the first of which a program uses."""
    for minor, address in enumerate((A, B)):
        plug(tmp_path, address, driver="nvidia")
        gpu(tmp_path, address, f"GPU-{minor}", minor)
    process(tmp_path, 1, "init")
    process(tmp_path, 7, "python", "/dev/nvidia0")
    return tmp_path


def test_idle_gpu_is_chosen_unless_another_is_named(root: Path) -> None:
    assert node.chosen(root, "").address == B
    assert node.chosen(root, A).address == A
    with pytest.raises(pci.UnknownDevice):
        node.chosen(root, "0000:99:00.0")


def test_gpu_in_use_is_refused(root: Path) -> None:
    refused = node.refusal(Host(root), pci.need(root, A))
    assert refused.startswith("refused, and nothing was changed: ")
    assert "pid 7 (python)" in refused
    assert node.refusal(Host(root), pci.need(root, B)) == ""


def test_tests_that_take_the_gpu_away_need_consent_and_idleness() -> None:
    source = (HERE / "test_bus.py").read_text(encoding="utf-8")
    tests = re.findall(r"^def test_\w+\((.*)\) ->", source, re.MULTILINE)
    assert tests
    assert [arguments for arguments in tests if "expendable:" not in arguments] == []


def test_quoted_lines_are_in_the_page() -> None:
    page = " ".join((ROOT / "docs/contributors/simulation.md").read_text(encoding="utf-8").split())
    page = re.sub(r" \(\[[^]]*\]\([^)]*\)\)", "", page)
    assert [limit.line for limit in settled.limits() if limit.line not in page] == []


def test_every_test_that_settles_a_line_exists() -> None:
    known = {f"{path.name}::{name}" for path in HERE.glob("test_*.py")
             for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)}
    named = {test for limit in settled.limits() for test in limit.tests}
    assert named <= known
    assert {path.name for path in HERE.glob("test_*.py")} == set(FILES)
    assert [limit.line for limit in settled.limits() if not limit.tests and not limit.open] == []


def test_a_line_is_settled_when_all_its_tests_passed() -> None:
    limit = next(limit for limit in settled.limits() if len(limit.tests) > 1)
    results = dict.fromkeys(limit.tests, settled.PASSED)
    assert f"  settled      {limit.line}" in settled.lines(results)
    results[limit.tests[0]] = "it failed"
    said = list(settled.lines(results))
    assert f"  not settled  {limit.line}" in said
    assert f"{'':15}{limit.tests[0]}: it failed" in said


def test_results_of_pytest_are_kept(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        "import pytest\n\ndef test_good():\n    pass\n\ndef test_bad():\n    assert False\n\n"
        "def test_not():\n    pytest.skip('no tool')\n\n@pytest.fixture\ndef broken():\n    yield\n    assert False\n\n"
        "def test_end(broken):\n    pass\n", encoding="utf-8")
    program = ("import pytest, sys\n"
               f"from {PROGRAM}.settled import Results\n"
               "kept = Results()\npytest.main(['-q', '-p', 'no:cacheprovider', sys.argv[1]], plugins=[kept])\n"
               "print(sorted(kept.of.items()))\n")
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=120,
                          check=True, env={**os.environ, "PYTEST_ADDOPTS": "--rootdir=" + str(tmp_path)})
    assert done.stdout.splitlines()[-1] == str([
        ("test_x.py::test_bad", "it failed"), ("test_x.py::test_end", "it failed"),
        ("test_x.py::test_good", "passed"), ("test_x.py::test_not", "no tool")])
