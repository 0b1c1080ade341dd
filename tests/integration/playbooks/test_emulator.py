# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook emulator starts the emulator once, stops it, and says in one sentence what is in the way."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.composable.infra.emulator import simple_spec
from ansible_collections.composable.infra.emulator.__main__ import main
from ansible_collections.composable.infra.emulator.state_dir import StateDir
from ansible_collections.composable.infra.tests.e2e.support.played import Played, play, well

FABRIC = simple_spec(["node-0", "node-1"], {"A100 40G": 2})
SUMMARY = "machines: 2, devices: 2, CDI Managers: fm"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    """Return a working folder with a fabric. Its emulator is stopped in the end."""
    (tmp_path / "fabric.yml").write_text(yaml.safe_dump(FABRIC), encoding="utf-8")
    yield tmp_path
    main(["down", "--state-dir", str(tmp_path / "state")])


def ran(work: Path, *options: str, **variables: object) -> Played:
    """Run the playbook on the working folder's emulator, on any port."""
    given = {"fabric": "fabric.yml", "dir": "state", "port": 0, **variables}
    return play(work, "composable.infra.emulator", {f"composable_emulator_{name}": value for name, value
                                                    in given.items()}, *options)


def told(done: Played) -> list[str]:
    """Return what the run says in the end."""
    found: list[str] = done.result("Report the address")["msg"]
    return found


def test_it_is_started_once_and_stopped_once(work: Path) -> None:
    state = StateDir(work / "state")
    would = well(ran(work, "--check"))
    assert (would.changed, told(would)) == (["Start the emulator"], ["No emulator runs.", SUMMARY])
    assert not state.path.exists()

    first = well(ran(work))
    assert first.changed == ["Start the emulator"]
    assert told(first)[0] == f"fm at {state.endpoint()}, a page at {state.endpoint()}/"
    assert "composable_emulator_state=stopped" in told(first)[-1]
    pid = state.pid()
    again = well(ran(work))
    assert (again.changed, told(again)[0]) == ([], f"process {pid} at {state.endpoint()}")

    assert well(ran(work, "--check", state="stopped")).changed == ["Stop the emulator"]
    assert state.pid() == pid
    assert well(ran(work, state="stopped")).changed == ["Stop the emulator"]
    assert state.pid() is None
    assert well(ran(work, state="stopped")).changed == []


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_what_is_in_the_way_is_one_sentence(work: Path, check: tuple[str, ...]) -> None:
    assert ran(work, *check, fabric="").failures == [
        "composable_emulator_fabric is missing: give the file that describes the fabric"]
    assert ran(work, *check, fabric="absent.yml").failures == [f"{work}/absent.yml: No such file or directory"]
    (work / "wrong.yml").write_text("machines: [{name: node-0, fabric: 2}]\n", encoding="utf-8")
    (wrong,) = ran(work, *check, fabric="wrong.yml").failures
    assert wrong.startswith("the fabric.machines[0].fabric: 2 is not the id of a fabric")
    assert ran(work, *check, state="off").failures[0].startswith("composable_emulator_state: 'off' is not allowed")


def test_a_port_in_use_and_another_fabric_are_named(work: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert ran(work, port=port).failures == [f"composable_emulator_port: {port} is in use. Give another port"]
    well(ran(work))
    (work / "fabric.yml").write_text(yaml.safe_dump({**FABRIC, "realm": "other"}), encoding="utf-8")
    (other,) = ran(work).failures
    assert other.startswith(f"an emulator with another fabric runs in {work}/state as process ")
    assert other.endswith("Stop it first")
