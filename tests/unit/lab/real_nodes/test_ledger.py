# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What real nodes change on a machine is written down, and undone by whoever comes next."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.processes import pids
from ansible_collections.composable.infra.lab.real_nodes import addresses, cgroups, sysctls
from ansible_collections.composable.infra.lab.real_nodes.ledger import Ledger


class Machine:
    """Addresses, control groups and settings of a machine that is not this one."""

    def __init__(self, folder: Path) -> None:
        self.addresses = {"127.0.0.1"}
        self.groups: set[str] = set()
        self.settings = {"kernel/panic": "1"}
        self.folder = folder / "var" / "lib" / "kubelet"
        self.ledger = Ledger(folder / "ledger", [str(self.folder)])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path)
    monkeypatch.setattr(addresses, "add", found.addresses.add)
    monkeypatch.setattr(addresses, "remove", found.addresses.discard)
    monkeypatch.setattr(addresses, "present", lambda: set(found.addresses))
    monkeypatch.setattr(cgroups, "create", found.groups.add)
    monkeypatch.setattr(cgroups, "remove", found.groups.discard)
    monkeypatch.setattr(sysctls, "read", lambda: dict(found.settings))
    monkeypatch.setattr(sysctls, "restore", found.settings.update)
    return found


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until it is killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def keeper(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    started = pids.start_time(process.pid)
    assert started
    return process.pid, started


def test_labs_side_by_side_get_numbers_of_their_own(machine: Machine, tmp_path: Path) -> None:
    machine.addresses.add("10.99.0.2")
    first = machine.ledger.open(tmp_path / "a", ["real-0", "real-1"])
    second = machine.ledger.open(tmp_path / "b", ["real-0"])
    assert [node.number for node in (*first, *second)] == [1, 3, 4]
    assert machine.addresses == {"127.0.0.1", "10.99.0.2", "10.99.0.1", "10.99.0.3", "10.99.0.4"}
    assert machine.ledger.nodes(tmp_path / "a") == first


def test_last_lab_restores_the_machine(machine: Machine, tmp_path: Path) -> None:
    for name in ("a", "b"):
        machine.ledger.open(tmp_path / name, ["real-0"])
        machine.settings["kernel/panic"] = "10"
    machine.ledger.close(tmp_path / "a")
    assert machine.settings == {"kernel/panic": "10"}
    assert machine.folder.exists()
    machine.ledger.close(tmp_path / "b")
    assert machine.settings == {"kernel/panic": "1"}
    assert machine.addresses == {"127.0.0.1"}
    assert machine.groups == set()
    assert not (tmp_path / "var").exists()


def test_folders_that_were_there_stay(machine: Machine, tmp_path: Path) -> None:
    machine.folder.parent.mkdir(parents=True)
    machine.ledger.open(tmp_path / "a", ["real-0"])
    machine.ledger.close(tmp_path / "a")
    assert machine.folder.parent.exists()
    assert not machine.folder.exists()


def test_dead_lab_is_swept_and_a_live_one_is_not(
    machine: Machine, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    for name in ("dead", "alive"):
        machine.ledger.open(tmp_path / name, ["real-0"])
    machine.ledger.keep(tmp_path / "alive", [(os.getpid(), pids.start_time(os.getpid()) or "")])
    assert machine.ledger.keepers(tmp_path / "dead") == ((os.getpid(), pids.start_time(os.getpid())),)
    machine.ledger.keep(tmp_path / "dead", [keeper(sleeper)])
    assert machine.ledger.keepers(tmp_path / "dead") == (keeper(sleeper),)
    machine.ledger.sweep()
    assert machine.ledger.labs() == [tmp_path / "dead", tmp_path / "alive"]
    assert len(machine.groups) == 2
    sleeper.kill()
    sleeper.wait()
    machine.ledger.sweep()
    assert machine.ledger.nodes(tmp_path / "dead") == []
    assert machine.groups == {"composable-lab-2"}
    assert machine.addresses == {"127.0.0.1", "10.99.0.2"}


def test_number_of_a_dead_lab_is_free_again(
    machine: Machine, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    machine.ledger.open(tmp_path / "dead", ["real-0"])
    machine.ledger.keep(tmp_path / "dead", [keeper(sleeper)])
    sleeper.kill()
    sleeper.wait()
    (node,) = machine.ledger.open(tmp_path / "next", ["real-0"])
    assert node.number == 1


def test_full_machine_is_explained(machine: Machine, tmp_path: Path) -> None:
    machine.addresses |= {f"10.99.0.{number}" for number in range(1, 254)}
    with pytest.raises(LabError, match="real_nodes=2 is not allowed: only 1 more fit"):
        machine.ledger.open(tmp_path / "a", ["real-0", "real-1"])


def test_without_a_ledger_there_is_nothing_to_undo(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "none")
    ledger.sweep()
    ledger.close(tmp_path)
    assert ledger.nodes(tmp_path) == []
    assert ledger.keepers(tmp_path) == ()
    assert not (tmp_path / "none").exists()
