# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands on a node: which program runs, what it answers, and those that do not end or do not exist."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.composable.infra.plugins.module_utils.node import left_behind
from ansible_collections.composable.infra.plugins.module_utils.node.evidence import NodeTrouble
from ansible_collections.composable.infra.plugins.module_utils.node.host import Host, NotEnded, Output
from ansible_collections.composable.infra.plugins.module_utils.node.probe import SIMULATED


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """The folder of a stand-in with one command."""
    (tmp_path / SIMULATED).write_text("a stand-in\n", encoding="utf-8")
    command(tmp_path, "say", 'echo "$NODE_ROOT:$1"; echo oops >&2; exit 3')
    return tmp_path


def command(root: Path, name: str, script: str) -> None:
    """A program of the stand-in."""
    path = root / "usr/bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def test_command_of_this_node() -> None:
    assert Host(Path("/")).run(["echo", "a b", "$HOME"], 10) == Output(0, "a b $HOME\n", "")


def test_command_of_a_stand_in_knows_its_node(stand_in: Path) -> None:
    assert Host(stand_in).run(["say", "x; y"], 10) == Output(3, f"{stand_in}:x; y\n", "oops\n")


def test_command_of_another_root_runs_there(tmp_path: Path) -> None:
    assert Host(tmp_path).command(["nvidia-smi", "-L"]) == (["chroot", str(tmp_path), "nvidia-smi", "-L"], None)


@pytest.mark.parametrize("root", ["/", "stand-in", "chroot"])
def test_command_that_the_node_does_not_have(stand_in: Path, tmp_path_factory: pytest.TempPathFactory,
                                             root: str) -> None:
    folder = {"/": Path("/"), "stand-in": stand_in}.get(root) or tmp_path_factory.mktemp("empty")
    with pytest.raises(NodeTrouble, match=r"^the node cannot run no-such-command: ") as caught:
        Host(folder).run(["no-such-command", "-L"], 10)
    assert caught.value.reason == "CommandFailed"


def test_command_that_does_not_end_is_ended(stand_in: Path) -> None:
    command(stand_in, "wait", "exec sleep 600")
    with pytest.raises(NotEnded, match=r"^wait -x has not ended within 0\.2 s$") as caught:
        Host(stand_in).run(["wait", "-x"], 0.2)
    assert caught.value.reason == "CommandFailed"


def begun(root: Path) -> list[str]:
    """Numbers of the processes that the program of the stand-in has written down itself."""
    return (root / "begun").read_text().split()


def test_command_that_cannot_be_ended_is_not_begun_again(
        stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that hangs in the kernel is played by one that nobody kills."""
    command(stand_in, "nvidia-smi", 'echo $$ >> "$NODE_ROOT/begun"; [ "$1" = -L ] && exec sleep 600; echo done')
    kill = subprocess.Popen.kill
    hung: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(subprocess.Popen, "kill", lambda process: hung.append(process))
    with pytest.raises(NotEnded, match=r"^nvidia-smi -L has not ended within 0\.5 s$"):
        Host(stand_in).run(["nvidia-smi", "-L"], 0.5)
    for program in (Host(stand_in), Host(stand_in)):
        with pytest.raises(NotEnded, match=rf"^nvidia-smi -L began earlier and hangs .* process {hung[0].pid}\."):
            program.run(["nvidia-smi", "-L"], 10)
    assert begun(stand_in) == [str(hung[0].pid)]
    assert Host(stand_in).run(["nvidia-smi", "-q"], 10).out == "done\n"
    kill(hung[0])
    hung[0].wait()
    with pytest.raises(NotEnded, match="has not ended within"):
        Host(stand_in).run(["nvidia-smi", "-L"], 0.5)
    assert len(begun(stand_in)) == 3
    kill(hung[1])
    hung[1].communicate()


def test_removal_is_noted_while_it_runs(stand_in: Path) -> None:
    """Also a program that is ended meanwhile has written it down."""
    command(stand_in, "nvidia-smi", f'while [ ! -e "$NODE_ROOT/{left_behind.FOLDER}/nvidia-smi_-r" ]; '
                                    "do sleep 0.01; done; echo noted")
    assert Host(stand_in).run(["nvidia-smi", "-r"], 30, noted=True).out == "noted\n"
    assert left_behind.running(stand_in, "nvidia-smi -r") == ""


def test_command_that_must_succeed(stand_in: Path) -> None:
    assert Host(Path("/")).must(["echo", "x"], 10) == "x\n"
    with pytest.raises(NodeTrouble, match=r"^say x ended with 3: oops$"):
        Host(stand_in).must(["say", "x"], 10)


@pytest.mark.parametrize(("out", "err", "said"), [("a\nb\n", "", "b"), ("a\n", "c\n\n", "c"),
                                                  ("", "", "it said nothing")])
def test_what_a_command_said(out: str, err: str, said: str) -> None:
    assert Output(1, out, err).said == said
