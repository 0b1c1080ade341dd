# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab cluster is captured and asked, and what it was said to do it then does."""

from __future__ import annotations

import stat
import typing as t
from pathlib import Path

import pytest

from ansible_collections.composable.infra.lab.demo.stage import A100, H100, Stage
from ansible_collections.composable.infra.lab.demo.timeline import Timeline
from ansible_collections.composable.infra.tests.e2e.conftest import OpenProcess
from ansible_collections.composable.infra.tests.e2e.gated.gated_support import (
    lead,
)
from ansible_collections.composable.infra.tests.e2e.support import played
from ansible_collections.composable.infra.tests.e2e.support.flow import waits_for
from ansible_collections.composable.infra.tests.e2e.support.modules import Json, run_tasks
from ansible_collections.composable.infra.tests.e2e.support.support import await_served, changes_asked, mark, wait_for

pytestmark = pytest.mark.e2e
STAGE: dict[str, t.Any] = {"handover": "gated", "nodes": 3, "devices": {A100: 3, H100: 1}, "hold": 600.0,
                           "extra": {"unserved": "wait"}}
MORE: Json = {"change": "add_devices", "model": A100, "count": 1}
POD: Json = {"change": "add_pods", "model": H100, "count": 1}


def asked(path: Path, *changes: Json) -> Json:
    """A task that asks the capture."""
    return {"composable.infra.fabric_whatif": {"capture": str(path), "changes": list(changes)}}


def row(side: Json, claim: str) -> Json:
    """The answer about a claim of the default namespace."""
    return next(each for each in side["claims"] if each["claim"] == f"default/{claim}")


def test_what_was_answered_comes_true(stage: Stage, timeline: Timeline, open_process: OpenProcess, tmp_path: Path
                                      ) -> None:
    lead(stage, open_process)
    stage.pod("works", A100)
    await_served(stage, timeline, "works")
    stage.pod("large", A100, 3)
    wait_for("it is said why", lambda: "position 1 of 1: 0/3 nodes" in waits_for(stage, "large"))
    path, since = tmp_path / "capture.json", mark(stage)

    capture, nothing, more, pod = run_tasks(stage, [
        {"composable.infra.fabric_capture": {"path": str(path)}}, asked(path), asked(path, MORE), asked(path, POD)])
    assert (capture["objects"]["nodes"], capture["machines"]) == (3, 3)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert changes_asked(stage, since) == []

    assert nothing["differs"] == []
    assert row(nothing["before"], "works")["state"] == "served"
    assert row(nothing["before"], "large")["state"] == "waiting"
    assert row(nothing["before"], "large")["says"] == waits_for(stage, "large")
    assert more["differs"] == ["default/large"]
    assert row(more["after"], "large")["state"] == "placed"
    assert [each["count"] for each in more["after"]["attaches"]] == [3]

    said = row(pod["after"], "what-if-1-devices")
    assert said["state"] == "placed"
    stage.pod("next", H100)
    await_served(stage, timeline, "next")
    assert timeline.claims["next"].node == said["node"]


def test_the_playbook_captures_asks_and_prints(stage: Stage, tmp_path: Path) -> None:
    given = {"composable_config_path": str(stage.config_path), "composable_kubeconfig": str(stage.lab.kubeconfig),
             "composable_whatif_changes": [MORE], "composable_whatif_capture": str(tmp_path / "capture.json")}
    first = played.well(played.play(tmp_path, "composable.infra.whatif", given))
    answer = first.result("Ask")
    assert first.result("Report the answer of the planners")["msg"] == answer["table"]
    assert first.changed == ["Capture the cluster and its fabric"]
    again = played.well(played.play(tmp_path, "composable.infra.whatif", {
        **given, "composable_whatif_fresh": False, "composable_config_path": "/nowhere",
        "composable_kubeconfig": "/nowhere"}))
    assert (again.result("Ask")["table"], again.changed) == (answer["table"], [])
