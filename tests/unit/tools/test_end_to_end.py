# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test that passes the second time is called flaky, and only one may be."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from ansible_collections.composable.infra.tools import end_to_end

# The first run of each of these tests fails, those that follow pass.
ONCE = """
from pathlib import Path

def fails_once(name):
    mark = Path(__file__).with_name(name)
    if not mark.exists():
        mark.touch()
        assert False, name

def test_well(): pass
"""


@pytest.fixture
def tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one test file, which a test fills."""
    monkeypatch.setattr(end_to_end, "ROOT", tmp_path)
    monkeypatch.setattr(end_to_end, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(end_to_end, "EVIDENCE", tmp_path / "evidence")
    path = tmp_path / "test_it.py"
    path.write_text(ONCE, encoding="utf-8")
    return path


def add(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + textwrap.dedent(text), encoding="utf-8")


def test_one_test_that_passes_the_second_time_is_flaky_and_the_run_passes(
    tests: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    add(tests, "def test_shaky(): fails_once('a')\n")
    assert end_to_end.main(["test_it.py", "-q"]) == 0
    evidence = end_to_end.EVIDENCE / "test_it.py__test_shaky"
    assert f"flaky: test_it.py::test_shaky, evidence in {evidence}" in capfd.readouterr().out


def test_those_before_it_in_its_file_run_again_too(tests: Path, capfd: pytest.CaptureFixture[str]) -> None:
    add(tests, """
        left = []
        def test_leaves(): left.append("a device")
        def test_needs(): assert left; fails_once('a')
        def test_after(): pass
        """)
    assert end_to_end.up_to("test_it.py::test_needs") == [
        f"test_it.py::{name}" for name in ("test_well", "test_leaves", "test_needs")]
    assert end_to_end.main(["test_it.py", "-q"]) == 0
    assert "flaky: test_it.py::test_needs" in capfd.readouterr().out


def test_two_flaky_tests_fail_the_run(tests: Path, capfd: pytest.CaptureFixture[str]) -> None:
    add(tests, "def test_shaky(): fails_once('a')\ndef test_other(): fails_once('b')\n")
    assert end_to_end.main(["test_it.py", "-q"]) == 1
    assert capfd.readouterr().out.count("flaky: ") == 2


def test_a_test_that_fails_again_fails_the_run(tests: Path, capfd: pytest.CaptureFixture[str]) -> None:
    add(tests, "def test_broken(): assert False\n")
    assert end_to_end.main(["test_it.py", "-q"]) == 1
    assert "flaky: " not in capfd.readouterr().out


def test_many_failures_are_not_tried_again(tests: Path, capfd: pytest.CaptureFixture[str]) -> None:
    add(tests, "".join(f"def test_{n}(): fails_once('{n}')\n" for n in range(5)))
    assert end_to_end.main(["test_it.py", "-q"]) == 1
    assert capfd.readouterr().out.count("5 failed") == 1


def test_a_run_that_no_test_failed_keeps_its_status(tests: Path) -> None:
    assert end_to_end.main(["test_it.py", "-q"]) == 0
    assert end_to_end.main(["absent.py", "-q"]) == 4
