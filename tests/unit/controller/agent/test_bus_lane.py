# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One worker for the bus, and another when it is stuck."""

from __future__ import annotations

import threading
import time

from ansible_collections.composable.infra.controller.agent.bus_lane import OVERDUE_SECONDS, BusLane
from ansible_collections.composable.infra.tests.unit.controller.agent.fake_operations import until


class Bench:
    """A lane whose work waits for an event, and whose clock stands still."""

    def __init__(self) -> None:
        self.now = 0.0
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.gates = {"stuck": threading.Event()}
        self.lane = BusLane("node-0", self.work, lambda: self.now)

    def work(self, name: str) -> float | None:
        self.begun.append(name)
        if name in self.gates:
            self.gates[name].wait(10.0)
        self.ended.append(name)
        return None

    def close(self) -> None:
        for gate in self.gates.values():
            gate.set()
        self.lane.stop()


def test_one_at_a_time_until_it_is_overdue() -> None:
    bench = Bench()
    try:
        bench.lane.start()
        bench.lane.queue.add("stuck")
        until("the first has begun", lambda: bench.begun == ["stuck"])
        bench.lane.queue.add("other")
        bench.lane.queue.add("stuck")
        assert not bench.lane.relieve()
        bench.now = OVERDUE_SECONDS + 1.0
        assert bench.lane.relieve()
        assert not bench.lane.relieve()
        until("the other is done", lambda: bench.ended == ["other"])
        assert bench.begun == ["stuck", "other"], "the same device is not worked on twice at a time"
        bench.gates["stuck"].set()
        until("the second turn of the first", lambda: bench.begun == ["stuck", "other", "stuck"])
    finally:
        bench.close()


def test_a_turn_that_fails_is_not_the_last() -> None:
    turns: list[str] = []

    def work(name: str) -> float | None:
        turns.append(name)
        if len(turns) == 1:
            raise ValueError
        return time.time() if len(turns) == 2 else None

    lane = BusLane("node-0", work)
    lane.start()
    try:
        lane.queue.add("one")
        until("it failed", lambda: turns == ["one"])
        lane.queue.add("two")
        until("its next turn came by appointment", lambda: turns == ["one", "two", "two"])
    finally:
        lane.stop()
