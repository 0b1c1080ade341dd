# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server goes and comes back under a running rulebook: event source and actions resume by themselves."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.composable.infra.lab.demo import front_doors
from ansible_collections.composable.infra.lab.demo.stage import A100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.tests.e2e.support.support import (
    OPENED,
    all_free,
    await_served,
    changes_asked,
    delete_all,
    lose_api_server_during_an_attach,
    mark,
    wait_for,
)

STAGE: dict[str, t.Any] = {"devices": {A100: 3}, "attach_timeout": 15.0}


@pytest.fixture(scope="module")
def rulebook(stage: Stage) -> Iterator[front_doors.Process]:
    """One rulebook that lives through all of it."""
    process = OPENED.add(front_doors.rulebook(stage))
    yield process
    OPENED.stop(process)


@pytest.fixture(autouse=True)
def alive(stage: Stage, rulebook: front_doors.Process) -> Iterator[None]:
    """Every test ends with free devices and a rulebook that never stopped."""
    yield
    delete_all(stage)
    wait_for("all devices are free", lambda: all_free(stage))
    assert rulebook.process.poll() is None, rulebook.text()


def test_api_server_away_between_claims(stage: Stage, rulebook: front_doors.Process, timeline: Timeline) -> None:
    since = mark(stage)
    stage.lab.stop_component("kube-apiserver")
    stage.lab.start_component("kube-apiserver")
    # The scheduler starts anew, too: until its watch of the slices is back it takes the pool again, on any node.
    stage.lab.stop_component("kube-scheduler")
    stage.lab.start_component("kube-scheduler")
    stage.pod("after", A100)
    await_served(stage, timeline, "after")
    assert len(changes_asked(stage, since, "PATCH")) == 1


def test_api_server_away_during_an_attach(stage: Stage, rulebook: front_doors.Process, timeline: Timeline) -> None:
    since = mark(stage)
    stage.emulator.set_timing(attach=3.0)
    stage.pod("held", A100)
    lose_api_server_during_an_attach(stage)
    await_served(stage, timeline, "held")
    assert len(changes_asked(stage, since, "PATCH")) == 1
