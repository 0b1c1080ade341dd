# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: what is parsed, and that errors are sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab import __main__ as cli
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab, LabError, LabOptions
from ansible_collections.composable.infra.lab.hardware.node.faults import KINDS
from ansible_collections.composable.infra.lab.state import Description


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[LabOptions]:
    """Options that `lab up` asks for; the start itself is refused."""
    found: list[LabOptions] = []

    def up(options: LabOptions, progress: object) -> Lab:
        found.append(options)
        raise LabError("no luck today")

    monkeypatch.setattr(Lab, "up", up)
    return found


def test_up_passes_every_option_on(asked: list[LabOptions], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"up --nodes 4 --kubernetes 1.35.x --binding-timeout 12.5 --state-dir {tmp_path} --name b --binaries /x"
    assert cli.main([*line.split(), "--foreground", "--real-nodes", "3", "--plugin-start", "1.5"]) == 1
    assert capsys.readouterr().err == "lab: no luck today\n"
    assert asked == [
        LabOptions(nodes=4, kubernetes="1.35.x", binding_timeout=12.5, state_dir=tmp_path, name="b",
                   binaries=Path("/x"), foreground=True, real_nodes=3, plugin_start=1.5)
    ]  # fmt: skip


def test_up_defaults(asked: list[LabOptions], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    cli.main(["up"])
    assert asked == [LabOptions(state_dir=Path("/state/composable-infra/labs/lab"), foreground=False)]


def test_interrupt_is_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(options: LabOptions, progress: object) -> Lab:
        raise KeyboardInterrupt

    monkeypatch.setattr(Lab, "up", interrupted)
    assert cli.main(["up"]) == 130
    assert capsys.readouterr().err == "lab: interrupted\n"


@pytest.mark.parametrize("command", ["status", "env", "logs"])
def test_no_lab_is_said_plainly(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, "--state-dir", str(tmp_path / "none")]) == 1
    assert "holds no lab: start a lab with 'lab up'" in capsys.readouterr().err


def folder_of_a_lab(path: Path, *truthful: str) -> Path:
    """The state folder of a lab with two nodes; some of them have hardware that can fail."""
    Description("lab", "1.36.3", 2, "https://127.0.0.1:1", "https://127.0.0.1:2", False).write(path)
    for node in truthful:
        (path / "nodes" / node).mkdir(parents=True)
        (path / "nodes" / node / ".simulated-node").touch()
    return path


def test_fault_is_switched_on_and_off_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--state-dir", str(folder_of_a_lab(tmp_path, "node-1"))]
    assert cli.main(["fault", "node-1", "no-room", *where]) == 0
    assert cli.main(["fault", "node-1", "removal-hangs", "on", *where]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "node-1: faults on: no-room, removal-hangs"
    cli.main(["status", *where])
    assert f"  {'node-1':<26}faults: no-room, removal-hangs\n" in capsys.readouterr().out
    assert cli.main(["fault", "node-1", "no-room", "off", *where]) == 0
    assert cli.main(["fault", "node-1", "removal-hangs", "off", *where]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "node-1: faults on: none"


@pytest.mark.parametrize(("line", "message"), [
    ("node-7 no-room", "node 'node-7' is not in this lab: use one of node-0, node-1"),
    ("node-1 fire", "fault 'fire' is not allowed: use one of no-event"),
    ("node-0 no-room", "node node-0 has no hardware that can fail"),
])
def test_fault_that_cannot_be_switched_is_explained(
    line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of_a_lab(tmp_path, "node-1")
    assert cli.main(["fault", *line.split(), "--state-dir", str(folder)]) == 1
    assert message in capsys.readouterr().err


def test_help_of_fault_explains_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["fault", "--help"])
    text = capsys.readouterr().out
    assert all(kind in text and what in text for kind, what in KINDS.items())


def test_down_without_a_lab_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["down", "--state-dir", str(tmp_path / "none")]) == 0
    assert "no lab in" in capsys.readouterr().out


def test_down_leaves_a_foreign_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    assert cli.main(["down", "--state-dir", str(tmp_path)]) == 1
    assert (tmp_path / "letter").exists()


@pytest.mark.parametrize("line", [[], ["sideways"], ["up", "--nodes", "many"], ["up", "extra"]])
def test_wrong_command_line_ends_with_usage(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(line)
    assert caught.value.code == 2
    assert "usage: lab" in capsys.readouterr().err


def test_help_names_commands_and_releases(capsys: pytest.CaptureFixture[str]) -> None:
    for line in (["--help"], ["up", "--help"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(line)
        assert caught.value.code == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("status", "KUBECONFIG", "logs", "1.34.", "1.36.3", "--binding-timeout"))


def test_bad_option_value_is_explained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["up", "--kubernetes", "1.20", "--state-dir", str(tmp_path / "new")]) == 1
    assert "Kubernetes '1.20' is not known to the lab" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
