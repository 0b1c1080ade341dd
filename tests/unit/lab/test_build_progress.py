# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A build that takes minutes says how many packages are done of all, also into a pipe and while go says nothing."""

from __future__ import annotations

import fcntl
import io
import os
import stat
import sys
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.binaries import build_progress, gobuild
from ansible_collections.composable.infra.lab.binaries.build_progress import BuildProgress
from ansible_collections.composable.infra.lab.binaries.cache import wait_for_lock
from ansible_collections.composable.infra.lab.binaries.releases import RELEASES
from ansible_collections.composable.infra.lab.errors import LabError

GO = """#!/bin/sh
case $1 in
list) echo 'go: downloading example.com/a v1.0.0' >&2; printf 'a\\nb\\nc\\n' ;;
build) echo a >&2; echo cached >&2; echo b >&2; {between}
  echo c >&2; while [ "$1" != -o ]; do shift; done; : > "$2" ;;
esac
"""


def fake_go(folder: Path, between: str = "") -> str:
    """A go command that prints on its standard error what `go build -v` prints; `between`: before the last package."""
    path = folder / "go"
    path.write_text(GO.format(between=between), encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return str(path)


def states(lines: list[str]) -> list[str]:
    """What each line says without the title and the time."""
    assert all(line.startswith("etcd 3.6.8: ") for line in lines)
    return [line.removeprefix("etcd 3.6.8: ").rpartition(", ")[0] for line in lines]


def test_a_build_counts_the_packages_that_go_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(build_progress, "interval", lambda: 0.0)
    gobuild.build(fake_go(tmp_path), RELEASES["1.36"], "etcd", tmp_path / "work", told.append)
    seen = list(dict.fromkeys(states(told)))
    assert seen[-4:] == ["1 modules fetched", "1 of 3 packages", "2 of 3 packages", "all 3 packages compiled, linking"]


def test_a_silent_command_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler goes on with the third package only when it was said twice that two are done."""
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if states(told).count("2 of 3 packages") == 2:
            (tmp_path / "go-on").touch()

    go = fake_go(tmp_path, f"until test -e {tmp_path}/go-on; do :; done")
    monkeypatch.setattr(build_progress, "interval", lambda: 0.02)
    gobuild.build(go, RELEASES["1.36"], "etcd", tmp_path / "work", tell)
    assert states(told).count("2 of 3 packages") >= 2


def test_a_quick_build_says_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    gobuild.build(fake_go(tmp_path), RELEASES["1.36"], "etcd", tmp_path / "work", told.append)
    assert told == []


def test_a_failure_is_told_without_the_packages_before_it(tmp_path: Path) -> None:
    go = fake_go(tmp_path, "echo 'a.go:1: undefined: x' >&2; exit 1")
    with pytest.raises(LabError) as failed:
        gobuild.build(go, RELEASES["1.36"], "etcd", tmp_path / "work")
    assert str(failed.value).splitlines()[1:] == ["cached", "a.go:1: undefined: x"]


def test_a_terminal_is_told_more_often_than_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert build_progress.interval() == 30.0
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert build_progress.interval() == 5.0


def test_lines_keep_their_distance() -> None:
    told: list[str] = []
    progress = BuildProgress("etcd 3.6.8", told.append, every=1e9)
    progress.packages = {"a", "b"}
    progress.take("a")
    assert told == []
    assert progress.remaining() > 1e8
    progress.say()
    assert states(told) == ["1 of 2 packages"]


def test_whoever_waits_for_a_lock_is_told_so(tmp_path: Path) -> None:
    """The holder lets go when that was said twice."""
    path = tmp_path / "lock"
    with path.open("w") as mine, path.open("w") as other:
        fcntl.flock(mine, fcntl.LOCK_EX)
        told: list[str] = []

        def tell(line: str) -> None:
            told.append(line)
            if len(told) == 2:
                fcntl.flock(mine, fcntl.LOCK_UN)

        wait_for_lock(other.fileno(), tell, every=0.01)
        assert len(told) >= 2
        assert all(line.startswith("waiting for another lab") for line in told)
        with pytest.raises(BlockingIOError):
            fcntl.flock(os.open(path, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
