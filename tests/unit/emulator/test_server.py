# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One table of dialects, one folder of files, and the command line's words."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from ansible_collections.composable.infra.emulator import SpecError
from ansible_collections.composable.infra.emulator.__main__ import main
from ansible_collections.composable.infra.emulator.dialects.managers import MANAGERS
from ansible_collections.composable.infra.emulator.server import DIALECTS, managers_of
from ansible_collections.composable.infra.emulator.state_dir import StateDir, Taken

# the module that imports aiohttp
DIALECTS_MODULE = managers_of.__module__


def test_every_manager_of_a_document_has_a_dialect() -> None:
    assert set(DIALECTS) == set(MANAGERS)


def test_the_folder_tells_where_the_emulator_is(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "a" / "b")
    state.prepare()
    assert stat.S_IMODE(state.path.stat().st_mode) == 0o700
    assert (state.endpoint(), state.port(), state.pid()) == (None, 0, None)
    state.announce("https://127.0.0.1:4711")
    assert (state.endpoint(), state.port()) == ("https://127.0.0.1:4711", 4711)


@pytest.mark.parametrize("text", ["", "x", str(os.getppid()), "999999999"])
def test_a_number_left_behind_is_not_an_emulator(tmp_path: Path, text: str) -> None:
    (tmp_path / "pid").write_text(text, encoding="ascii")
    assert StateDir(tmp_path).pid() is None


def test_a_folder_is_held_by_one_process_until_it_lets_go(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    with state.hold():
        assert state.pid() == os.getpid()
        with pytest.raises(Taken, match=f"already runs in .* as process {os.getpid()}"):
            state.hold()
    assert state.pid() is None
    state.hold().close()


def test_a_restart_needs_no_document(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    with pytest.raises(SpecError, match="--fabric: it is required"):
        state.fabric()
    state.keep_fabric({"machines": [{"name": "a"}]})
    assert [machine.name for machine in state.fabric().machines] == ["a"]


@pytest.mark.parametrize("command", [[], ["up"], ["check"], ["status"], ["fault"], ["log"], ["down"]])
def test_help(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert "--state-dir" in shown or "up|check|status|fault|log|down" in shown
    assert "-fd" not in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["up"], "error: --fabric: it is required"),
        (["up", "--fabric", "absent.yml"], "error: absent.yml: No such file"),
        (["check"], "error: --fabric: it is required"),
        (["check", "--fabric", "absent.yml"], "error: absent.yml: No such file"),
        (["log"], "error: "),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main([*arguments, "--state-dir", str(tmp_path)]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(says)
    assert shown.count("\n") == 1


def test_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--state-dir", str(tmp_path)]) == 1
    assert main(["down", "--state-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"no emulator runs in {tmp_path}\n" * 2


def test_a_fabric_is_checked_without_a_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabric = tmp_path / "fabric.yml"
    fabric.write_text("managers: [redfish, fm]\nmodels: [{name: A}]\nmachines: [{name: a, fabric: 1}]\n"
                      "fabrics: [{id: 1, devices: [{model: A, count: 3}]}]\n", encoding="utf-8")
    given = ["check", "--fabric", str(fabric), "--state-dir", str(tmp_path / "state")]
    assert main(given) == 0
    assert capsys.readouterr().out == "machines: 1, devices: 3, CDI Managers: fm, redfish\n"
    assert not (tmp_path / "state").exists()
    fabric.write_text("machines: [{name: a, fabric: 1}]\n", encoding="utf-8")
    assert main(given) == 1
    assert capsys.readouterr().err.startswith("error: the fabric.machines[0].fabric: 1 is not")


def test_another_fabric_than_that_of_the_running_emulator_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fabric, state = tmp_path / "fabric.yml", StateDir(tmp_path)
    fabric.write_text("machines: []\n", encoding="utf-8")
    state.keep_fabric({"machines": []})
    with state.hold():
        given = ["check", "--fabric", str(fabric), "--state-dir", str(tmp_path)]
        assert main(given) == 0
        state.keep_fabric({"machines": [], "realm": "other"})
        assert main(given) == 1
    shown = capsys.readouterr().err
    assert shown == (f"error: an emulator with another fabric runs in {tmp_path} as process {os.getpid()}. "
                     "Stop it first\n")


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, DIALECTS_MODULE)
    assert main(["check", "--state-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == ("error: the Python package aiohttp is missing. Install it with: "
                                       f"{sys.executable} -m pip install aiohttp\n")
