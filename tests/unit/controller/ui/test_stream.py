# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes reach every open page, and no page that reads slowly, or not at all, holds up another or the process."""

from __future__ import annotations

import json
import socket
import time
import typing as t
from collections.abc import Callable, Iterator

import pytest

from ansible_collections.composable.infra.controller.ui import stream as module
from ansible_collections.composable.infra.controller.ui.scope import Scope
from ansible_collections.composable.infra.controller.ui.stream import Broadcaster
from ansible_collections.composable.infra.tests.unit.controller.ui.conftest import EVERYTHING, MINE, Looked, elsewhere
from ansible_collections.composable.infra.tests.unit.reconcile import objects

Pages = Callable[..., "Page"]


class Page:
    """The browser's end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.connection.settimeout(10)
        self._text = b""

    def event(self) -> tuple[str, t.Any]:
        """The next event that is no sign of life; ("", None) at the end of the stream."""
        while True:
            while b"\n\n" not in self._text:
                data = self.connection.recv(65536)
                if not data:
                    return "", None
                self._text += data
            text, _unused, self._text = self._text.partition(b"\n\n")
            if not text.startswith(b":"):
                fields = dict(line.split(": ", 1) for line in text.decode().splitlines())
                return fields["event"], json.loads(fields["data"])


@pytest.fixture
def broadcaster(looked: Looked, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broadcaster]:
    """One that runs, and looks all the time."""
    monkeypatch.setattr(module, "TICK", 0.02)
    made = Broadcaster(looked.view)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def page(looked: Looked, broadcaster: Broadcaster) -> Iterator[Pages]:
    """``page(scope, position)``: one that is open."""
    ends: list[socket.socket] = []

    def made(scope: t.Any = EVERYTHING, position: str | None = None) -> Page:
        ours, theirs = socket.socketpair()
        ends.append(theirs)
        assert broadcaster.adopt(ours, scope, looked.view.position if position is None else position)
        return Page(theirs)

    yield made
    for each in ends:
        each.close()


def until(condition: Callable[[], bool]) -> None:
    """Wait for it; fails after 10 s."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_page_is_told_of_a_change(looked: Looked, page: Pages) -> None:
    open_page = page()
    assert open_page.event() == ("open", {})
    looked.put(objects.claim("train", objects.local_result()))
    name, told = open_page.event()
    assert (name, list(told["rows"]), told["gone"]) == ("change", ["claim/default/train"], [])


def test_every_page_is_told_what_its_scope_shows(looked: Looked, page: Pages) -> None:
    all_, mine = page(), page(MINE)
    looked.put(elsewhere(objects.claim("theirs", objects.local_result()), "rival"))
    looked.put(elsewhere(objects.claim("train", objects.local_result()), "mine"))
    assert (all_.event()[0], mine.event()[0]) == ("open", "open")
    assert list(mine.event()[1]["rows"]) == ["claim/mine/train"]
    assert "claim/rival/theirs" in all_.event()[1]["rows"]


def test_page_that_comes_back_gets_what_it_missed(looked: Looked, page: Pages) -> None:
    position = looked.view.position
    first = page()
    looked.put(objects.claim("train", objects.local_result()))
    assert (first.event()[0], first.event()[0]) == ("open", "change")
    second = page(EVERYTHING, position)
    assert second.event()[0] == "open"
    assert list(second.event()[1]["rows"]) == ["claim/default/train"]


def test_page_that_was_away_too_long_is_told_to_begin_anew(page: Pages) -> None:
    open_page = page(EVERYTHING, "another-7")
    assert [open_page.event()[0] for _unused in range(2)] == ["open", "reset"]


def test_page_that_reads_nothing_is_dropped_and_holds_up_no_other(
        looked: Looked, page: Pages, broadcaster: Broadcaster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 100_000)
    slow, quick = page(), page()
    assert quick.event()[0] == "open"
    for number in range(1000):
        raw = objects.claim(f"claim-{number}", objects.local_result())
        raw["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "gpu" * 500
        looked.put(raw)
        name, told = quick.event()
        assert (name, list(told["rows"])) == ("change", [f"claim/default/claim-{number}"])
        if broadcaster.dropped:
            break
    assert (broadcaster.dropped, broadcaster.open) == (1, 1)
    while slow.event()[0]:
        pass


def test_page_that_takes_nothing_for_long_is_dropped(
        looked: Looked, page: Pages, broadcaster: Broadcaster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    page()
    for number in range(400):
        raw = objects.claim(f"claim-{number}", objects.local_result())
        raw["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "gpu" * 500
        looked.put(raw)
    until(lambda: broadcaster.dropped == 1)


def test_page_that_has_gone_is_forgotten(page: Pages, broadcaster: Broadcaster) -> None:
    page().connection.close()
    until(lambda: broadcaster.open == 0)
    assert broadcaster.dropped == 0


def test_no_more_pages_than_there_may_be(looked: Looked, page: Pages, broadcaster: Broadcaster,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_STREAMS", 1)
    page()
    assert broadcaster.full_for(EVERYTHING)
    ours, theirs = socket.socketpair()
    assert not broadcaster.adopt(ours, EVERYTHING, looked.view.position)
    ours.close()
    theirs.close()


def test_page_asks_to_be_let_in_anew_after_a_while(page: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST", 0.05)
    open_page = page()
    assert [open_page.event()[0] for _unused in range(2)] == ["open", ""]


def test_silent_page_gets_signs_of_life(page: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SIGN_OF_LIFE", 0.05)
    open_page = page()
    open_page.event()
    assert open_page.connection.recv(100) == b":\n\n"


def test_rows_are_given_up_once_nobody_has_looked_for_a_while(
        looked: Looked, page: Pages, broadcaster: Broadcaster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_SECONDS", 0.05)
    page().connection.close()
    until(lambda: looked.view.row("process") is None)
    broadcaster.looked_at()
    assert looked.view.row("process") is not None


def test_stop_ends_every_page(page: Pages, broadcaster: Broadcaster) -> None:
    open_page = page()
    open_page.event()
    broadcaster.stop()
    assert open_page.event()[0] == ""


def test_readers_of_namespaces_leave_room_for_others(looked: Looked) -> None:
    made, ends = Broadcaster(looked.view), list[socket.socket]()

    def opened(scope: Scope, count: int) -> int:
        pairs = [socket.socketpair() for _unused in range(count)]
        ends.extend(end for pair in pairs for end in pair)
        return sum(made.adopt(ours, scope, "") for ours, _theirs in pairs)

    assert opened(Scope("team-a"), 100) == module.MOST_OF_ONE
    assert opened(Scope("team-b"), 1) == 1
    assert sum(opened(Scope(f"team-{number}"), 100) for number in range(9)) == module.MOST_OF_NAMESPACES - \
        module.MOST_OF_ONE - 1
    assert made.full_for(Scope("team-c"))
    assert not made.full_for(EVERYTHING)
    assert opened(EVERYTHING, 100) == module.MOST_STREAMS - module.MOST_OF_NAMESPACES
    assert made.full_for(EVERYTHING)
    made.stop()
    for end in ends:
        end.close()
