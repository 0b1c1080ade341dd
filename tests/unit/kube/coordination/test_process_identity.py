# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A holder counts as dead only when this host knows it for certain."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.plugins.module_utils.kube.coordination.process_identity import (
    ProcessIdentity,
    is_dead,
    process_identity,
    start_time,
)

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def ours() -> ProcessIdentity:
    found = ProcessIdentity.parse(process_identity())
    assert found is not None
    return found


def identity(pid: int, start: str | None = None, **changes: str) -> str:
    me = ours()
    parts = {"host": me.host, "boot": me.boot, "namespace": me.namespace} | changes
    return str(ProcessIdentity(pid=str(pid), start=start or start_time(pid) or "1", **parts))


def test_identity_has_five_parts() -> None:
    me = ours()
    assert me.pid == str(os.getpid())
    assert me.namespace.isdigit()
    assert me.start == start_time(os.getpid())
    assert len(me.boot) == 36


def test_identity_is_stable() -> None:
    assert process_identity() == process_identity()


def test_we_are_alive() -> None:
    assert not is_dead(process_identity(), process_identity())


def test_a_running_child_is_alive(child: subprocess.Popen[bytes]) -> None:
    assert not is_dead(identity(child.pid), process_identity())


def test_a_killed_child_is_dead_before_and_after_it_is_reaped(child: subprocess.Popen[bytes]) -> None:
    holder = identity(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert start_time(child.pid) == ""
    assert is_dead(holder, process_identity())
    child.wait()
    assert is_dead(holder, process_identity())


def test_a_recycled_pid_is_another_process(child: subprocess.Popen[bytes]) -> None:
    assert is_dead(identity(child.pid, start="1"), process_identity())


def test_an_unknown_start_time_proves_nothing(child: subprocess.Popen[bytes]) -> None:
    assert not is_dead(identity(child.pid, start="-"), process_identity())


@pytest.mark.parametrize("part", ["host", "boot", "namespace"])
def test_another_host_boot_or_namespace_proves_nothing(child: subprocess.Popen[bytes], part: str) -> None:
    assert not is_dead(identity(child.pid, "1", **{part: "another"}), process_identity())


def test_unknown_parts_are_never_equal() -> None:
    unknown = ProcessIdentity("h", "-", "-", "1", "1")
    assert not unknown.shares_processes_with(unknown)


@pytest.mark.parametrize("text", ["", "pod-abc_1234", "a/b/c", "a/b/c/pid/1", "a/b/c/1/", "a/b/c/1/2/3"])
def test_an_identity_of_another_kind_proves_nothing(text: str) -> None:
    assert ProcessIdentity.parse(text) is None
    assert not is_dead(text, process_identity())


def test_a_process_of_another_user_is_alive() -> None:
    assert not is_dead(identity(1), process_identity())
