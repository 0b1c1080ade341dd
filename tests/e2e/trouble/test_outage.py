# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running controller depends on goes and comes back: it says so, loses nothing, and resumes by itself."""

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
    is_ready,
    lose_api_server_during_an_attach,
    mark,
    states,
    wait_for,
)

STAGE: dict[str, t.Any] = {"devices": {A100: 3}, "attach_timeout": 15.0}


@pytest.fixture(scope="module")
def controller(stage: Stage) -> Iterator[front_doors.Process]:
    """One controller that lives through all of it, and has seen the manager: it asks nothing of one that it has not."""
    process = OPENED.add(front_doors.controller(stage))
    wait_for("it has seen the manager", lambda: is_ready(process))
    yield process
    OPENED.stop(process)


@pytest.fixture(autouse=True)
def clean(stage: Stage, controller: front_doors.Process) -> Iterator[None]:
    """Every test ends with free devices and a controller that never stopped nor stumbled."""
    yield
    stage.emulator.set_timing(attach=0.3)
    delete_all(stage)
    wait_for("all devices are free", lambda: all_free(stage))
    assert controller.process.poll() is None
    assert "Traceback" not in controller.text()


def said_since(controller: front_doors.Process, before: str, *words: str) -> bool:
    return any(all(word in line for word in words) for line in controller.text()[len(before):].splitlines())


def test_manager_away_while_a_claim_waits(stage: Stage, controller: front_doors.Process, timeline: Timeline) -> None:
    before, since = controller.text(), mark(stage)
    stage.emulator.kill()
    wait_for("it names the manager", lambda: said_since(controller, before, "WARNING", stage.emulator.url))
    stage.pod("patient", A100)
    wait_for("it tries", lambda: said_since(controller, before, "AttachFailed", stage.emulator.url, "refused"))
    assert not timeline.running("patient")
    stage.emulator.restart()
    await_served(stage, timeline, "patient")
    assert len(changes_asked(stage, since)) == 1
    wait_for("it says that this is over", lambda: said_since(controller, before, "Recovered fabric"))


def test_manager_dies_during_an_attach(stage: Stage, controller: front_doors.Process, timeline: Timeline) -> None:
    """The emulated hardware goes on without its manager: the device must be adopted, not asked for again."""
    before, since = controller.text(), mark(stage)
    stage.emulator.set_timing(attach=2.0)
    stage.pod("orphan", A100)
    wait_for("an attach is under way", lambda: states(stage) == ["attaching", "free", "free"])
    stage.emulator.kill()
    wait_for("it says so", lambda: said_since(controller, before, "AttachFailed", "It may have taken effect"))
    stage.emulator.restart()
    await_served(stage, timeline, "orphan")
    assert states(stage) == ["attached", "free", "free"]
    assert len(changes_asked(stage, since, "PATCH")) == 1
    assert said_since(controller, before, "Adopted")


def test_api_server_away_during_an_attach(stage: Stage, controller: front_doors.Process, timeline: Timeline) -> None:
    before, since = controller.text(), mark(stage)
    stage.emulator.set_timing(attach=2.0)
    stage.pod("held", A100)
    lose_api_server_during_an_attach(stage)
    await_served(stage, timeline, "held", deployed=controller)
    assert states(stage) == ["attached", "free", "free"]
    assert len(changes_asked(stage, since)) == 1
    assert said_since(controller, before, stage.lab.server.removeprefix("https://")), "it never named the API server"


def test_tokens_revoked(stage: Stage, timeline: Timeline) -> None:
    stage.emulator.set_tokens(lifetime=2.0, revoke=True)
    stage.pod("renewed", A100)
    await_served(stage, timeline, "renewed")
    stage.emulator.set_tokens(lifetime=300.0)
