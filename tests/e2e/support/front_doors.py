# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The three front doors as the flow tests use them: what serves claims by itself, and what has to be called."""

from __future__ import annotations

import typing as t

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.tests.e2e.support.support import OPENED, all_free, delete_all, sizes, wait_for

RELEASE_RUNS = 3


class FrontDoor(t.Protocol):
    """A front door that is open."""

    def serve(self) -> None:
        """Have waiting claims served; returns at once when the front door does so by itself."""

    def clear(self) -> None:
        """Remove all pods and claims; returns when every device is in the pool again."""


class Standing:
    """A front door that runs all the time."""

    def __init__(self, stage: Stage, process: front_doors.Process) -> None:
        self.stage, self.process = stage, process

    def serve(self) -> None:
        """Nothing to do."""

    def clear(self) -> None:
        """The front door returns idle devices by itself."""
        delete_all(self.stage)
        wait_for("all devices are free", lambda: all_free(self.stage))


class Called:
    """The playbook: a run serves what waits and ends."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.serve()

    def serve(self) -> None:
        """One run."""
        process = OPENED.add(front_doors.playbook(self.stage))
        code = process.process.wait(120)
        assert code == 0, process.text()[-3000:]
        OPENED.stop(process)

    def clear(self) -> None:
        """The hold time counts from the run that sees the devices idle, so it takes a second one."""
        delete_all(self.stage)
        for _unused in range(RELEASE_RUNS):
            if all_free(self.stage):
                return
            self.serve()
        assert all_free(self.stage), f"after {RELEASE_RUNS} runs sizes are {sizes(self.stage)}"


def open_front_door(name: str, stage: Stage) -> FrontDoor:
    """One of controller, rulebook and playbook."""
    if name == "playbook":
        return Called(stage)
    return Standing(stage, OPENED.add(front_doors.FRONT_DOORS[name](stage)))
