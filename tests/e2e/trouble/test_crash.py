# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 at the worst moments: exactly one device is attached for a claim, its pod runs, and nothing is left over."""

from __future__ import annotations

import os
import random
import signal
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support.support import (
    OPENED,
    attached,
    await_served,
    changes_asked,
    delete_all,
    frozen,
    mark,
    states,
    wait_for,
)

pytestmark = pytest.mark.e2e
ATTACH = 2.0
STAGE = {"attach": ATTACH, "devices": {A100: 4}, "hold": 0.5, "attach_timeout": 8.0}


@pytest.fixture(autouse=True)
def clean(stage: Stage) -> Iterator[None]:
    """A stage whose devices are all free, before and after."""
    stage.emulator.set_timing(attach=ATTACH)
    yield
    for process in list(OPENED.processes):
        OPENED.stop(process)
    delete_all(stage)
    last = front_doors.controller(stage)
    try:
        wait_for("all devices are free", lambda: set(states(stage)) == {"free"})
    finally:
        last.stop()


def attaching(stage: Stage) -> int:
    """How many devices the manager is attaching."""
    return sum(d["state"] == "attaching" for d in stage.emulator.state()["devices"])


def apiserver(stage: Stage) -> int:
    """Pid of the API server."""
    return next(c.pid for c in stage.lab.status() if c.name == "kube-apiserver")


def assert_one_device(stage: Stage, timeline: Timeline, since: int, *names: str) -> None:
    """All pods run, each device was attached once, and there are as many as claims."""
    await_served(stage, timeline, *names)
    done = [e for e in changes_asked(stage, since, "PATCH") if e["device"]]
    assert len(done) == len({e["device"] for e in done}) == len(names), done
    assert set(attached(stage)) == {d for n in names for d in timeline.claims[n].devices}


def test_killed_between_request_and_reply(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    since, first = mark(stage), open_process(front_doors.controller, stage)
    stage.pod("one", A100)
    wait_for("the manager is attaching", lambda: "attaching" in states(stage))
    first.kill()
    open_process(front_doors.controller, stage)
    assert_one_device(stage, timeline, since, "one")


def test_killed_between_reply_and_status_write(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    since, first = mark(stage), open_process(front_doors.controller, stage)
    stage.pod("one", A100)
    wait_for("the manager is attaching", lambda: "attaching" in states(stage))
    with frozen(apiserver(stage)):
        wait_for("the manager has answered", lambda: "attached" in states(stage))
        first.kill()
    open_process(front_doors.controller, stage)
    assert_one_device(stage, timeline, since, "one")


def test_killed_while_the_request_lies_unread(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    """The intent is written and the request sent; the manager reads it only after the sender died."""
    since, first = mark(stage), open_process(front_doors.controller, stage)
    stage.emulator.set_faults({"kind": "latency", "purpose": "attach", "nth": 1, "seconds": 3.0})
    stage.pod("one", A100)
    first.wait_for(": requested 1 x ")
    first.kill()
    assert "attaching" not in states(stage)
    open_process(front_doors.controller, stage)
    assert_one_device(stage, timeline, since, "one")


def test_killed_with_two_devices_of_one_claim_under_way(
    stage: Stage, timeline: Timeline, open_process: OpenProcess
) -> None:
    since, first = mark(stage), open_process(front_doors.controller, stage)
    stage.pod("two", A100, 2)
    wait_for("both are being attached", lambda: attaching(stage) == 2)
    first.kill()
    open_process(front_doors.controller, stage)
    await_served(stage, timeline, "two")
    assert len(attached(stage)) == len([e for e in changes_asked(stage, since, "PATCH") if e["device"]]) == 2


def test_killed_at_random_moments(stage: Stage, timeline: Timeline, open_process: OpenProcess) -> None:
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(10**6)))
    print(f"SEED={seed}")
    dice = random.Random(seed)
    stage.emulator.set_timing(attach=0.3)
    names = [f"pod-{i}" for i in range(3)]
    for name in names:
        process = open_process(front_doors.controller, stage)
        stage.pod(name, A100)
        moment = dice.uniform(0.0, 1.0)
        timeline.wait(lambda: False, moment)
        process.kill()
    open_process(front_doors.controller, stage)
    await_served(stage, timeline, *names)
    wait_for("exactly the claims' devices are attached",
             lambda: set(attached(stage)) == {d for n in names for d in timeline.claims[n].devices})


def children(pid: int) -> Iterator[int]:
    """All descendants of a process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            if parent == pid:
                yield int(entry.name)
                yield from children(int(entry.name))


def action(process: front_doors.Process) -> list[int]:
    """Pids of the scale module that a rulebook's action runs."""
    found = []
    for pid in children(process.pid):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"AnsiballZ_scale" in command:
            found.append(pid)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["request", "reply"])
def test_rulebook_action_killed(
    stage: Stage, timeline: Timeline, open_process: OpenProcess, moment: str
) -> None:
    since, process = mark(stage), open_process(t.cast("t.Any", front_doors.rulebook), stage, retry=3)
    stage.pod("one", A100)
    wait_for("the manager is attaching", lambda: "attaching" in states(stage))
    if moment == "request":
        kill_all(action(process))
    else:
        with frozen(apiserver(stage)):
            wait_for("the manager has answered", lambda: "attached" in states(stage))
            kill_all(action(process))
    assert_one_device(stage, timeline, since, "one")


def kill_all(pids: list[int]) -> None:
    """SIGKILL to each; there must be one."""
    assert pids, "no action is running"
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
