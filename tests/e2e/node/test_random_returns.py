# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Idle devices return while processes open and close them at every step: the fabric pulls none that a node has.

NODE_RUNS says how many random runs are made.
"""

from __future__ import annotations

import os
import random
import threading
import typing as t
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.lab.hardware.node.records import Records
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.support import by_hand
from ansible_collections.composable.infra.tests.e2e.support.support import (
    all_free,
    delete_all,
    states,
    wait_for,
)

RUNS = int(os.environ.get("NODE_RUNS", "12"))
DEVICES = 4
# Seconds at most between two processes; the long pauses are there so that a device can leave at all.
PAUSES = (0.2, 0.4, 4.0)
# A device that a process has open is tried again every 15 s at most, and a pod may wait for it, in seconds.
LIMIT = 300.0
STAGE: dict[str, t.Any] = {"devices": {A100: DEVICES}, "nodes": 2, "handover": "gated", "attach": 0.05, "detach": 0.05,
                           "hold": 0.2, "scan_interval": 0.5}


class Holders(threading.Thread):
    """Processes of a node that open its devices for a moment, again and again, until they are told to end.

    The driver lets a process open a device that was touched and is not being drained.
    """

    def __init__(self, folder: Path, rng: random.Random) -> None:
        super().__init__(name=f"holders-{folder.name}", daemon=True)
        self._records, self._rng = Records(folder), rng
        self._end = threading.Event()
        self.opened = 0

    def run(self) -> None:
        """Come and go."""
        pid = 5000
        while not self._end.wait(self._rng.uniform(0.0, self._rng.choice(PAUSES))):
            pid += 1
            handle = self._records.root / "proc" / str(pid) / "fd" / "7"
            if self._open(handle):
                self.opened += 1
                self._end.wait(self._rng.uniform(0.0, 0.5))
                handle.unlink()

    def end(self) -> None:
        """Close what is open, and come no more."""
        self._end.set()
        self.join(10.0)

    def _open(self, handle: Path) -> bool:
        with self._records.lock():
            free = [d for d in self._records.devices() if d.touched and not (d.draining or d.lost)]
            if not free:
                return False
            handle.parent.mkdir(parents=True)
            (handle.parent.parent / "comm").write_text("python3\n", encoding="utf-8")
            handle.symlink_to(f"/dev/nvidia{self._rng.choice(free).minor}")
            return True


@pytest.fixture
def holders(stage: Stage, rng: random.Random) -> Iterator[list[Holders]]:
    """One crowd for each node."""
    made = [Holders(stage.lab.node_folder(node), random.Random(rng.random())) for node in stage.lab.nodes]
    for each in made:
        each.start()
    yield made
    for each in made:
        each.end()


def test_no_device_is_pulled_and_none_is_lost(
    stage: Stage, timeline: Timeline, open_process: OpenProcess, holders: list[Holders], rng: random.Random
) -> None:
    open_process(front_doors.controller, stage)
    for number in range(RUNS):
        names = {f"run-{number}-{index}": rng.randint(1, 2) for index in range(rng.randint(1, 2))}
        for name, count in names.items():
            stage.pod(name, A100, count, rng.choice((None, *stage.lab.nodes)))
        wait_for(f"pods of run {number}", partial(timeline.running, *names), LIMIT)
        delete_all(stage)
        assert_let_go(stage)
    assert sum(each.opened for each in holders) > RUNS, "nobody held a device"
    for each in holders:
        each.end()
    wait_for("all devices to return", lambda: all_free(stage), LIMIT)
    assert states(stage) == ["free"] * DEVICES
    assert_let_go(stage)
    for node in stage.lab.nodes:
        assert by_hand.gpus(stage.lab.node_folder(node)) == []


def assert_let_go(stage: Stage) -> None:
    """The kernels of the nodes have missed no device, and every removal has ended."""
    for node in stage.lab.nodes:
        log = by_hand.kernel_log(stage.lab.node_folder(node))
        assert "Xid" not in log, log
        assert "non-zero usage count" not in log, log
