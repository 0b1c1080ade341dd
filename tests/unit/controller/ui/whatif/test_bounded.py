# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One child at a time answers, within its bounds; it is killed when its time is over and when the page leaves."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import typing as t
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ansible_collections.composable.infra.controller.ui.whatif import bounded
from ansible_collections.composable.infra.controller.ui.whatif.bounded import BROKEN, BUSY, LATE, NO_MEMORY, WhatIf
from ansible_collections.composable.infra.tests.unit.controller.ui.whatif.bounded_support import (
    ECHO,
    QUESTION,
    Hanging,
    Json,
    asking,
)


def answer(asked: WhatIf) -> Json:
    """What a page gets that waits."""
    page, connection = socket.socketpair()
    with closing(page):
        assert asked.adopt(connection, QUESTION)
        return t.cast(Json, json.loads(everything(page)))


def everything(page: socket.socket) -> bytes:
    """Until the other side closes."""
    page.settimeout(30)
    return b"".join(iter(lambda: page.recv(65536), b""))


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    """One, which is killed at the end."""
    made = Hanging()
    yield made
    made.asked.stop()
    made.page.close()


def test_child_is_given_the_question_and_its_limits_and_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/secret")
    monkeypatch.setattr(bounded, "MOST_MEMORY", 200 << 20)
    found = answer(asking(ECHO, 30.0))
    assert json.loads(found["read"]) == {"changes": [{"change": "hold"}], "simulate": None}
    assert found["limits"][0] == "30"
    assert bounded.LEAST_MEMORY <= int(found["limits"][1]) <= 200 << 20
    assert "KUBECONFIG" not in found["env"]


def test_child_is_killed_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *args: t.Any, **options: t.Any) -> None:
            super().__init__(*args, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    assert answer(asking("import time; time.sleep(1000)", 0.2)) == {"error": LATE}
    assert [child.returncode for child in started] == [-signal.SIGKILL]


def test_child_is_killed_when_the_page_leaves(hanging: Hanging) -> None:
    hanging.page.close()
    assert hanging.ended()


def test_child_is_killed_when_the_process_stops_and_none_is_started_then(hanging: Hanging) -> None:
    hanging.asked.stop()
    assert hanging.ended()
    page, connection = socket.socketpair()
    hanging.asked.adopt(connection, QUESTION)
    assert everything(page) == b""
    page.close()


def test_there_is_one_question_at_a_time(hanging: Hanging) -> None:
    assert hanging.asked.busy
    page, connection = socket.socketpair()
    hanging.asked.adopt(connection, QUESTION)
    assert json.loads(everything(page)) == {"error": BUSY}
    page.close()
    hanging.page.close()
    assert hanging.ended()
    hanging.asked._program = (sys.executable, "-c", ECHO)
    assert "read" in answer(hanging.asked)


@pytest.mark.parametrize("program", ["", "import sys; print('{'); sys.exit(3)", "import os; os.abort()",
                                     "print('x' * 2_000_000)"])
def test_child_that_breaks_off_or_says_too_much_is_no_answer(program: str) -> None:
    program = program or "raise SystemExit(1)"
    assert answer(asking(program)) == {"error": BROKEN}


def test_nothing_is_started_where_there_is_nothing_to_replay() -> None:
    asked = asking("raise SystemExit(1)", write=lambda question, file: "There is nothing to replay.")
    assert answer(asked) == {"error": "There is nothing to replay."}


def container(folder: Path, limit: str, anon: int) -> Path:
    """The control group of one."""
    (folder / "memory.max").write_text(f"{limit}\n", encoding="ascii")
    (folder / "memory.stat").write_text(f"anon {anon}\nfile 7\nshmem {1 << 20}\n", encoding="ascii")
    return folder


def test_memory_is_what_the_container_has_left(tmp_path: Path) -> None:
    assert bounded.room(container(tmp_path, str(512 << 20), 200 << 20)) == (512 - 200 - 1 - 64) << 20
    assert bounded.room(container(tmp_path, "max", 200 << 20)) == bounded.MOST_MEMORY
    assert bounded.room(tmp_path / "none") == bounded.MOST_MEMORY


def test_nothing_is_started_where_the_container_has_no_memory_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "room", lambda: bounded.LEAST_MEMORY - 1)
    assert answer(asking(ECHO)) == {"error": NO_MEMORY}
