# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One worker for the bus, and another when it is stuck."""

from __future__ import annotations

import threading

from ansible_collections.composable.infra.controller.agent.lane import OVERDUE_SECONDS, Duty, Lane
from ansible_collections.composable.infra.tests.unit.controller.agent.fake_operations import until


class Bench:
    """A lane whose work waits for an event, and whose clock stands still."""

    def __init__(self) -> None:
        self.now = 0.0
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.gates = {"stuck": threading.Event()}
        self.lane = Lane("node-0", lambda: self.now)

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
        bench.lane.start(bench.work, {})
        bench.lane.add("stuck")
        until("the first has begun", lambda: bench.begun == ["stuck"])
        bench.lane.add("other")
        bench.lane.add("stuck")
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
        return 0.0 if len(turns) == 2 else None

    lane = Lane("node-0")
    lane.start(work, {})
    try:
        lane.add("one")
        until("it failed", lambda: turns == ["one"])
        lane.add("two")
        until("its next turn came by appointment", lambda: turns == ["one", "two", "two"])
    finally:
        lane.stop()


def test_duties_go_on_while_the_bus_hangs_and_are_stuck_by_themselves_alone() -> None:
    bench, renewals, gate = Bench(), list[int](), threading.Event()

    def renew() -> None:
        renewals.append(1)
        if len(renewals) == 2:
            gate.wait(10.0)

    try:
        bench.lane.start(bench.work, {Duty.LEASE: renew})
        bench.lane.add("stuck")
        until("the device has begun", lambda: bench.begun == ["stuck"])
        bench.lane.add(Duty.LEASE)
        until("the Lease is renewed", lambda: renewals == [1])
        bench.now = 1000.0
        assert bench.lane.stuck() == ""
        bench.lane.add(Duty.LEASE)
        until("the next renewal has begun", lambda: len(renewals) == 2)
        bench.now = 2000.0
        assert bench.lane.stuck() == "the worker has worked on one key for 300 s: lease"
        gate.set()
        until("it has ended", lambda: not bench.lane.stuck())
    finally:
        gate.set()
        bench.close()
