# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Threads of an engine: all end together, and work that nobody waits for is dropped then."""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from ansible_collections.composable.infra.plugins.module_utils.runtime.threads import Stopped, Threads, run_all


def test_work_is_done_without_being_waited_for() -> None:
    threads, go, done = Threads(), threading.Event(), threading.Event()
    background = threads.background(1, "test")
    background.submit(go.wait, 10)
    background.submit(done.set)
    assert not done.is_set()
    go.set()
    assert done.wait(10)
    threads.cancel()


def test_what_has_not_begun_is_dropped_and_nothing_begins_later() -> None:
    threads, begun, go, done = Threads(), threading.Event(), threading.Event(), list[str]()
    background = threads.background(1, "test")
    ended = threading.Event()

    def first() -> None:
        begun.set()
        go.wait(10)
        ended.set()

    background.submit(first)
    background.submit(done.append, "second")
    assert begun.wait(10)
    threads.cancel()
    background.submit(done.append, "third")
    go.set()
    assert ended.wait(10)
    assert done == []


def test_stop_waits_for_threads_that_were_started_here() -> None:
    threads, go, ended = Threads(), threading.Event(), threading.Event()

    def work() -> None:
        go.wait(10)
        ended.set()

    threads.start(work, "test")
    go.set()
    threads.stop(10.0)
    assert ended.is_set()


def test_all_work_is_done_before_the_first_error_is_raised() -> None:
    threads, done = Threads(), list[int]()

    def fail() -> None:
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        run_all(threads.executor(2, "test"), [fail, lambda: done.append(1), lambda: done.append(2)])
    assert sorted(done) == [1, 2]
    threads.stop(10.0)


def test_nothing_is_run_once_the_threads_were_stopped() -> None:
    threads = Threads()
    executor = threads.executor(2, "test")
    threads.cancel()
    with pytest.raises(Stopped, match="shutdown"):
        run_all(executor, [lambda: pytest.fail("it was run")])


def test_what_had_not_begun_when_the_threads_were_stopped_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, submitted = Threads(), threading.Event()
    executor = threads.executor(1, "test")

    def first() -> None:
        submitted.wait(10.0)
        threads.cancel()

    def later() -> None:
        pytest.fail("it was run")

    def submit(work: Callable[[], None], original: t.Any = executor.submit) -> Future[None]:
        future: Future[None] = original(work)
        if work is later:
            submitted.set()
        return future

    monkeypatch.setattr(executor, "submit", submit)
    with pytest.raises(Stopped, match="did not begin"):
        run_all(executor, [first, later])
