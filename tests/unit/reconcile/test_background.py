# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work that nobody waits for: it is done while the engine runs, and dropped when it ends."""

from __future__ import annotations

import threading

from ansible_collections.composable.infra.plugins.module_utils.reconcile.background import Background


def test_work_is_done_without_being_waited_for() -> None:
    background, go, done = Background(1, "test"), threading.Event(), threading.Event()
    background.do(go.wait, 10)
    background.do(done.set)
    assert not done.is_set()
    go.set()
    assert done.wait(10)
    background.close()


def test_what_has_not_begun_is_dropped_and_nothing_begins_later() -> None:
    background, begun, go, done = Background(1, "test"), threading.Event(), threading.Event(), list[str]()
    ended = threading.Event()

    def first() -> None:
        begun.set()
        go.wait(10)
        ended.set()

    background.do(first)
    background.do(done.append, "second")
    assert begun.wait(10)
    background.close()
    background.do(done.append, "third")
    go.set()
    assert ended.wait(10)
    assert done == []
